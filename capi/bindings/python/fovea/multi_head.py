# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention."""
from __future__ import annotations

import math
from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, float32, shape_of
from .attention import results
from .contexts import Context
from .contexts import handle_of as context_of
from .copies import Packed
from .layers import LAYOUTS, Layout, rotary_options
from .mha_plans import MultiHeadPlan, of_sequences, owned, page_arrays
from .options import PRECISIONS, AttentionOptions, choice, handle_of, read, size
from .pools import Pages
from .schedules import Schedule
from .scores import Score, options_of

PARAMETERS = ("query_weight", "key_weight", "value_weight", "in_weight", "out_weight", "query_bias", "key_bias", "value_bias",
              "in_bias", "out_bias")
ROTARY_ARRAYS = ("positions", "frequencies", "sections", "cosines", "sines")


def attention_options(query, key, heads: tuple[int, int], given: dict, score: Score | None = None) -> tuple[dict | None, list]:
    """(fovea_attention_options, the outputs beside out) of keywords, for the heads that a layer makes of query and of key."""
    shape = shape_of(query, "query")
    key_shape = shape if key is None else shape_of(key, "key")
    sequences = [one if len(one) == 3 else (1,) + one for one in (shape, key_shape)]
    heads_shape, key_heads_shape = ((one[0], count) + one[1:] for one, count in zip(sequences, heads))
    return read(given, heads_shape, (key_shape[-2:-1] or (0,))[0], query, key_heads_shape, score) if given else (None, [])


class MultiHeadAttention(Packed):
    """concat_h(attention(x_q Wq_h, x_k Wk_h, x_v Wv_h)) Wo (Vaswani et al. 2017), with weights that are packed once.

    heads: H; kv_heads: Hkv, a divisor of it. Weights are [out, in], or [in, out] with that layout:
      query_weight [H D, Eq], key_weight [Hkv Dk, Ek], value_weight [Hkv Dv, Ev], or all three in one, in_weight
      [(H + 2 Hkv) D, E]; out_weight [Eo, H Dv], None: the heads side by side. Biases are as long as their weight's out.
    precision "medium": float32 weights become bfloat16, half the memory, where the processor multiplies that, and calls
    round what else is float32, too; "int8": weights of any type become 8-bit numbers; "default": the context's.
    It never changes: a copy is the layer itself.
    """

    _packed_from = "what it was made of"

    def __init__(self, heads: int, *, query_weight: Array | None = None, key_weight: Array | None = None,
                 value_weight: Array | None = None, in_weight: Array | None = None, out_weight: Array | None = None,
                 query_bias: Array | None = None, key_bias: Array | None = None, value_bias: Array | None = None,
                 in_bias: Array | None = None, out_bias: Array | None = None, kv_heads: int | None = None,
                 layout: Layout = "out_in", precision: str = "default", context: Context | None = None):
        self.heads, self.kv_heads = heads, size("kv_heads", kv_heads, heads)
        given = dict(zip(PARAMETERS, (query_weight, key_weight, value_weight, in_weight, out_weight, query_bias, key_bias,
                                      value_bias, in_bias, out_bias)))
        parameters = {"layout": choice("layout", layout, LAYOUTS), "heads": heads, "kv_heads": size("kv_heads", kv_heads),
                      "precision": choice("precision", precision, PRECISIONS),
                      **{name: as_array(array, name) for name, array in given.items()}}
        self._handle = _fovea.mha_weights_create(context_of(context), parameters)
        self._context = context
        self._batch_first = True
        axis = 0 if layout == "out_in" else 1
        self.out_features = self._out_features(parameters, axis)
        self._kept_features = self._features_of_heads(parameters, axis)

    def _out_features(self, given: dict, axis: int) -> int:
        if given["out_weight"] is not None:
            return shape_of(given["out_weight"])[axis]
        if given["value_weight"] is not None:
            return shape_of(given["value_weight"])[axis] // self.kv_heads * self.heads
        return shape_of(given["in_weight"])[axis] // (self.heads + 2 * self.kv_heads) * self.heads

    def _features_of_heads(self, given: dict, axis: int) -> tuple[int, int, int]:
        """Of all heads of queries, of keys and of values."""
        if given["in_weight"] is not None:
            dim = shape_of(given["in_weight"])[axis] // (self.heads + 2 * self.kv_heads)
            return self.heads * dim, self.kv_heads * dim, self.kv_heads * dim
        return tuple(shape_of(given[name])[axis] for name in ("query_weight", "key_weight", "value_weight"))

    @classmethod
    def from_torch(cls, module, *, precision: str = "default", context: Context | None = None) -> MultiHeadAttention:
        """Of a torch.nn.MultiheadAttention, whose weights are copied, of 16 bits as such. It is called as the module is, with
        arrays of the same layout: [B, L, E] if it is batch_first, else [L, B, E]."""
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError("module: add_bias_kv and add_zero_attn are not supported")
        if module.training and module.dropout:
            raise ValueError("module: it is in training mode and has dropout; call module.eval()")

        def numbers(parameter):
            if parameter is None:
                return None
            parameter = parameter.detach().cpu()
            return parameter if parameter.dtype.is_floating_point and parameter.itemsize in (2, 4) else parameter.float()

        separate = module.in_proj_weight is None
        names = {"query_weight": "q_proj_weight", "key_weight": "k_proj_weight", "value_weight": "v_proj_weight"}
        weights = {name: numbers(getattr(module, torch_name)) for name, torch_name in names.items()} if separate else {
            "in_weight": numbers(module.in_proj_weight)}
        in_bias = numbers(module.in_proj_bias)
        if separate and in_bias is not None:
            weights.update(zip(("query_bias", "key_bias", "value_bias"), in_bias.chunk(3)))
            in_bias = None
        layer = cls(module.num_heads, out_weight=numbers(module.out_proj.weight), in_bias=in_bias,
                    out_bias=numbers(module.out_proj.bias), precision=precision, context=context, **weights)
        layer._batch_first = module.batch_first
        return layer

    def __call__(self, query: Array, key: Array | None = None, value: Array | None = None, *,
                 score: Score | None = None, rotary: dict | None = None, schedule: Schedule | None = None,
                 pages: Pages | None = None, keep_pages: bool = False, return_kept: bool = False, out: Array | None = None,
                 context: Context | None = None, **options: Unpack[AttentionOptions]):
        """query [B, Q, Eq], key [B, K, Ek], value [B, K, Ev], returns [B, Q, Eo]; or all of rank 2, one sequence.

        key None: query (self-attention); value None: key. score serves all heads. rotary: keyword arguments of
        fovea.rotary, by which projected queries and keys are turned. options: as in fovea.attention, for query [B, H, Q, D],
        B being 1 for one sequence, whose outputs come without that axis; precision is that of the whole call, by default that
        of the weights.

        schedule: many sequences at once, query [T, Eq] being the tokens of its present step; attention is the schedule's, and
        of options only alibi_slopes and sinks are for the call. pages: where it was made for pages, the pool's layer, or its
        (keys, values[, key scales, value scales]): projected keys and values are appended to them, then all is attended; with
        keep_pages nothing is appended. Rotary turns by each sequence's own positions.

        return_kept: a float32 array, too, last, of what `multi_head_attention_backward` would compute again.
        """
        query, key, value = (self._rows_inside(as_array(x, name))
                             for name, x in (("query", query), ("key", key), ("value", value)))
        out = self._out(query, out)
        read_options, outputs = self._options(query, key, score=score, rotary=rotary, schedule=schedule, pages=pages,
                                              keep_pages=keep_pages, given=options)
        kept = [float32((self._kept_count(query, key),), query)] if return_kept else []
        _fovea.multi_head_attention(context_of(self._context if context is None else context), self._handle, query, key, value,
                                    out, read_options | dict(zip(("kept",), kept)))
        return results(query, self._rows_inside(out), of_sequences(query, outputs) + kept)

    def plan(self, query: Array, key: Array | None = None, value: Array | None = None, *, score: Score | None = None,
             rotary: dict | None = None, schedule: Schedule | None = None, pages: Pages | None = None, keep_pages: bool = False,
             out: Array | None = None, context: Context | None = None, **options: Unpack[AttentionOptions]) -> MultiHeadPlan:
        """Plans the call that the layer would make of such arrays: all is checked, and its scratch memory laid out, once.

            run = layer.plan(query, schedule=schedule, pages=0, rotary={"base": 500000.0})
            out = run(query[:schedule.tokens], pages=0)

        A run takes arrays of the shapes, strides and element types that were planned with; what options and the score were
        given again, unless it is given others by name. rotary's arrays are copied. With a schedule query is one for the most
        tokens that a step may have, and each run is of its present step; pages are of any layer, which each run is given its
        own of. Any number of threads may run one plan; a copy is the plan itself."""
        query, key, value = (self._rows_inside(as_array(x, name))
                             for name, x in (("query", query), ("key", key), ("value", value)))
        if rotary is not None:
            rotary = {name: owned(as_array(x, name)) if name in ROTARY_ARRAYS else x for name, x in rotary.items()}
        read_options, _ = self._options(query, key, score=score, rotary=rotary, schedule=schedule, pages=pages,
                                        keep_pages=keep_pages, given=options)
        handle = _fovea.mha_plan_create(context_of(self._context if context is None else context), self._handle, query, key,
                                        value, self._out(query, out), read_options)
        return MultiHeadPlan(self, handle, read_options, schedule)

    def _kept_count(self, query, key) -> int:
        rows, key_rows = (math.prod(shape_of(x, name)[:-1])
                          for x, name in ((query, "query"), (query if key is None else key, "key")))
        queries, keys, values = self._kept_features
        return rows * (queries + values // self.kv_heads * self.heads + self.heads) + key_rows * (keys + values)

    def _out(self, query, out):
        """Of the rows that the query has, [B, L, E]."""
        if out is not None:
            return self._rows_inside(out)
        return self._rows_inside(empty(self._turned(shape_of(query, "query")[:-1] + (self.out_features,)), query))

    def _options(self, query, key, *, score, rotary, schedule, pages, keep_pages, given) -> tuple[dict, list]:
        """(fovea_mha_options, the outputs beside out) of a call's keywords."""
        given = dict(given)
        precision = choice("precision", given.pop("precision", "default"), PRECISIONS)
        if schedule is not None:
            given = {**getattr(schedule, "_shared", {}), **given}
        attention, outputs = attention_options(query, key, (self.heads, self.kv_heads), given, score)
        return {"flags": _fovea.MHA_KEEP_PAGES if keep_pages else 0, "attention": attention, "score": options_of(score),
                "rotary": None if rotary is None else rotary_options(**rotary), "precision": precision,
                "schedule": handle_of("schedule", schedule, Schedule), **page_arrays(schedule, pages)}, outputs

    def _turned(self, shape):
        return shape if self._batch_first or len(shape) < 3 else (shape[1], shape[0]) + tuple(shape[2:])

    def _rows_inside(self, x):
        """[L, B, E] as [B, L, E], or the other way round, where the module it came from is not batch_first."""
        return x if x is None or self._batch_first or len(shape_of(x, "x")) < 3 else x.swapaxes(0, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of packed weights."""
        return _fovea.mha_weights_size(self._handle)
