# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 bits, or of 4, with a scale for each group of features, as keys and values may be kept."""
from __future__ import annotations

from . import _fovea
from .arrays import Array, as_array, features_of, finished, of_type, shape_of
from .contexts import Context, handle_of
from .errors import BadShape, BadValue


def quantize(x: Array, group: int | None = None, *, bits: int = 8, context: Context | None = None):
    """(q, scales) of x [..., D]: q int8 of x's shape, scales float16 [..., D / group], x about q times its group's scale.

    group: how many features share a scale, a multiple of 16 that divides D, or D; None: 32 where that divides D, else D. A
    number is off by at most half its group's scale, which is the group's largest number / 127. `fovea.attention` takes keys
    and values so, with key_scales and value_scales.

    bits 4: q uint8 [..., D / 2], two numbers from 0 to 15 in each, scales float16 [..., 2 D / group], a scale and the least
    number of each group, x about number times scale plus least; D and group are multiples of 32. Values are taken so.
    """
    if bits not in (8, 4):
        raise BadValue(f"bits is {bits}, expected 8 or 4")
    x = as_array(x, "x")
    shape = shape_of(x, "x")
    features = (shape[-1:] or (0,))[0]
    if group is None:
        group = 32 if features % 32 == 0 and features else max(features, 1)
    if group < 1 or features % group:
        raise BadShape(f"group is {group}, expected one that divides the {features} features of x")
    if bits == 4:
        q, count = of_type(shape[:-1] + (features // 2,), x, "uint8"), 2 * (features // group)
    else:
        q, count = of_type(shape, x, "int8"), features // group
    scales = of_type(shape[:-1] + (count,), x, "float16")
    _fovea.quantize(handle_of(context), x, q, scales)
    return finished(q, x), finished(scales, x)


def dequantize(q: Array, scales: Array, *, out: Array | None = None, context: Context | None = None):
    """And back, q [..., D] times scales [..., D / group]; float32, or into `out`, of float32, float16 or bfloat16. q of bytes:
    of 4 bits."""
    q, scales = as_array(q, "q"), as_array(scales, "scales")
    if out is None:
        out = of_type(shape_of(q, "q")[:-1] + features_of(q, scales, "q"), q, "float32")
    _fovea.dequantize(handle_of(context), q, scales, out)
    return finished(out, q)
