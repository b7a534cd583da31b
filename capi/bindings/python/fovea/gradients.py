# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, finished, float32, shape_of
from .contexts import Context, handle_of
from .errors import BadOption
from .options import KEPT, OUTPUTS, AttentionOptions, choice, read
from .plans import taken_again
from .scores import Score, options_of

REACHING = ("out", "log_sum_exp", "weights")
WANTED = [name for name in _fovea.members()["fovea_attention_gradients"] if name not in REACHING]
"""What there are gradients of; of a score's parameters by their names in the score."""
ENTRIES = ("query", "key", "value", "out", "log_sum_exp", "grad_out", "grad_log_sum_exp", "grad_weights", "projected_query",
           "projected_key", "valid_lens", "query_offsets")
"""Arrays whose first axis is the batch of a call."""
BROADCAST = ("mask", "bias")
"""Those that broadcast to [B, H, Q, K]."""
IN_FLOAT32 = ("alibi_slopes", "sinks", "sigmas")
"""Those that the library takes in float32 alone."""


def attention_backward(query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, *,
                       wanted: tuple[str, ...] = ("query", "key", "value"), grad_log_sum_exp: Array | None = None,
                       grad_weights: Array | None = None, projected_query: Array | None = None,
                       projected_key: Array | None = None, score: Score | None = None, context: Context | None = None,
                       **options: Unpack[AttentionOptions]) -> dict:
    """The backward pass of `fovea.attention`, with weights made again from log-sum-exp: no Q x K matrix is held.

        out, log_sum_exp = fovea.attention(query, key, value, return_log_sum_exp=True, is_causal=True)
        grads = fovea.attention_backward(query, key, value, out, log_sum_exp, grad_out, is_causal=True)

    grad_out: what the loss changes by for each element of out; grad_log_sum_exp [B, H, Q] and grad_weights [B, H, Q, K] (or
    [B, Q, K] of average weights, with return_weights="average"), where these reach it, too. score and options as in the forward
    call. projected_query, projected_key: what that call returned as such with an Additive or Concat score; where they are given
    they are not made again.
    wanted: of "query", "key", "value", "bias", "alibi_slopes", "sinks", and of the score's parameters "query_weight",
    "key_weight", "weight", "score_bias", "score_vector", "sigmas" ([1] of one sigma). Others are not computed.

    Returns {name: gradient} of arrays of query's library, of the element type of what each belongs to. The same bits for any
    number of threads.
    """
    call = Call((query, key, value, out, log_sum_exp), (grad_out, grad_log_sum_exp, grad_weights),
                (projected_query, projected_key), wanted, score, options)
    made = call.make()
    _fovea.attention_backward(handle_of(context), *call.arguments(made))
    return call.finish(made)


def plan_attention_backward(query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, *,
                            wanted: tuple[str, ...] = ("query", "key", "value"), grad_log_sum_exp: Array | None = None,
                            grad_weights: Array | None = None, projected_query: Array | None = None,
                            projected_key: Array | None = None, score: Score | None = None,
                            context: Context | None = None, **options: Unpack[AttentionOptions]) -> BackwardPlan:
    """Plans the call that `attention_backward` would make of such arrays, to be run often; see BackwardPlan."""
    call = Call((query, key, value, out, log_sum_exp), (grad_out, grad_log_sum_exp, grad_weights),
                (projected_query, projected_key), wanted, score, options)
    handle = _fovea.attention_backward_plan_create(handle_of(context), *call.arguments(call.make()))
    kept = taken_again(call.options, call.score) | call.projected | {
        "grad_" + name: array for name, array in call.reaching.items()}
    return BackwardPlan(call, _fovea.Plan(handle, kept, {}, as_array))


class BackwardPlan:
    """A checked call of `attention_backward` with everything but the data decided.

        run = fovea.plan_attention_backward(query, key, value, out, log_sum_exp, grad_out, is_causal=True)
        grads = run(query, key, value, out, log_sum_exp, grad_out)

    A run takes arrays of the shapes, strides and element types that were planned with. What options, the score, projections and
    other gradients were given is taken again in each run, unless it is given others by name, as in runs of a `fovea.plan`.
    """

    def __init__(self, call: Call, plan):
        self._call, self._plan = call, plan

    def __call__(self, query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, **others) -> dict:
        made = self._call.make()
        self._plan(query, key, value, out=out, log_sum_exp=log_sum_exp, grad_out=grad_out, **others,
                   **{"grad_" + name: array for name, array in made.items()})
        return self._call.finish(made)

    def describe(self) -> str:
        """One line: instruction set, splits, tasks, threads, bytes."""
        return self._plan.describe()

    @property
    def workspace_size(self) -> int:
        """Bytes of scratch memory a run needs."""
        return self._plan.workspace_size


class Call:
    """What a backward pass was called with."""

    def __init__(self, tensors, reaching, projected, wanted, score, options):
        names = ("query", "key", "value", "out", "log_sum_exp")
        self.tensors = {name: as_array(array, name) for name, array in zip(names, tensors)}
        query = self.query = self.tensors["query"]
        options = dict(options)
        averaged = options.pop("return_weights", None) == "average"
        for name in OUTPUTS:
            if "return_" + name in options:
                raise BadOption(f"return_{name}: a backward pass returns gradients alone")
        key_len = (shape_of(self.tensors["key"], "key")[-2:-1] or (0,))[0]
        self.options = read(options, shape_of(query, "query"), key_len, query)[0] if options else {}
        if averaged:
            self.options["flags"] = self.options.get("flags", 0) | _fovea.AVERAGE_WEIGHTS
        self.score = options_of(score) or {}
        self.projected = {name: as_array(array, name) for name, array in zip(KEPT, projected) if array is not None}
        self.reaching = {name: as_array(array, "grad_" + name) for name, array in zip(REACHING, reaching) if array is not None}
        known = dict.fromkeys(WANTED, True)
        for name in wanted:
            choice("wanted", name, known)
        self.wanted = wanted

    def make(self) -> dict:
        """Arrays for what is wanted."""
        given = {"score_bias" if name == "bias" else name: array for name, array in self.score.items()}
        given |= {name: self.options[name] for name in ("bias", "alibi_slopes", "sinks") if name in self.options}
        return {name: made_for(name, given | self.tensors, self.query) for name in self.wanted}

    def arguments(self, made: dict) -> tuple:
        """Those of the C function, but for the context."""
        given = self.tensors
        return (self.score or None, given["query"], given["key"], given["value"], given["out"],
                self.options | self.projected | {"log_sum_exp": given["log_sum_exp"]}, self.reaching | made)

    def finish(self, made: dict) -> dict:
        return {name: finished(array, self.query) for name, array in made.items()}


def made_for(name: str, tensors: dict, query: Array):
    """An array for the gradient of that tensor."""
    tensor = tensors.get(name)
    if name == "sigmas" and tensor is None:
        return float32((1,), query)
    if tensor is None:
        raise BadOption(f"wanted: {name!r} is not among what the call was given")
    return empty(shape_of(tensor, name), tensor, query)
