# SPDX-License-Identifier: Apache-2.0
"""Gradients of layers."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, finished, float32, shape_of
from .contexts import Context, handle_of
from .errors import BadOption
from .gradients import WANTED, made_for
from .layers import ACTIVATIONS, LAYOUTS, Activation, Layout, rotary_options
from .multi_head import PARAMETERS, attention_options
from .options import OUTPUTS, AttentionOptions, choice, size
from .scores import Score, options_of


def _like(given: dict, wanted, like) -> dict:
    """Arrays for the gradients that are wanted, of what was given; all of that where wanted is None."""
    given = {name: array for name, array in given.items() if array is not None}
    names = given if wanted is None else wanted
    for name in names:
        if name not in given:
            raise BadOption(f"wanted: {name!r} is not among what the call was given")
    return {name: empty(shape_of(given[name], name), given[name], like) for name in names}


def _finished(made: dict, like) -> dict:
    return {name: finished(array, like) for name, array in made.items()}


def activation_backward(kind: Activation, x: Array, grad_out: Array, *, out: Array | None = None,
                        context: Context | None = None):
    """grad_out times the activation's derivative at x, element by element. out may be grad_out."""
    x, grad_out = as_array(x, "x"), as_array(grad_out, "grad_out")
    out = empty(shape_of(x, "x"), x) if out is None else out
    _fovea.activation_backward(handle_of(context), choice("kind", kind, ACTIVATIONS), x, grad_out, out)
    return finished(out, x)


def softmax_backward(probabilities: Array, grad_out: Array, axis: int = -1, *, out: Array | None = None,
                     context: Context | None = None):
    """The gradient of softmax's x, from the probabilities that it gave. out may be grad_out."""
    return _softmax_backward(_fovea.softmax_backward, probabilities, grad_out, axis, out, context)


def log_softmax_backward(logarithms: Array, grad_out: Array, axis: int = -1, *, out: Array | None = None,
                         context: Context | None = None):
    """The gradient of log_softmax's x, from the logarithms that it gave. out may be grad_out."""
    return _softmax_backward(_fovea.log_softmax_backward, logarithms, grad_out, axis, out, context)


def _softmax_backward(function, given, grad_out, axis, out, context):
    given, grad_out = as_array(given, "out"), as_array(grad_out, "grad_out")
    out = empty(shape_of(given, "out"), given) if out is None else out
    function(handle_of(context), given, axis, grad_out, out)
    return finished(out, given)


def masked_softmax_backward(probabilities: Array, grad_out: Array, valid_lens: Array | None = None, *,
                            out: Array | None = None, context: Context | None = None):
    """The gradient of masked_softmax's x, from the probabilities that it gave; exactly 0 from valid_lens on. out may be
    grad_out."""
    given, grad_out = as_array(probabilities, "out"), as_array(grad_out, "grad_out")
    out = empty(shape_of(given, "out"), given) if out is None else out
    _fovea.masked_softmax_backward(handle_of(context), given, as_array(valid_lens, "valid_lens"), grad_out, out)
    return finished(out, given)


def layer_norm_backward(x: Array, grad_out: Array, weight: Array | None = None, bias: Array | None = None, *,
                        epsilon: float = 1e-5, residual: Array | None = None, grad_sum: Array | None = None,
                        wanted: tuple[str, ...] | None = None, context: Context | None = None) -> dict:
    """The backward pass of `layer_norm`. grad_sum [..., E]: what reaches x + residual besides. wanted: of "x" (which is the
    residual's, too), "weight" and "bias"; None: of all that are given. Returns {name: gradient}."""
    options = {"epsilon": epsilon, "flags": _fovea.NORM_EPSILON_GIVEN, "bias": as_array(bias, "bias")}
    return _norm_backward(_fovea.layer_norm_backward, x, grad_out, weight, residual, grad_sum, wanted, context, options)


def rms_norm_backward(x: Array, grad_out: Array, weight: Array | None = None, *, epsilon: float = 1e-5,
                      residual: Array | None = None, weight_from_one: bool = False, grad_sum: Array | None = None,
                      wanted: tuple[str, ...] | None = None, context: Context | None = None) -> dict:
    """The backward pass of `rms_norm`; see `layer_norm_backward`."""
    flags = _fovea.NORM_EPSILON_GIVEN | (_fovea.NORM_WEIGHT_FROM_ONE if weight_from_one else 0)
    options = {"epsilon": epsilon, "flags": flags}
    return _norm_backward(_fovea.rms_norm_backward, x, grad_out, weight, residual, grad_sum, wanted, context, options)


def _norm_backward(function, x, grad_out, weight, residual, grad_sum, wanted, context, options):
    x, weight = as_array(x, "x"), as_array(weight, "weight")
    made = _like({"x": x, "weight": weight, "bias": options.get("bias")}, wanted, x)
    reaching = {"out": as_array(grad_out, "grad_out"), "sum": as_array(grad_sum, "grad_sum")}
    function(handle_of(context), x, options | {"weight": weight, "residual": as_array(residual, "residual")},
             reaching | made)
    return _finished(made, x)


def linear_backward(x: Array, weight: Array, grad_out: Array, bias: Array | None = None, *,
                    activation: Activation | None = None, multiplier: Array | None = None, layout: Layout = "out_in",
                    wanted: tuple[str, ...] | None = None, context: Context | None = None) -> dict:
    """The backward pass of `linear`, for a weight that is not packed. grad_out is the residual's gradient, too. wanted: of "x",
    "weight", "bias" and "multiplier"; None: of all that are given. Returns {name: gradient}."""
    x, weight = as_array(x, "x"), as_array(weight, "weight")
    bias, multiplier = as_array(bias, "bias"), as_array(multiplier, "multiplier")
    made = _like({"x": x, "weight": weight, "bias": bias, "multiplier": multiplier}, wanted, x)
    _fovea.linear_backward(handle_of(context), x, weight, choice("layout", layout, LAYOUTS),
                           {"activation": choice("activation", activation, ACTIVATIONS), "bias": bias,
                            "multiplier": multiplier},
                           {"out": as_array(grad_out, "grad_out")} | made)
    return _finished(made, x)


def merge_states_backward(outs: Array, lses: Array, grad_out: Array, grad_log_sum_exp: Array | None = None, *,
                          context: Context | None = None) -> tuple:
    """The backward pass of `merge_states`: (grad_outs [S, ..., Dv], grad_lses [S, ...])."""
    outs, lses = as_array(outs, "outs"), as_array(lses, "lses")
    made = {"outs": empty(shape_of(outs, "outs"), outs), "lses": float32(shape_of(lses, "lses"), outs)}
    _fovea.merge_states_backward(handle_of(context), outs, lses,
                                 {"out": as_array(grad_out, "grad_out"),
                                  "log_sum_exp": as_array(grad_log_sum_exp, "grad_log_sum_exp")} | made)
    return finished(made["outs"], outs), finished(made["lses"], outs)


def multi_head_attention_backward(query: Array, grad_out: Array, key: Array | None = None, value: Array | None = None, *,
                                  parameters: dict, heads: int, kv_heads: int | None = None, layout: Layout = "out_in",
                                  wanted: tuple[str, ...] | None = None, wanted_of_attention: tuple[str, ...] = (),
                                  score: Score | None = None, rotary: dict | None = None, kept: Array | None = None,
                                  context: Context | None = None, **options: Unpack[AttentionOptions]) -> dict:
    """The backward pass of `MultiHeadAttention(heads, **parameters)(query, key, value, ...)`, which is computed again.

        grads = fovea.multi_head_attention_backward(x, grad_out, heads=8, parameters={"in_weight": w, "out_weight": o})

    wanted: of "query", "key", "value" and the names of parameters; None: of all that are given. What a key or value that is not
    given would have, query's gradient or key's has besides. wanted_of_attention: of what options and the score bring, names as
    in `attention_backward`. score, rotary and options as in the forward call. kept: what that returned with return_kept, which is
    then not computed again. Returns {name: gradient}, those of attention in a dict of their own, "attention".
    """
    inputs = {"query": as_array(query, "query"), "key": as_array(key, "key"), "value": as_array(value, "value")}
    query = inputs["query"]
    for name in parameters:
        choice("parameters", name, dict.fromkeys(PARAMETERS, True))
    for name in OUTPUTS:
        if "return_" + name in options:
            raise BadOption(f"return_{name}: a backward pass returns gradients alone")
    arrays = {name: as_array(array, name) for name, array in parameters.items() if array is not None}
    made = _like(inputs | arrays, wanted, query)
    attention, _ = attention_options(query, inputs["key"], (heads, heads), options)
    its_score = options_of(score)
    of_attention = _of_attention(wanted_of_attention, attention or {}, its_score or {}, query)
    _fovea.multi_head_attention_backward(
        handle_of(context),
        {"layout": choice("layout", layout, LAYOUTS), "heads": heads, "kv_heads": size("kv_heads", kv_heads), **arrays},
        *inputs.values(),
        {"attention": attention, "score": its_score, "rotary": None if rotary is None else rotary_options(**rotary),
         "kept": as_array(kept, "kept")},
        {"out": as_array(grad_out, "grad_out"), "attention": of_attention or None} | made)
    gradients = _finished(made, query)
    return gradients | {"attention": _finished(of_attention, query)} if of_attention else gradients


def _of_attention(wanted, options, score, query) -> dict:
    given = {"score_bias" if name == "bias" else name: array for name, array in score.items()}
    given |= {name: options[name] for name in ("bias", "alibi_slopes", "sinks") if name in options}
    for name in wanted:
        choice("wanted_of_attention", name, dict.fromkeys(WANTED, True))
    return {name: made_for(name, given, query) for name in wanted}
