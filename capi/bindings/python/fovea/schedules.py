# SPDX-License-Identifier: Apache-2.0
"""Attention over many sequences of different lengths at once: over a pool's pages, over pages of one's own, or over keys that lie
one sequence behind the other."""
from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from . import _fovea
from .arrays import Array, as_array, empty, features_of, float32, shape_of
from .attention import results
from .contexts import Context, handle_of
from .errors import BadValue
from .layers import rotary_options
from .options import OUTPUTS, AttentionOptions, dtype_number, read, size
from .pools import KVPool, NotCopied, Pages, Step, numpy_of
from .scores import Score, options_of

SHARED = ("alibi_slopes", "sinks")
"""Tensors of options that runs take, unless they are given others."""
SCALES = ("key_scales", "value_scales")


def _layout(argument: str, given, dtype):
    """A shape as a tensor without data; an array, whose layout counts, as it is."""
    if isinstance(given, (tuple, list)):
        return _fovea.layout(dtype_number("dtype", dtype, ("float32", "float16", "bfloat16", "int8")), tuple(given))
    return as_array(given, argument)


class Schedule(NotCopied):
    """A plan of attention whose sequences change from step to step.

        schedule = fovea.Schedule(query=(max_tokens, heads, head_dim), pool=pool, is_causal=True)
        schedule.set(pool.step({sequence: 1, other: 5}))
        for layer in range(pool.layers):
            schedule.append(layer, key, value, rotary={"base": 500000.0})    # [tokens, Hkv, D]
            out = schedule.run(query, layer)                                 # [tokens, H, D]

    It is made once for one kind of layer. query: the shape of the largest step's queries [T, H, D], of `dtype`, or an array,
    whose layout and element type count. Keys and values are a `pool`'s; or key and value are given, as shapes or arrays:
    packed, [N, Hkv, D] and [N, Hkv, Dv], one sequence behind the other, or pages, [P, Hkv, page, D] and [P, Hkv, page, Dv].
    sequences: the most of a step, the pool's unless given. key_len: the most positions of one; None: as many as there are.
    page_ids: the most pages of all together, where a shared page counts for each, and so does one that was dropped; None: what
    sequences of key_len have, but at most four times as many as there are.
    options: of AttentionOptions is_causal, top_left, windows, scale, softcap, alibi_slopes, sinks, query_invariant, precision,
    empty_rows, key_scales, value_scales, leave_one_out and return_log_sum_exp. score: over packed keys any.

    Positions are each sequence's own, and so are the bits of its result: they depend neither on its neighbours nor on threads.
    Any number of threads may run a schedule at once; setting one that is in use is an error.
    """

    _instead = "; make another"

    def __init__(self, *, query, pool: KVPool | None = None, key=None, value=None, dtype: Any = "float32",
                 sequences: int | None = None, key_len: int | None = None, page_ids: int | None = None,
                 score: Score | None = None, out: Array | None = None, context: Context | None = None,
                 **options: Unpack[AttentionOptions]):
        query = _layout("query", query, dtype)
        dtype = getattr(query, "dtype", dtype)
        given: dict = dict(options)
        if pool is not None:
            key, value, *scales = self._pages_of_pool(pool, key, value)
            given.update({name: one for name, one in zip(SCALES, scales) if one is not None})
            sequences = pool.sequences if sequences is None else sequences
        if key is None or value is None or sequences is None:
            raise TypeError("a schedule is made with a pool, or with key, value and sequences")
        key, value = _layout("key", key, dtype), _layout("value", value, dtype)
        query_shape = shape_of(query, "query")
        self._value_dim = features_of(value, given.get("value_scales"))
        out = _layout("out", query_shape[:-1] + self._value_dim, dtype) if out is None else out
        read_options = read(given, query_shape, 0, np.empty(0, np.float32))[0] if given else {}
        self._outputs = [name for name in OUTPUTS if name in read_options]
        self._shared = {name: read_options[name] for name in SHARED if name in read_options}
        limits = {"sequences": sequences, "key_len": size("key_len", key_len), "page_ids": size("page_ids", page_ids)}
        self._pool = pool
        self._step: Step | None = None
        self._tokens = 0
        self._handle = _fovea.schedule_create(handle_of(context), options_of(score), query, key, value, out, read_options,
                                              limits)

    @staticmethod
    def _pages_of_pool(pool, key, value):
        if not isinstance(pool, KVPool):
            raise TypeError(f"pool: a fovea.KVPool is wanted, not {type(pool).__name__}")
        if key is not None or value is not None:
            raise TypeError("key, value: None is expected where there is a pool")
        return pool._pages[0]

    def set(self, step: Step | None = None, *, query_starts: Array | None = None, key_starts: Array | None = None,
            key_lens: Array | None = None, page_ids: Array | None = None, page_starts: Array | None = None,
            tree: Array | None = None) -> None:
        """Sets a step: a pool's, or what it is of whole numbers. query_starts [S + 1]: sequence s has the tokens from
        query_starts[s] to query_starts[s + 1] - 1. Packed keys: key_starts [S + 1], likewise. Pages: key_lens [S], each
        sequence's positions, those of its new tokens included, and page_ids, [S, most] or, with page_starts [S + 1], one
        sequence's behind the other's. tree [T], int64: draft tokens, bit j of each: it attends its sequence's token j of this
        step. After an error the step before is set still."""
        given = {"query_starts": query_starts, "key_starts": key_starts, "key_lens": key_lens, "page_ids": page_ids,
                 "page_starts": page_starts}
        members = {name: as_array(array, name) for name, array in given.items() if array is not None}
        if step is not None:
            if members:
                raise TypeError(f"{', '.join(members)}: None is expected beside a pool's step")
            if not isinstance(step, Step):
                raise TypeError(f"step: a fovea.Step is wanted, not {type(step).__name__}")
            if step.pool is not self._pool:
                raise BadValue("step: of another pool than the schedule's")
            self._expect_current(step)
            members = dict(step._members)
        if tree is not None:
            members["tree"] = as_array(tree, "tree")
        _fovea.schedule_set(self._handle, members)
        self._step = step
        self._tokens = _fovea.schedule_positions(self._handle).shape[0]

    @staticmethod
    def _expect_current(step: Step | None) -> None:
        if step is not None and not step.is_current:
            raise BadValue("step: it is out of date: one of its sequences has changed since the pool made it")

    @property
    def positions(self) -> np.ndarray:
        """[tokens], int32: where each token of the present step stands in its sequence."""
        return numpy_of(_fovea.schedule_positions(self._handle))

    @property
    def tokens(self) -> int:
        """How many the present step has."""
        return self._tokens

    def append(self, layer: Pages, key: Array, value: Array | None = None, *, rotary: dict | None = None) -> None:
        """Writes one layer's new keys [tokens, Hkv, D] and values [tokens, Hkv, Dv] into its pages: the number of a pool's
        layer, or its (keys, values[, key scales, value scales]). rotary: keyword arguments of fovea.rotary, by which keys are
        turned on the way, at `positions`. value None, and pages that are arrays: latent attention, whose values are the first
        features of keys' rows, as views of which they were planned; keys alone are written."""
        key_pages, value_pages, *scales = self._arrays(layer)
        if value is None and isinstance(layer, (tuple, list)):
            value_pages = None
        options = dict(zip(SCALES, scales))
        if rotary is not None:
            options["rotary"] = rotary_options(**rotary)
        _fovea.schedule_append(self._handle, as_array(key, "key"), as_array(value, "value"), key_pages, value_pages, options)

    def run(self, query: Array, layer: Pages, *, out: Array | None = None, log_sum_exp: Array | None = None,
            alibi_slopes: Array | None = None, sinks: Array | None = None):
        """Attends for one layer: query [n, H, D], n at least the tokens of the present step, to the layer of the pool of this
        number, or to (keys, values[, key scales, value scales]) laid out as what the schedule was made with. Returns
        out [n, H, Dv]; with return_log_sum_exp (out, log_sum_exp [n, H]). Rows past the step's tokens are 0 where they are
        made here, and not written where they are given. alibi_slopes and sinks: others than those it was made with."""
        query = as_array(query, "query")
        key, value, *scales = self._arrays(layer)
        shape = shape_of(query, "query")
        arrays = {"query": query, "key": key, "value": value, **self._shared}
        if scales:
            arrays.update({name: one for name, one in zip(SCALES, scales) if one is not None})
        if alibi_slopes is not None:
            arrays["alibi_slopes"] = as_array(alibi_slopes, "alibi_slopes")
        if sinks is not None:
            arrays["sinks"] = as_array(sinks, "sinks")
        made = []
        if out is None:
            out = empty(shape[:-1] + self._value_dim, query)
            made.append(out)
        if log_sum_exp is None and "log_sum_exp" in self._outputs:
            log_sum_exp = float32(shape[:-1], query)
            made.append(log_sum_exp)
        arrays["out"] = out
        if log_sum_exp is not None:
            arrays["log_sum_exp"] = log_sum_exp
        if made and shape and shape[0] > self._tokens:
            for array in made:
                array[self._tokens:] = 0
        _fovea.schedule_run(self._handle, arrays)
        return results(query, out, [] if log_sum_exp is None else [log_sum_exp])

    def _arrays(self, layer: Pages) -> tuple:
        self._expect_current(self._step)
        if isinstance(layer, (tuple, list)):
            if len(layer) not in (2, 4):
                raise TypeError(f"layer: keys and values are wanted, and scales of both or none, not {len(layer)} arrays")
            return tuple(as_array(array, name) for array, name in zip(layer, ("key", "value", *SCALES)))
        if self._pool is None:
            raise TypeError("layer: (keys, values) is wanted, as the schedule was made without a pool")
        return self._pool._pages[layer]

    def describe(self) -> str:
        """One line on the present step: instruction set, kernels, sequences, tokens, tasks, threads, bytes."""
        text = bytearray(_fovea.schedule_describe(self._handle, None) + 1)
        _fovea.schedule_describe(self._handle, text)
        return text.rstrip(b"\0").decode()

    @property
    def workspace_size(self) -> int:
        """Bytes of scratch memory that a run of the present step needs, which come from the context."""
        return _fovea.schedule_workspace_size(self._handle)

    @property
    def tasks(self) -> tuple[int, ...]:
        """How many tasks each phase of a run has."""
        return tuple(_fovea.schedule_tasks(self._handle, phase) for phase in range(_fovea.schedule_phases(self._handle)))


def varlen_attention(query: Array, key: Array, value: Array, cu_seqlens_q: Array, cu_seqlens_k: Array, *,
                     score: Score | None = None, out: Array | None = None, context: Context | None = None,
                     **options: Unpack[AttentionOptions]):
    """Attention of sequences of different lengths that lie one behind the other, in one call.

    query [total_q, H, D], key [total_k, Hkv, D], value [total_k, Hkv, Dv], returns [total_q, H, Dv], or with
    return_log_sum_exp (out, log_sum_exp [total_q, H]). cu_seqlens_q, cu_seqlens_k [S + 1], from 0, never falling: sequence s
    has the queries from cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1, and the keys likewise. score and options as in
    `fovea.Schedule`: where sequences keep coming, make one of these.
    """
    query, key, value = as_array(query, "query"), as_array(key, "key"), as_array(value, "value")
    cu_seqlens_q, cu_seqlens_k = as_array(cu_seqlens_q, "cu_seqlens_q"), as_array(cu_seqlens_k, "cu_seqlens_k")
    sequences = max((shape_of(cu_seqlens_q, "cu_seqlens_q")[:1] or (0,))[0] - 1, 1)
    if out is None:
        features = features_of(value, options.get("value_scales"))
        out = empty(shape_of(query, "query")[:-1] + features, query, key, value)
    schedule = Schedule(query=query, key=key, value=value, out=out, sequences=sequences, score=score, context=context, **options)
    schedule.set(query_starts=cu_seqlens_q, key_starts=cu_seqlens_k)
    layer = (key, value, options.get("key_scales"), options.get("value_scales"))
    return schedule.run(query, layer, out=out)
