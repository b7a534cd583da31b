# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention of tensors: a custom operator, and PyTorch's function computed by fovea where it can be.

Whether a call is fovea's is asked of the library itself: what it refuses PyTorch computes, or refuses in its own words.
"""
from __future__ import annotations

from typing import Optional

import torch

from .. import _fovea
from ..broadcast import leading_axes, mask_of_rank_4, of_rank_4
from ..errors import BadArgument
from .batching import in_front
from .derivatives import attend, dropped
from .operators import contiguous_rows, out_like
from .threads import context
from .transforms import DIRECT, PYTORCH, TRAINED, way

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
TOP_LEFT_CAUSAL = _fovea.CAUSAL | _fovea.TOP_LEFT
pytorchs_own = torch.nn.functional.scaled_dot_product_attention


def compute(query, key, value, mask=None, bias=None, sinks=None, is_causal=False, scale=None, softcap=None, outputs=()):
    """The library's call for tensors of rank 4, which raises what the library refuses. `outputs`: further ones asked for,
    pairs of their names and tensors."""
    out = out_like(query, value)
    options: dict = dict(outputs)
    flags = TOP_LEFT_CAUSAL if is_causal else 0
    if scale is not None:
        options["scale"] = scale
        flags |= _fovea.SCALE_GIVEN
    if flags:
        options["flags"] = flags
    if softcap is not None:
        options["softcap"] = softcap
    if mask is not None:
        options["mask"] = contiguous_rows(mask)
    if bias is not None:
        options["bias"] = contiguous_rows(bias)
    if sinks is not None:
        options["sinks"] = sinks.detach().to(torch.float32)
    _fovea.sdpa(context()._handle, contiguous_rows(query), contiguous_rows(key), contiguous_rows(value), out, options)
    return out


def _laid_out(out):
    """As `compute` lays its result out, which is what the operators say of theirs."""
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def _mask_or_bias(attn_mask):
    return (None, None) if attn_mask is None else (attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)


@torch.library.custom_op("fovea::sdpa", mutates_args=(), device_types="cpu")
def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
         is_causal: bool = False, scale: Optional[float] = None) -> torch.Tensor:
    """softmax(query key^T scale + attn_mask) value: query [B, H, Q, D], key [B, Hkv, K, D], value [B, Hkv, K, Dv], H a
    multiple of Hkv; attn_mask bool (true: attend) or of numbers, broadcast to [B, H, Q, K]; is_causal as PyTorch has it.
    What the library refuses PyTorch's own function computes, or refuses."""
    try:
        if are_taken(query, key, value, attn_mask, is_causal, scale):
            mask = None
            if attn_mask is not None:
                mask = mask_of_rank_4(attn_mask, tuple(query.shape[:2]), query.shape[2], key.shape[2])
            return compute(query, key, value, *_mask_or_bias(mask), None, is_causal, scale)
    except BadArgument:
        if key.shape[-2] != value.shape[-2]:  # where PyTorch would read values that there are not
            raise
    except ValueError:  # a mask that does not broadcast
        pass
    return _laid_out(pytorchs_own(query, key, value, attn_mask, 0.0, is_causal, scale=scale,
                                  enable_gqa=bool(query.shape[1] != key.shape[1])))


@sdpa.register_fake
def _(query, key, value, attn_mask=None, is_causal=False, scale=None):
    return out_like(query, value)


@sdpa.register_vmap
def _(info, dims, query, key, value, attn_mask=None, is_causal=False, scale=None):
    """The batch of vmap joins that of the call."""
    count = info.batch_size
    query, key, value = (in_front(x, dim, count) for x, dim in zip((query, key, value), dims))
    batch = query.shape[1]
    if attn_mask is not None:
        attn_mask = in_front(attn_mask, dims[3], count)
        ones = (1,) * (5 - attn_mask.dim())
        attn_mask = attn_mask.reshape(attn_mask.shape[:1] + ones + attn_mask.shape[1:])
        attn_mask = attn_mask.expand(-1, batch, -1, -1, -1).flatten(0, 1)
    out = torch.ops.fovea.sdpa(*(x.flatten(0, 1) for x in (query, key, value)), attn_mask, is_causal, scale)
    return out.unflatten(0, (count, batch)), 0


def _save(ctx, inputs, output):
    query, key, value, attn_mask, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(query, key, value, *([] if attn_mask is None else [attn_mask]))


def _gradients(ctx, gradient):
    """Attention again, as this operator keeps no log-sum-exp, and its gradients."""
    tensors = ctx.saved_tensors
    wanted = [n for n, needed in enumerate(ctx.needs_input_grad[:len(tensors)]) if needed]
    again = torch.is_grad_enabled()  # gradients of gradients
    with torch.enable_grad():
        inputs = [x if again else x.detach().requires_grad_(n in wanted) for n, x in enumerate(tensors)]
        grouped = bool(tensors[0].shape[1] != tensors[1].shape[1])
        out = _trained(*inputs[:3], inputs[3] if inputs[3:] else None, 0.0, ctx.is_causal, ctx.scale, grouped)
        found = torch.autograd.grad(out, [inputs[n] for n in wanted], gradient, create_graph=again)
    gradients = [None] * 6
    for n, one in zip(wanted, found):
        gradients[n] = one
    return tuple(gradients)


sdpa.register_autograd(_gradients, setup_context=_save)


def _trained(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """By the operator that has log-sum-exp for its derivative, or by PyTorch."""
    if are_taken(query, key, value, attn_mask, is_causal, scale) and are_of_sizes(query, value):
        out = _by_fovea(TRAINED, query, key, value, attn_mask, is_causal, scale, enable_gqa, dropout_p)
        if out is not None:
            return out
    return pytorchs_own(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def are_taken(query, key, value, attn_mask, is_causal, scale) -> bool:
    """What no refusal of the library tells, as it takes more than PyTorch does: element types that differ, a mask of
    another type, a mask beside is_causal, a scale that is no number."""
    dtype = query.dtype
    if dtype not in DTYPES or key.dtype != dtype or value.dtype != dtype:
        return False
    if not (scale is None or isinstance(scale, (int, float))):
        return False
    if attn_mask is None:
        return True
    return attn_mask.dtype in (torch.bool, torch.float32, dtype) and attn_mask.dim() > 1 and not is_causal


def are_of_sizes(query, value) -> bool:
    """Whether there are as many features as the library takes, which a compiler has to know beforehand."""
    return all(0 < x.shape[-1] <= 1024 for x in (query, value))


def are_readable(tensors, training=False) -> bool:
    """Whether all are ordinary tensors on the CPU and, unless in training, wait for no gradient."""
    graph = not training and torch.is_grad_enabled()
    for x in tensors:
        if not x.is_cpu or x.layout != torch.strided or x.is_nested or (graph and x.requires_grad):
            return False
    return True


def with_autocast(tensors):
    """As PyTorch's own function sees them: what is not float64 in the type that autocast says."""
    dtype = torch.get_autocast_dtype("cpu")
    return [x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors]


def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                                 attn_mask: Optional[torch.Tensor] = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by fovea where it can be, else by PyTorch."""
    tensors = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    how = way(tensors)
    if how != PYTORCH:
        training = dropout_p or how == TRAINED or not are_readable(tensors)
        if not training or (0 <= dropout_p < 1 and are_readable(tensors, True)):
            if torch.is_autocast_enabled("cpu"):
                query, key, value, attn_mask = with_autocast((query, key, value, attn_mask))
            if training:
                return _trained(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
            if are_taken(query, key, value, attn_mask, is_causal, scale):
                out = _by_fovea(how, query, key, value, attn_mask, is_causal, scale, enable_gqa)
                if out is not None:
                    return out
    return pytorchs_own(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _by_fovea(how, query, key, value, attn_mask, is_causal, scale, enable_gqa, dropout_p=0.0):
    """None where it is PyTorch's to compute or to refuse."""
    shapes = query_shape, key_shape, value_shape = query.shape, key.shape, value.shape
    axes = query_shape[:2]
    plain = len(query_shape) == 4 and key_shape[:2] == value_shape[:2] and (
        axes == key_shape[:2] or (enable_gqa and len(key_shape) == 4 and axes[:1] == key_shape[:1]))
    try:
        if not plain:
            axes, wanted = leading_axes(*shapes, enable_gqa)
            query, key, value = (of_rank_4(x, one) for x, one in zip((query, key, value), wanted))
        if attn_mask is not None:
            attn_mask = mask_of_rank_4(attn_mask, axes, query_shape[-2], key_shape[-2])
        if how == DIRECT:  # the operator takes 10 us more to reach
            out = compute(query, key, value, *_mask_or_bias(attn_mask), None, is_causal, scale)
        elif how == TRAINED:
            mask, bias = _mask_or_bias(attn_mask)
            out, _, _ = attend(query=query, key=key, value=value, mask=mask, bias=bias, is_causal=is_causal,
                               top_left=is_causal, scale=scale, **dropped(dropout_p))
        else:
            out = torch.ops.fovea.sdpa(query, key, value, attn_mask, is_causal, scale)
    except BadArgument:
        if key.shape[-2] != value.shape[-2]:  # where PyTorch would read values that there are not
            raise
        return None
    except ValueError:  # axes that do not go together
        return None
    return out if plain else out.reshape(tuple(axes) + tuple(out.shape[-2:]))
