"""fovea's ways to a step of training a layer of multi-head self-attention: the forward pass, and the gradients of all it takes.

The layer's two calls, where the forward one keeps what the backward one needs (options.kept), and the calls that the layer is
made of, linear layers and attention: both hand queries, keys, values, heads and log-sum-exp on, as PyTorch does. Weights change
with each step, so both pack them anew. Needs NumPy.
"""
import ctypes

import numpy as np

import inputs

PARAMETERS = ("in_weight", "in_bias", "out_weight", "out_bias")


class Tensors:
    """What a step takes and gives; `out` is all that it gives, one part after the other."""

    def __init__(self, calls, case):
        self.taken = {name: view for name, (_, view) in calls.given(case).items()}
        self.out, _ = calls.out(case)
        parts = inputs.training_parts(case)
        rows = np.split(self.out, np.cumsum(list(parts.values()))[:-1])
        shapes = {name: view.array.shape for name, view in self.taken.items()} | {"out": self.taken["x"].array.shape}
        self.given = {name: calls.tensor(part.reshape(shapes[name]), case.dtype) for name, part in zip(parts, rows)}


def by_layer(calls, case):
    tensors = Tensors(calls, case)
    taken, given = tensors.taken, tensors.given
    parameters = calls.struct("fovea_mha_parameters", heads=case.heads, **{name: taken[name] for name in PARAMETERS})
    gradients = calls.struct("fovea_mha_gradients", out=taken["grad_out"], query=given["x"],
                             **{name: given[name] for name in PARAMETERS})
    layer = parameters, taken["x"], None, None  # key and value: x too
    batch, length, hidden = taken["x"].array.shape
    kept = calls.tensor(inputs.aligned_empty((batch * length * (4 * hidden + case.heads),), np.float32), "f32")
    options = calls.struct("fovea_mha_options", kept=kept)
    forward = calls.call("fovea_multi_head_attention_once", tensors.out, *layer, given["out"], options)
    backward = calls.call("fovea_multi_head_attention_backward", tensors.out, *layer, options, gradients)

    def run():
        forward()
        return backward()

    return run


class Linear:
    """x W^T + bias, and back."""

    def __init__(self, calls, x, weight, bias, out):
        self._calls, self._x, self._weight = calls, x, weight
        self._options = calls.struct("fovea_linear_options", bias=bias)
        self._packed = ctypes.c_void_p()
        self._pack = calls.call("fovea_linear_pack", None, weight, None, ctypes.byref(self._packed))
        self._forward = calls.call("fovea_linear", None, x, self._packed, out, self._options)

    def forward(self):
        self._pack()
        self._forward()
        self._calls.destroy("fovea_packed_matrix_destroy", self._packed)

    def backward(self, **gradients):
        wanted = self._calls.struct("fovea_linear_gradients", **gradients)
        out_in = ctypes.c_int32(self._calls.number("FOVEA_WEIGHT_OUT_IN"))
        return self._calls.call("fovea_linear_backward", None, self._x, self._weight, out_in, self._options, wanted)


class Attention:
    """Of the three parts of projected rows [B,L,3,H,D] to heads [B,L,H,D], and back."""

    def __init__(self, calls, projected, heads):
        self._calls = calls
        self._inputs, self._heads = self._parts(projected), heads.swapaxes(1, 2)
        self._log_sum_exp = inputs.aligned_empty(self._heads.shape[:3], np.float32)

    @staticmethod
    def _parts(projected):
        return dict(zip(("query", "key", "value"), projected.transpose(2, 0, 3, 1, 4)))

    def _planned(self, name, arguments, gradients):
        """A run of a plan over what the forward pass has, with or without gradients by their names."""
        arrays = {**self._inputs, "out": self._heads}
        options = self._calls.struct("fovea_attention_options", log_sum_exp=self._calls.tensor(self._log_sum_exp))
        views = [*arguments, *map(self._calls.tensor, arrays.values()), options]
        if gradients:
            wanted = {name: self._calls.tensor(array) for name, array in gradients.items()}
            views.append(self._calls.struct("fovea_attention_gradients", **wanted))
        plan = self._calls.make_plan(name, *views)
        members = arrays | {"log_sum_exp": self._log_sum_exp} | {f"grad_{name}": array for name, array in gradients.items()}
        return self._calls.planned(plan, [self._calls.struct("fovea_attention_buffers", **members)], None, views)

    def forward(self):
        return self._planned("fovea_sdpa_plan_create", [], {})

    def backward(self, grad_projected, grad_heads):
        gradients = {"out": grad_heads.swapaxes(1, 2), **self._parts(grad_projected)}
        return self._planned("fovea_attention_backward_plan_create", [None], gradients)


def by_parts(calls, case):
    tensors = Tensors(calls, case)
    taken, given = tensors.taken, tensors.given
    dim = case.hidden // case.heads

    def between(parts):
        """As attention and as linear layers see it, for the forward and the backward pass."""
        arrays = [inputs.aligned_empty((case.batch, case.length, parts, case.heads, dim), np.float32) for _ in range(2)]
        return [(array, calls.tensor(array.reshape(case.batch, case.length, -1))) for array in arrays]

    (projected, projected_rows), (grad_projected, grad_projected_rows) = between(3)
    (heads, heads_rows), (grad_heads, grad_heads_rows) = between(1)
    project = Linear(calls, taken["x"], taken["in_weight"], taken["in_bias"], projected_rows)
    attention = Attention(calls, projected, heads[:, :, 0])
    project_back = Linear(calls, heads_rows, taken["out_weight"], taken["out_bias"], given["out"])
    steps = (project.forward, attention.forward(), project_back.forward,
             project_back.backward(out=taken["grad_out"], x=grad_heads_rows, weight=given["out_weight"], bias=given["out_bias"]),
             attention.backward(grad_projected, grad_heads[:, :, 0]),
             project.backward(out=grad_projected_rows, x=given["x"], weight=given["in_weight"], bias=given["in_bias"]))

    def run():
        for step in steps:
            step()
        return tensors.out

    return run
