# SPDX-License-Identifier: Apache-2.0
"""Which positions of a sequence a rank has, and its share of an array. Nothing here is collective."""
from __future__ import annotations

import ctypes
from typing import Literal

import numpy as np

from .. import _fovea
from ..arrays import Array, as_array, finished, shape_of, torch_of
from ..options import choice, number
from .agreement import of_status
from .layouts import CONTIGUOUS, STRIPED, ZIGZAG
from .library import LIBRARY

Order = Literal["contiguous", "zigzag", "striped"]
"""Neighbours, rank after rank; of 2R chunks, rank r has r and 2R - 1 - r, so that all have as much to compute under a causal mask;
or every R-th position."""

ORDERS = {"contiguous": CONTIGUOUS, "zigzag": ZIGZAG, "striped": STRIPED}


def _check(status: int, arguments: _fovea.Arguments | None = None) -> None:
    if status != 0:
        said = LIBRARY.fovea_mpi_last_error().decode()
        raise of_status(status, (arguments or _fovea.Arguments()).named(said))


def _which(order, length, rank, ranks) -> tuple[int, int, int, int]:
    return choice("order", order, ORDERS), number("length", length, 64), number("ranks", ranks), number("rank", rank)


def _share_of(order, rank, ranks, axis) -> tuple[int, int, int, int]:
    return choice("order", order, ORDERS), number("ranks", ranks), number("rank", rank), number("axis", axis)


def share_length(order: Order, length: int, rank: int, ranks: int) -> int:
    """How many of `length` positions the rank has."""
    count = ctypes.c_int64()
    _check(LIBRARY.fovea_mpi_share_length(*_which(order, length, rank, ranks), ctypes.byref(count)))
    return count.value


def positions(order: Order, length: int, rank: int, ranks: int) -> np.ndarray:
    """Which of `length` positions the rank has, in its order: int64 [share_length]. What `fovea.rotary` takes as positions."""
    listed = np.empty(share_length(order, length, rank, ranks), np.int64)
    _check(LIBRARY.fovea_mpi_positions(*_which(order, length, rank, ranks), listed.ctypes.data))
    return listed


def share(order: Order, whole: Array, rank: int, ranks: int, axis: int = -2, *, out: Array | None = None):
    """A copy of the rank's share of an array of any element type; axis: that of the positions, by default of [..., L, D]."""
    whole = as_array(whole, "whole")
    shape = shape_of(whole, "whole")
    at = axis + len(shape) if axis < 0 else axis
    if out is None:
        is_there = 0 <= at < len(shape)  # else the library says so
        length = (share_length(order, shape[at], rank, ranks),) if is_there else ()
        out = _empty(shape[:at] + length + shape[at + 1:] if is_there else shape, whole)
    arguments = _fovea.Arguments(("whole", "tensor", whole), ("share", "output", out))
    _check(LIBRARY.fovea_mpi_share(*_share_of(order, rank, ranks, at), *arguments.addresses), arguments)
    return finished(out, whole)


def unshare(order: Order, share: Array, whole: Array, rank: int, ranks: int, axis: int = -2):
    """Copies the rank's share to its place in the array `whole`, and returns that."""
    share = as_array(share, "share")
    at = axis + len(shape_of(share, "share")) if axis < 0 else axis
    arguments = _fovea.Arguments(("share", "tensor", share), ("whole", "output", whole))
    _check(LIBRARY.fovea_mpi_unshare(*_share_of(order, rank, ranks, at), *arguments.addresses), arguments)
    return whole


def _empty(shape, like):
    """An array of like's library and element type, whatever that is."""
    if torch_of(like) is not None:
        return like.new_empty(shape)
    dtype = getattr(like, "dtype", None)
    return np.empty(shape, dtype if isinstance(dtype, np.dtype) else np.asarray(like).dtype)
