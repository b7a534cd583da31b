# SPDX-License-Identifier: Apache-2.0
"""Attention's formula in PyTorch's own operations: for gradients of gradients, and for other devices, element types and options
that neither the library nor PyTorch's own function takes."""
from __future__ import annotations

import torch


def score_of(query, key, score="dot", *, sigma=1.0, query_weight=None, key_weight=None, weight=None, score_bias=None,
             score_vector=None, sigmas=None):
    """[B, H, Q, K] of query [B, H, Q, Dq] and key [B, H, K, Dk]; see fovea.scores."""
    if score == "dot":
        return query @ key.mT
    if score == "bilinear":
        return query @ weight @ key.mT
    if score == "gaussian":
        width = sigmas.view(-1, 1, 1) if sigmas is not None else sigma
        return -(query[..., :, None, :] - key[..., None, :, :]).square().sum(-1) / (2 * width**2)
    if score == "concat":
        query_weight, key_weight = weight.split([query.shape[-1], key.shape[-1]], 1)
    units = (query @ query_weight.mT)[..., :, None, :] + (key @ key_weight.mT)[..., None, :, :]
    return torch.tanh(units if score_bias is None else units + score_bias) @ score_vector


def positions_of(query_len, key_len, device, *, top_left=False, query_offset=None, query_offsets=None):
    """Where queries stand among the keys: [Q, 1] or, with query_offsets [B], [B, 1, Q, 1]."""
    if query_offsets is not None:
        query_offset = query_offsets.view(-1, 1, 1, 1)
    elif query_offset is None:
        query_offset = 0 if top_left else max(key_len - query_len, 0)
    return torch.arange(query_len, device=device)[:, None] + query_offset


def attended(query_len, key_len, device, *, mask=None, valid_lens=None, is_causal=False, window_left=None, window_right=None,
             leave_one_out=False, **places):
    """True where a query attends a key, of a shape that broadcasts to [B, H, Q, K]; None: everywhere."""
    keys, positions = torch.arange(key_len, device=device), positions_of(query_len, key_len, device, **places)
    kept = [] if mask is None else [_of_all_keys(mask, key_len, False)]
    if valid_lens is not None:
        kept.append(keys < valid_lens.view(valid_lens.shape[0], 1, -1, 1))
    if is_causal:
        kept.append(keys <= positions)
    if window_left is not None:
        kept.append(keys >= positions - window_left)
    if window_right is not None:
        kept.append(keys <= positions + window_right)
    if leave_one_out:
        kept.append(keys != positions_of(query_len, key_len, device, **{**places, "top_left": True}))  # by number
    for one in kept[1:]:
        kept[0] = kept[0] & one
    return kept[0] if kept else None


def _of_all_keys(x, key_len, rest):
    """A mask or bias that may end before the keys do."""
    return x if x.shape[-1] >= key_len else torch.nn.functional.pad(x, (0, key_len - x.shape[-1]), value=rest)


def logits_of(query, key, *, score="dot", scale=None, softcap=None, bias=None, alibi_slopes=None, mask=None, valid_lens=None,
              is_causal=False, window_left=None, window_right=None, leave_one_out=False, places, **parameters):
    """softcap tanh(score(query, key) scale / softcap) + bias, less the slopes' distances; -infinity where nothing is attended.
    parameters: the score's; places: arguments of positions_of."""
    if scale is None:
        scale = query.shape[-1] ** -0.5 if score == "dot" else 1.0
    scores = scale * score_of(query, key, score, **parameters)
    query_len, key_len = scores.shape[-2:]
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + _of_all_keys(bias, key_len, -torch.inf)
    if alibi_slopes is not None:
        positions = positions_of(query_len, key_len, scores.device, **places)
        scores = scores - alibi_slopes.view(-1, 1, 1) * (positions - torch.arange(key_len, device=scores.device)).abs()
    kept = attended(query_len, key_len, scores.device, mask=mask, valid_lens=valid_lens, is_causal=is_causal,
                    window_left=window_left, window_right=window_right, leave_one_out=leave_one_out, **places)
    return scores if kept is None else scores.masked_fill(~kept, -torch.inf)


def attention_formula(query, key, value, *, sinks=None, dropout=0.0, dropout_factors=None, head_mask=None, top_left=False,
                      query_offset=None, query_offsets=None, **options):
    """(softmax(logits) value, log-sum-exp, the weights) of tensors of rank 4, grouped heads; options are named as
    fovea.attention's. sinks: [H], or what broadcasts to [B, H, Q, 1]. dropout is PyTorch's; dropout_factors and head_mask
    multiply the weights. A row with nothing to attend gives zeros."""
    if query.shape[1] != key.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    places = {"top_left": top_left, "query_offset": query_offset, "query_offsets": query_offsets}
    columns = logits_of(query, key, places=places, **options)
    columns = columns.float() if columns.dtype != torch.float64 else columns
    if sinks is not None:
        sink = sinks.view(1, -1, 1, 1) if sinks.dim() == 1 else sinks
        columns = torch.cat([columns, sink.to(columns.dtype).expand(*columns.shape[:-1], 1)], -1)
    empty = (columns == -torch.inf).all(-1, keepdim=True)
    columns = columns.masked_fill(empty, 0)
    weights = torch.nn.functional.softmax(columns, -1)[..., :key.shape[-2]].masked_fill(empty, 0).to(query.dtype)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    for factors in (dropout_factors, head_mask):
        if factors is not None:
            weights = weights * factors
    log_sum_exp = torch.logsumexp(columns, -1).masked_fill(empty.squeeze(-1), -torch.inf)
    return weights @ value, log_sum_exp, weights
