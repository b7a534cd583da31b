# SPDX-License-Identifier: Apache-2.0
"""JAX: attention with gradients.

    import fovea.jax
    out = fovea.jax.attention(query, key, value, score=fovea.Bilinear(weight), is_causal=True)

Inside jax.jit, jax.grad, jax.vjp, jax.vmap, jax.checkpoint and jax.lax.scan. The library is reached by jax.pure_callback, whose
arrays are on the CPU: those of another device are copied there and back. Where the process may use one core alone, XLA's
callbacks wait for ever for arrays past some 100 KB, unless NPROC=2 is in the environment when JAX starts.
"""
from .attention import attention

__all__ = ["attention"]
