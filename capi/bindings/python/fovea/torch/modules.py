# SPDX-License-Identifier: Apache-2.0
"""Modules that train by fovea, with the names, arguments and parameters of the textbook Dive into Deep Learning (Zhang, Lipton,
Li and Smola 2023, chapters 11.2 to 11.5).

Memory grows with Q + K, as no weights are kept unless asked for: with keep_weights the attribute attention_weights holds those
of the last call, after dropout and without gradient. A query with no key to attend gives zeros.
"""
from __future__ import annotations

import torch
from torch import nn

from ..scores import Additive, Gaussian, Score
from .functional import attention


class _Attention(nn.Module):
    """What the modules share: dropout while they train, and weights that are kept."""

    attention_weights: torch.Tensor | None

    def __init__(self, dropout: float, keep_weights: bool):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is {dropout}, expected a probability below 1")
        self.dropout, self.keep_weights, self.attention_weights = dropout, keep_weights, None

    def _attend(self, queries, keys, values, valid_lens=None, score: Score | None = None, **options):
        if self.training:
            options["dropout"] = self.dropout
        options |= {"valid_lens": valid_lens, "score": score}
        if not self.keep_weights:
            return attention(queries, keys, values, **options)
        out, weights = attention(queries, keys, values, return_weights=True, **options)
        self.attention_weights = weights.detach()
        return out

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, keep_weights={self.keep_weights}"


class DotProductAttention(_Attention):
    """softmax(queries keys^T / sqrt(d)) values (Vaswani et al. 2017, equation 1).

    forward: queries [B, Q, d], keys [B, K, d], values [B, K, v], valid_lens [B] or [B, Q]: how many keys are attended; gives
    [B, Q, v]. Or queries [B, H, Q, d] and so on. is_causal: the last query faces the last key. scale: instead of 1 / sqrt(d).
    """

    def __init__(self, dropout: float = 0.0, *, scale: float | None = None, keep_weights: bool = False):
        super().__init__(dropout, keep_weights)
        self.scale = scale

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, valid_lens: torch.Tensor | None = None,
                *, is_causal: bool = False) -> torch.Tensor:
        return self._attend(queries, keys, values, valid_lens, scale=self.scale, is_causal=is_causal)


class AdditiveAttention(_Attention):
    """softmax(w_v^T tanh(W_q q + W_k k)) values (Bahdanau, Cho and Bengio 2015, appendix A.1.2); no tensor of B Q K h is made.

    forward: queries [B, Q, query_size], keys [B, K, key_size], values [B, K, v], valid_lens [B] or [B, Q]; gives [B, Q, v].
    Parameters: W_q.weight [h, query_size], W_k.weight [h, key_size], w_v.weight [1, h], h being num_hiddens; sizes that are not
    given are those of the first call.
    """

    def __init__(self, num_hiddens: int, dropout: float = 0.0, query_size: int | None = None, key_size: int | None = None, *,
                 keep_weights: bool = False, device=None, dtype=None):
        super().__init__(dropout, keep_weights)
        made = {"bias": False, "device": device, "dtype": dtype}
        self.W_q, self.W_k = _linear(query_size, num_hiddens, **made), _linear(key_size, num_hiddens, **made)
        self.w_v = nn.Linear(num_hiddens, 1, **made)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,
                valid_lens: torch.Tensor | None = None) -> torch.Tensor:
        for layer, rows in ((self.W_q, queries), (self.W_k, keys)):
            if isinstance(layer, nn.LazyLinear):
                layer(rows[..., :0, :])  # which tells it its size
        score = Additive(self.W_q.weight, self.W_k.weight, self.w_v.weight[0])
        return self._attend(queries, keys, values, valid_lens, score)


class MultiHeadAttention(_Attention):
    """W_o [head_1; ...; head_n] with head_i = attention(W_q^i queries, W_k^i keys, W_v^i values) (Vaswani et al. 2017, 3.2.2).

    forward: queries [B, Q, query_size], keys [B, K, key_size], values [B, K, value_size], valid_lens [B] or [B, Q]; gives
    [B, Q, num_hiddens]. attention_weights are [B, num_heads, Q, K]. is_causal: the last query faces the last key. Parameters:
    weights of W_q, W_k, W_v and W_o, with bias their biases; sizes that are not given are those of the first call.
    """

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float = 0.0, bias: bool = False, *,
                 query_size: int | None = None, key_size: int | None = None, value_size: int | None = None,
                 keep_weights: bool = False, device=None, dtype=None):
        super().__init__(dropout, keep_weights)
        if num_heads < 1 or num_hiddens % num_heads != 0:
            raise ValueError(f"num_heads is {num_heads}, expected a divisor of num_hiddens, {num_hiddens}")
        self.num_heads = num_heads
        made = {"bias": bias, "device": device, "dtype": dtype}
        self.W_q, self.W_k, self.W_v = (_linear(size, num_hiddens, **made) for size in (query_size, key_size, value_size))
        self.W_o = nn.Linear(num_hiddens, num_hiddens, **made)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, valid_lens: torch.Tensor | None = None,
                *, is_causal: bool = False) -> torch.Tensor:
        projected = ((self.W_q, queries), (self.W_k, keys), (self.W_v, values))
        heads = (layer(rows).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for layer, rows in projected)
        out = self._attend(*heads, valid_lens, is_causal=is_causal)
        return self.W_o(out.transpose(1, 2).flatten(2))


class NadarayaWatson(_Attention):
    """sum_i softmax_i(-(|query - key_i| w)^2 / 2) value_i (Nadaraya 1964, Watson 1964), with a learnable w, the inverse of the
    kernel's width.

    forward: queries [B, Q, d], keys [B, K, d], values [B, K, v], valid_lens [B] or [B, Q]; gives [B, Q, v]. Or without the
    batch; or numbers, queries [Q], keys and values [K] or, with keys of each query's own, [Q, K]; gives [Q]. leave_one_out:
    query i does not attend key i, for training on the queries' own points.
    """

    def __init__(self, *, keep_weights: bool = False, device=None, dtype=None):
        super().__init__(0.0, keep_weights)
        self.w = nn.Parameter(torch.rand(1, device=device, dtype=dtype))

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, valid_lens: torch.Tensor | None = None,
                *, leave_one_out: bool = False) -> torch.Tensor:
        score, options = Gaussian(sigmas=1 / self.w.abs()), {"leave_one_out": leave_one_out}
        if queries.dim() > 1:
            return self._attend(queries, keys, values, valid_lens, score, **options)
        rows = queries[:, None] if keys.dim() == 1 else queries[:, None, None]
        return self._attend(rows, keys[..., None], values[..., None], valid_lens, score, **options).flatten()


def _linear(size, num_hiddens, **made):
    return nn.LazyLinear(num_hiddens, **made) if size is None else nn.Linear(size, num_hiddens, **made)
