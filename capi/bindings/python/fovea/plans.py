# SPDX-License-Identifier: Apache-2.0
"""Calls of attention that are planned once and run often."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, features_of, maker, shape_of
from .contexts import Context, handle_of
from .errors import BadOption
from .options import MEMBERS, AttentionOptions, makers, read
from .prepared_keys import PreparedKeys
from .scores import Score, options_of

Plan = _fovea.Plan
SCORE_MEMBERS = _fovea.members()["fovea_score"]


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
    Any number of threads may run one plan; a copy is the plan itself.
    """
    query, value = as_array(query, "query"), as_array(value, "value")
    prepared = isinstance(key, PreparedKeys)
    key_len = len(key) if prepared else (shape_of(key, "key")[-2:-1] or (0,))[0]
    shape = shape_of(query, "query")[:-1] + features_of(value, options.get("value_scales"))
    model = empty(shape, query, value) if out is None else out
    key_shape = None if prepared else shape_of(key, "key")
    read_options = read(options, shape_of(query, "query"), key_len, query, key_shape, score)[0] if options else {}
    score_options = options_of(score) or {}
    made = makers(read_options)
    made["out"] = maker(shape_of(model), query if out is None else out)
    if prepared:
        if score is not None:
            raise BadOption("score: None is expected where key is PreparedKeys, which were made for one")
        handle = _fovea.attention_prepared_plan_create(handle_of(context), query, key._handle, value, model, read_options)
    else:
        handle = _fovea.attention_plan_create(handle_of(context), score_options or None, query, as_array(key, "key"), value,
                                              model, read_options)
    return Plan(handle, taken_again(read_options, score_options), made, as_array)


def taken_again(options: dict, score: dict) -> dict:
    """The tensors of options and of a score, as the C interface has them, that runs take unless they are given others."""
    kept = {name: array for name, array in options.items() if MEMBERS[name] == "tensor"}
    return kept | {"score_bias" if name == "bias" else name: array for name, array in score.items()
                   if SCORE_MEMBERS[name] == "tensor"}
