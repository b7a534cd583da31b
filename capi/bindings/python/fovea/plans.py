# SPDX-License-Identifier: Apache-2.0
"""Calls of attention that are planned once and run often."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, maker, shape_of
from .caches import PreparedKeys
from .contexts import Context, handle_of
from .options import AttentionOptions, read
from .scores import Score, options_of

Plan = _fovea.Plan


def plan(query: Array, key: Array | PreparedKeys, value: Array, *, score: Score | None = None, out: Array | None = None,
         context: Context | None = None, **options: Unpack[AttentionOptions]) -> Plan:
    """Plans the call that `fovea.attention` would make of such arrays: checks, tiles and paths are decided once.

        run = fovea.plan(query, key, value, is_causal=True)
        out = run(query, key, value)

    A run takes arrays of the shapes, strides and element types that were planned with. What options and the score were
    given is taken again in each run, unless it is given others by name: mask, bias, valid_lens, alibi_slopes, sinks,
    query_weight, key_weight, weight, score_bias, score_vector, sigmas. So a decoder plans once for the most keys there can
    be, and gives each run the valid_lens of the moment. Outputs are made anew in each run unless given: out=, weights=, ...
    Where `key` is PreparedKeys, runs take (query, value).
    Any number of threads may run one plan.
    """
    query, value = as_array(query), as_array(value)
    prepared = isinstance(key, PreparedKeys)
    key_len = len(key) if prepared else (shape_of(key)[-2:-1] or (0,))[0]
    shape = shape_of(query)[:-1] + shape_of(value)[-1:]
    model = empty(shape, query, value) if out is None else out
    read_options, outputs = read(options, shape_of(query), key_len, query) if options else ({}, [])
    score_options = options_of(score) or {}
    made = {name: maker(shape_of(array), array) for name, array in read_options.items() if _is_one_of(array, outputs)}
    made["out"] = maker(shape_of(model), query)
    if prepared:
        handle = _fovea.attention_prepared_plan_create(handle_of(context), query, key._handle, value, model, read_options)
        arrays = [("query", query, False), ("value", value, False), ("out", model, False)]
    else:
        key = as_array(key)
        handle = _fovea.attention_plan_create(handle_of(context), score_options or None, query, key, value, model,
                                              read_options)
        arrays = [("query", query, False), ("key", key, False), ("value", value, False), ("out", model, False)]
    arrays += [(name, array, name not in made) for name, array in read_options.items() if hasattr(array, "shape")]
    arrays += [("score_bias" if name == "bias" else name, array, True) for name, array in score_options.items()
               if hasattr(array, "shape")]
    return Plan(handle, arrays, made)


def _is_one_of(array, arrays) -> bool:
    return any(array is one for one in arrays)
