# SPDX-License-Identifier: Apache-2.0
"""How all ranks come to raise what one of them refuses.

The library compares what the ranks give, and returns one status to all. A rank on which Python itself refuses an argument calls the
library all the same, with NULL in its place: all ranks are then refused a missing argument. After any status that says of an
argument that it is wrong, and so is every rank's, ranks tell each other in Python's words what they have refused, and all raise
the first of it, or what the library said where there is none.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _fovea
from ..errors import BY_STATUS, BadArgument, Error, OutOfMemory
from .layouts import FAILED
from .library import LIBRARY


class Failed(Error, RuntimeError):
    """A function of MPI failed. Other ranks may not know, and the Ranks serve no further call: what is left is to end."""

    status = FAILED


CLASSES = {**BY_STATUS, FAILED: Failed}
OTHERS = (TypeError, ValueError, RuntimeError)
"""What Python refuses with that is no fovea.Error, and other ranks raise too; anything else is Error there."""


@dataclass(frozen=True)
class Refusal:
    """What a rank tells the others."""

    kind: int | str  # a status, or the name of one of OTHERS
    message: str
    names_rank: bool = False  # the message does

    @classmethod
    def of(cls, error: BaseException) -> Refusal:
        message = str(error) or type(error).__name__
        if isinstance(error, Error):
            return cls(error.status, message)
        if isinstance(error, MemoryError):
            return cls(OutOfMemory.status, message)
        return cls(next((kind.__name__ for kind in OTHERS if isinstance(error, kind)), 0), message)

    def by(self, rank: int) -> Refusal:
        return self if self.names_rank else replace(self, message=f"rank {rank}: {self.message}")

    def error(self) -> Exception:
        for other in OTHERS:
            if self.kind == other.__name__:
                return other(self.message)
        return of_status(int(self.kind), self.message)


def of_status(status: int, message: str) -> Error:
    error = CLASSES.get(status, Error)(message)
    error.status = status
    return error


def _first(comms: Sequence, refusal: Refusal | None) -> Refusal | None:
    """Collective: the refusal of the first rank that has one. Over a grid's two, within and between, it names both ranks."""
    for comm in comms:
        refusal = next((said.by(rank) for rank, said in enumerate(comm.allgather(refusal)) if said is not None), None)
    return refusal


def _raise_first(comms: Sequence, refused: BaseException | None, refusal: Refusal | None, otherwise: Exception | None) -> None:
    """Collective. A rank that has refused raises what it has refused with, others what the first such rank says."""
    found = _first(comms, refusal)
    error: BaseException | None = otherwise if found is None else found.error()
    if refused is not None:
        error = refused
    if error is not None:
        error.on_all_ranks = True  # type: ignore[attr-defined]
        raise error


def checked(comm, refused: BaseException | None) -> None:
    """Collective: where one rank has refused, all raise."""
    _raise_first([comm], refused, None if refused is None else Refusal.of(refused), None)


def collective(name: str, handles: Sequence, comms: Sequence, lay_out: Callable[[], tuple[Any, Any, Callable]]) -> Any:
    """Calls a function of the library on all ranks. lay_out gives what it takes from the score to the options, as
    _fovea.Arguments; the options of its own, a struct; and what makes the results. comms: over which all can be told."""
    function = getattr(LIBRARY, name)
    refused, arguments, results = None, None, None
    addresses: tuple = (None,) * (len(function.argtypes) - len(handles))
    try:
        arguments, own, results = lay_out()
        addresses = (*arguments.addresses, ctypes.byref(own))
    except BaseException as error:  # one who is interrupted here must not leave the others waiting
        refused = error
    status = function(*handles, *addresses)
    if status == 0 and results is not None:
        return results()
    said = LIBRARY.fovea_mpi_last_error().decode()
    words = _fovea.Arguments().named(said)
    own_words = words if arguments is None else arguments.named(said)
    refusal = Refusal.of(refused) if refused is not None else None
    if own_words != words:  # of elements that the library has no name for, this rank has
        refusal = Refusal(status, own_words, names_rank=True)
    if issubclass(CLASSES.get(status, Error), BadArgument):
        _raise_first(comms, refused, refusal, of_status(status, words))
    raise refused if refused is not None else of_status(status, own_words)
