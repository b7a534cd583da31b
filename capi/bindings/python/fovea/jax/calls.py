# SPDX-License-Identifier: Apache-2.0
"""What JAX calls back: attention and its backward pass, of NumPy's arrays by their names.

Axes that jax.vmap has put in front of all arrays, of size 1 where it does not go along one, are joined with the batch where
each of its entries is computed for itself; else there is one call after another. Callbacks that do the same are equal, so that
JAX compiles them once.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..attention import attention
from ..gradients import BROADCAST, ENTRIES, attention_backward, plan_attention_backward
from ..plans import plan
from ..scores import Additive, Concat

PARAMETERS = ("query_weight", "key_weight", "weight", "score_bias", "score_vector", "sigmas")


@dataclass(frozen=True)
class Call:
    """What a call is given that is no array: its score function, and numbers."""

    kind: type | None
    sigma: float | None
    numbers: tuple[tuple[str, Any], ...]

    def given(self, arrays) -> dict:
        """Arguments of `fovea.attention` and its backward pass."""
        parameters = {"bias" if name == "score_bias" else name: arrays[name] for name in PARAMETERS if name in arrays}
        if self.sigma is not None:
            parameters["sigma"] = self.sigma
        given = {name: x for name, x in arrays.items() if name not in PARAMETERS}
        if "dropout_seed" in given:
            given["dropout_seed"] = int.from_bytes(given["dropout_seed"].tobytes(), "little")
        return given | dict(self.numbers) | {"score": self.kind and self.kind(**parameters)}

    @property
    def keeps(self) -> bool:
        """Whether there are projections to be kept."""
        return self.kind in (Additive, Concat)

    @property
    def drops(self) -> bool:
        return bool(dict(self.numbers).get("dropout"))


@dataclass(frozen=True)
class Forward:
    """Those named of out, log-sum-exp, weights and projections."""

    call: Call
    returned: tuple[str, ...]
    wanted = ()

    def check(self, arrays) -> list:
        """Shapes and element types of what will be returned; raises what the library says of arrays of such shapes."""
        arrays = _blank(arrays)
        plan(**self._given(arrays))
        query, key, value = (arrays[name] for name in ("query", "key", "value"))
        rows = query.shape[:3]
        found = {"out": (rows + value.shape[3:], query.dtype), "log_sum_exp": (rows, np.float32),
                 "weights": (rows + key.shape[2:3], np.float32)}
        if self.call.keeps:
            units = arrays["score_vector"].shape
            found |= {"projected_query": (rows + units, np.float32), "projected_key": (key.shape[:3] + units, np.float32)}
        return [found[name] for name in self.returned]

    def __call__(self, arrays):
        return batched(self, arrays)

    def run(self, arrays) -> list:
        results = attention(**self._given(arrays))
        return list(results) if isinstance(results, tuple) else [results]

    def _given(self, arrays) -> dict:
        return self.call.given(arrays) | {"return_" + name: True for name in self.returned if name != "out"}


@dataclass(frozen=True)
class Backward:
    """The gradients of those named."""

    call: Call
    wanted: tuple[str, ...]

    def check(self, arrays) -> list:
        plan_attention_backward(wanted=self.wanted, **self.call.given(_blank(arrays)))
        return [(arrays[name].shape, arrays[name].dtype) for name in self.wanted]

    def __call__(self, arrays):
        return batched(self, arrays)

    def run(self, arrays) -> list:
        return list(attention_backward(wanted=self.wanted, **self.call.given(arrays)).values())


def _blank(arrays) -> dict:
    """Zeros of the shapes and types of what is traced."""
    return {name: np.zeros(x.shape, x.dtype) for name, x in arrays.items()}


def batched(call, arrays) -> list:
    """call.run(arrays), over the axes in front of the rank 4 that query has."""
    arrays = {name: np.asarray(x) for name, x in arrays.items()}
    front = arrays["query"].ndim - 4
    if front == 0:
        return call.run(arrays)
    sizes = np.broadcast_shapes(*(x.shape[:front] for x in arrays.values()))
    if _may_be_folded(call, arrays, front):
        results = call.run(_folded(arrays, sizes))
        return [x.reshape(sizes + (x.shape[0] // max(prod(sizes), 1),) + x.shape[1:]) for x in results]
    results = [call.run({name: x[_place(at, x)] for name, x in arrays.items()}) for at in np.ndindex(*sizes)]
    return [np.stack(parts).reshape(sizes + parts[0].shape) for parts in zip(*results)]


def _may_be_folded(call, arrays, front) -> bool:
    """Not where samples have parameters of their own, or want gradients of them or of a bias that serves all entries, or drop
    weights, which go by entry."""
    own = {name for name, x in arrays.items() if prod(x.shape[:front]) != 1}
    shared_bias = "bias" in call.wanted and arrays["bias"].shape[front] != arrays["query"].shape[front]
    return (not call.call.drops and not shared_bias and own <= {*ENTRIES, *BROADCAST} and
            {*call.wanted} <= {"query", "key", "value", "bias"})


def _folded(arrays, sizes) -> dict:
    """With a batch of prod(sizes) B."""
    front, (batch,) = len(sizes), arrays["query"].shape[len(sizes):len(sizes) + 1]
    folded = {}
    for name, x in arrays.items():
        if name in ENTRIES or name in BROADCAST:
            rest = (batch,) + x.shape[front + 1:]
            folded[name] = np.broadcast_to(x, sizes + rest).reshape((prod(sizes) * batch,) + rest[1:])
        else:
            folded[name] = x.reshape(x.shape[front:])
    return folded


def _place(at, x):
    return tuple(n if size != 1 else 0 for n, size in zip(at, x.shape))
