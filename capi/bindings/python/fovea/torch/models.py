# SPDX-License-Identifier: Apache-2.0
"""Attention of transformers' models, with every keyword that they give it.

A keyword is computed, or known to change nothing, or an error: none that changes the result is dropped. Gradients and dropout
are fovea's. What it does not compute (a head mask, another device or element type) PyTorch does, with the same keywords.
"""
from __future__ import annotations

from collections.abc import Iterable

import torch

from ..errors import BadArgument
from .attention import DTYPES, are_of_sizes, are_readable, compute, pytorchs_own, with_autocast
from .derivatives import attend, dropped
from .formula import attention_formula
from .transforms import DIRECT, PYTORCH, way

CHANGE_NOTHING = {
    # What the mask says already, as transformers makes it for PyTorch's own function.
    "position_ids", "cache_position", "seq_idx", "max_length_q", "max_length_k", "max_seqlen_q", "max_seqlen_k",
    # Caches, which have done their work before attention is called.
    "cache", "layer_idx", "past_key_value", "past_key_values", "use_cache",
    # What a model makes its inputs and masks of.
    "image_sizes", "mm_token_type_ids", "next_sequence_length", "token_type_ids",
    # What a model returns, or makes of the result.
    "labels", "logits_to_keep", "num_items_in_batch", "output_hidden_states", "output_router_logits", "return_dict",
    # How other functions compute the same.
    "deterministic", "kernel_options"}
"""Keywords that do not change what attention computes."""


def transformers_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, *,
                           softcap=None, s_aux=None, sinks=None, position_bias=None, sliding_window=None, head_mask=None,
                           output_attentions=None, cu_seq_lens_q=None, cu_seq_lens_k=None, **others):
    """An attention function as transformers calls them: tensors [B, H, L, D], grouped heads; returns ([B, L, H, D], weights),
    weights [B, H, Q, K] with output_attentions, else None.

    attention_mask: bool, true: attend, or of numbers, or None; where None leaves them out, sliding_window says what is
    attended, and cu_seq_lens (sequences one after another in one row) in any case. s_aux: sinks [H], or as sinks [B, H, Q, 1].
    """
    for name, given in others.items():
        if given is not None and name not in CHANGE_NOTHING:
            raise TypeError(f"fovea's attention does not know the keyword {name!r} that {type(module).__name__} gives it: "
                            "choose another attn_implementation for this model or, if that keyword does not change what "
                            f"attention computes, call fovea.torch.register_with_transformers(change_nothing=[{name!r}])")
    if s_aux is not None and sinks is not None:
        raise TypeError("fovea's attention takes s_aux or sinks, not both")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    mask, bias = _mask_and_bias(attention_mask, key.shape[-2])
    if attention_mask is None and sliding_window is not None and key.shape[-2] > sliding_window:
        mask = _window(query, key, causal, sliding_window)
    causal = bool(causal and attention_mask is None and query.shape[-2] > 1)
    if cu_seq_lens_q is not None:
        packed = _packed(query, key, causal, cu_seq_lens_q, cu_seq_lens_k)
        mask = packed if mask is None else mask & packed
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    options = {"mask": mask, "bias": bias, "sinks": s_aux if sinks is None else sinks, "is_causal": causal, "scale": scaling,
               "softcap": softcap or None}
    out, weights = _attend(query, key, value, options, dropout, head_mask, bool(output_attentions))
    return out.transpose(1, 2).contiguous(), weights


def _mask_and_bias(attention_mask, key_len):
    if attention_mask is None:
        return None, None
    if not isinstance(attention_mask, torch.Tensor):
        raise TypeError(f"fovea's attention takes an attention_mask that is a tensor, not a {type(attention_mask).__name__}")
    if attention_mask.shape[-1] > key_len:  # made for all that a cache can hold
        attention_mask = attention_mask[..., :key_len]
    return (attention_mask, None) if attention_mask.dtype == torch.bool else (None, attention_mask)


def _window(query, key, causal, size):
    """Of a causal query, the last of which faces the last key where there is one alone: its own key and size - 1 before it."""
    query_len, key_len = query.shape[-2], key.shape[-2]
    if not causal:
        raise ValueError("fovea's attention takes a sliding_window that is not causal as an attention_mask alone")
    last = torch.arange(query_len, device=query.device) if query_len > 1 else torch.tensor([key_len - 1], device=query.device)
    return torch.arange(key_len, device=query.device) > last[:, None] - size


def _packed(query, key, causal, cu_seq_lens_q, cu_seq_lens_k):
    """Which keys are of the query's own sequence."""
    if cu_seq_lens_k is None:
        cu_seq_lens_k = cu_seq_lens_q
    ids = []
    for name, x, ends in (("cu_seq_lens_q", query, cu_seq_lens_q), ("cu_seq_lens_k", key, cu_seq_lens_k)):
        if not isinstance(ends, torch.Tensor) or x.shape[0] != 1 or (
                not torch.compiler.is_compiling() and int(ends[-1]) > x.shape[-2]):
            raise ValueError(f"{name}: expected a tensor of at most {x.shape[-2]}, for one row of sequences")
        ids.append(torch.bucketize(torch.arange(x.shape[-2], device=x.device), ends.to(x.device, torch.int64)[1:], right=True))
    if causal and cu_seq_lens_k is not cu_seq_lens_q and not torch.equal(cu_seq_lens_q, cu_seq_lens_k):
        raise ValueError("cu_seq_lens_k: where it differs from cu_seq_lens_q, causal attention asks for an attention_mask")
    return ids[0][:, None] == ids[1]


def _attend(query, key, value, options, dropout, head_mask, with_weights):
    """(out [B, H, Q, Dv], weights or None)"""
    given = [x for x in (query, key, value, options["mask"], options["bias"], options["sinks"]) if x is not None]
    how = way(given)
    if how != PYTORCH and 0 <= dropout < 1 and head_mask is None and are_readable(given, training=True):
        if torch.is_autocast_enabled("cpu"):
            query, key, value, options["bias"] = with_autocast((query, key, value, options["bias"]))
        if query.dtype in DTYPES and key.dtype == query.dtype == value.dtype and are_of_sizes(query, value):
            try:
                run = _directly if how == DIRECT and not dropout and are_readable(given) else _by_operator
                return _by_fovea(run, query, key, value, options, dropout, with_weights)
            except BadArgument:  # which the library leaves to PyTorch
                pass
    mask, bias, is_causal = options["mask"], options["bias"], options["is_causal"]
    of_pytorchs_function = sum((mask is not None, bias is not None, is_causal)) < 2 and options["scale"] != 0
    if with_weights or head_mask is not None or options["softcap"] is not None or options["sinks"] is not None or (
            not of_pytorchs_function):
        out, _, weights = attention_formula(query, key, value, **options, top_left=True, dropout=dropout, head_mask=head_mask)
        return out, weights if with_weights else None
    return pytorchs_own(query, key, value, mask if bias is None else bias, dropout, is_causal, scale=options["scale"],
                        enable_gqa=bool(query.shape[1] != key.shape[1])), None


def _by_fovea(run, query, key, value, options, dropout, with_weights):
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        batch = max(query.shape[0], key.shape[0])
        query, key, value = (x.expand(batch, -1, -1, -1) for x in (query, key, value))
    sinks = options["sinks"]
    by_query = sinks is not None and sinks.dim() > 1
    if options["mask"] is not None or options["bias"] is not None:
        options = {**options, "mask": _of_rank_4(options["mask"], key), "bias": _of_rank_4(options["bias"], key)}
    if by_query:
        options = {**options, "sinks": None}
    out, log_sum_exp, weights = run(query, key, value, options, dropout, with_weights, by_query)
    if by_query:  # which takes exp(sink) / (exp(log-sum-exp) + exp(sink)) away
        kept = torch.sigmoid(log_sum_exp[..., None] - sinks.float())
        out = (out * kept).to(query.dtype)
        weights = weights * kept if with_weights else None
    return out, weights.to(query.dtype) if with_weights else None


def _directly(query, key, value, options, dropout, with_weights, with_log_sum_exp):
    outputs = {}
    if with_weights:
        outputs["weights"] = _empty(query.shape[:3] + key.shape[2:3])
    if with_log_sum_exp:
        outputs["log_sum_exp"] = _empty(query.shape[:3])
    out = compute(query, key, value, *options.values(), outputs)
    return out, outputs.get("log_sum_exp"), outputs.get("weights")


def _by_operator(query, key, value, options, dropout, with_weights, with_log_sum_exp):
    """By the operator, which has gradients and dropout and always gives log-sum-exp."""
    sinks = options["sinks"]
    return attend(query=query, key=key, value=value, **{**options, "sinks": None if sinks is None else sinks.float()},
                  top_left=options["is_causal"], return_weights=with_weights, **dropped(dropout))


def _of_rank_4(x, key):
    """Masks broadcast as PyTorch's do, but for the columns, which the library wants whole."""
    if x is None:
        return None
    x = x if x.dim() == 4 else x.view((1,) * (4 - x.dim()) + x.shape)
    return x if x.shape[-1] == key.shape[-2] else x.expand(*x.shape[:-1], key.shape[-2])


def _empty(shape):
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu")


def register_with_transformers(name: str = "fovea", *, change_nothing: Iterable[str] = ()) -> None:
    """Makes attn_implementation=name known to transformers; masks come as for PyTorch's own function.

    A keyword that a model gives attention and fovea does not know is an error, unless `change_nothing` names it: one that is
    known not to change what attention computes."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

    CHANGE_NOTHING.update(change_nothing)
    AttentionInterface.register(name, transformers_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, sdpa_mask)
