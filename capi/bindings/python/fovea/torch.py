# SPDX-License-Identifier: Apache-2.0
"""PyTorch: scaled dot-product attention as a custom operator, and as an attention function of transformers.

    import fovea.torch                                  # torch.ops.fovea.sdpa, which torch.compile takes as it is
    fovea.torch.register_with_transformers()            # then: AutoModel.from_pretrained(..., attn_implementation="fovea")
    fovea.torch.pack_linear_layers(model)               # and its linear layers, whose weights are packed once

float32, bfloat16 and float16 on the CPU, without gradients. What fovea does not compute (another device or element type, a
gradient, dropout) is left to PyTorch's own function by `scaled_dot_product_attention` and in transformers; the operator
itself refuses it. Attention and linear layers of a model are 85 to 90 % of its time.
"""
from __future__ import annotations

from typing import Optional

import torch

from . import _fovea
from .attention import _mask
from .errors import BadDtype
from .layers import PackedMatrix

FLAGS_TOP_LEFT_CAUSAL = _fovea.CAUSAL | _fovea.TOP_LEFT
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _compute(query, key, value, attn_mask, is_causal, scale):
    # In memory [B, Q, H, Dv], which the next layer's reshape takes as it is.
    batch, heads, query_len, _ = query.shape
    out = torch.empty((batch, query_len, heads, value.shape[-1]), dtype=query.dtype).transpose(1, 2)
    options: dict = {}
    if is_causal:
        options["flags"] = FLAGS_TOP_LEFT_CAUSAL
    if scale is not None:
        options["scale"] = scale
    if attn_mask is not None:
        name, mask = _mask(attn_mask, query.shape, key.shape[-2])
        options[name] = mask
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    _fovea.sdpa(None, query, key, value, out, options)
    return out


@torch.library.custom_op("fovea::sdpa", mutates_args=(), device_types="cpu")
def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
         is_causal: bool = False, scale: Optional[float] = None) -> torch.Tensor:
    """softmax(query key^T scale + attn_mask) value: query [B, H, Q, D], key [B, Hkv, K, D], value [B, Hkv, K, Dv], H a
    multiple of Hkv; attn_mask bool (true: attend) or of numbers, broadcast to [B, H, Q, K]; is_causal as PyTorch has it."""
    return _compute(query, key, value, attn_mask, is_causal, scale)


@sdpa.register_fake
def _(query, key, value, attn_mask=None, is_causal=False, scale=None):
    batch, heads, query_len, _ = query.shape
    return query.new_empty((batch, query_len, heads, value.shape[-1])).transpose(1, 2)


def _is_ours(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask, dropout_p: float) -> bool:
    tensors = [query, key, value] + ([] if attn_mask is None else [attn_mask])
    if dropout_p or query.dim() != 4 or any(x.device.type != "cpu" for x in tensors):
        return False
    if query.dtype not in DTYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return False
    if attn_mask is not None and attn_mask.dtype not in (*DTYPES, torch.bool):
        return False
    return not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))


def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                                 attn_mask: Optional[torch.Tensor] = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by fovea where it can be, else by PyTorch."""
    if _is_ours(query, key, value, attn_mask, dropout_p) and (enable_gqa or query.shape[1] == key.shape[1]):
        if type(query) is torch.Tensor and not torch.compiler.is_compiling() and not torch.jit.is_tracing():
            return _compute(query, key, value, attn_mask, is_causal, scale)  # the operator takes 10 us more to reach
        return torch.ops.fovea.sdpa(query, key, value, attn_mask, is_causal, scale)
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                            scale=scale, enable_gqa=enable_gqa)


def transformers_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
    """An attention function as transformers calls them: [B, H, L, D] tensors, grouped heads, returns ([B, L, H, D], None)."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(query.shape[2] > 1 and attention_mask is None and is_causal)
    if attention_mask is not None and attention_mask.dim() == 4:
        attention_mask = attention_mask[:, :, :, : key.shape[-2]]
    out = scaled_dot_product_attention(query, key, value, attention_mask, dropout, is_causal, scaling,
                                       enable_gqa=query.shape[1] != key.shape[1])
    return out.transpose(1, 2).contiguous(), None


def register_with_transformers(name: str = "fovea") -> None:
    """Makes attn_implementation=name known to transformers; masks come as for PyTorch's own function."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

    AttentionInterface.register(name, transformers_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, sdpa_mask)


class PackedLinear(torch.nn.Linear):
    """A torch.nn.Linear, with its very parameters, whose weight is packed by its first call and again after it was changed.

    What fovea does not compute (gradients, other devices and element types, inside torch.compile) PyTorch does.
    """

    def __init__(self, linear: torch.nn.Linear):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.train(linear.training)
        self._packed = self._packed_of = None

    def __getstate__(self):
        return {**self.__dict__, "_packed": None, "_packed_of": None}  # a copy packs its own

    def _pack(self):
        """The packed weight, None where the library takes no such elements."""
        weight = self.weight
        now = (weight.data_ptr(), None if weight.is_inference() else weight._version)
        if self._packed_of != now:
            try:
                self._packed = PackedMatrix(weight.detach(), layout="out_in")
            except BadDtype:
                self._packed = None
            self._packed_of = now
        return self._packed

    def _is_ours(self, x: torch.Tensor) -> bool:
        if type(x) is not torch.Tensor or torch.compiler.is_compiling() or torch.jit.is_tracing() or x.dim() == 0:
            return False
        given = [x, self.weight] + ([] if self.bias is None else [self.bias])
        if any(one.device.type != "cpu" or one.dtype != x.dtype for one in given) or torch.is_autocast_enabled("cpu"):
            return False
        return not (torch.is_grad_enabled() and any(one.requires_grad for one in given))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self._pack() if self._is_ours(x) and x.shape[-1] == self.in_features else None
        if packed is None:
            return super().forward(x)
        rows = x.reshape(-1, self.in_features)
        out = torch.empty((rows.shape[0], self.out_features), dtype=x.dtype)
        try:
            _fovea.linear(None, rows, packed._handle, out, {"bias": None if self.bias is None else self.bias.detach()})
        except BadDtype:
            return super().forward(x)
        return out.view(*x.shape[:-1], self.out_features)


def pack_linear_layers(model: torch.nn.Module) -> torch.nn.Module:
    """Has fovea compute every torch.nn.Linear of a model, in place, for inference; the parameters stay, and their names:

        model = fovea.torch.pack_linear_layers(model.eval())

    Each weight is held a second time, packed. Layers of a class of their own, as torch.nn.MultiheadAttention has, are left."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(parent, name, PackedLinear(child))
    return model
