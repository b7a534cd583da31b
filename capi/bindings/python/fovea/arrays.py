# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library in, arrays of the first one's library out."""
import sys
from typing import Any

import numpy as np

from . import _fovea
from .errors import BadDtype, BadValue

Array = Any
"""A NumPy array, a PyTorch or JAX array on the CPU, or anything else that speaks DLPack or the buffer protocol."""


def shape_of(array, name: str = "array"):
    """Its shape, whatever it is; `name`: of the argument."""
    shape = getattr(array, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else _fovea.shape(array, name)


def features_of(value, scales, name: str = "value"):
    """How many features value's rows have, as the end of a shape: with scales, bytes hold two of 4 bits each."""
    last = shape_of(value, name)[-1:]
    in_fours = scales is not None and str(getattr(value, "dtype", "")).endswith("uint8")
    return tuple(2 * size for size in last) if in_fours else last


INTEGERS = ("valid_lens", "query_offsets", "positions", "sections", "query_starts", "key_starts", "key_lens", "page_ids",
            "page_starts", "tree", "cu_seqlens_q", "cu_seqlens_k")
"""The arguments that hold numbers of things."""


def as_array(array, name: str):
    """Lists and numbers as arrays of what the argument of this name holds; arrays, and None, as they are."""
    if isinstance(array, (list, tuple, int, float)):
        return _of_numbers(array, name)
    return array


def _of_numbers(numbers, name: str):
    """Of float32, or of whole numbers, or of bool. Numbers that would have to be cut stay what they are, for the library to
    refuse in its own words."""
    try:
        array = np.asarray(numbers)
    except (TypeError, ValueError) as error:
        raise BadValue(f"{name}: {error}") from error
    kind = array.dtype.kind
    if name == "mask":
        whole = kind in "iu" and bool(((array == 0) | (array == 1)).all())
        return array.astype(bool) if whole or array.size == 0 else array
    if name in INTEGERS:
        return array.astype(np.int64) if kind == "i" or array.size == 0 else array
    if kind not in "biuf" and array.dtype.name != "bfloat16" and array.size > 0:
        raise BadDtype(f"{name}: a list of {array.dtype} where one of numbers is wanted")
    with np.errstate(all="ignore"):  # past float32's range to infinity, whatever the process has set
        return array.astype(np.float32)


def _root(array):
    return type(array).__module__.partition(".")[0]


def torch_of(*arrays):
    """PyTorch, if the first array is its; and then none of them may be waiting for a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arrays[0], torch.Tensor):
        return None
    if (torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arrays)) or (
            torch.autograd.forward_ad._current_level >= 0 and any(_has_tangent(torch, a) for a in arrays)):
        raise RuntimeError("fovea computes no gradients but in fovea.torch: call fovea.torch.attention, or this under "
                           "torch.no_grad() or with tensor.detach()")
    return torch


def _has_tangent(torch, array):
    return isinstance(array, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(array).tangent is not None


def maker(shape, like, *others, zeros: bool = False):
    """(callable, arguments) that make an empty array, or one of zeros, of the same library and element type as `like`, whatever
    the process's defaults are."""
    torch = torch_of(like, *others)
    if torch is not None:
        dtype = like.dtype if like.dtype.is_floating_point else torch.float32
        return _torch_zeros if zeros else _torch_empty, (tuple(shape), dtype)
    dtype = getattr(like, "dtype", None)
    known = isinstance(dtype, np.dtype) and (dtype.kind == "f" or dtype.name == "bfloat16")
    return np.zeros if zeros else np.empty, (tuple(shape), dtype if known else np.dtype(np.float32))


def _torch_empty(shape, dtype):
    return sys.modules["torch"].empty(shape, dtype=dtype, device="cpu")


def _torch_zeros(shape, dtype):
    return sys.modules["torch"].zeros(shape, dtype=dtype, device="cpu")


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


def float32_zeros(shape, like):
    """Likewise, for a call that does not write all of it."""
    torch = torch_of(like)
    return like.new_zeros(tuple(shape), dtype=torch.float32) if torch is not None else np.zeros(tuple(shape), np.float32)


def of_type(shape, like, name: str):
    """The same, of the element type of this name, which NumPy has too."""
    torch = torch_of(like)
    return like.new_empty(tuple(shape), dtype=getattr(torch, name)) if torch is not None else np.empty(tuple(shape), name)


def finished(array, like):
    """What was written to, as an array of like's library."""
    if isinstance(array, np.ndarray) and _root(like) in ("jax", "jaxlib"):
        return sys.modules["jax"].device_put(array, next(iter(like.devices())))
    return array
