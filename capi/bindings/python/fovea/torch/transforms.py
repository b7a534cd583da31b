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
        return TRAINED if is_in_grad() else OPERATOR if _transforms() <= {Transform.Vmap, Transform.Functionalize} else PYTORCH
    return OPERATOR if _len_torch_dispatch_stack() else DIRECT


def _transforms() -> set:
    return {one.key() for one in _functorch.get_interpreter_stack() or ()}


def is_in_grad() -> bool:
    """Whether torch.func.grad or vjp is at work, and nothing that has no rule here."""
    if is_compiling() or _functorch.peek_interpreter_stack() is None:
        return False
    kinds = _transforms()
    return Transform.Grad in kinds and kinds <= {Transform.Grad, Transform.Vmap, Transform.Functionalize}
