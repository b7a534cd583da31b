# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library in, arrays of the first one's library out."""
import sys
from typing import Any

import numpy as np

Array = Any
"""A NumPy array, a PyTorch or JAX array on the CPU, or anything else that speaks DLPack or the buffer protocol."""


def shape_of(array):
    """Its shape, whatever it is."""
    shape = getattr(array, "shape", None)
    if shape is None:
        try:
            shape = memoryview(array).shape
        except TypeError:
            kind = type(array).__name__
            raise TypeError(f"an array is wanted (NumPy, DLPack, buffer protocol), not {kind}") from None
    return tuple(shape)


def as_array(array, dtype=np.float32):
    """Lists and numbers as arrays; arrays as they are."""
    if isinstance(array, (list, tuple, int, float)):
        return np.asarray(array, dtype)
    return array


def _root(array):
    return type(array).__module__.partition(".")[0]


def torch_of(*arrays):
    """PyTorch, if the first array is its; and then none of them may be waiting for a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arrays[0], torch.Tensor):
        return None
    if (torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arrays)) or (
            torch.autograd.forward_ad._current_level >= 0 and any(_has_tangent(torch, a) for a in arrays)):
        raise RuntimeError("fovea computes no gradients: call it under torch.no_grad() or with tensor.detach()")
    return torch


def _has_tangent(torch, array):
    return isinstance(array, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(array).tangent is not None


def maker(shape, like, *others):
    """(callable, arguments) that make an empty array of the same library and element type as `like`, whatever the process's
    defaults are."""
    torch = torch_of(like, *others)
    if torch is not None:
        return _torch_empty, (tuple(shape), like.dtype if like.dtype.is_floating_point else torch.float32)
    dtype = getattr(like, "dtype", None)
    known = isinstance(dtype, np.dtype) and (dtype.kind == "f" or dtype.name == "bfloat16")
    return np.empty, (tuple(shape), dtype if known else np.dtype(np.float32))


def _torch_empty(shape, dtype):
    return sys.modules["torch"].empty(shape, dtype=dtype, device="cpu")


def empty(shape, like, *others):
    """An array to write to, of the same library as `like`; `others` are the call's other arrays. For JAX, whose arrays
    cannot be written to, NumPy's, of which `finished` makes JAX's."""
    if torch_of(like, *others) is not None and like.dtype.is_floating_point:
        return like.new_empty(tuple(shape))
    make, arguments = maker(shape, like, *others)
    return make(*arguments)


def float32(shape, like):
    """The same, of float32 whatever `like` is: what log-sum-exp and weights are."""
    torch = torch_of(like)
    return like.new_empty(tuple(shape), dtype=torch.float32) if torch is not None else np.empty(tuple(shape), np.float32)


def finished(array, like):
    """What was written to, as an array of like's library."""
    if isinstance(array, np.ndarray) and _root(like) in ("jax", "jaxlib"):
        return sys.modules["jax"].numpy.asarray(array)
    return array
