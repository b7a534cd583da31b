# SPDX-License-Identifier: Apache-2.0
"""The options that all kinds of attention share, and what they are in the C interface."""
from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from . import _fovea
from .arrays import Array, as_array, float32, float32_zeros, maker, shape_of
from .errors import BadValue


class AttentionOptions(TypedDict, total=False):
    """Keyword arguments of `fovea.attention` and of all that attends. B batch, H query heads, Q queries, K keys."""

    valid_lens: Array
    """[B] or [B, Q], int32 or int64: key j is attended if j < length. Work behind it is skipped."""
    mask: Array
    """bool [B, H, Q, K] or [Q, K], true: attend. Axes of size 1 but K's broadcast."""
    bias: Array
    """[B, H, Q, K] or [Q, K], added to the scores. Axes of size 1 but K's broadcast."""
    scale: float
    """Of the scores; by default 1 / sqrt(D) for the dot product, 1 for other score functions. 0: the mean of the values."""
    softcap: float
    """The limit that the logits approach, softcap * tanh(score / softcap); 0: none."""
    is_causal: bool
    """Attend key j only if j <= position of the query; by default the last query faces the last key."""
    top_left: bool
    """Query i stands at position i, whatever K is (PyTorch's is_causal)."""
    query_offset: int
    """Query i stands at position query_offset + i."""
    query_offsets: Array
    """[B], int32 or int64: query i of entry b stands at position query_offsets[b] + i."""
    window_left: int
    """Attend key j only if j >= position - window_left."""
    window_right: int
    """Attend key j only if j <= position + window_right."""
    leave_one_out: bool
    """Query i does not attend key i."""
    key_scales: Array
    """float16 [B, Hkv, K, D / group], exactly if key is int8: see `fovea.quantize`."""
    value_scales: Array
    """float16 [B, Hkv, K, Dv / group], exactly if value is int8."""
    alibi_slopes: Array
    """[H], ALiBi (Press et al. 2022)."""
    sinks: Array
    """[H], a logit that takes part in the softmax without a value."""
    empty_rows: Literal["zero", "uniform", "nan"]
    """What a query with nothing to attend gives: zeros, the mean of all values, or NaN."""
    dropout: float
    """Probability that a weight is dropped, in [0, 1)."""
    dropout_seed: int
    """The same weights are dropped for the same seed, whatever the threads or the instruction set."""
    query_invariant: bool
    """A query's result has the same bits however many queries the call has."""
    precision: Literal["default", "highest", "high", "medium", "int8"]
    """How exactly float32 arrays are multiplied; "medium" or "int8": their numbers may be rounded to bfloat16. Default: the
    context's."""
    return_log_sum_exp: bool
    """Return log sum_j exp(score) [B, H, Q], too."""
    return_weights: bool | Literal["average"]
    """Return the attention weights [B, H, Q, K], too; "average": their mean over the heads, [B, Q, K]."""
    return_scores: bool | Literal["raw", "capped", "logits"]
    """Return the scores [B, H, Q, K], too: "raw" (or True), after the soft-cap, or as the softmax is taken of them."""
    return_projected_query: bool
    """Return Wq q, for Concat with its bias, [B, H, Q, h], too: `attention_backward` takes it and does not make it again."""
    return_projected_key: bool
    """Return Wk k, [B, Hkv, K, h], likewise. Keys behind every valid length have zeros."""


FLAGS = {"is_causal": _fovea.CAUSAL, "top_left": _fovea.TOP_LEFT, "leave_one_out": _fovea.LEAVE_ONE_OUT,
         "query_invariant": _fovea.QUERY_INVARIANT}
SET_BY_VALUE = {"scale": _fovea.SCALE_GIVEN, "query_offset": _fovea.QUERY_OFFSET, "window_left": _fovea.WINDOW_LEFT,
                "window_right": _fovea.WINDOW_RIGHT}
EMPTY_ROWS = {"zero": _fovea.EMPTY_ROWS_ZERO, "uniform": _fovea.EMPTY_ROWS_UNIFORM, "nan": _fovea.EMPTY_ROWS_NAN}
PRECISIONS = {"default": _fovea.PRECISION_DEFAULT, "highest": _fovea.PRECISION_HIGHEST, "high": _fovea.PRECISION_HIGH,
              "medium": _fovea.PRECISION_MEDIUM, "int8": _fovea.PRECISION_INT8}
SCORES = {True: _fovea.SCORES_RAW, "raw": _fovea.SCORES_RAW, "capped": _fovea.SCORES_CAPPED,
          "logits": _fovea.SCORES_LOGITS}
MEMBERS = _fovea.members()["fovea_attention_options"]
OUTPUTS = [name for name, kind in MEMBERS.items() if kind == "output"]
"""In the order in which they are returned."""
KEPT = ("projected_query", "projected_key")
"""What score functions with hidden units make of queries and keys."""
NO_KEYWORD = ("flags", "scores_kind", *OUTPUTS)
"""Members that other keywords set."""


def choice(argument: str, value, choices: dict):
    """The number of a named choice."""
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise ValueError(f"{argument}: {value!r} is none of {', '.join(map(repr, choices))}") from None


DTYPES = {"float32": _fovea.F32, "float16": _fovea.F16, "bfloat16": _fovea.BF16, "int8": _fovea.I8, "uint8": _fovea.U8}


def dtype_number(argument: str, dtype, taken=("float32", "float16", "bfloat16")) -> int:
    """Of an element type: NumPy's, PyTorch's, ml_dtypes', or its name."""
    name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    if name not in taken:
        raise BadValue(f"{argument} is {dtype}, expected {', '.join(taken[:-1])} or {taken[-1]}")
    return DTYPES[name]


def size(argument: str, value: int | None, default: int = 0) -> int:
    """A size that the C interface takes 0 of for "not given": here that is None, and 0 is no size."""
    if value is None:
        return default
    if value == 0:
        raise BadValue(f"{argument} is 0, expected at least 1, or None")
    return value


def number(argument: str, value: int, bits: int = 32) -> int:
    """A whole number for ctypes, which would cut it to what fits."""
    given = operator.index(value)
    if not -(1 << bits - 1) <= given < 1 << bits - 1:
        raise BadValue(f"{argument}: {given} is out of range")
    return given


def handle_of(argument: str, given, kind):
    """What the C interface calls by pointer of an object of a class of the package, None of None."""
    if given is None:
        return None
    if not isinstance(given, kind):
        raise TypeError(f"{argument}: a fovea.{kind.__name__} is wanted, not {type(given).__name__}")
    return given._handle


def read(given: Mapping[str, Any], query_shape, key_len: int, like, key_shape=None, score=None) -> tuple[dict, list]:
    """(members of fovea_attention_options, the outputs beside `out`, which it makes) of keyword arguments. `like`: an array
    of the library that outputs shall be of. key_shape and score: where there are projections to be kept."""
    options: dict = {}
    flags = 0
    outputs = []
    for name, value in given.items():
        if name in FLAGS:
            flags |= FLAGS[name] if value else 0
        elif name == "empty_rows":
            options[name] = choice(name, value, EMPTY_ROWS)
        elif name == "precision":
            options[name] = choice(name, value, PRECISIONS)
        elif name.removeprefix("return_") in OUTPUTS and name.startswith("return_"):
            flags |= _fovea.AVERAGE_WEIGHTS if value == "average" else 0
        elif name in MEMBERS and name not in NO_KEYWORD:
            if value is None:
                continue
            flags |= SET_BY_VALUE.get(name, 0)
            options[name] = as_array(value, name) if MEMBERS[name] == "tensor" else value
        else:
            raise TypeError(f"attention has no option {name!r}; it has {', '.join(names())}")
    for name in OUTPUTS:
        wanted = given.get("return_" + name)
        if wanted is None or not wanted:
            continue
        if name in KEPT:  # what belongs to keys that nothing attends is not written
            outputs.append(float32_zeros(projected_shape(name, query_shape, key_shape, score), like))
        else:
            outputs.append(float32(output_shape(name, wanted, query_shape, key_len), like))
        options[name] = outputs[-1]
        if name == "scores":
            options["scores_kind"] = choice("return_scores", wanted, SCORES)
    if flags:
        options["flags"] = flags
    return options, outputs


def output_shape(name: str, wanted, query_shape, key_len: int) -> tuple:
    if name == "log_sum_exp":
        return tuple(query_shape[:-1])
    rows = tuple(query_shape[:-1])
    if wanted == "average" and len(rows) == 3:
        rows = (rows[0], rows[2])
    return rows + (key_len,)


def projected_shape(name: str, query_shape, key_shape, score) -> tuple:
    """For a score without hidden units something is made for the library to refuse with its own words."""
    rows = query_shape if name == "projected_query" or key_shape is None else key_shape
    vector = getattr(score, "score_vector", None)
    return tuple(rows[:-1]) + (shape_of(vector, "score_vector")[:1] if vector is not None else (1,))


def makers(options: dict) -> dict:
    """What makes the outputs that a plan's options have, anew for each run."""
    return {name: maker(shape_of(options[name]), options[name], zeros=name in KEPT) for name in OUTPUTS if name in options}


def names() -> list[str]:
    """The options that this build of the library has."""
    taken = [name for name in MEMBERS if name not in NO_KEYWORD]
    return list(FLAGS) + taken + ["return_" + name for name in OUTPUTS]
