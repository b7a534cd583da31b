# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weights are packed, and never stale.

A packed copy serves as long as nobody can have written to the weight. Whoever writes needs the parameter, a tensor that shares
its memory, or an array made of one; all of these are had by asking the layer. So a layer notes when it is asked for its
parameters (its dict of them does); its next call is PyTorch's, and so are those that follow as long as references show that
somebody still holds the weight or its memory. Then it packs anew. An address and a version counter would not do: writing
through .data, or through an array of NumPy's, changes neither.
"""
from __future__ import annotations

import sys
import weakref

import torch

from .. import _fovea
from ..errors import BadArgument
from ..layers import PackedMatrix
from .attention import are_readable
from .transforms import DIRECT, PLAIN, way


def _noting(name):
    method = getattr(dict, name)

    def note(self, *given):
        self.asked_for = True
        found = method(self, *given)
        return list(found) if name in ("items", "values") else found  # a view would give them later, unnoticed

    return note


class _Parameters(dict):
    """A module's parameters, by name, which notes that it was asked for one."""

    asked_for = False

    for _name in ("__getitem__", "__iter__", "__or__", "__ror__", "__reversed__", "__setitem__", "__delitem__", "__ior__",
                  "copy", "get", "items", "pop", "popitem", "setdefault", "update", "values", "clear"):
        locals()[_name] = _noting(_name)
    del _name


def _holders(parameters):
    """How many there are who can reach the weight and its memory."""
    weight = dict.get(parameters, "weight")
    storage = weight.untyped_storage()
    return (sys.getrefcount(weight), weight._use_count(), weakref.getweakrefcount(weight), sys.getrefcount(storage),
            torch._C._storage_Use_Count(storage._cdata))


def _of_nobody_else():
    """What `_holders` says of a weight that its layer alone holds; None where PyTorch no longer tells."""
    try:
        return _holders({"weight": torch.nn.Parameter(torch.empty(1, 1, device="cpu"))})
    except AttributeError:
        return None


class PackedLinear(torch.nn.Linear):
    """A torch.nn.Linear whose weight is packed by its first call, and again when it may have been changed.

    What fovea does not compute (gradients, other devices and element types, inside torch.compile) PyTorch does, and every call
    while the weight is held outside the layer: by an optimizer, a tied embedding, a variable.
    """

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._take_over()

    def _take_over(self):
        self._packed = None
        self.__dict__["_parameters"] = _Parameters(self._parameters)

    def __getstate__(self):
        state = dict(self.__dict__)
        return {**state, "_parameters": dict(state["_parameters"]), "_packed": None}  # a copy packs its own

    def __setstate__(self, state):
        super().__setstate__(state)
        self._take_over()

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
        if x.dim() == 0 or x.shape[-1] != self.in_features or not are_readable((x, weight) if bias is None else (x, weight, bias)):
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
            _fovea.linear(None, rows, self._packed._handle, out, {"bias": None if bias is None else bias.detach()})
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
        if weight.is_shared() or not weight.untyped_storage().resizable():  # memory that other processes or arrays reach
            return None
        try:
            return PackedMatrix(weight.detach(), layout="out_in")
        except BadArgument:
            return None


_ALONE = _of_nobody_else()


def pack_linear_layers(model: torch.nn.Module) -> torch.nn.Module:
    """Has fovea compute every torch.nn.Linear of a model, in place, for inference; layers, parameters and their names stay:

        model = fovea.torch.pack_linear_layers(model.eval())

    Weights may be changed at any time and in any way that PyTorch and NumPy have (in place, through .data or an array, by an
    optimizer, load_state_dict, to(...)), and the next call computes with what they are then; only what is written to a bare
    address (data_ptr) whose tensors are all gone goes unnoticed.

    Each weight is held a second time, packed by the layer's first call. While somebody else holds it (an optimizer, a tied
    embedding, a variable), its layer is PyTorch's. Weights in memory lent by others, as files of safetensors and
    torch.from_numpy have it, get memory of their own now. Layers of classes of their own, as torch.nn.MultiheadAttention
    has, are left."""
    for module in list(model.modules()):
        if type(module) is torch.nn.Linear and type(module._parameters.get("weight")) is torch.nn.Parameter:
            _own_memory(module._parameters)
            module.__class__ = PackedLinear
            module._take_over()
    return model


def _own_memory(parameters):
    weight = parameters["weight"]
    if not weight.is_cpu or weight.is_shared() or weight.is_inference() or weight.untyped_storage().resizable():
        return
    del weight
    if _ALONE is not None and _holders(parameters)[1:] == _ALONE[1:]:
        parameters["weight"].data = parameters["weight"].data.clone()


def unpack_linear_layers(model: torch.nn.Module) -> torch.nn.Module:
    """Undoes pack_linear_layers."""
    for module in list(model.modules()):
        if type(module) is PackedLinear:
            module.__dict__["_parameters"] = dict(module._parameters)
            del module._packed
            module.__class__ = torch.nn.Linear
    return model
