# SPDX-License-Identifier: Apache-2.0
"""Attention's formula in PyTorch's own operations: for gradients, dropout, other devices and element types, where PyTorch's
own function lacks the options."""
from __future__ import annotations

import torch


def attention_formula(query, key, value, mask=None, bias=None, sinks=None, is_causal=False, scale=None, softcap=None,
                      dropout=0.0, head_mask=None):
    """(softmax(softcap tanh(query key^T scale / softcap) + bias) value, the weights) of tensors of rank 4, grouped heads; mask
    true: attend. sinks: [H], or what broadcasts to [B, H, Q, 1]. head_mask multiplies the weights. A row with nothing to
    attend gives zeros."""
    if query.shape[1] != key.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if is_causal:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = causal if mask is None else mask & causal
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    columns = scores.float() if scores.dtype != torch.float64 else scores
    if sinks is not None:
        sink = sinks.view(1, -1, 1, 1) if sinks.dim() == 1 else sinks
        columns = torch.cat([columns, sink.to(columns.dtype).expand(*columns.shape[:-1], 1)], -1)
    empty = (columns == -torch.inf).all(-1, keepdim=True)
    weights = torch.nn.functional.softmax(columns.masked_fill(empty, 0), -1)[..., :scores.shape[-1]].masked_fill(empty, 0)
    weights = weights.to(query.dtype)
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    if head_mask is not None:
        weights = weights * head_mask
    return weights @ value, weights
