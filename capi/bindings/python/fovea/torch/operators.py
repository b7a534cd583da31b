# SPDX-License-Identifier: Apache-2.0
"""Attention of every score function, and its backward pass, as custom operators that know their derivatives.

torch.ops.fovea.attention gives (out, log-sum-exp, weights, which are empty unless asked for); its derivative is
torch.ops.fovea.attention_backward, which makes the weights again from log-sum-exp, and drops the same ones from the same seed.
The derivative of that is the formula's. Both take all arguments that there are, in the order of ARGUMENTS; `attend` fills them
in by name.
"""
from __future__ import annotations

from dataclasses import fields

import torch

from ..attention import attention as of_any_array
from ..gradients import REACHING, WANTED, attention_backward
from ..scores import Additive, Bilinear, Concat, Dot, Gaussian, Score
from .batching import folded, looped, may_be_folded
from .formula import attention_formula
from .transforms import DIRECT, PYTORCH, TRAINED, is_watched, wait_for_gradients, want_forward_derivatives, way

SCORES = {"dot": Dot, "bilinear": Bilinear, "additive": Additive, "concat": Concat, "gaussian": Gaussian}
DIFFERENTIABLE = tuple(WANTED)
"""What there are gradients of, query, key and value first; a score's parameters by their names in the score."""
OTHER_TENSORS = ("mask", "valid_lens", "query_offsets", "dropout_seed")
NUMBERS = {
    "score": ("str", "dot"), "sigma": ("float?", None), "scale": ("float?", None), "softcap": ("float?", None),
    "is_causal": ("bool", False), "top_left": ("bool", False), "query_offset": ("SymInt?", None),
    "window_left": ("SymInt?", None), "window_right": ("SymInt?", None), "leave_one_out": ("bool", False),
    "query_invariant": ("bool", False), "empty_rows": ("str", "zero"), "precision": ("str", "default"),
    "dropout": ("float", 0.0), "return_weights": ("bool", False)}
"""The other arguments: their types in a schema, and what they are by default."""
TENSORS = DIFFERENTIABLE + OTHER_TENSORS
ARGUMENTS = TENSORS + tuple(NUMBERS)
DEFAULTS = dict.fromkeys(TENSORS) | {name: default for name, (_, default) in NUMBERS.items()}
PARAMETERS = ("query_weight", "key_weight", "weight", "score_bias", "score_vector", "sigmas", "sigma")
RESULTS = ("out", "log_sum_exp")
OF_BACKWARD = tuple("grad_" + name for name in REACHING) + RESULTS + ARGUMENTS + ("wanted",)

_TAKEN = ", ".join([f"Tensor{'' if name in ('query', 'key', 'value') else '?'} {name}" for name in TENSORS] +
                   [f"{kind} {name}" for name, (kind, _) in NUMBERS.items()])
_REACHING = ", ".join(f"Tensor? grad_{name}" for name in REACHING)


def attend(**given):
    """(out, log-sum-exp, weights) of the operator with these arguments, by name, and all others as they are by default."""
    return _attention(*[given.get(name, default) for name, default in DEFAULTS.items()])


def _attention(*given):
    return _called(given, by_library, AttentionFunction, torch.ops.fovea.attention)


def _attention_backward(*given):
    return _called(given, backward_by_library, BackwardFunction, torch.ops.fovea.attention_backward)


def _called(given, plain, function, operator):
    """By the operator where something follows what is called. Else without it: with derivatives it takes 0.1 ms to reach, and
    torch.func.grad takes none that has them."""
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    how = way(tensors)
    if how == PYTORCH and want_forward_derivatives(tensors):
        raise NotImplementedError("fovea's attention has no forward derivatives: take torch.func.jacrev, grad or vjp")
    if how not in (DIRECT, TRAINED) or not all([x.is_cpu for x in tensors]):
        return operator(*given)
    if how == DIRECT and not wait_for_gradients(tensors):
        return plain(*given)
    return function.apply(*given)


def dropped(probability, seed=None) -> dict:
    """Arguments for dropout; a seed is drawn as PyTorch draws numbers, so that torch.manual_seed and compilers know of it."""
    if not probability:
        return {}
    if seed is None:
        seed = torch.randint(2**62, (), dtype=torch.int64, device="cpu")
    return {"dropout": float(probability), "dropout_seed": seed}


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
    for name in ("query", "key", "value", "score", "return_weights"):
        del options[name]
    for name in ("mask", "bias"):
        if name in options:
            options[name] = contiguous_rows(options[name])
    if call["dropout_seed"] is not None:
        options["dropout_seed"] = int(call["dropout_seed"])
    return options | {"score": None if kind is Dot else kind(**parameters)}


def by_library(*given):
    """(out, log-sum-exp, weights) of ARGUMENTS."""
    call = dict(zip(ARGUMENTS, given))
    query, key, value = (contiguous_rows(call[name]) for name in ("query", "key", "value"))
    results = of_any_array(query, key, value, out=out_like(query, value), return_log_sum_exp=True,
                           return_weights=call["return_weights"], **_options(call))
    return results if call["return_weights"] else (*results, _no_weights(query))


attention_operator = torch.library.custom_op("fovea::attention", by_library, mutates_args=(), device_types="cpu",
                                             schema=f"({_TAKEN}) -> (Tensor, Tensor, Tensor)")


@attention_operator.register_fake
def _(*given):
    call = dict(zip(ARGUMENTS, given))
    query, key, value = call["query"], call["key"], call["value"]
    weights = query.new_empty((*query.shape[:3], key.shape[2]), dtype=torch.float32) if call["return_weights"] else (
        _no_weights(query))
    return out_like(query, value), query.new_empty(query.shape[:3], dtype=torch.float32), weights


def _no_weights(query):
    return query.new_empty((0,), dtype=torch.float32)


def backward_by_library(*given):
    """The gradients of those of DIFFERENTIABLE that are wanted, in their order, of OF_BACKWARD."""
    call = dict(zip(OF_BACKWARD, given))
    query, key, value, out = (contiguous_rows(call[name]) for name in ("query", "key", "value", "out"))
    grad_out, grad_weights = call["grad_out"], call["grad_weights"]
    grad_out = torch.zeros_like(out) if grad_out is None else contiguous_rows(grad_out)
    grad_weights = None if grad_weights is None else contiguous_rows(grad_weights)
    gradients = attention_backward(query, key, value, out, call["log_sum_exp"], grad_out, wanted=_names(call["wanted"]),
                                   grad_log_sum_exp=call["grad_log_sum_exp"], grad_weights=grad_weights, **_options(call))
    return list(gradients.values())


backward_operator = torch.library.custom_op(
    "fovea::attention_backward", backward_by_library, mutates_args=(), device_types="cpu",
    schema=f"({_REACHING}, Tensor out, Tensor log_sum_exp, {_TAKEN}, bool[] wanted) -> Tensor[]")


@backward_operator.register_fake
def _(*given):
    call = dict(zip(OF_BACKWARD, given))
    return [call[name].new_empty(call[name].shape) for name in _names(call["wanted"])]


def _names(wanted):
    return tuple(name for name, one in zip(DIFFERENTIABLE, wanted) if one)


def _save(names, ctx, inputs):
    """Tensors that autograd keeps, and numbers."""
    call = dict(zip(names, inputs))
    ctx.tensors = [name for name in names if isinstance(call[name], torch.Tensor)]
    ctx.numbers = {name: call[name] for name in names if name not in ctx.tensors}
    return [call[name] for name in ctx.tensors]


def _saved(ctx) -> dict:
    return ctx.numbers | dict(zip(ctx.tensors, ctx.saved_tensors))


def _save_attention(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*_save(ARGUMENTS, ctx, inputs), *output[:2])
    ctx.tensors += RESULTS


def _gradients(ctx, *reaching):
    call = _saved(ctx) | {"grad_" + name: one for name, one in zip(REACHING, reaching)}
    if not ctx.numbers["return_weights"]:
        call["grad_weights"] = None
    call["wanted"] = list(ctx.needs_input_grad[:len(DIFFERENTIABLE)])
    gradients = dict.fromkeys(ARGUMENTS)
    if any(call[name] is not None for name in OF_BACKWARD[:len(REACHING)]):
        found = _attention_backward(*[call[name] for name in OF_BACKWARD])
        gradients |= zip(_names(call["wanted"]), found)
    return tuple(gradients.values())


attention_operator.register_autograd(_gradients, setup_context=_save_attention)


def _save_backward(ctx, inputs, output):
    ctx.save_for_backward(*_save(OF_BACKWARD, ctx, inputs))


def _gradients_of_gradients(ctx, reaching):
    """By the formula: the derivative of its derivative."""
    call = _saved(ctx)
    options = {name: call[name] for name in OTHER_TENSORS[:-1] + tuple(NUMBERS) if call[name] is not None}
    for name in ("dropout", "empty_rows", "precision", "query_invariant", "return_weights"):
        del options[name]  # rows with nothing to attend have no gradient
    if call["dropout"]:
        options["dropout_factors"] = dropout_factors(call)
    given = {name: call[name] for name in DIFFERENTIABLE if call[name] is not None}
    to_results = {name: call["grad_" + name] for name in REACHING if call["grad_" + name] is not None}

    def first(given, to_results):
        def results(varied):
            tensors = {name: x.float() for name, x in (given | varied).items()}
            found = dict(zip(REACHING, attention_formula(**tensors, **options)))
            return {name: found[name].to(one.dtype) for name, one in to_results.items()}

        _, pull = torch.func.vjp(results, {name: given[name] for name in names})
        found, = pull(to_results)
        return [found[name] for name in names]

    names = _names(call["wanted"])
    _, pull = torch.func.vjp(first, given, to_results)
    of_given, of_results = pull(list(reaching))
    found = of_given | {"grad_" + name: one for name, one in of_results.items()}
    return tuple(found.get(name) for name in OF_BACKWARD)


backward_operator.register_autograd(_gradients_of_gradients, setup_context=_save_backward)


def _batched(run, names):
    """The rule for a batch of vmap."""
    def rule(info, dims, *given):
        call = dict(zip(names, given))
        dims = {name: dim if isinstance(dim, int) else None for name, dim in zip(names, dims)}
        wanted = _names(call.get("wanted", ()))
        by = folded if may_be_folded(call, dims, wanted) else looped
        return by(run, call, dims, info.batch_size, wanted)
    return rule


rule_of_attention, rule_of_backward = _batched(_attention, ARGUMENTS), _batched(_attention_backward, OF_BACKWARD)
attention_operator.register_vmap(rule_of_attention)
backward_operator.register_vmap(rule_of_backward)


class AttentionFunction(torch.autograd.Function):
    """What the operator computes, and its derivative."""

    setup_context, backward, vmap = staticmethod(_save_attention), staticmethod(_gradients), staticmethod(rule_of_attention)

    @staticmethod
    def forward(*given):
        return (torch.ops.fovea.attention if is_watched() else by_library)(*given)


class BackwardFunction(torch.autograd.Function):
    """Likewise of the backward pass."""

    setup_context, vmap = staticmethod(_save_backward), staticmethod(rule_of_backward)

    @staticmethod
    def forward(*given):
        return tuple((torch.ops.fovea.attention_backward if is_watched() else backward_by_library)(*given))

    @staticmethod
    def backward(ctx, *reaching):
        return _gradients_of_gradients(ctx, reaching)


@torch.library.custom_op("fovea::dropout_factors", mutates_args=(), device_types="cpu",
                         schema="(Tensor seed, SymInt[] shape, float dropout) -> Tensor")
def dropout_factors_operator(seed, shape, dropout):
    """What weights [B, H, Q, K] are multiplied by, as the library drops them."""
    batch, heads, query_len, key_len = shape
    query, key = (torch.zeros(batch, heads, rows, 1, dtype=torch.float32, device="cpu") for rows in (query_len, key_len))
    _, weights = of_any_array(query, key, key, dropout=dropout, dropout_seed=int(seed), return_weights=True)
    return (weights > 0).to(torch.float32) / (1 - dropout)


@dropout_factors_operator.register_fake
def _(seed, shape, dropout):
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")


def dropout_factors(call):
    query, key = call["query"], call["key"]
    return torch.ops.fovea.dropout_factors(call["dropout_seed"], [*query.shape[:3], key.shape[2]], call["dropout"])
