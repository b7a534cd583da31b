# SPDX-License-Identifier: Apache-2.0
"""Attention of every score function, and its backward pass, as custom operators.

torch.ops.fovea.attention gives (out, log-sum-exp, weights, projected queries and keys, which are empty unless asked for).
torch.ops.fovea.attention_backward makes the weights again from log-sum-exp, drops the same ones from the same seed, takes the
projections that were kept, and gives the gradients that are wanted. Both take all arguments that there are, in the order of
ARGUMENTS.
"""
from __future__ import annotations

from dataclasses import fields

import torch

from ..attention import attention as of_any_array
from ..gradients import REACHING, WANTED, attention_backward
from ..options import KEPT
from ..scores import Additive, Bilinear, Concat, Dot, Gaussian
from .threads import context

SCORES = {"dot": Dot, "bilinear": Bilinear, "additive": Additive, "concat": Concat, "gaussian": Gaussian}
DIFFERENTIABLE = tuple(WANTED)
"""What there are gradients of, query, key and value first; a score's parameters by their names in the score."""
OTHER_TENSORS = ("mask", "valid_lens", "query_offsets", "dropout_seed")
NUMBERS = {
    "score": ("str", "dot"), "sigma": ("float?", None), "scale": ("float?", None), "softcap": ("float?", None),
    "is_causal": ("bool", False), "top_left": ("bool", False), "query_offset": ("SymInt?", None),
    "window_left": ("SymInt?", None), "window_right": ("SymInt?", None), "leave_one_out": ("bool", False),
    "query_invariant": ("bool", False), "empty_rows": ("str", "zero"), "precision": ("str", "default"),
    "dropout": ("float", 0.0), "return_weights": ("bool", False), "keep_projections": ("bool", False)}
"""The other arguments: their types in a schema, and what they are by default."""
TENSORS = DIFFERENTIABLE + OTHER_TENSORS
ARGUMENTS = TENSORS + tuple(NUMBERS)
DEFAULTS = dict.fromkeys(TENSORS) | {name: default for name, (_, default) in NUMBERS.items()}
PARAMETERS = ("query_weight", "key_weight", "weight", "score_bias", "score_vector", "sigmas", "sigma")
RESULTS = ("out", "log_sum_exp", *KEPT)
OF_BACKWARD = tuple("grad_" + name for name in REACHING) + RESULTS + ARGUMENTS + ("wanted",)
HAS_PROJECTIONS = ("additive", "concat")
"""Score functions whose projections are kept."""

_TAKEN = ", ".join([f"Tensor{'' if name in ('query', 'key', 'value') else '?'} {name}" for name in TENSORS] +
                   [f"{kind} {name}" for name, (kind, _) in NUMBERS.items()])
_REACHING = ", ".join(f"Tensor? grad_{name}" for name in REACHING)


def contiguous_rows(x):
    return x if x.stride(-1) == 1 else x.contiguous()


def out_like(query, value):
    """An array for the result, which lies in memory as [B, Q, H, Dv]: the next layer's reshape takes it as it is."""
    batch, heads, query_len, _ = query.shape
    return query.new_empty((batch, query_len, heads, value.shape[-1])).transpose(1, 2)


def _options(call) -> dict:
    """What `fovea.attention` and its backward pass are called with beside their arrays."""
    kind = SCORES[call["score"]]
    parameters = {field.name: call["score_bias" if field.name == "bias" else field.name] for field in fields(kind)}
    options = {name: call[name] for name in DEFAULTS if call[name] is not None and name not in PARAMETERS}
    for name in ("query", "key", "value", "score", "return_weights", "keep_projections"):
        del options[name]
    for name in ("mask", "bias"):
        if name in options:
            options[name] = contiguous_rows(options[name])
    if call["dropout_seed"] is not None:
        options["dropout_seed"] = int(call["dropout_seed"])
    return options | {"score": None if kind is Dot else kind(**parameters)}


def by_library(*given):
    """(out, log-sum-exp, weights, projected queries, projected keys) of ARGUMENTS."""
    call = dict(zip(ARGUMENTS, given))
    query, key, value = (contiguous_rows(call[name]) for name in ("query", "key", "value"))
    wanted = {"return_" + name: True for name in KEPT} if call["keep_projections"] else {}
    out, log_sum_exp, *others = of_any_array(query, key, value, out=out_like(query, value), return_log_sum_exp=True,
                                             return_weights=call["return_weights"], context=context(), **wanted, **_options(call))
    weights = others.pop(0) if call["return_weights"] else _nothing(query)
    return out, log_sum_exp, weights, *(others or [_nothing(query) for _ in KEPT])


attention_operator = torch.library.custom_op("fovea::attention", by_library, mutates_args=(), device_types="cpu",
                                             schema=f"({_TAKEN}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")


@attention_operator.register_fake
def _(*given):
    call = dict(zip(ARGUMENTS, given))
    query, key, value = call["query"], call["key"], call["value"]
    weights = query.new_empty((*query.shape[:3], key.shape[2]), dtype=torch.float32) if call["return_weights"] else (
        _nothing(query))
    projected = [query.new_empty((*rows.shape[:3], call["score_vector"].shape[0]), dtype=torch.float32)
                 if call["keep_projections"] else _nothing(query) for rows in (query, key)]
    return out_like(query, value), query.new_empty(query.shape[:3], dtype=torch.float32), weights, *projected


def _nothing(query):
    return query.new_empty((0,), dtype=torch.float32)


def backward_by_library(*given):
    """The gradients of those of DIFFERENTIABLE that are wanted, in their order, of OF_BACKWARD."""
    call = dict(zip(OF_BACKWARD, given))
    query, key, value, out = (contiguous_rows(call[name]) for name in ("query", "key", "value", "out"))
    grad_out, grad_weights = call["grad_out"], call["grad_weights"]
    grad_out = torch.zeros_like(out) if grad_out is None else contiguous_rows(grad_out)
    grad_weights = None if grad_weights is None else contiguous_rows(grad_weights)
    projected = {name: contiguous_rows(call[name]) for name in KEPT} if call["keep_projections"] else {}
    gradients = attention_backward(query, key, value, out, call["log_sum_exp"], grad_out, wanted=names_of(call["wanted"]),
                                   grad_log_sum_exp=call["grad_log_sum_exp"], grad_weights=grad_weights, context=context(),
                                   **projected, **_options(call))
    return list(gradients.values())


backward_operator = torch.library.custom_op(
    "fovea::attention_backward", backward_by_library, mutates_args=(), device_types="cpu",
    schema=f"({_REACHING}, {', '.join('Tensor ' + name for name in RESULTS)}, {_TAKEN}, bool[] wanted) -> Tensor[]")


@backward_operator.register_fake
def _(*given):
    call = dict(zip(OF_BACKWARD, given))
    return [call[name].new_empty(call[name].shape) for name in names_of(call["wanted"])]


def names_of(wanted):
    return tuple(name for name, one in zip(DIFFERENTIABLE, wanted) if one)


@torch.library.custom_op("fovea::dropout_factors", mutates_args=(), device_types="cpu",
                         schema="(Tensor seed, SymInt[] shape, float dropout) -> Tensor")
def dropout_factors_operator(seed, shape, dropout):
    """What weights [B, H, Q, K] are multiplied by, as the library drops them."""
    batch, heads, query_len, key_len = shape
    query, key = (torch.zeros(batch, heads, rows, 1, dtype=torch.float32, device="cpu") for rows in (query_len, key_len))
    _, weights = of_any_array(query, key, key, dropout=dropout, dropout_seed=int(seed), return_weights=True, context=context())
    return (weights > 0).to(torch.float32) / (1 - dropout)


@dropout_factors_operator.register_fake
def _(seed, shape, dropout):
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")
