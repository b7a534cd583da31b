# SPDX-License-Identifier: Apache-2.0
"""What transformer layers are made of besides attention: products, normalisation, positions."""
from __future__ import annotations

from typing import Literal

import numpy as np

from . import _fovea
from .arrays import Array, as_array, empty, finished, shape_of
from .contexts import Context, handle_of
from .copies import Packed
from .options import PRECISIONS, choice, size

ACTIVATIONS = {None: _fovea.ACTIVATION_NONE, "relu": _fovea.ACTIVATION_RELU, "gelu": _fovea.ACTIVATION_GELU,
               "gelu_tanh": _fovea.ACTIVATION_GELU_TANH, "silu": _fovea.ACTIVATION_SILU}
LAYOUTS = {"out_in": _fovea.WEIGHT_OUT_IN, "in_out": _fovea.WEIGHT_IN_OUT}
FREQUENCIES = {"plain": _fovea.FREQUENCIES_PLAIN, "linear": _fovea.FREQUENCIES_LINEAR,
               "dynamic": _fovea.FREQUENCIES_DYNAMIC, "yarn": _fovea.FREQUENCIES_YARN,
               "longrope": _fovea.FREQUENCIES_LONGROPE, "llama3": _fovea.FREQUENCIES_LLAMA3}
FrequenciesKind = Literal["plain", "linear", "dynamic", "yarn", "longrope", "llama3"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Layout = Literal["out_in", "in_out"]


class PackedMatrix(Packed):
    """A right-hand side [K, N] stored once in the order the kernel reads it, for `matmul` and `linear`.

    layout "in_out": matrix is [K, N]; "out_in": [N, K], as torch.nn.Linear has its weight. Holds a copy. precision "medium":
    float32 becomes bfloat16, half the memory, where the processor multiplies that; "int8": any type becomes 8-bit numbers
    with a scale for each 64 of a column, 17/64 of float32's memory; "default": the context's. It never changes: a copy is the
    matrix itself.
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
    """a b. a [..., M, K], b [..., K, N], up to two axes before these, broadcast, or a PackedMatrix; returns [..., M, N]."""
    a = as_array(a, "a")
    if isinstance(b, PackedMatrix):
        out = empty(shape_of(a, "a")[:-1] + b.shape[1:], a) if out is None else out
        _fovea.matmul_packed(handle_of(context), a, b._handle, out)
        return finished(out, a)
    b = as_array(b, "b")
    out = empty(_product_shape(a, b), a, b) if out is None else out
    _fovea.matmul(handle_of(context), a, b, out)
    return finished(out, a)


def _product_shape(a, b):
    left, right = shape_of(a, "a")[:-2], shape_of(b, "b")[:-2]
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    shorter = (1,) * (len(longer) - len(shorter)) + tuple(shorter)
    batch = tuple(other if size == 1 else size for size, other in zip(longer, shorter))
    return batch + tuple(shape_of(a, "a")[-2:-1]) + tuple(shape_of(b, "b")[-1:])


def gemm(a: Array, b: Array, c: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0, out: Array | None = None,
         context: Context | None = None):
    """alpha a b + beta c. a, b as in `matmul`; c of the result's shape, or broadcast to it; it may be out. With beta 0 c is
    not read."""
    a, b = as_array(a, "a"), as_array(b, "b")
    out = empty(_product_shape(a, b), a, b) if out is None else out
    _fovea.gemm(handle_of(context), a, b, out,
                {"alpha": alpha, "beta": beta, "c": as_array(c, "c"),
                 "flags": _fovea.GEMM_ALPHA_GIVEN | _fovea.GEMM_BETA_GIVEN})
    return finished(out, a)


def linear(x: Array, weight: Array | PackedMatrix, bias: Array | None = None, *, activation: Activation | None = None,
           multiplier: Array | None = None, residual: Array | None = None, layout: Layout = "out_in",
           precision: str = "default", out: Array | None = None, context: Context | None = None):
    """activation(x W + bias) * multiplier + residual, in one pass.

    x [M, K] or [B, M, K]; weight [N, K], or [K, N] with layout "in_out", or a PackedMatrix, which is quicker where it
    serves again; bias [N]; multiplier (of a gated pair) and residual of out's shape [M, N] or [B, M, N]; either may be out
    itself. precision: of float32 x, and of a weight that is not packed yet; "default": that of the packing.
    """
    x = as_array(x, "x")
    if not isinstance(weight, PackedMatrix):
        weight = PackedMatrix(weight, layout=layout, precision=precision, context=context)
    if out is None:
        out = empty(shape_of(x, "x")[:-1] + weight.shape[1:], x)
    _fovea.linear(handle_of(context), x, weight._handle, out,
                  {"activation": choice("activation", activation, ACTIVATIONS), "bias": as_array(bias, "bias"),
                   "multiplier": as_array(multiplier, "multiplier"), "residual": as_array(residual, "residual"),
                   "precision": choice("precision", precision, PRECISIONS)})
    return finished(out, x)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, epsilon: float = 1e-5,
               residual: Array | None = None, sum: Array | None = None, mean: Array | None = None,
               inverse_deviation: Array | None = None, out: Array | None = None, context: Context | None = None):
    """Layer normalisation over the last axis, of x + residual: (y - mean) / sqrt(variance + epsilon) * weight + bias.
    x, residual [..., E], weight, bias [E]. out may be x. Filled in where given: sum [..., E] with x + residual, mean and
    inverse_deviation, float32 [...], with the mean and 1 / sqrt(variance + epsilon). One of out and sum may be x, the other
    residual."""
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    _fovea.layer_norm(handle_of(context), x, out,
                      {"epsilon": epsilon, "weight": as_array(weight, "weight"), "bias": as_array(bias, "bias"),
                       "residual": as_array(residual, "residual"), "sum": sum, "mean": mean,
                       "inverse_deviation": inverse_deviation, "flags": _fovea.NORM_EPSILON_GIVEN})
    return finished(out, x)


def rms_norm(x: Array, weight: Array | None = None, *, epsilon: float = 1e-5, residual: Array | None = None,
             weight_from_one: bool = False, sum: Array | None = None, inverse_deviation: Array | None = None,
             out: Array | None = None, context: Context | None = None):
    """Normalisation by the root of the mean square over the last axis, of x + residual: y / sqrt(mean(y^2) + epsilon) * weight.
    x, residual [..., E], weight [E]; weight_from_one: 1 + weight takes its place (Gemma). Outputs as in `layer_norm`."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    flags = _fovea.NORM_EPSILON_GIVEN | (_fovea.NORM_WEIGHT_FROM_ONE if weight_from_one else 0)
    _fovea.rms_norm(handle_of(context), x, out, {"epsilon": epsilon, "weight": as_array(weight, "weight"),
                                                 "residual": as_array(residual, "residual"), "sum": sum,
                                                 "inverse_deviation": inverse_deviation, "flags": flags})
    return finished(out, x)


def activation(kind: Activation, x: Array, *, out: Array | None = None, context: Context | None = None):
    """An activation alone, element by element: "relu", "gelu", "gelu_tanh" or "silu". out may be x."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.activation(handle_of(context), choice("kind", kind, ACTIVATIONS), x, out)
    return finished(out, x)


def softmax(x: Array, axis: int = -1, *, out: Array | None = None, context: Context | None = None):
    """Softmax over an axis. out may be x."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.softmax(handle_of(context), x, axis, out)
    return finished(out, x)


def log_softmax(x: Array, axis: int = -1, *, out: Array | None = None, context: Context | None = None):
    """The logarithm of softmax over an axis. out may be x."""
    x = as_array(x, "x")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.log_softmax(handle_of(context), x, axis, out)
    return finished(out, x)


def rotary_options(*, interleaved: bool = False, inverse: bool = False, base: float | None = None,
                   position_scale: float | None = None, rotary_dim: int | None = None, offset: int = 0,
                   positions: Array | None = None, frequencies: Array | None = None,
                   attention_factor: float | None = None, sections: Array | None = None, cosines: Array | None = None,
                   sines: Array | None = None) -> dict:
    """Keyword arguments of `rotary` as the C interface has them."""
    flags = (_fovea.ROTARY_INTERLEAVED if interleaved else 0) | (_fovea.ROTARY_INVERSE if inverse else 0)
    options: dict = {"offset": offset}
    for name, value, given in (("base", base, _fovea.ROTARY_BASE_GIVEN),
                               ("position_scale", position_scale, _fovea.ROTARY_POSITION_SCALE_GIVEN),
                               ("rotary_dim", rotary_dim, _fovea.ROTARY_DIM_GIVEN),
                               ("attention_factor", attention_factor, _fovea.ROTARY_ATTENTION_FACTOR_GIVEN)):
        if value is not None:
            options[name] = value
            flags |= given
    for name, array in (("positions", positions), ("sections", sections), ("frequencies", frequencies),
                        ("cosines", cosines), ("sines", sines)):
        options[name] = as_array(array, name)
    return {"flags": flags, **options}


def rotary(x: Array, *, interleaved: bool = False, inverse: bool = False, base: float | None = None,
           position_scale: float | None = None, rotary_dim: int | None = None, offset: int = 0,
           positions: Array | None = None, frequencies: Array | None = None, attention_factor: float | None = None,
           sections: Array | None = None, cosines: Array | None = None, sines: Array | None = None,
           out: Array | None = None, context: Context | None = None):
    """Rotary position embedding (Su et al. 2021) of x [..., L, D]: pair j of row i turns by position(i) * base^(-2j / D).

    interleaved: pairs (2j, 2j+1), else (j, j + D/2), as in Llama. positions [L] or [B, L]: instead of offset + i.
    base: 10000 unless given. position_scale: positions are multiplied by it. rotary_dim: the first features, which are
    rotated, unless given all. inverse: rotate back. out may be x.

    As models have it: frequencies [D/2], an angle for each pair, instead of base, and attention_factor, by which cosines and
    sines are multiplied: what `rotary_frequencies` gives. sections [D/2], with positions [S, L] or [S, B, L]: pair j stands
    at positions[sections[j]] (M-RoPE). cosines and sines: [N, D/2], of position 0, 1, ..., or [B, L, D/2], of each row of x.
    """
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    options = rotary_options(interleaved=interleaved, inverse=inverse, base=base, position_scale=position_scale,
                             rotary_dim=rotary_dim, offset=offset, positions=positions, frequencies=frequencies,
                             attention_factor=attention_factor, sections=sections, cosines=cosines, sines=sines)
    _fovea.rotary(handle_of(context), x, out, options)
    return finished(out, x)


def rotary_frequencies(rotary_dim: int, *, kind: FrequenciesKind = "plain", base: float = 10000.0,
                       factor: float | None = None, original_length: int | None = None, length: int | None = None,
                       low_frequency_factor: float | None = None, high_frequency_factor: float | None = None,
                       fast_rotations: float | None = None, slow_rotations: float | None = None,
                       unrounded: bool = False, mscale: float | None = None, mscale_all_dim: float | None = None,
                       short_factors: Array | None = None, long_factors: Array | None = None) -> tuple[np.ndarray, float]:
    """(frequencies [rotary_dim / 2], attention_factor) for `rotary`, as a model's configuration asks for.

    kind "plain"; "linear": factor; "dynamic": factor, original_length, length; "yarn": factor, original_length,
    fast_rotations ("beta_fast", 32), slow_rotations ("beta_slow", 1), unrounded ("truncate": false), mscale,
    mscale_all_dim; "longrope": factor, original_length, length, short_factors and long_factors [rotary_dim / 2]; "llama3":
    factor, original_length, low_frequency_factor, high_frequency_factor. base: "rope_theta".
    """
    if rotary_dim < 0 or rotary_dim % 2:
        raise ValueError(f"rotary_dim is {rotary_dim}, expected an even number")
    yarn = kind == "yarn"
    given = {"factor": factor, "original_length": original_length, "length": length,
             "low_frequency_factor": low_frequency_factor, "high_frequency_factor": high_frequency_factor,
             "fast_rotations": 32.0 if yarn and fast_rotations is None else fast_rotations,
             "slow_rotations": 1.0 if yarn and slow_rotations is None else slow_rotations,
             "mscale": mscale, "mscale_all_dim": mscale_all_dim}
    options = {name: size(name, value) if name.endswith("length") else value for name, value in given.items()
               if value is not None}
    for name, array in (("short_factors", short_factors), ("long_factors", long_factors)):
        options[name] = as_array(array, name)
    frequencies, attention_factor = np.empty(rotary_dim // 2, np.float32), np.empty(1, np.float32)
    _fovea.rotary_frequencies(frequencies, attention_factor,
                              {"flags": _fovea.YARN_UNROUNDED if unrounded else 0,
                               "kind": choice("kind", kind, FREQUENCIES), "base": base, **options})
    return frequencies, float(attention_factor[0])


def positional_encoding(length: int, dim: int, *, base: float = 10000.0, offset: int = 0, out: Array | None = None,
                        context: Context | None = None):
    """The sinusoidal encoding [length, dim] (Vaswani et al. 2017) of positions offset, offset + 1, ..."""
    if out is None:
        out = np.empty((length, dim), np.float32)
    _fovea.positional_encoding(handle_of(context), out,
                               {"flags": _fovea.ENCODING_BASE_GIVEN, "base": base, "offset": offset})
    return out


def add_positional_encoding(x: Array, *, base: float = 10000.0, offset: int = 0, dropout: float = 0.0,
                            dropout_seed: int = 0, dropout_alone: bool = False, out: Array | None = None,
                            context: Context | None = None):
    """dropout(x + encoding) for x [..., L, d], in one pass. dropout_alone: dropout(x), as gradients go back. out may be x."""
    x = as_array(x, "x")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    flags = _fovea.ENCODING_BASE_GIVEN | (_fovea.ENCODING_DROPOUT_ALONE if dropout_alone else 0)
    _fovea.add_positional_encoding(handle_of(context), x, out,
                                   {"flags": flags, "base": base, "offset": offset,
                                    "dropout": dropout, "dropout_seed": dropout_seed})
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
