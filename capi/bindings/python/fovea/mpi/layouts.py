# SPDX-License-Identifier: Apache-2.0
"""What fovea/mpi.h declares, for ctypes: constants, structs, and what its functions take. A test compares with the header."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p

FAILED = 100
CONTIGUOUS, ZIGZAG, STRIPED = 0, 1, 2
QUERY_ON_RANK_0 = 1


class Struct(ctypes.Structure):
    """One that begins with its size."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **members)


class Options(Struct):
    """fovea_mpi_options"""

    _fields_ = [("struct_size", c_size_t), ("flags", c_uint32), ("reserved", c_int32), ("message_bytes", c_int64)]


class Figures(Struct):
    """fovea_mpi_figures"""

    _fields_ = [("struct_size", c_size_t), ("bytes_sent", c_int64), ("blocks_attended", c_int64),
                ("blocks_passed_by", c_int64), ("seconds_computing", c_double), ("seconds_waiting", c_double)]


class RingOptions(Struct):
    """fovea_mpi_ring_options"""

    _fields_ = [("struct_size", c_size_t), ("order", c_int32), ("transport", c_int32)]


class DecodeOptions(Struct):
    """fovea_mpi_decode_options"""

    _fields_ = [("struct_size", c_size_t), ("flags", c_uint32), ("reserved", c_int32)]


class UlyssesOptions(Struct):
    """fovea_mpi_ulysses_options"""

    _fields_ = [("struct_size", c_size_t), ("order", c_int32), ("reserved", c_int32)]


STRUCTS = {"fovea_mpi_options": Options, "fovea_mpi_figures": Figures, "fovea_mpi_ring_options": RingOptions,
           "fovea_mpi_decode_options": DecodeOptions, "fovea_mpi_ulysses_options": UlyssesOptions}

_attention = [c_void_p] * 6  # score, query, key, value, out, options
FUNCTIONS = {
    "fovea_mpi_last_error": (c_char_p, []),
    "fovea_mpi_create": (c_int32, [c_void_p, c_void_p, POINTER(Options), POINTER(c_void_p)]),  # the first is an MPI_Comm
    "fovea_mpi_destroy": (None, [c_void_p]),
    "fovea_mpi_rank": (c_int32, [c_void_p]),
    "fovea_mpi_ranks": (c_int32, [c_void_p]),
    "fovea_mpi_last_figures": (c_int32, [c_void_p, POINTER(Figures)]),
    "fovea_mpi_share_length": (c_int32, [c_int32, c_int64, c_int32, c_int32, POINTER(c_int64)]),
    "fovea_mpi_positions": (c_int32, [c_int32, c_int64, c_int32, c_int32, c_void_p]),
    "fovea_mpi_share": (c_int32, [c_int32] * 4 + [c_void_p] * 2),
    "fovea_mpi_unshare": (c_int32, [c_int32] * 4 + [c_void_p] * 2),
    "fovea_mpi_ring_attention": (c_int32, [c_void_p, *_attention, POINTER(RingOptions)]),
    "fovea_mpi_ring_attention_backward": (c_int32, [c_void_p, *_attention, c_void_p, POINTER(RingOptions)]),  # gradients
    "fovea_mpi_decode_attention": (c_int32, [c_void_p, *_attention, POINTER(DecodeOptions)]),
    "fovea_mpi_ulysses_attention": (c_int32, [c_void_p, *_attention, POINTER(UlyssesOptions)]),
    "fovea_mpi_grid_attention": (c_int32, [c_void_p] * 2 + [*_attention, POINTER(RingOptions)]),
}
CORE_FUNCTIONS = {
    "fovea_version": (c_char_p, []),
    "fovea_last_error": (c_char_p, []),
    "fovea_context_create": (c_int32, [c_void_p, POINTER(c_void_p)]),
    "fovea_context_destroy": (None, [c_void_p]),
}
"""Of the libfovea that libfovea-mpi calls, which is not the copy in the package."""
