# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the operators, for autograd, torch.func and vmap: of attention by its backward pass, of that by the
formula."""
from __future__ import annotations

import torch

from ..gradients import REACHING
from .batching import folded, looped, may_be_folded
from .formula import attention_formula
from .operators import (ARGUMENTS, DEFAULTS, DIFFERENTIABLE, HAS_PROJECTIONS, NUMBERS, OF_BACKWARD, OTHER_TENSORS, RESULTS,
                        attention_operator, backward_by_library, backward_operator, by_library, names_of)
from .transforms import DIRECT, PYTORCH, TRAINED, is_compiling, is_watched, wait_for_gradients, want_forward_derivatives, way


def attend(**given):
    """(out, log-sum-exp, weights) of the operator with these arguments, by name, and all others as they are by default.
    Projections are kept where a backward pass may follow."""
    if given.get("score") in HAS_PROJECTIONS:
        given["keep_projections"] = _may_be_followed([x for x in given.values() if isinstance(x, torch.Tensor)])
    return _attention(*[given.get(name, default) for name, default in DEFAULTS.items()])[:len(REACHING)]


def _may_be_followed(tensors) -> bool:
    """By a backward pass: where transforms wrap tensors, only they know."""
    wrapped = torch.is_grad_enabled() and not is_compiling() and way(tensors) != DIRECT
    return wrapped or wait_for_gradients(tensors)


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
    out, log_sum_exp, _, *projected = output
    ctx.mark_non_differentiable(*projected)
    ctx.save_for_backward(*_save(ARGUMENTS, ctx, inputs), out, log_sum_exp, *projected)
    ctx.tensors += RESULTS


def _gradients(ctx, *reaching):  # projections are given none
    call = _saved(ctx) | {"grad_" + name: one for name, one in zip(REACHING, reaching)}
    if not ctx.numbers["return_weights"]:
        call["grad_weights"] = None  # which may be there, of no elements
    call["wanted"] = list(ctx.needs_input_grad[:len(DIFFERENTIABLE)])
    gradients = dict.fromkeys(ARGUMENTS)
    if any(call[name] is not None for name in OF_BACKWARD[:len(REACHING)]):
        found = _attention_backward(*[call[name] for name in OF_BACKWARD])
        gradients |= zip(names_of(call["wanted"]), found)
    return tuple(gradients.values())


attention_operator.register_autograd(_gradients, setup_context=_save_attention)


def _save_backward(ctx, inputs, output):
    ctx.save_for_backward(*_save(OF_BACKWARD, ctx, inputs))


def _gradients_of_gradients(ctx, reaching):
    """By the formula: the derivative of its derivative."""
    call = _saved(ctx)
    names, options = names_of(call["wanted"]), _of_formula(call)
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

    _, pull = torch.func.vjp(first, given, to_results)
    of_given, of_results = pull(list(reaching))
    found = of_given | {"grad_" + name: one for name, one in of_results.items()}
    return tuple(found.get(name) for name in OF_BACKWARD)


def _of_formula(call) -> dict:
    """Its options; rows with nothing to attend have no gradient whatever they give."""
    options = {name: call[name] for name in OTHER_TENSORS + tuple(NUMBERS) if call[name] is not None}
    for name in ("dropout", "dropout_seed", "empty_rows", "precision", "query_invariant", "return_weights", "keep_projections"):
        options.pop(name, None)
    if call["dropout"]:
        shape = [*call["query"].shape[:3], call["key"].shape[2]]
        options["dropout_factors"] = torch.ops.fovea.dropout_factors(call["dropout_seed"], shape, call["dropout"])
    return options


backward_operator.register_autograd(_gradients_of_gradients, setup_context=_save_backward)


def _batched(run, names):
    """The rule for a batch of vmap."""
    def rule(info, dims, *given):
        call = dict(zip(names, given))
        dims = {name: dim if isinstance(dim, int) else None for name, dim in zip(names, dims)}
        wanted = names_of(call.get("wanted", ()))
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
