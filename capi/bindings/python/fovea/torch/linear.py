# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weights are packed, and never stale.

A packed copy serves as long as nobody can have written to the weight. Whoever writes needs the parameter, a tensor that shares
its memory, or an array made of one; all of these are had by asking the layer. So a layer notes when it is asked for its
parameters (its dict of them does); its next call is PyTorch's, and so are those that follow as long as references show that
somebody still holds the weight or its memory. Then it packs anew. An address and a version counter would not do: writing
through .data, or through an array of NumPy's, changes neither. Nor would a fingerprint of the contents: reading a weight of
1536 x 384 takes 35 us, the packed layer 60 us for one row and 250 us for 16 (2026-11-25, AMD Zen 3, one thread).
"""
from __future__ import annotations

import sys
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _fovea
from ..errors import BadArgument
from ..layers import PackedMatrix
from .attention import are_readable
from .threads import context
from .transforms import DIRECT, PLAIN, way


class _Parameters(dict):
    """A module's parameters, by name, which notes that it was asked for one. (Written out, as torch.compile follows that.)"""

    asked_for = False

    def _noted(self, found):
        self.asked_for = True
        return found

    def __getitem__(self, name):
        return self._noted(super().__getitem__(name))

    def get(self, *given):
        return self._noted(super().get(*given))

    def items(self):  # not a view, which would give them later, unnoticed
        return self._noted(list(super().items()))

    def values(self):
        return self._noted(list(super().values()))

    def __iter__(self):  # without which dict(...) would not ask for items one by one
        return super().__iter__()

    def copy(self):
        return self._noted(dict(super().items()))

    def __or__(self, other):
        return self.copy() | other

    def __ror__(self, other):
        return other | self.copy()

    def __setitem__(self, name, parameter):
        self._noted(super().__setitem__(name, parameter))

    def __delitem__(self, name):
        self._noted(super().__delitem__(name))

    def pop(self, *given):
        return self._noted(super().pop(*given))

    def popitem(self):
        return self._noted(super().popitem())

    def setdefault(self, *given):
        return self._noted(super().setdefault(*given))

    def update(self, *given, **named):
        self._noted(super().update(*given, **named))

    def __ior__(self, other):
        self.update(other)
        return self

    def clear(self):
        self._noted(super().clear())


def _holders(parameters):
    """How many there are who can reach the weight and its memory."""
    weight = dict.get(parameters, "weight")
    storage = weight.untyped_storage()
    return (sys.getrefcount(weight), weight._use_count(), weakref.getweakrefcount(weight), sys.getrefcount(storage),
            torch._C._storage_Use_Count(storage._cdata))


class PackedLinear(torch.nn.Linear):
    """A torch.nn.Linear whose weight is packed by its first call, and again when it may have been changed.

    What fovea does not compute (gradients, other devices and element types, inside torch.compile) PyTorch does, and every call
    while the weight is held outside the layer: by an optimizer, a tied embedding, a variable.
    """

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._take_over()

    def _take_over(self):
        self._packed = self._own = None
        self.__dict__["_parameters"] = _Parameters(self._parameters)

    def __getstate__(self):
        state = dict(self.__dict__)
        return {**state, "_parameters": dict(state["_parameters"]), "_packed": None, "_own": None}  # a copy packs its own

    def __setstate__(self, state):
        super().__setstate__(state)
        self._take_over()

    def _is_own(self, storage) -> bool:
        """Whether PyTorch allocated the memory: it may be resized, or was so before an array of NumPy's was made of it."""
        if storage.resizable():
            self._own = StorageWeakRef(storage)
        return self._own is not None and self._own.cdata == storage._cdata

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parameters = self.__dict__["_parameters"]
        if torch.compiler.is_compiling() or "weight" not in parameters:  # which a parametrization makes of others
            return super().forward(x)
        weight, bias = dict.get(parameters, "weight"), dict.get(parameters, "bias")
        if parameters.asked_for:
            parameters.asked_for = False
            self._packed = None
        elif self._takes(x, weight, bias):
            del weight  # that what counts its holders does not find this one
            out = self._by_fovea(parameters, x, bias)
            if out is not None:
                return out
            weight = dict.get(parameters, "weight")
        return torch.nn.functional.linear(x, weight, bias)

    def _takes(self, x, weight, bias) -> bool:
        if type(x) not in PLAIN or way((x,)) != DIRECT or torch.is_autocast_enabled("cpu"):
            return False
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            return False
        if not are_readable((x, weight) if bias is None else (x, weight, bias)):
            return False
        return x.dtype == weight.dtype and (bias is None or bias.dtype == x.dtype)

    def _by_fovea(self, parameters, x, bias):
        """None where it is PyTorch's to compute."""
        if self._packed is None:
            self._packed = self._pack(parameters)
            if self._packed is None:
                return None
        rows = x.reshape(-1, self.in_features)
        out = torch.empty((rows.shape[0], self.out_features), dtype=x.dtype, device="cpu")
        try:
            _fovea.linear(context()._handle, rows, self._packed._handle, out, {"bias": None if bias is None else bias.detach()})
        except BadArgument:
            return None
        return out.view(*x.shape[:-1], self.out_features)

    def _pack(self, parameters):
        """The packed weight; None where the library does not take it, or somebody else can write to it."""
        if _holders(parameters) != _ALONE:
            return None
        weight = dict.get(parameters, "weight")
        if type(weight) not in PLAIN or weight.is_neg():
            return None
        if weight.is_shared() or not self._is_own(weight.untyped_storage()):  # memory that other processes or arrays reach
            return None
        try:
            return PackedMatrix(weight.detach(), layout="out_in")
        except BadArgument:
            return None


_ALONE = _holders({"weight": torch.nn.Parameter(torch.empty(1, 1, device="cpu"))})
"""What `_holders` says of a weight that its layer alone holds."""


def pack_linear_layers(model: torch.nn.Module) -> torch.nn.Module:
    """Has fovea compute every torch.nn.Linear of a model, in place, for inference; layers, parameters and their names stay:

        model = fovea.torch.pack_linear_layers(model.eval())

    Weights may be changed at any time and in any way that PyTorch and NumPy have (in place, through .data or an array, by an
    optimizer, load_state_dict, to(...)), and the next call computes with what they are then; only what is written to a bare
    address (data_ptr) whose tensors are all gone goes unnoticed.

    Each weight is held a second time, packed by the layer's first call and again by the second call after the layer was asked
    for it. While somebody else holds it (an optimizer, a tied embedding, a variable) the layer is PyTorch's. A weight in memory
    lent by others, as safetensors, torch.load and torch.from_numpy have it, gets memory of its own here; one that comes later
    is PyTorch's until this is called again. Layers of classes of their own, as torch.nn.MultiheadAttention has, are left."""
    for module in list(model.modules()):
        if type(module) in (torch.nn.Linear, PackedLinear) and type(module._parameters.get("weight")) is torch.nn.Parameter:
            _give_own_memory(module._parameters)
        if type(module) is torch.nn.Linear and "weight" in module._parameters:
            module.__class__ = PackedLinear
            module._take_over()
    return model


def _give_own_memory(parameters):
    weight = parameters["weight"]
    if not weight.is_cpu or weight.is_shared() or weight.is_inference() or weight.untyped_storage().resizable():
        return
    del weight
    if _holders(parameters)[1:] == _ALONE[1:]:
        parameters["weight"].data = parameters["weight"].data.clone()


def unpack_linear_layers(model: torch.nn.Module) -> torch.nn.Module:
    """Undoes pack_linear_layers."""
    for module in list(model.modules()):
        if type(module) is PackedLinear:
            module.__dict__["_parameters"] = dict(module._parameters)
            del module._packed, module._own
            module.__class__ = torch.nn.Linear
    return model
