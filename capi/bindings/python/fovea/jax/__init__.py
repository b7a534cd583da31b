# SPDX-License-Identifier: Apache-2.0
"""JAX: attention with gradients.

    import fovea.jax
    out = fovea.jax.attention(query, key, value, score=fovea.Bilinear(weight), is_causal=True)

Inside jax.jit, jax.grad, jax.vjp, jax.vmap, jax.checkpoint and jax.lax.scan. The library is reached by jax.pure_callback, whose
arrays are on the CPU: those of another device are copied there and back.
"""
import os
import warnings

from .attention import attention

__all__ = ["attention"]

if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1 and "NPROC" not in os.environ:
    # JAX copies a callback's arrays on the thread that waits for them: https://github.com/jax-ml/jax/issues/25861.
    warnings.warn("with one core, JAX may wait for ever for callbacks with arrays past some 100 KB, unless NPROC=2 is in the "
                  "environment before it starts", RuntimeWarning, stacklevel=2)
