# SPDX-License-Identifier: Apache-2.0
"""Attention of sequences that lie one behind the other, under the names of FlashAttention's flash_attn_varlen_func."""
from __future__ import annotations

from typing import Optional

import torch

from ..schedules import varlen_attention as of_any_array
from .attention import contiguous_rows
from .threads import context


def varlen_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor,
                     cu_seqlens_k: torch.Tensor, max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, *,
                     softmax_scale: Optional[float] = None, causal: bool = False, window_size: tuple[int, int] = (-1, -1),
                     softcap: float = 0.0, alibi_slopes: Optional[torch.Tensor] = None) -> torch.Tensor:
    """softmax(q k^T softmax_scale) v for each sequence: q [total_q, H, D], k [total_k, Hkv, D], v [total_k, Hkv, Dv], returns
    [total_q, H, Dv]. cu_seqlens_q, cu_seqlens_k [S + 1], int32: where each sequence begins, and the last ends.

    causal, window_size (left, right; -1: none) and alibi_slopes [H] have the last query face the last key; with them a sequence
    of fewer keys than queries is an error. max_seqlen_q and max_seqlen_k are not needed. On the CPU, float32, bfloat16 or
    float16. There are no gradients: a tensor that waits for one is an error.
    """
    del max_seqlen_q, max_seqlen_k
    left, right = window_size
    options: dict = {"softcap": float(softcap)}
    if softmax_scale is not None:
        options["scale"] = float(softmax_scale)
    if causal:
        options["is_causal"] = True
    if left >= 0:
        options["window_left"] = int(left)
    if right >= 0:
        options["window_right"] = int(right)
    if alibi_slopes is not None:
        options["alibi_slopes"] = alibi_slopes
    if len(options) > 1 + (softmax_scale is not None) and bool((cu_seqlens_k.diff() < cu_seqlens_q.diff()).any()):
        raise ValueError("cu_seqlens_k: a sequence has fewer keys than queries, expected as many or more where positions matter")
    return of_any_array(*(contiguous_rows(x) for x in (q, k, v)), cu_seqlens_q, cu_seqlens_k, context=context(), **options)
