# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does around a call: whether the library may be called at once, or something has to see what is called."""
import torch
from torch._C import _functorch, _is_tracing, _len_torch_dispatch_stack
from torch.autograd import forward_ad

DIRECT, OPERATOR, PYTORCH = range(3)
"""The library at once; a custom operator, which compilers, tracers and vmap follow; PyTorch's own function."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
is_compiling = torch.compiler.is_compiling


def way(tensors) -> int:
    """How these are to be computed: PyTorch's own function is for what only that has, derivatives of all kinds, and for
    tensors of other classes, whose meaning is theirs."""
    if is_compiling() or _is_tracing():
        return OPERATOR
    for x in tensors:
        if type(x) not in PLAIN or x.is_neg():
            return PYTORCH
    if forward_ad._current_level >= 0:
        return PYTORCH
    if _functorch.peek_interpreter_stack() is not None:
        kinds = {one.key() for one in _functorch.get_interpreter_stack()}
        return OPERATOR if kinds <= {_functorch.TransformType.Vmap, _functorch.TransformType.Functionalize} else PYTORCH
    return OPERATOR if _len_torch_dispatch_stack() else DIRECT
