# SPDX-License-Identifier: Apache-2.0
"""Batches of torch.func.vmap: joined with the batch of a call where each entry is computed for itself, else one call after
another."""
from __future__ import annotations

import torch

from ..gradients import BROADCAST, ENTRIES


def in_front(x, dim, count):
    """A batch of a vmap, whose axis may be anywhere or nowhere, as [count, ...]."""
    return x.expand(count, *x.shape) if dim is None else x.movedim(dim, 0)


def may_be_folded(call, dims, wanted) -> bool:
    """Not where the batch has parameters of its own, or wants gradients of them, or drops weights, which go by entry."""
    own = {name for name, dim in dims.items() if dim is not None}
    return not call["dropout"] and own <= {*ENTRIES, *BROADCAST} and {*wanted} <= {"query", "key", "value", "bias"}


def folded(operator, call, dims, count, wanted):
    """One call with a batch of count B."""
    call, batch = dict(call), in_front(call["query"], dims["query"], count).shape[1]
    bias = call["bias"]
    for name in ENTRIES:
        if call.get(name) is not None:
            call[name] = in_front(call[name], dims[name], count).flatten(0, 1)
    for name in BROADCAST:
        if call[name] is not None:
            x = in_front(call[name], dims[name], count)
            x = x if x.dim() == 5 else x.view(count, 1, 1, *x.shape[1:])
            call[name] = x.expand(count, batch, *x.shape[2:]).flatten(0, 1)
    results = operator(*call.values())
    parts = [x.unflatten(0, (count, batch)) if x.dim() > 1 else x for x in results]
    if "bias" in wanted:
        at, shape = wanted.index("bias"), list(bias.shape)
        if dims["bias"] is not None:
            del shape[dims["bias"]]
        parts[at] = _summed(parts[at], shape)
    return _alike(results, parts), _alike(results, [0 if x.dim() > 1 else None for x in results])


def _summed(gradient, shape):
    """[count, B, H, Q, K] over the batch, where the bias has none."""
    if len(shape) == 2 or shape[0] == 1:
        gradient = gradient.sum(1, keepdim=True)
    return gradient.reshape(gradient.shape[0], *shape)


def looped(operator, call, dims, count, wanted):
    """count calls."""
    results = []
    for n in range(count):
        results.append(operator(*[x if dims[name] is None else x.select(dims[name], n) for name, x in call.items()]))
    stacked = [torch.stack(parts) for parts in zip(*results)]
    return _alike(results[0], stacked), _alike(results[0], [0] * len(stacked))


def _alike(results, parts):
    return tuple(parts) if isinstance(results, tuple) else parts
