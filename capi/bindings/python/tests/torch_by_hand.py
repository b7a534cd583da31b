"""Attention and its gradients by PyTorch's autograd of the formula, and calls of fovea.torch beside them."""
import numpy as np
import pytest
from reference import random

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402

B, H, GROUPS, QUERIES, KEYS, D, VALUES, UNITS = 2, 4, 2, 5, 7, 6, 3, 8


def tensor(*shape, seed=1):
    return torch.from_numpy(random(*shape, seed=seed))


def qkv(dtype=torch.float32):
    shapes = ((B, H, QUERIES, D), (B, GROUPS, KEYS, D), (B, GROUPS, KEYS, VALUES))
    return {name: tensor(*shape, seed=n).to(dtype) for n, (name, shape) in enumerate(zip(("query", "key", "value"), shapes))}


PARAMETERS = {
    "dot": {}, "bilinear": {"weight": tensor(D, D) / 2}, "gaussian": {"sigmas": tensor(H).abs() + 1},
    "additive": {"query_weight": tensor(UNITS, D), "key_weight": tensor(UNITS, D, seed=2), "score_vector": tensor(UNITS)},
    "concat": {"weight": tensor(UNITS, 2 * D), "score_vector": tensor(UNITS), "score_bias": tensor(UNITS, seed=2)},
}
CLASSES = {"dot": fovea.Dot, "bilinear": fovea.Bilinear, "gaussian": fovea.Gaussian, "additive": fovea.Additive,
           "concat": fovea.Concat}


def score_of(kind, given):
    """The score function, its parameters those of `given`."""
    return CLASSES[kind](**{"bias" if name == "score_bias" else name: given[name] for name in PARAMETERS[kind]})


def scores_by_hand(kind, given):
    q, k = given["query"][:, :, :, None], given["key"][:, :, None]
    if kind == "dot":
        return (q * k).sum(-1) / D**0.5
    if kind == "bilinear":
        return (q @ given["weight"] * k).sum(-1)
    if kind == "gaussian":
        return -((q - k) ** 2).sum(-1) / (2 * given["sigmas"].view(H, 1, 1) ** 2)
    if kind == "additive":
        return torch.tanh(q @ given["query_weight"].T + k @ given["key_weight"].T) @ given["score_vector"]
    pairs = torch.cat(torch.broadcast_tensors(q, k), -1)
    return torch.tanh(pairs @ given["weight"].T + given["score_bias"]) @ given["score_vector"]


def by_hand(kind, given, keep=None, scale=None, softcap=None, distances=None, factors=None):
    """(out, log-sum-exp, weights) in the type of what is given."""
    given = {**given, **{name: given[name].repeat_interleave(H // GROUPS, 1) for name in ("key", "value")}}
    scores = scores_by_hand(kind, given)
    if scale is not None:
        scores = scores * (scale * D**0.5 if kind == "dot" else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if "bias" in given:
        scores = scores + given["bias"]
    if "alibi_slopes" in given:
        scores = scores - given["alibi_slopes"].view(H, 1, 1) * distances.abs()
    exps = torch.exp(scores)
    if keep is not None:
        exps = exps * keep
    total = exps.sum(-1)
    if "sinks" in given:
        total = total + torch.exp(given["sinks"]).view(H, 1)
    some = torch.where(total == 0, 1, total)
    weights = exps / some[..., None]
    weights = weights if factors is None else weights * factors
    return weights @ given["value"], torch.where(total == 0, -torch.inf, torch.log(some)), weights


I, J = torch.arange(QUERIES)[:, None], torch.arange(KEYS)
LAST = I + KEYS - QUERIES
MASK = (tensor(B, 1, QUERIES, KEYS, seed=4) > -0.5) | (J == 0)
LENS, OWN_LENS = torch.tensor([3, KEYS]), torch.tensor([[1, 2, 3, 4, 5], [7, 0, 1, 7, 2]])
OFFSETS = torch.tensor([0, 2])
MIXES = {
    "alone": ({}, {}, {}),
    "mask and bias": ({"bias": tensor(1, H, QUERIES, KEYS)}, {"mask": MASK}, {"keep": MASK}),
    "a bias of a row": ({"bias": tensor(B, 1, 1, KEYS)}, {"scale": 0.3}, {"scale": 0.3}),
    "a bias for all": ({"bias": tensor(QUERIES, KEYS)}, {"valid_lens": LENS}, {"keep": J < LENS.view(B, 1, 1, 1)}),
    "short mask": ({}, {"mask": MASK[:1, :, :, :4]}, {"keep": MASK[:1] & (J < 4)}),
    "lengths": ({}, {"valid_lens": LENS, "softcap": 1.5}, {"keep": J < LENS.view(B, 1, 1, 1), "softcap": 1.5}),
    "lengths of queries": ({}, {"valid_lens": OWN_LENS.int()}, {"keep": J < OWN_LENS.view(B, 1, QUERIES, 1)}),
    "causal": ({}, {"is_causal": True}, {"keep": J <= LAST}),
    "top-left": ({}, {"is_causal": True, "top_left": True}, {"keep": J <= I}),
    "an offset": ({}, {"is_causal": True, "query_offset": 1}, {"keep": J <= I + 1}),
    "offsets": ({}, {"is_causal": True, "query_offsets": OFFSETS}, {"keep": J <= I + OFFSETS.view(B, 1, 1, 1)}),
    "windows": ({}, {"window_left": 2, "window_right": 1}, {"keep": (J >= LAST - 2) & (J <= LAST + 1)}),
    "leave one out": ({}, {"leave_one_out": True}, {"keep": I != J}),
    "slopes and sinks": ({"alibi_slopes": tensor(H).abs(), "sinks": tensor(H)}, {"top_left": True}, {"distances": I - J}),
    "slopes, causal": ({"alibi_slopes": tensor(H).abs()}, {"is_causal": True, "scale": 0.5},
                       {"distances": LAST - J, "keep": J <= LAST, "scale": 0.5}),
    "all": ({"bias": tensor(1, 1, QUERIES, KEYS), "alibi_slopes": tensor(H).abs(), "sinks": tensor(H)},
            {"mask": MASK, "valid_lens": OWN_LENS, "window_left": 4, "softcap": 2.0, "scale": 0.7},
            {"keep": MASK & (J < OWN_LENS.view(B, 1, QUERIES, 1)) & (J >= LAST - 4), "distances": LAST - J, "softcap": 2.0,
             "scale": 0.7}),
}
TAKEN_BY_ATTENTION = ("bias", "alibi_slopes", "sinks")


def run(kind, given, options, **others):
    named = {name: given[name] for name in TAKEN_BY_ATTENTION if name in given}
    return fovea.torch.attention(given["query"], given["key"], given["value"], score=score_of(kind, given), **named, **options,
                                 **others)


def leaves(given, dtype=None):
    return {name: x.detach().to(dtype or x.dtype).clone().requires_grad_() for name, x in given.items()}


def loss_of(results):
    """A loss that all results reach, but for the log-sum-exp of rows with nothing to attend, -infinity."""
    out, log_sum_exp, weights = results
    finite = torch.where(torch.isinf(log_sum_exp), 0, log_sum_exp)
    return (out * REACHING["out"]).sum() + (finite * REACHING["lse"]).sum() + (weights * REACHING["weights"]).sum()


REACHING = {"out": tensor(B, H, QUERIES, VALUES, seed=5), "lse": tensor(B, H, QUERIES, seed=6),
            "weights": tensor(B, H, QUERIES, KEYS, seed=7)}
ALL = dict(return_log_sum_exp=True, return_weights=True)


def compare(found, wanted, tolerance=3e-5):
    """Gradients by name, each within `tolerance` of its largest number, which is not next to nothing."""
    for name, one in wanted.items():
        size = float(one.abs().max())
        assert found[name].shape == one.shape
        np.testing.assert_allclose(found[name].double(), one, rtol=0, atol=tolerance * max(size, 0.1), err_msg=name)


def gradients(results, given):
    return dict(zip(given, torch.autograd.grad(loss_of(results), given.values())))


def twice(results, given):
    """Gradients of the squares of gradients."""
    first = torch.autograd.grad(loss_of(results), given.values(), create_graph=True)
    return dict(zip(given, torch.autograd.grad(sum(x.pow(2).sum() for x in first), given.values())))
