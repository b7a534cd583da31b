# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, finished, float32, shape_of
from .contexts import Context, handle_of
from .errors import BadOption
from .options import OUTPUTS, AttentionOptions, choice, read
from .scores import Score, options_of

REACHING = ("out", "log_sum_exp", "weights")
WANTED = [name for name in _fovea.members()["fovea_attention_gradients"] if name not in REACHING]
"""What there are gradients of; of a score's parameters by their names in the score."""


def attention_backward(query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, *,
                       wanted: tuple[str, ...] = ("query", "key", "value"), grad_log_sum_exp: Array | None = None,
                       grad_weights: Array | None = None, score: Score | None = None, context: Context | None = None,
                       **options: Unpack[AttentionOptions]) -> dict:
    """The backward pass of `fovea.attention`, with weights made again from log-sum-exp: no Q x K matrix is held.

        out, log_sum_exp = fovea.attention(query, key, value, return_log_sum_exp=True, is_causal=True)
        grads = fovea.attention_backward(query, key, value, out, log_sum_exp, grad_out, is_causal=True)

    grad_out: what the loss changes by for each element of out; grad_log_sum_exp [B, H, Q] and grad_weights [B, H, Q, K] (or
    [B, Q, K] of average weights, with return_weights="average"), where these reach it, too. score and options as in the forward
    call.
    wanted: of "query", "key", "value", "bias", "alibi_slopes", "sinks", and of the score's parameters "query_weight",
    "key_weight", "weight", "score_bias", "score_vector", "sigmas" ([1] of one sigma). Others are not computed.

    Returns {name: gradient} of arrays of query's library, of the element type of what each belongs to. The same bits for any
    number of threads.
    """
    tensors = {"query": as_array(query, "query"), "key": as_array(key, "key"), "value": as_array(value, "value")}
    query = tensors["query"]
    key_len = (shape_of(tensors["key"], "key")[-2:-1] or (0,))[0]
    averaged = options.pop("return_weights", None) == "average"
    for name in OUTPUTS:
        if "return_" + name in options:
            raise BadOption(f"return_{name}: a backward pass returns gradients alone")
    read_options = read(options, shape_of(query, "query"), key_len, query)[0] if options else {}
    if averaged:
        read_options["flags"] = read_options.get("flags", 0) | _fovea.AVERAGE_WEIGHTS
    score_options = options_of(score) or {}
    parameters = {"score_bias" if name == "bias" else name: array for name, array in score_options.items()}
    tensors = parameters | {name: read_options[name] for name in ("bias", "alibi_slopes", "sinks") if name in read_options} | tensors
    gradients = {"out": as_array(grad_out, "grad_out"), "log_sum_exp": as_array(grad_log_sum_exp, "grad_log_sum_exp"),
                 "weights": as_array(grad_weights, "grad_weights")}
    gradients = {name: array for name, array in gradients.items() if array is not None}
    made = {choice("wanted", name, dict.fromkeys(WANTED, name)): made_for(name, tensors, query) for name in wanted}
    _fovea.attention_backward(handle_of(context), score_options or None, query, tensors["key"], tensors["value"],
                              as_array(out, "out"), read_options | {"log_sum_exp": as_array(log_sum_exp, "log_sum_exp")},
                              gradients | made)
    return {name: finished(array, query) for name, array in made.items()}


def made_for(name: str, tensors: dict, query: Array):
    """An array for the gradient of that tensor."""
    tensor = tensors.get(name)
    if name == "sigmas" and tensor is None:
        return float32((1,), query)
    if tensor is None:
        raise BadOption(f"wanted: {name!r} is not among what the call was given")
    return empty(shape_of(tensor, name), tensor, query)
