# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does around a call: whether the library may be called at once, or something has to see what is called."""
import torch
from torch._C import _functorch, _is_tracing, _len_torch_dispatch_stack
from torch.autograd import forward_ad

DIRECT, OPERATOR, PYTORCH, TRAINED = range(4)
"""The library at once; a custom operator, which compilers, tracers and vmap follow; PyTorch's own function; the operator that
has gradients and dropout, for callers that need them."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
Transform = _functorch.TransformType
is_compiling = torch.compiler.is_compiling


def way(tensors) -> int:
    """How these are to be computed: PyTorch's own function is for what only that has, forward derivatives, and for tensors of
    other classes, whose meaning is theirs."""
    if is_compiling() or _is_tracing():
        return OPERATOR
    for x in tensors:
        if type(x) not in PLAIN or x.is_neg():
            return PYTORCH
    if forward_ad._current_level >= 0:
        return PYTORCH
    if _functorch.peek_interpreter_stack() is not None:
        kinds = {one.key() for one in _functorch.get_interpreter_stack()}
        if not kinds <= {Transform.Grad, Transform.Vmap, Transform.Functionalize}:
            return PYTORCH
        return TRAINED if Transform.Grad in kinds else OPERATOR
    return OPERATOR if is_watched() else DIRECT


def is_watched() -> bool:
    """Whether a mode sees what operators are called, as those that trace or fake do."""
    return bool(_len_torch_dispatch_stack())


def wait_for_gradients(tensors) -> bool:
    if torch.is_grad_enabled():
        for x in tensors:
            if x.requires_grad:
                return True
    return False


def want_forward_derivatives(tensors) -> bool:
    if forward_ad._current_level < 0:
        return False
    return _functorch.peek_interpreter_stack() is not None or any(
        forward_ad.unpack_dual(x).tangent is not None for x in tensors)
