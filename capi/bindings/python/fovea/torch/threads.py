# SPDX-License-Identifier: Apache-2.0
"""Which threads fovea.torch's calls run on: PyTorch's own, as many as torch.get_num_threads() says.

PyTorch's are OpenMP's, and spin for some milliseconds after each operator before they sleep. Threads of another pool would share
their cores for so long: attention after a linear layer then takes 1.4 times as long. So a call is a team of the OpenMP runtime
that PyTorch has loaded. oneTBB's threads serve where there is none, and in a process that was forked off, where OpenMP's teams
wait for threads that the parent has.
"""
from __future__ import annotations

import ctypes
import os
import re
import sys

import torch

from ..contexts import Context

_RUNTIME = re.compile(r"(/.*/lib(?:gomp|omp|iomp5)[-.\w]*\.so[.\d]*)$")


def _parallel() -> int:
    """The address of GOMP_parallel in PyTorch's OpenMP runtime, 0 where there is none."""
    if sys.platform != "linux" or not torch.backends.openmp.is_available():
        return 0
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {found[1] for line in maps if (found := _RUNTIME.search(line.rstrip("\n")))}
    own = {path for path in paths if path.startswith(os.path.dirname(torch.__file__))} or paths
    if len(own) != 1:  # others may have brought theirs
        return 0
    try:
        runtime = ctypes.CDLL(own.pop(), os.RTLD_NOW | os.RTLD_NOLOAD)
        return ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


_address = _parallel()
_contexts: dict[int, Context] = {}


def context() -> Context:
    """For a call that PyTorch makes now."""
    threads = torch.get_num_threads()
    made = _contexts.get(threads)
    if made is None:
        made = Context._of_team(_address, threads) if _address and threads > 1 else Context(max_threads=threads)
        _contexts[threads] = made
    return made


def _forget_teams():
    global _address
    _address = 0
    _contexts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_teams)
