# SPDX-License-Identifier: Apache-2.0
"""Attention of any score function, and what belongs to it."""
from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from . import _fovea
from .arrays import Array, as_array, empty, features_of, finished, float32, shape_of, torch_of
from .broadcast import leading_axes, mask_of_rank_4, of_rank_4
from .contexts import Context, handle_of
from .options import EMPTY_ROWS, AttentionOptions, choice, read
from .scores import Additive, Bilinear, Concat, Gaussian, Score, options_of


def attention(query: Array, key: Array, value: Array, *, score: Score | None = None, out: Array | None = None,
              context: Context | None = None, **options: Unpack[AttentionOptions]):
    """softmax(score(query, key)) value, never holding a Q x K matrix.

    query [B, H, Q, D], key [B, Hkv, K, Dk], value [B, Hkv, K, Dv], out [B, H, Q, Dv]; H is a multiple of Hkv. Or all of rank
    3, [B, L, D] (one head), or of rank 2, [L, D]. Any strides whose last axis is contiguous. D and Dv are in [1, 1024].
    float32, float16 or bfloat16; out is of query's type.

    score: Dot(), the default, Bilinear, Additive, Concat or Gaussian; see fovea.scores.
    options: see AttentionOptions; masks and lengths, positions, dropout.
    out: an array to write to. Without it one of query's library and element type is made: NumPy's, PyTorch's, JAX's.
    Elements are float32; any of query, key, value, out and bias may as well be float16 or bfloat16 (PyTorch's, or
    ml_dtypes' in NumPy).

    Returns out; with return_log_sum_exp, return_weights, ... a tuple of out and these, in this order.
    """
    query, key, value = as_array(query, "query"), as_array(key, "key"), as_array(value, "value")
    query_shape = shape_of(query, "query")
    # Of a wrong rank, too, something is made for the library to refuse with its own words.
    key_shape = shape_of(key, "key")
    if out is None:
        out = empty(query_shape[:-1] + features_of(value, options.get("value_scales")), query, key, value)
    key_len = (key_shape[-2:-1] or (0,))[0]
    read_options, outputs = read(options, query_shape, key_len, query, key_shape, score) if options else (None, [])
    if score is None:
        _fovea.sdpa(handle_of(context), query, key, value, out, read_options)
    else:
        _fovea.attention(handle_of(context), options_of(score), query, key, value, out, read_options)
    return results(query, out, outputs)


def results(like, out, outputs):
    """What a call returns: out, or a tuple of it and the outputs asked for."""
    if not outputs:
        return finished(out, like)
    return tuple(finished(array, like) for array in (out, *outputs))


def additive_attention(query: Array, key: Array, value: Array, query_weight: Array, key_weight: Array,
                       score_vector: Array, **options):
    """Attention with v . tanh(Wq q + Wk k) (Bahdanau, Cho and Bengio 2015): query_weight [h, Dq], key_weight [h, Dk],
    score_vector [h]. Shapes and options as in `attention`; Dq and Dk may differ."""
    return attention(query, key, value, score=Additive(query_weight, key_weight, score_vector), **options)


def concat_attention(query: Array, key: Array, value: Array, weight: Array, score_vector: Array,
                     score_bias: Array | None = None, **options):
    """Attention with v . tanh(W [q; k] + b): weight [h, Dq + Dk], score_vector [h], score_bias [h]. Shapes and options as in
    `attention`; Dq and Dk may differ."""
    return attention(query, key, value, score=Concat(weight, score_vector, score_bias), **options)


def bilinear_attention(query: Array, key: Array, value: Array, weight: Array, **options):
    """Attention with q^T W k: weight [Dq, Dk]. Shapes and options as in `attention`; Dq and Dk may differ."""
    return attention(query, key, value, score=Bilinear(weight), **options)


def gaussian_attention(query: Array, key: Array, value: Array, sigma: float | None = None,
                       sigmas: Array | None = None, **options):
    """Attention with -|q - k|^2 / (2 sigma^2): sigma > 0, 1 by default, or sigmas [H]. Shapes and options as in
    `attention`."""
    return attention(query, key, value, score=Gaussian(sigma, sigmas), **options)


def scaled_dot_product_attention(query: Array, key: Array, value: Array, attn_mask: Array | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False, *, context: Context | None = None):
    """What torch.nn.functional.scaled_dot_product_attention takes and means, on arrays of any library.

    query [..., Q, D], key [..., K, D], value [..., K, Dv], returns [..., Q, Dv]; "..." are any number of axes, which
    broadcast, or of which, with enable_gqa, the last may be fewer in key and value. attn_mask broadcasts to [..., Q, K]: bool,
    true: attend, or a float type, added to the scores. is_causal is PyTorch's: query i attends the keys up to i, and no
    attn_mask beside it. dropout_p: which weights are dropped follows the random numbers of PyTorch or NumPy. What is not
    contiguous in its last axis is copied; rows that attend nothing give zeros. D and Dv are in [1, 1024], as in `attention`.
    No setting of the process changes the result or its type, autocast neither: that is for
    fovea.torch.scaled_dot_product_attention.
    """
    query, key, value = (_reshapable(as_array(array, name))
                         for name, array in (("query", query), ("key", key), ("value", value)))
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask: None is expected where is_causal is true")
    shape, key_shape = shape_of(query, "query"), shape_of(key, "key")
    key_len = (key_shape[-2:-1] or (0,))[0]
    axes, expanded = leading_axes(shape, key_shape, shape_of(value, "value"), enable_gqa)
    flat = [_contiguous_rows(of_rank_4(array, wanted)) for array, wanted in zip((query, key, value), expanded)]
    options: dict[str, Any] = {"is_causal": True, "top_left": True} if is_causal else {}
    if scale is not None:
        options["scale"] = scale
    if dropout_p:
        options.update(dropout=dropout_p, dropout_seed=_random_seed(query))
    if attn_mask is not None:
        mask = _mask_array(attn_mask)
        options[mask_name(mask)] = _contiguous_rows(mask_of_rank_4(mask, axes, shape[-2], key_len))
    out = attention(*flat, context=context, **options)
    return out.reshape(axes + shape_of(out)[-2:])


def mask_name(mask) -> str:
    """The option that such a mask of PyTorch's is."""
    return "mask" if str(mask.dtype).rpartition(".")[2] == "bool" else "bias"


def _reshapable(array):
    """A buffer as NumPy has it."""
    return array if hasattr(array, "reshape") else np.asarray(array)


def _contiguous_rows(array):
    if len(shape_of(array)) == 0:
        return array
    strides = getattr(array, "strides", None)
    if strides is None:
        return array if not hasattr(array, "stride") or array.stride(-1) == 1 else array.contiguous()
    return array if array.shape[-1] == 1 or strides[-1] == array.itemsize else np.ascontiguousarray(array)


def _random_seed(like) -> int:
    torch = torch_of(like)
    return int(torch.randint(2**62, (), device="cpu") if torch is not None else np.random.randint(2**62))


def _mask_array(mask):
    """A list as an array: of bool, or of numbers to add. A buffer as NumPy has it."""
    if isinstance(mask, (list, tuple)):
        return as_array(mask, "mask" if np.asarray(mask).dtype == bool else "attn_mask")
    return _reshapable(mask)


def kernel_regression(queries: Array, inputs: Array, targets: Array, *, sigma: float = 1.0, leave_one_out: bool = False,
                      return_weights: bool = False, out: Array | None = None, context: Context | None = None):
    """Nadaraya-Watson regression, sum_i softmax_i(-|query - input_i|^2 / (2 sigma^2)) target_i.

    queries [Q, D], inputs [N, D], targets [N, T], returns [Q, T]; or queries [Q], inputs [N] (D = 1), and targets [N],
    returns [Q]. leave_one_out: query i does not attend input i. return_weights: returns (out, weights [Q, N]).
    """
    queries, inputs, targets = as_array(queries, "queries"), as_array(inputs, "inputs"), as_array(targets, "targets")
    rows = shape_of(queries, "queries")[:1]
    if out is None:
        out = empty(rows + shape_of(targets, "targets")[1:], queries, inputs, targets)
    weights = float32(rows + shape_of(inputs, "inputs")[:1], queries) if return_weights else None
    flags = _fovea.SIGMA_GIVEN | (_fovea.LEAVE_ONE_OUT if leave_one_out else 0)
    _fovea.kernel_regression(handle_of(context), queries, inputs, targets, out,
                             {"flags": flags, "sigma": sigma, "weights": weights})
    return results(queries, out, [weights] if return_weights else [])


def merge_states(outs: Array, lses: Array, *, context: Context | None = None):
    """Attention over all keys from attention over S disjoint parts of them, with their log-sum-exps.

    outs [S, ..., Dv], lses [S, ...]; returns (out [..., Dv], log_sum_exp [...]).
    """
    outs, lses = as_array(outs, "outs"), as_array(lses, "lses")
    shape = shape_of(outs, "outs")
    out, log_sum_exp = empty(shape[1:], outs, lses), float32(shape[1:-1], outs)
    _fovea.merge_states(handle_of(context), outs, lses, out, log_sum_exp)
    return finished(out, outs), finished(log_sum_exp, outs)


def masked_softmax(x: Array, valid_lens: Array | None = None, *, empty_rows: str = "zero", out: Array | None = None,
                   context: Context | None = None):
    """Softmax over the last axis, of the first valid_lens keys of each row; the others are exactly 0.

    x [..., Q, K]; valid_lens [B] or [B, Q], int32 or int64, B being x's first axis. empty_rows: what a row of length 0
    gives, "zero", "uniform" or "nan". out may be x.
    """
    x, valid_lens = as_array(x, "x"), as_array(valid_lens, "valid_lens")
    if out is None:
        out = empty(shape_of(x, "x"), x)
    _fovea.masked_softmax(handle_of(context), x, valid_lens, out,
                          {"empty_rows": choice("empty_rows", empty_rows, EMPTY_ROWS)})
    return finished(out, x)
