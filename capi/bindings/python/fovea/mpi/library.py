# SPDX-License-Identifier: Apache-2.0
"""Finds libfovea-mpi, and sees to it that it goes with mpi4py and with this package.

The package's extension holds a libfovea of its own; libfovea-mpi calls another, which is loaded with it. A handle of one is
nothing to the other. So contexts for libfovea-mpi are made by the libfovea that it calls, which the loader finds through it, and
nothing but arrays and options goes from one side to the other, laid out as the C interface has them.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import sys

from .. import _fovea
from .layouts import CORE_FUNCTIONS, FUNCTIONS

try:
    import mpi4py
except ImportError as error:
    raise ImportError("fovea.mpi needs mpi4py, which is not installed: pip install mpi4py, or in Debian apt-get install "
                      "python3-mpi4py", name="mpi4py") from error
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise ImportError(f"fovea.mpi needs mpi4py, which is installed but does not load: {error}", name="mpi4py.MPI") from error

ABI = 0  # of meson.build's abi_number
FILE_NAME = f"libfovea-mpi.{ABI}.dylib" if sys.platform == "darwin" else f"libfovea-mpi.so.{ABI}"
VARIABLE = "FOVEA_MPI_LIBRARY"
HOW = ("Build fovea with -Dmpi=enabled and install it (docs/beyond-one-machine.md); where the loader does not look for "
       f"libraries, let the environment variable {VARIABLE} name the file")


def _refusal(message: str, path: str | None = None) -> ImportError:
    return ImportError(f"fovea.mpi: {message}", name="libfovea-mpi", path=path)


def _path() -> str:
    """What the variable names, else what lies beside the package's own library, else what the loader finds."""
    beside = pathlib.Path(_fovea.__file__).parent / FILE_NAME
    return os.environ.get(VARIABLE) or (str(beside) if beside.exists() else FILE_NAME)


def _open(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        if os.sep in path and not os.path.exists(path):
            raise _refusal(f"{VARIABLE} is {path}, where there is no file", path) from error
        if path == FILE_NAME and str(error).startswith(path):
            raise _refusal(f"{FILE_NAME} is nowhere that the loader looks. {HOW}", path) from error
        raise _refusal(f"{path} does not load: {error}", path) from error


def _declare(library: ctypes.CDLL, functions: dict, path: str) -> None:
    for name, (result, arguments) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise _refusal(f"{path} has no {name}: it is no libfovea-mpi of version {_fovea.version()}, the package's",
                           path) from error
        function.restype, function.argtypes = result, arguments


def _of_mpi(library: ctypes.CDLL):
    """A function of the MPI that a library calls, None where that is not to be seen."""
    return getattr(library, "MPI_Get_library_version", None)


def _check_mpi(library: ctypes.CDLL, path: str) -> None:
    """That both call one MPI: the same function, or where mpi4py's cannot be seen, one that says the same of itself."""
    function, its_function = _of_mpi(library), _of_mpi(ctypes.CDLL(MPI.__file__))
    if function is None:
        raise _refusal(f"{path} calls no MPI: it is no libfovea-mpi", path)
    text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
    function(text, ctypes.byref(length))
    name, its_name = text.value.decode(errors="replace"), MPI.Get_library_version()
    same = name == its_name if its_function is None else _address(function) == _address(its_function)
    if not same:
        raise _refusal(f"{path} is for another MPI ({_in_short(name)}) than mpi4py ({_in_short(its_name)}). Build fovea for "
                       "mpi4py's (-Dmpi_package=...), or mpi4py for fovea's (pip install --no-binary mpi4py mpi4py)", path)


def _address(function) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _in_short(mpi: str) -> str:
    return " ".join(mpi.partition(",")[0].split()).partition(" MPICH Release date")[0].rstrip("\0")


def _check_version(library: ctypes.CDLL, path: str) -> None:
    """Before 1.0 a minor version may change the interface."""
    version, own = library.fovea_version().decode(), _fovea.version()
    if version.split(".")[:2] != own.split(".")[:2]:
        raise _refusal(f"{path} calls fovea {version}, the package is {own}: install both from one version", path)


def load() -> ctypes.CDLL:
    path = _path()
    library = _open(path)
    _declare(library, CORE_FUNCTIONS, path)
    _check_version(library, path)
    _declare(library, FUNCTIONS, path)
    _check_mpi(library, path)
    comm_type = ctypes.c_int if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    library.fovea_mpi_create.argtypes = [comm_type, *FUNCTIONS["fovea_mpi_create"][1][1:]]
    return library


def handle_of(comm: MPI.Comm):
    """Its MPI_Comm, as fovea_mpi_create takes it."""
    return LIBRARY.fovea_mpi_create.argtypes[0].from_address(MPI._addressof(comm))


LIBRARY = load()
