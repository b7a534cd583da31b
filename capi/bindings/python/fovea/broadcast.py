# SPDX-License-Identifier: Apache-2.0
"""Axes as torch.nn.functional.scaled_dot_product_attention takes them, as the [B, H, L, D] that the library takes.

Of query [..., Q, D], key [..., K, D] and value [..., K, Dv] the axes "..." broadcast; with grouped heads (enable_gqa) all of
them but the last, the heads. Works on arrays of NumPy and PyTorch; JAX's become NumPy's where they have to be repeated.
"""
from __future__ import annotations

import math

import numpy as np

from .arrays import shape_of


def _fits(shape, whole) -> bool:
    """Whether such an array broadcasts to `whole`; of equal ranks."""
    return all(size in (1, wanted) for size, wanted in zip(shape, whole))


def _joint(*shapes):
    """What such axes broadcast to. (np.broadcast_shapes is what torch.compile cannot follow.)"""
    rank = max(map(len, shapes))
    shapes = tuple((1,) * (rank - len(shape)) + shape for shape in shapes)
    joint = tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*shapes))
    if not all(_fits(shape, joint) for shape in shapes):
        raise ValueError
    return joint


def _expanded(array, shape):
    """It, repeated along axes of size 1 without a copy."""
    if shape_of(array) == shape:
        return array
    return array.expand(shape) if hasattr(array, "expand") else np.broadcast_to(array, shape)


def leading_axes(query_shape, key_shape, value_shape, grouped: bool) -> tuple[tuple, tuple]:
    """(what "..." of the result is; what "..." of query, key and value is to be expanded to). A ValueError where they do not
    go together."""
    leading = query_shape[:-2], key_shape[:-2], value_shape[:-2]
    if leading[0] == leading[1] == leading[2] and (leading[0] or not grouped):
        return leading[0], leading
    if grouped and not all(leading):
        raise ValueError("enable_gqa: arrays of rank 2 have no axis of heads")
    leading = tuple(tuple(one) for one in leading)
    try:
        if not grouped:
            axes = _joint(*leading)
            return axes, (axes,) * 3
        outer = _joint(*(one[:-1] for one in leading))
        return outer + leading[0][-1:], tuple(outer + one[-1:] for one in leading)
    except ValueError:
        raise ValueError(f"query, key, value: axes {leading[0]}, {leading[1]}, {leading[2]} before the last two do not "
                         "broadcast" + ("" if grouped else "; heads may be fewer in key and value with enable_gqa")) from None


def of_rank_4(array, axes):
    """[..., L, D] as [B, H, L, D], "..." expanded to `axes`, whose last are the heads."""
    shape = shape_of(array)
    if len(shape) == 4 and shape[:2] == axes:
        return array
    rows = shape[-2:]
    return _expanded(array, tuple(axes) + rows).reshape((math.prod(axes[:-1]), axes[-1] if axes else 1) + rows)


def mask_of_rank_4(mask, axes, query_len: int, key_len: int):
    """A mask that broadcasts to [*axes, Q, K] as one that does to [B, H, Q, K], and has all K columns. A ValueError where it
    does not."""
    whole = tuple(axes) + (query_len, key_len)
    if len(mask.shape) == len(whole) == 4 and mask.shape[3] == key_len and _fits(mask.shape, whole):
        return mask
    shape = (1,) * (len(whole) - len(mask.shape)) + tuple(mask.shape)
    if len(shape) != len(whole) or not _fits(shape, whole):
        raise ValueError(f"attn_mask: shape {tuple(mask.shape)}, expected one that broadcasts to {whole}")
    outer, heads = (shape[:len(axes) - 1], shape[len(axes) - 1:-2]) if axes else ((), ())
    if any(size != 1 for size in outer):
        outer = axes[:-1]
    mask = _expanded(mask.reshape(shape), tuple(outer) + heads + (shape[-2], key_len))
    return mask.reshape((math.prod(outer), heads[0] if heads else 1, shape[-2], key_len))
