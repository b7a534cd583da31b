# SPDX-License-Identifier: Apache-2.0
"""PyTorch: attention with gradients, modules, and an attention function of transformers.

    import fovea.torch                                  # torch.ops.fovea.sdpa, which torch.compile takes as it is
    fovea.torch.register_with_transformers()            # then: AutoModel.from_pretrained(..., attn_implementation="fovea")
    fovea.torch.pack_linear_layers(model)               # and its linear layers, whose weights are packed once
    fovea.torch.attention(query, key, value, score=fovea.Bilinear(weight)).sum().backward()

float32, bfloat16 and float16 on the CPU; attention forwards and backwards, with every score function and dropout. What fovea
does not compute (another device or element type, forward derivatives, gradients of linear layers, what the library refuses) is
left to PyTorch. Attention and linear layers of a model are 85 to 90 % of its time. Calls run on PyTorch's own threads where its
OpenMP runtime is found, and on as many as torch.get_num_threads() says everywhere.
"""
from .attention import scaled_dot_product_attention, sdpa
from .functional import attention
from .linear import PackedLinear, pack_linear_layers, unpack_linear_layers
from .models import register_with_transformers, transformers_attention
from .modules import AdditiveAttention, DotProductAttention, MultiHeadAttention, NadarayaWatson
from .varlen import varlen_attention

__all__ = ["AdditiveAttention", "DotProductAttention", "MultiHeadAttention", "NadarayaWatson", "PackedLinear", "attention",
           "pack_linear_layers", "register_with_transformers", "scaled_dot_product_attention", "sdpa",
           "transformers_attention", "unpack_linear_layers", "varlen_attention"]
