# SPDX-License-Identifier: Apache-2.0
"""Where work runs."""
from __future__ import annotations

from . import _fovea
from .copies import Shared
from .options import PRECISIONS, choice, size


class Context(Shared):
    """How many threads calls use, and which instruction set.

    max_threads: at most this many at once; None: as many as there are.
    max_isa: "base", "avx2", "avx512" or "amx"; None: the environment variable FOVEA_ISA, else the best but "amx".
    precision: of calls that do not say their own, as torch.set_float32_matmul_precision: "highest", "high" or "medium";
    or "int8", of weights.

    Every function takes one as `context`; without, it uses the default: all threads, the best instruction set. Immutable;
    any number of threads may share one, and a copy is the context itself. One that was pickled is made anew, of what was
    asked for, where it is loaded.
    """

    __slots__ = ("_handle", "_asked")

    def __init__(self, *, max_threads: int | None = None, max_isa: str | None = None, precision: str = "highest"):
        self._asked = {"max_threads": max_threads, "max_isa": max_isa, "precision": precision}
        self._handle = _fovea.context_create(options_of_context(self))

    @classmethod
    def _of_team(cls, parallel: int, threads: int) -> Context:
        """On the threads of the OpenMP runtime whose GOMP_parallel lies at that address."""
        context = cls.__new__(cls)
        context._asked = {"max_threads": threads}
        context._handle = _fovea.team_context(parallel, threads)
        return context

    def __reduce_ex__(self, protocol):
        return _made_anew, (self._asked,)

    @property
    def isa(self) -> str:
        """The instruction set that calls run."""
        return _fovea.isa_name(self._handle)

    @property
    def threads(self) -> int:
        """How many threads a call may use at once."""
        return _fovea.context_threads(self._handle)

    def __repr__(self) -> str:
        return f"fovea.Context(max_threads={self.threads}, max_isa={self.isa!r})"


def options_of_context(context: Context) -> dict:
    """What makes one like it, as the C interface has it."""
    asked = context._asked
    return {"max_threads": size("max_threads", asked["max_threads"]), "max_isa": asked.get("max_isa"),
            "precision": choice("precision", asked.get("precision", "highest"), PRECISIONS)}


def _made_anew(asked: dict) -> Context:
    return Context(**asked)


def handle_of(context):
    if context is None:
        return None
    if not isinstance(context, Context):
        raise TypeError(f"context: a fovea.Context is wanted, not {type(context).__name__}")
    return context._handle


def isa_name() -> str:
    """The instruction set of calls without a context."""
    return _fovea.isa_name(None)


def isas_available() -> list[str]:
    """The instruction sets this machine can run, worst first."""
    names: list[str] = []
    while (name := _fovea.isa_available(len(names))) is not None:
        names.append(name)
    return names
