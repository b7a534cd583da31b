"""Objects whose buffers say whatever they are told to: exporters of the buffer protocol, made with ctypes."""
import ctypes
import sys

API = ctypes.pythonapi
IS_DEBUG = hasattr(sys, "gettotalrefcount")
"""A debug build of Python ends by itself where an exporter fails without an error."""


class Buffer(ctypes.Structure):
    """Py_buffer"""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.POINTER(Slot))]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int)
def get_buffer(exporter, view, flags):
    return exporter.fill(view.contents, flags)


@ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.POINTER(Buffer))
def release_buffer(exporter, _view):
    exporter.exports -= 1


def new_type(counts):
    """counts: whether it hears of releases, which CPython's own memoryview announces with an error set."""
    slots = (Slot * 3)(Slot(1, ctypes.cast(get_buffer, ctypes.c_void_p)),
                       Slot(2, ctypes.cast(release_buffer, ctypes.c_void_p)) if counts else Slot(0, None), Slot(0, None))
    default, may_be_inherited = 1 << 18, 1 << 10
    spec = Spec(b"exporters.Base", object.__basicsize__, 0, default | may_be_inherited, slots)
    API.PyType_FromSpec.restype = ctypes.py_object
    made = API.PyType_FromSpec(ctypes.byref(spec))
    made.kept = (slots, spec)
    return made


def sizes(numbers):
    return None if numbers is None else (ctypes.c_ssize_t * max(len(numbers), 1))(*numbers)


class Fills:
    """Of 256 floats, 0 to 255, of which `at` is the first. What is left out is NULL or what goes with the rest."""

    def __init__(self, shape=(8,), strides=None, suboffsets=None, *, ndim=None, itemsize=4, length=None, format=b"f", at=0,
                 readonly=0, outcome=0):
        self.memory = (ctypes.c_float * 256)(*range(256))
        self.ndim = ndim if ndim is not None else len(shape or ())
        self.itemsize, self.format, self.readonly, self.outcome = itemsize, format, readonly, outcome
        self.at, self.exports = at, 0
        self.length = length
        if length is None:
            self.length = itemsize
            for size in shape or ():
                self.length *= size
        self.numbers = [sizes(shape), sizes(strides), sizes(suboffsets)]

    def fill(self, view, _flags):
        view.buf = ctypes.addressof(self.memory) + 4 * self.at if self.at is not None else None
        view.len, view.itemsize, view.readonly, view.ndim = self.length, self.itemsize, self.readonly, self.ndim
        view.format = self.format
        view.shape, view.strides, view.suboffsets = (None if one is None else ctypes.addressof(one) for one in self.numbers)
        if self.outcome == 0:
            API.Py_IncRef(ctypes.py_object(self))
            view.obj = id(self)
            self.exports += 1
        return self.outcome


class Exporter(Fills, new_type(counts=True)):
    pass


class Uncounted(Fills, new_type(counts=False)):
    pass
