# SPDX-License-Identifier: Apache-2.0
"""Attention of tensors with any score function, and its gradients."""
from __future__ import annotations

from typing import Unpack

import torch

from ..gradients import IN_FLOAT32
from ..options import AttentionOptions
from ..scores import Score
from .derivatives import attend, dropped
from .operators import DEFAULTS, SCORES

NO_OPTIONS = ("query", "key", "value", "score", "query_weight", "key_weight", "weight", "score_bias", "score_vector", "sigma",
              "sigmas", "keep_projections")
OPTIONS = tuple(name for name in DEFAULTS if name not in NO_OPTIONS) + ("return_log_sum_exp",)
TENSORS = ("mask", "bias", "valid_lens", "query_offsets", "alibi_slopes", "sinks")


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, score: Score | None = None,
              **options: Unpack[AttentionOptions]):
    """`fovea.attention` of tensors on the CPU, with gradients: of query, key and value, of bias, alibi_slopes and sinks, and of
    the score's parameters.

        out = fovea.torch.attention(query, key, value, score=fovea.Gaussian(sigmas=sigmas), valid_lens=lengths, dropout=0.1)

    query [B, H, Q, D], key [B, Hkv, K, Dk], value [B, Hkv, K, Dv], H a multiple of Hkv, gives [B, H, Q, Dv]; or all of rank 3,
    [B, L, D] (one head), or 2, [L, D]. float32, bfloat16 or float16.
    score and options: those of `fovea.attention`, but key_scales, value_scales, return_scores and the projections, which are kept
    for the backward pass by themselves; what is a tensor there is one of PyTorch's here. Without dropout_seed dropout follows
    torch.manual_seed; the backward pass drops the same weights anew.

    Returns out; with return_log_sum_exp, return_weights a tuple of out and these, in this order, with gradients too. No Q x K
    matrix is held unless weights are asked for. Works inside torch.compile, torch.func.grad and torch.func.vmap; gradients of
    gradients are computed in PyTorch's own operations, and do hold them.
    """
    tensors = {"query": query, "key": key, "value": value}
    for name, x in tensors.items():
        _a_tensor(name, x)
    given, rank = {**_options(options), **_parameters(score), **tensors}, query.dim()
    for name in ("query", "key", "value", "mask", "bias"):
        if given.get(name) is not None:
            given[name] = _of_rank_4(given[name], name, rank)
    out, log_sum_exp, weights = attend(**given)
    results = [out] + [log_sum_exp] * bool(options.get("return_log_sum_exp")) + [weights] * given.get("return_weights", False)
    results = [x if rank == 4 else x.squeeze(1) if rank == 3 else x[0, 0] for x in results]
    return results[0] if len(results) == 1 else tuple(results)


def _options(options) -> dict:
    for name, option in options.items():
        if name not in OPTIONS:
            raise TypeError(f"fovea.torch.attention has no option {name!r}; it has {', '.join(OPTIONS)}")
        if name in TENSORS:
            _a_tensor(name, option)
        elif name != "dropout_seed":
            _no_tensor(name, option)
    given = {name: option for name, option in options.items() if option is not None and name != "return_log_sum_exp"}
    if given.get("return_weights", False) not in (False, True):
        raise ValueError(f"return_weights: {given['return_weights']!r} is neither True nor False")
    seed = given.pop("dropout_seed", None)
    if isinstance(seed, int):
        seed = torch.tensor(seed, dtype=torch.int64, device="cpu")
    given |= dropped(given.get("dropout"), seed)
    return _in_float32(given)


def _parameters(score) -> dict:
    """A score function's kind and parameters, as the operator names them."""
    if score is None:
        return {}
    for kind, its_class in SCORES.items():
        if type(score) is its_class:
            given = {"score_bias" if name == "bias" else name: one for name, one in vars(score).items()}
            for name, one in given.items():
                (_no_tensor if name == "sigma" else _a_tensor)(name, one)
            return _in_float32({"score": kind, **given})
    raise TypeError(f"score: a fovea.Score is wanted, Dot() or another, not {type(score).__name__}")


def _a_tensor(name, given):
    if given is not None and not isinstance(given, torch.Tensor):
        raise TypeError(f"{name}: a tensor is wanted, not {type(given).__name__}")


def _no_tensor(name, given):
    if isinstance(given, torch.Tensor):
        raise TypeError(f"{name}: a number is wanted; there is no gradient of it")


def _in_float32(given) -> dict:
    return {name: one.float() if name in IN_FLOAT32 and one is not None else one for name, one in given.items()}


def _of_rank_4(x, name, rank):
    """Of query's rank, or a mask [Q, K] that serves all."""
    if x.dim() != rank and not (name in ("mask", "bias") and x.dim() == 2) or not 2 <= x.dim() <= 4:
        raise ValueError(f"{name} has rank {x.dim()}, expected {rank if 2 <= rank <= 4 else '2, 3 or 4'}")
    if name in ("mask", "bias") and x.dim() == 2:
        return x
    return x if rank == 4 else x.unsqueeze(1) if rank == 3 else x[None, None]
