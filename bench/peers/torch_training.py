"""PyTorch's ways to a step of training a layer of multi-head self-attention: the forward pass, and autograd's gradients.

Linear layers with its fused attention or with products by hand, which keep the weights of attention for the backward pass,
and its own module; each of them eager and compiled.
"""
import torch
import torch._functorch.config
import torch.nn.functional as F

import inputs
import torch_backward


class Problem(torch_backward.Leaves):
    def run_of(self, layer, leaves=None):
        """A step: out and the gradients of all leaves, in the order of inputs.training_parts."""
        leaves = self.leaves if leaves is None else leaves
        wanted = [leaves[name] for name in list(inputs.training_parts(self.case))[1:]]

        def run():
            with torch.inference_mode(False), torch.enable_grad():
                out = layer(**leaves)
                return out.detach(), *torch.autograd.grad(out, wanted, self.grad_out)

        return run

    def compiled_run_of(self, layer, leaves=None):
        """What the forward pass has left may be written over: nothing runs backwards twice."""
        with torch._functorch.config.patch(donated_buffer=True):
            run = self.run_of(torch.compile(layer, dynamic=False), leaves)
            run()
        return run

    def layer(self, attend):
        """nn.MultiheadAttention's formula."""
        case = self.case

        def layer(x, in_weight, in_bias, out_weight, out_bias):
            projected = F.linear(x, in_weight, in_bias).unflatten(-1, (3, case.heads, -1))
            heads = attend(*projected.permute(2, 0, 3, 1, 4).unbind(0))
            return F.linear(heads.transpose(1, 2).flatten(2), out_weight, out_bias)

        return layer

    def module(self):
        """(its call, its parameters as leaves)."""
        case = self.case
        module = torch.nn.MultiheadAttention(case.hidden, case.heads, batch_first=True, dtype=self.grad_out.dtype)
        leaves = {"x": self.leaves["x"], "in_weight": module.in_proj_weight, "in_bias": module.in_proj_bias,
                  "out_weight": module.out_proj.weight, "out_bias": module.out_proj.bias}
        with torch.no_grad():
            for name, leaf in leaves.items():
                leaf.copy_(self.leaves[name])
        return lambda x, **_: module(x, x, x, need_weights=False)[0], leaves


def products(query, key, value):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return torch.softmax(scores, -1) @ value


def ways(case, given):
    problem = Problem(case, given)
    found = {}
    for name, attend in (("fused", F.scaled_dot_product_attention), ("products", products)):
        layer = problem.layer(attend)
        found[f"linear and {name}, eager"] = lambda layer=layer: problem.run_of(layer)
        found[f"linear and {name}, compiled"] = lambda layer=layer: problem.compiled_run_of(layer)
    with torch.inference_mode(False):
        module, leaves = problem.module()
    found["nn.MultiheadAttention, eager"] = lambda: problem.run_of(module, leaves)
    found["nn.MultiheadAttention, compiled"] = lambda: problem.compiled_run_of(module, leaves)
    return found
