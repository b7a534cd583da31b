# SPDX-License-Identifier: Apache-2.0
"""Calls of multi-head attention that are planned once and run often."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import _fovea
from .arrays import Array, as_array, empty, shape_of, torch_of
from .attention import results
from .copies import Shared
from .options import makers
from .plans import taken_again
from .pools import Pages
from .schedules import Schedule

if TYPE_CHECKING:
    from .multi_head import MultiHeadAttention


def owned(array):
    """A copy that nobody else can write to: the library reads it in every run."""
    if array is None or type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return array
    return array.detach().clone() if torch_of(array) is not None else np.array(array)


def of_sequences(query, outputs: list) -> list:
    """Outputs [B, ...] as the caller gets them: of one sequence, query being of rank 2, without that axis."""
    return outputs if len(shape_of(query, "query")) == 3 else [array[0] for array in outputs]


class MultiHeadPlan(Shared):
    """A checked call of multi-head attention with everything but the data decided; see MultiHeadAttention.plan."""

    def __init__(self, layer: MultiHeadAttention, handle, options: dict, schedule: Schedule | None):
        self._layer, self._handle, self._schedule = layer, handle, schedule
        self._rotary = options["rotary"]  # whose arrays the library goes on reading
        attention = options["attention"] or {}
        self._kept = taken_again(attention, options["score"] or {})
        self._makers = makers(attention)
        self._spare: list = []

    def __call__(self, query: Array, key: Array | None = None, value: Array | None = None, *, pages: Pages | None = None,
                 out: Array | None = None, workspace: Array | None = None, **arrays: Array | None):
        """Runs the call on arrays of the shapes, strides and element types that were planned; of a schedule's present step on
        as many rows as it has tokens, or more. key and value as they were planned, pages those of the layer. arrays: others
        than was planned with, by the names that a run of fovea.plan has, outputs among them. workspace: bytes to write to,
        workspace_size of them; None: the plan's own, one for each thread that runs it at once."""
        layer = self._layer
        given = {name: layer._rows_inside(as_array(array, name))
                 for name, array in (("query", query), ("key", key), ("value", value)) if array is not None}
        rows = given["query"]
        out = self._made_out(rows) if out is None else layer._rows_inside(out)
        given |= {"out": out, **self._kept, **self._pages(pages)}
        given |= {name: as_array(array, name) for name, array in arrays.items() if array is not None}
        for name, (make, arguments) in self._makers.items():
            if name not in given:
                given[name] = make(*arguments)
        if workspace is None:
            self._run_with_spare(given)
        else:
            _fovea.mha_run(self._handle, given, workspace)
        return results(rows, layer._rows_inside(out), of_sequences(rows, [given[name] for name in self._makers]))

    def _made_out(self, rows):
        layer = self._layer
        out = layer._rows_inside(empty(layer._turned(shape_of(rows, "query")[:-1] + (layer.out_features,)), rows))
        if self._schedule is not None:
            out[self._schedule.tokens:] = 0
        return out

    def _pages(self, pages: Pages | None) -> dict:
        return {name: array for name, array in page_arrays(self._schedule, pages).items() if array is not None}

    def _run_with_spare(self, given: dict) -> None:
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        size = self.workspace_size
        if memory.nbytes < size:
            memory = np.empty(size, np.uint8)
        try:
            _fovea.mha_run(self._handle, given, memory)
        finally:
            self._spare.append(memory)

    @property
    def workspace_size(self) -> int:
        """Bytes of scratch memory that a run needs, with a schedule one of its present step."""
        return _fovea.mha_plan_workspace_size(self._handle)

    def __reduce_ex__(self, protocol):
        raise TypeError("a MultiHeadPlan cannot be pickled: it is made for this machine's instruction set; plan the call again")


def page_arrays(schedule: Schedule | None, pages: Pages | None) -> dict:
    """The pages as the C interface has them."""
    if pages is None:
        return {}
    if schedule is None:
        raise TypeError("pages: None is expected without a schedule")
    return dict(zip(("key_pages", "value_pages", "key_scales", "value_scales"), schedule._arrays(pages)))
