"""PyTorch's ways to the gradients of attention: autograd through its fused call, through products by hand, compiled or not."""
import torch
import torch._functorch.config
import torch.nn.functional as F

import inputs

torch._functorch.config.donated_buffer = False  # a backward pass that is run again keeps what the forward one left


class Leaves:
    """A case's tensors as leaves of a graph, outside of the inference mode that other cases run in."""

    def __init__(self, case, given):
        self.case = case
        with torch.inference_mode(False):
            self.leaves = {name: x.clone().requires_grad_() for name, x in given.items() if name != "grad_out"}
            self.grad_out = given["grad_out"].clone()


class Problem(Leaves):
    def __init__(self, case, given):
        super().__init__(case, given)
        with torch.inference_mode(False):
            allowed = inputs.allowed_keys(case)
            self.allowed = None if allowed is None else torch.from_numpy(allowed)

    def backward_of(self, attend):
        """A run of the backward pass alone; the forward pass is made once."""
        with torch.inference_mode(False), torch.enable_grad():
            out = attend(**self.leaves)
        leaves = list(self.leaves.values())

        def run():
            with torch.inference_mode(False):
                return torch.autograd.grad(out, leaves, self.grad_out, retain_graph=True)[0]

        return run

    def weighed(self, scores, value):
        if self.allowed is not None:
            scores = scores.masked_fill(~self.allowed, float("-inf"))
        return torch.softmax(scores, -1) @ value


def fused(problem, scale, with_query=lambda query, rest: query, mask=None):
    case = problem.case
    causal = case.causal and problem.case.query_len == problem.case.key_len and not case.get("valid_lens")
    given_mask = problem.allowed if mask is None and not causal else None

    def attend(query, key, value, **rest):
        by = given_mask if mask is None else mask(key)
        return F.scaled_dot_product_attention(with_query(query, rest), key, value, attn_mask=by, is_causal=causal, scale=scale,
                                              enable_gqa=case.heads != case.kv_heads)

    return attend


def of_products(problem, score):
    group = problem.case.heads // problem.case.kv_heads

    def attend(query, key, value, **rest):
        if group > 1:
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        return problem.weighed(score(query, key, **rest), value)

    return attend


def additive(query, key, query_weight, key_weight, score_vector):
    units = torch.tanh(F.linear(query, query_weight).unsqueeze(3) + F.linear(key, key_weight).unsqueeze(2))
    return units @ score_vector


def additive_by_sum(query, key, query_weight, key_weight, score_vector):
    """Sum instead of product: a compiler can do without the tensor of units."""
    units = torch.tanh(F.linear(query, query_weight).unsqueeze(3) + F.linear(key, key_weight).unsqueeze(2))
    return (units * score_vector).sum(-1)


def ways(case, given):
    problem = Problem(case, given)
    scale = case.head_dim**-0.5

    def way(attend):
        return {"eager": lambda: problem.backward_of(attend),
                "compiled": lambda: problem.backward_of(torch.compile(attend, dynamic=False))}

    def named(name, attend, *kinds):
        return {f"{name}, {kind}": way(attend)[kind] for kind in kinds}

    if case.score == "additive":
        return (named("formula", of_products(problem, additive), "eager", "compiled")
                | named("formula, sum for the product", of_products(problem, additive_by_sum), "compiled"))
    if case.score == "bilinear":
        projected = fused(problem, 1.0, lambda query, rest: query @ rest["weight"])
        return named("product and fused", projected, "eager", "compiled")
    if case.score == "gaussian":
        inverse = case.sigma**-2
        norms = lambda key: key.square().sum(-1).mul(-0.5 * inverse).unsqueeze(-2)  # noqa: E731 (|q|^2 changes nothing)
        by_products = of_products(problem, lambda query, key: query @ key.mT * inverse + norms(key))
        return named("products", by_products, "eager", "compiled") | named("fused, norms as mask",
                                                                           fused(problem, inverse, mask=norms), "eager")
    return (named("fused", fused(problem, scale), "eager")
            | named("products", of_products(problem, lambda query, key: query @ key.mT * scale), "eager", "compiled"))
