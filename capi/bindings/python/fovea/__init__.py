# SPDX-License-Identifier: Apache-2.0
"""fovea: attention kernels for CPUs.

    import fovea
    out = fovea.attention(query, key, value, is_causal=True)

Arrays are NumPy's, PyTorch's, JAX's (on the CPU) or anything else that speaks DLPack or the buffer protocol; they are read
and written where they lie. What is returned is of the first argument's library. Errors are `fovea.Error`; bad arguments are
ValueErrors too. The interpreter's lock is released while the library works.
"""
from . import _fovea
from .attention import (additive_attention, attention, bilinear_attention, concat_attention, gaussian_attention,
                        kernel_regression, masked_softmax, merge_states, scaled_dot_product_attention)
from .contexts import Context, isa_name, isas_available
from .errors import (BadArgument, BadDtype, BadOption, BadRank, BadShape, BadStride, BadValue, Error, InternalError,
                     NullPointer, OutOfMemory, Overlap, PoolExhausted, SizeOverflow, UnknownISA, WorkspaceTooSmall)
from .gradients import BackwardPlan, attention_backward, plan_attention_backward
from .heatmaps import show_heatmaps
from .layer_gradients import (activation_backward, layer_norm_backward, linear_backward, log_softmax_backward,
                              masked_softmax_backward, merge_states_backward, multi_head_attention_backward, rms_norm_backward,
                              softmax_backward)
from .layers import (PackedMatrix, activation, add_positional_encoding, alibi_slopes, exp, gemm, layer_norm, linear,
                     log_softmax, matmul, positional_encoding, rms_norm, rotary, rotary_frequencies, softmax, tanh)
from .mha_plans import MultiHeadPlan
from .multi_head import MultiHeadAttention
from .options import AttentionOptions
from .plans import Plan, plan
from .pools import KVPool, Sequence, Step
from .prepared_keys import PreparedKeys
from .quantization import dequantize, quantize
from .schedules import Schedule, varlen_attention
from .scores import Additive, Bilinear, Concat, Dot, Gaussian, Score

__version__ = _fovea.version()

__all__ = [
    "Additive", "AttentionOptions", "BackwardPlan", "BadArgument", "BadDtype", "BadOption", "BadRank", "BadShape",
    "BadStride", "BadValue", "Bilinear", "Concat", "Context", "Dot", "Error", "Gaussian", "InternalError", "KVPool",
    "MultiHeadAttention", "MultiHeadPlan", "NullPointer", "OutOfMemory", "Overlap", "PackedMatrix", "Plan",
    "PoolExhausted", "PreparedKeys", "Schedule", "Score", "Sequence", "SizeOverflow", "Step", "UnknownISA",
    "WorkspaceTooSmall",
    "activation", "activation_backward", "add_positional_encoding", "additive_attention", "alibi_slopes", "attention",
    "attention_backward", "bilinear_attention", "concat_attention", "dequantize", "exp", "gaussian_attention", "gemm",
    "isa_name", "isas_available", "kernel_regression", "layer_norm", "layer_norm_backward", "linear", "linear_backward",
    "log_softmax", "log_softmax_backward", "masked_softmax", "masked_softmax_backward", "matmul", "merge_states",
    "merge_states_backward", "multi_head_attention_backward", "plan", "plan_attention_backward", "positional_encoding",
    "quantize", "rms_norm", "rms_norm_backward", "rotary", "rotary_frequencies", "scaled_dot_product_attention",
    "show_heatmaps", "softmax", "softmax_backward", "tanh", "varlen_attention"]
