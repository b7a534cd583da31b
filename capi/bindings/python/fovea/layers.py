# SPDX-License-Identifier: Apache-2.0
"""What transformer layers are made of besides attention: products, normalisation, positions."""
from __future__ import annotations

from typing import Literal

import numpy as np

from . import _fovea
from .arrays import Array, as_array, empty, finished, shape_of
from .contexts import Context, handle_of
from .copies import Packed
from .options import PRECISIONS, choice

ACTIVATIONS = {None: _fovea.ACTIVATION_NONE, "relu": _fovea.ACTIVATION_RELU, "gelu": _fovea.ACTIVATION_GELU,
               "gelu_tanh": _fovea.ACTIVATION_GELU_TANH, "silu": _fovea.ACTIVATION_SILU}
LAYOUTS = {"out_in": _fovea.WEIGHT_OUT_IN, "in_out": _fovea.WEIGHT_IN_OUT}
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Layout = Literal["out_in", "in_out"]


class PackedMatrix(Packed):
    """A right-hand side [K, N] stored once in the order the kernel reads it, for `matmul` and `linear`.

    layout "in_out": matrix is [K, N]; "out_in": [N, K], as torch.nn.Linear has its weight. Holds a copy. precision "medium":
    float32 becomes bfloat16, half the memory, where the processor multiplies that; "default": the context's. It never
    changes: a copy is the matrix itself.
    """

    __slots__ = ("_handle", "shape")
    _packed_from = "the matrix"

    def __init__(self, matrix: Array, *, layout: Layout = "in_out", precision: str = "default",
                 context: Context | None = None):
        matrix = as_array(matrix, "matrix")
        self._handle = _fovea.linear_pack(handle_of(context), matrix,
                                          {"layout": choice("layout", layout, LAYOUTS),
                                           "precision": choice("precision", precision, PRECISIONS)})
        shape = shape_of(matrix, "matrix")
        self.shape: tuple[int, int] = shape if layout == "in_out" else shape[::-1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return _fovea.packed_matrix_size(self._handle)


def matmul(a: Array, b: Array | PackedMatrix, *, out: Array | None = None, context: Context | None = None):
    """a b. a [M, K] or [B, M, K], b [K, N], [B, K, N] or a PackedMatrix; returns [M, N] or [B, M, N]. A matrix of rank 2
    serves every batch entry."""
    a = as_array(a, "a")
    if isinstance(b, PackedMatrix):
        out = empty(shape_of(a, "a")[:-1] + b.shape[1:], a) if out is None else out
        _fovea.matmul_packed(handle_of(context), a, b._handle, out)
        return finished(out, a)
    b = as_array(b, "b")
    if out is None:
        batch = shape_of(a, "a")[:-2] or shape_of(b, "b")[:-2]
        out = empty(batch + shape_of(a, "a")[-2:-1] + shape_of(b, "b")[-1:], a, b)
    _fovea.matmul(handle_of(context), a, b, out)
    return finished(out, a)


def linear(x: Array, weight: Array | PackedMatrix, bias: Array | None = None, *, activation: Activation | None = None,
           residual: Array | None = None, layout: Layout = "out_in", precision: str = "default",
           out: Array | None = None, context: Context | None = None):
    """activation(x W + bias) + residual, in one pass.

    x [M, K] or [B, M, K]; weight [N, K], or [K, N] with layout "in_out", or a PackedMatrix, which is quicker where it
    serves again; bias [N]; residual of out's shape [M, N] or [B, M, N], which may be out itself. precision: of float32 x,
    and of a weight that is not packed yet; "default": that of the packing.
    """
    x = as_array(x, "x")
    if not isinstance(weight, PackedMatrix):
        weight = PackedMatrix(weight, layout=layout, precision=precision, context=context)
    if out is None:
        out = empty(shape_of(x, "x")[:-1] + weight.shape[1:], x)
    _fovea.linear(handle_of(context), x, weight._handle, out,
                  {"activation": choice("activation", activation, ACTIVATIONS), "bias": as_array(bias, "bias"),
                   "residual": as_array(residual, "residual"), "precision": choice("precision", precision, PRECISIONS)})
    return finished(out, x)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, epsilon: float = 1e-5,
               residual: Array | None = None, out: Array | None = None, context: Context | None = None):
    """Layer normalisation over the last axis, of x + residual: (y - mean) / sqrt(variance + epsilon) * weight + bias.
    x, residual [..., E], weight, bias [E]. out may be x."""
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    _fovea.layer_norm(handle_of(context), x, out,
                      {"epsilon": epsilon, "weight": as_array(weight, "weight"), "bias": as_array(bias, "bias"),
                       "residual": as_array(residual, "residual")})
    return finished(out, x)


def rotary_options(*, interleaved: bool = False, inverse: bool = False, base: float = 10000.0,
                   position_scale: float = 1.0, rotary_dim: int = 0, offset: int = 0,
                   positions: Array | None = None) -> dict:
    """Keyword arguments of `rotary` as the C interface has them."""
    flags = (_fovea.ROTARY_INTERLEAVED if interleaved else 0) | (_fovea.ROTARY_INVERSE if inverse else 0)
    positions = as_array(positions, "positions")
    return {"flags": flags, "base": base, "position_scale": position_scale, "rotary_dim": rotary_dim, "offset": offset,
            "positions": positions}


def rotary(x: Array, *, interleaved: bool = False, inverse: bool = False, base: float = 10000.0,
           position_scale: float = 1.0, rotary_dim: int = 0, offset: int = 0, positions: Array | None = None,
           out: Array | None = None, context: Context | None = None):
    """Rotary position embedding (Su et al. 2021) of x [..., L, D]: pair j of row i turns by position(i) * base^(-2j / D).

    interleaved: pairs (2j, 2j+1), else (j, j + D/2), as in Llama. positions [L] or [B, L]: instead of offset + i.
    rotary_dim: the first features, which are rotated; 0: all. inverse: rotate back. out may be x.
    """
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    options = rotary_options(interleaved=interleaved, inverse=inverse, base=base, position_scale=position_scale,
                             rotary_dim=rotary_dim, offset=offset, positions=positions)
    _fovea.rotary(handle_of(context), x, out, options)
    return finished(out, x)


def positional_encoding(length: int, dim: int, *, base: float = 10000.0, offset: int = 0, out: Array | None = None,
                        context: Context | None = None):
    """The sinusoidal encoding [length, dim] (Vaswani et al. 2017) of positions offset, offset + 1, ..."""
    if out is None:
        out = np.empty((length, dim), np.float32)
    _fovea.positional_encoding(handle_of(context), out, {"base": base, "offset": offset})
    return out


def add_positional_encoding(x: Array, *, base: float = 10000.0, offset: int = 0, dropout: float = 0.0,
                            dropout_seed: int = 0, out: Array | None = None, context: Context | None = None):
    """dropout(x + encoding) for x [..., L, d], in one pass. out may be x."""
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    _fovea.add_positional_encoding(handle_of(context), x, out, {"base": base, "offset": offset, "dropout": dropout,
                                                                "dropout_seed": dropout_seed})
    return finished(out, x)


def alibi_slopes(heads: int):
    """The slopes of ALiBi (Press, Smith and Lewis 2022), [heads]."""
    out = np.empty(heads, np.float32)
    _fovea.alibi_slopes(out)
    return out


def exp(x: Array, *, out: Array | None = None, context: Context | None = None):
    """e^x, element by element, at most 1.6 ulp. out may be x."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.exp(handle_of(context), x, out)
    return finished(out, x)


def tanh(x: Array, *, out: Array | None = None, context: Context | None = None):
    """tanh x, element by element, at most 1.4 ulp. out may be x."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.tanh(handle_of(context), x, out)
    return finished(out, x)
