# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one for each status of the library, with the library's message, which names the argument and what was expected."""
from . import _fovea


class Error(Exception):
    """What fovea refuses or cannot do. `status` is the number of the C interface's status."""

    status = 0


class BadArgument(Error, ValueError):
    """An argument is wrong; outputs are as they were."""


class NullPointer(BadArgument):
    """A required argument is missing."""


class BadRank(BadArgument):
    """An array has the wrong number of axes."""


class BadShape(BadArgument):
    """Sizes are out of range or do not fit together."""


class BadStride(BadArgument):
    """A stride the operation does not take, or an output that repeats itself."""


class BadDtype(BadArgument):
    """An element type the argument does not take."""


class BadValue(BadArgument):
    """A number is out of range: an option, a valid length."""


class BadOption(BadArgument):
    """Options that do not go together, or that this build lacks."""


class Overlap(BadArgument):
    """An output overlaps an input or another output."""


class SizeOverflow(BadArgument):
    """The product of sizes or strides does not fit the address space."""


class WorkspaceTooSmall(BadArgument):
    """A buffer is too small."""


class UnknownISA(BadArgument):
    """FOVEA_ISA or max_isa names no instruction set this machine can run."""


class OutOfMemory(Error, MemoryError):
    """Memory ran out."""


class PoolExhausted(Error):
    """A pool has too few free pages, or no room for another sequence; nothing has changed. Close or truncate sequences, or try
    again when others are done."""


class InternalError(Error, RuntimeError):
    """A defect in fovea; please report it."""


def _class_name(status_name):
    words = "".join(word.capitalize() for word in status_name.split("_"))
    return {"UnknownIsa": "UnknownISA"}.get(words, words)


def _register():
    classes, status = {}, 1
    while (name := _fovea.status_name(status)) != "FOVEA_UNKNOWN_STATUS":
        found = globals().get(_class_name(name.removeprefix("FOVEA_")))
        if found:
            classes[status] = found
            found.status = status
        status += 1
    _fovea.set_errors(classes, Error)
    return classes


BY_STATUS = _register()
