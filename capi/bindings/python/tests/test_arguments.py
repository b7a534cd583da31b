"""Arguments laid out for functions of other libraries, read back as C reads them."""
import ctypes
import sys

import numpy as np
import pytest

import fovea
from fovea import _fovea

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Tensor(ctypes.Structure):
    """fovea_tensor"""

    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 6),
                ("strides", ctypes.c_int64 * 6)]


def test_what_lies_there():
    arguments = _fovea.Arguments(("x", "tensor", X.T[:, :2].T), ("none", "tensor", None), ("out", "output", X),
                                 ("options", "fovea_attention_options", {"sinks": X[0], "flags": 5}))
    x, none, out, options = arguments.addresses
    tensor = Tensor.from_address(x)
    assert (tensor.data, tensor.dtype, tensor.rank) == (X.ctypes.data, _fovea.F32, 2)
    assert (list(tensor.shape[:2]), list(tensor.strides[:2])) == ([2, 4], [4, 1])
    assert none == 0 and Tensor.from_address(out).data == X.ctypes.data
    first = ctypes.c_size_t.from_address(options).value
    assert first > 8 and ctypes.c_uint32.from_address(options + 8).value == 5


def test_it_keeps_what_it_was_given():
    array = np.zeros(3, np.float32)
    before = sys.getrefcount(array)
    arguments = _fovea.Arguments(("x", "tensor", array), ("options", "fovea_attention_options", {"sinks": array}))
    assert sys.getrefcount(array) > before
    with pytest.raises(ValueError, match="resize"):
        array.resize(100)
    del arguments
    assert sys.getrefcount(array) == before
    for _ in range(3):
        with pytest.raises(TypeError):
            _fovea.Arguments(("x", "tensor", array), ("y", "tensor", object()))
    assert sys.getrefcount(array) == before


def test_what_is_read_is_not_written():
    """Options of a backward pass have outputs of the forward one, which may be arrays that cannot be written to."""
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(fovea.BadArgument, match="log_sum_exp"):
        _fovea.Arguments(("options", "fovea_attention_options", {"log_sum_exp": fixed}))
    _fovea.Arguments(("options", "fovea_attention_options, read", {"log_sum_exp": fixed}))


def test_names_of_elements():
    double = _fovea.Arguments(("x", "tensor", X), ("y", "tensor", X.astype("d")))
    number = Tensor.from_address(double.addresses[1]).dtype
    said = f"y has dtype {number}, expected FOVEA_F32"
    assert double.named(said) == "y has dtype float64, expected float32"
    assert _fovea.Arguments().named(said) == f"y has dtype {number}, expected float32"
    with pytest.raises(TypeError):
        double.named(3)


@pytest.mark.parametrize("given, message", [
    ((3,), "tuples of name, kind and value"), ((("x", "tensor"),), "3"), ((("x", "scalar", X),), "there is no struct scalar"),
    (((3, "tensor", X),), "str"), ((("x", "fovea_score", X),), "x: a dict is wanted"),
    ((("x", "fovea_score", {"colour": 3}),), "has no member 'colour'"), ((("x", "tensor", X),) * 13, "at most 12")])
def test_what_is_refused(given, message):
    with pytest.raises(TypeError, match=message):
        _fovea.Arguments(*given)
    with pytest.raises(TypeError, match="no keywords"):
        _fovea.Arguments(x=X)
