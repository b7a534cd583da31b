"""PyTorch's ways to attention with other score functions, none of which it has a call for."""
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import flex_attention

import inputs

BLOCK_BYTES = 1 << 20  # of a block of features: it stays in the second-level cache between tanh and the product


def compiled(function, *arguments):
    called = torch.compile(function, dynamic=False)
    return lambda: called(*arguments)


class Additive:
    """v . tanh(Wq q + Wk k), softmax, weighted sum, for additive and concat; one head."""

    def __init__(self, case, given):
        self.case = case
        self.query, self.key, self.value = (given[name][:, 0] for name in ("query", "key", "value"))
        if case.score == "concat":
            parts = given["weight"].split([case.query_dim, case.key_dim], 1)
            self.query_weight, self.key_weight = (part.contiguous() for part in parts)
        else:
            self.query_weight, self.key_weight = given["query_weight"], given["key_weight"]
        self.score_vector = given["score_vector"]
        lens = inputs.lens_of(case)
        self.lens = None if lens is None else torch.from_numpy(lens)
        self.hidden = None if lens is None else torch.arange(case.key_len) >= self.lens[:, None, None]
        self.prepared = F.linear(self.key, self.key_weight) if case.prepared_keys else None

    def projected(self, query, key):
        keys = self.prepared if self.prepared is not None else F.linear(key, self.key_weight)
        return F.linear(query, self.query_weight), keys

    def weigh(self, scores, value):
        if self.hidden is not None:
            scores = scores.masked_fill(self.hidden, float("-inf"))
        return torch.bmm(torch.softmax(scores, -1), value)

    def by_product(self, query, key, value):
        queries, keys = self.projected(query, key)
        features = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))
        return self.weigh(features @ self.score_vector, value)

    def by_sum(self, query, key, value):
        """Sum instead of product: a compiler can do without the tensor of features."""
        queries, keys = self.projected(query, key)
        features = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))
        return self.weigh((features * self.score_vector).sum(-1), value)

    def in_blocks(self):
        """So many queries of a sequence at a time that their features stay in the cache."""
        case = self.case
        queries, keys = self.projected(self.query, self.key)
        one = case.key_len * case.hidden_units * queries.element_size()
        block = max(1, BLOCK_BYTES // one)
        scores = torch.empty(case.batch, case.query_len, case.key_len, dtype=queries.dtype)
        if case.query_len == 1:  # then of sequences
            for b in range(0, case.batch, block):
                features = (queries[b : b + block, :1] + keys[b : b + block]).tanh_()
                scores[b : b + block, 0] = features @ self.score_vector
            return self.weigh(scores, self.value)
        for b in range(case.batch):
            for i in range(0, case.query_len, block):
                features = (queries[b, i : i + block, None] + keys[b]).tanh_()
                torch.matmul(features, self.score_vector, out=scores[b, i : i + block])
        return self.weigh(scores, self.value)


def additive_ways(case, given):
    problem = Additive(case, given)
    arguments = problem.query, problem.key, problem.value
    return {"eager": lambda: lambda: problem.by_product(*arguments),
            "eager, in blocks": lambda: problem.in_blocks,
            "compiled": lambda: compiled(problem.by_product, *arguments),
            "compiled, sum for the product": lambda: compiled(problem.by_sum, *arguments)}


def bilinear_ways(case, given):
    query, key, value, weight = (given[name] for name in ("query", "key", "value", "weight"))

    def attend(query, key, value):
        return F.scaled_dot_product_attention(query @ weight, key, value, scale=1.0)

    return {"product and fused attention": lambda: lambda: attend(query, key, value),
            "the same compiled": lambda: compiled(attend, query, key, value)}


def gaussian_ways(case, given):
    """|q|^2 is the same for all keys of a row, so the softmax needs but q.k and |k|^2."""
    arguments = tuple(given[name] for name in ("query", "key", "value"))
    inverse = 1 / case.sigma**2

    def norms(key):
        return key.square().sum(-1).mul(-0.5 * inverse)

    def fused(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=norms(key).unsqueeze(-2), scale=inverse)

    def products(query, key, value):
        scores = torch.baddbmm(norms(key).flatten(0, 1).unsqueeze(-2), query.flatten(0, 1),
                               key.flatten(0, 1).transpose(1, 2), alpha=inverse)
        return torch.bmm(torch.softmax(scores, -1), value.flatten(0, 1))

    def flex(query, key, value):
        own = norms(key)

        def score(raw, b, h, i, j):
            return raw + own[b, h, j]

        return flex_attention(query, key, value, score_mod=score, scale=inverse)

    return {"fused attention, norms as mask": lambda: lambda: fused(*arguments),
            "products by hand": lambda: lambda: products(*arguments),
            "FlexAttention compiled": lambda: compiled(flex, *arguments)}


def regression_ways(case, given):
    arguments = tuple(given[name] for name in ("query", "key", "value"))
    inverse = 1 / case.sigma**2

    def products(query, key, value):
        scores = torch.addmm(key.square().sum(-1).mul(-0.5 * inverse), query, key.T, alpha=inverse)
        return torch.softmax(scores, -1) @ value

    def distances(query, key, value):
        return torch.softmax(-0.5 * inverse * torch.cdist(query, key).square(), -1) @ value

    def differences(query, key, value):
        squares = (query.unsqueeze(1) - key).square().sum(-1)
        return (torch.softmax(-0.5 * inverse * squares, -1).unsqueeze(-1) * value).sum(1)

    return {"products": lambda: lambda: products(*arguments), "cdist": lambda: lambda: distances(*arguments),
            "products compiled": lambda: compiled(products, *arguments),
            "differences compiled": lambda: compiled(differences, *arguments)}


def ways(case, given):
    if case.score == "gaussian":
        return gaussian_ways(case, given)
    return bilinear_ways(case, given) if case.score == "bilinear" else additive_ways(case, given)
