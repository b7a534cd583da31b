"""Whatever object is passed, the interpreter lives, and what is wrong with it is an exception that names the argument."""
import array
import copy
import ctypes
import itertools
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from exporters import IS_DEBUG, Exporter
from reference import random

import fovea
from fovea import _fovea

Q = random(1, 2, 3, 8)


def test_ctypes_arrays():
    """Their strides are NULL, which means contiguous."""
    numbers = (ctypes.c_float * 16)(*range(16))
    assert np.array_equal(fovea.exp(numbers), fovea.exp(np.arange(16, dtype=np.float32)))
    rows = (ctypes.c_float * 8 * 2)((*range(8),), (*range(8, 16),))
    assert np.array_equal(fovea.exp(rows), fovea.exp(np.arange(16, dtype=np.float32)).reshape(2, 8))
    assert fovea.exp((ctypes.c_float * 0)()).shape == (0,)
    ctypes.resize(numbers, 1000)
    assert np.array_equal(fovea.exp(numbers), fovea.exp(np.arange(16, dtype=np.float32)))
    assert np.array_equal(fovea.attention(Q[0], Q[0], Q[0], valid_lens=(ctypes.c_int64 * 2)(2, 3)),
                          fovea.attention(Q[0], Q[0], Q[0], valid_lens=np.array([2, 3])))
    out = (ctypes.c_float * 8 * 2)()
    fovea.exp(rows, out=out)
    assert np.array_equal(np.asarray(out), fovea.exp(rows))
    with pytest.raises(fovea.BadDtype, match="x has dtype float64, expected float32"):
        fovea.exp((ctypes.c_double * 4)())
    pair = type("Pair", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_float), ("b", ctypes.c_float)]})
    with pytest.raises(fovea.BadDtype, match="x has dtype T"):
        fovea.exp((pair * 3)())


@pytest.mark.parametrize("scalar", [np.datetime64("now"), np.datetime64("2020", "D"), np.timedelta64(1), np.float64(1),
                                    np.void(b"abcd"), np.str_("a"), np.bytes_(b"a"), b"abc", bytearray(3), memoryview(b"")])
def test_scalars_of_other_kinds(scalar):
    with pytest.raises((fovea.Error, TypeError), match="x"):
        fovea.exp(scalar)
    with pytest.raises((fovea.Error, TypeError)):
        fovea.attention(Q, Q, Q, valid_lens=scalar)


SHAPES = [None, (), (8,), (0,), (2, 4), (2, 0, 4), (1,) * 6, (-1,), (-2, -4), (2**62, 4), (1,) * 7, (1,) * 65]
STRIDES = [None, "right", "backwards", "odd"]
SUBOFFSETS = [None, "none", "one"]


def exporters():
    """Every combination of what may be NULL or wrong in a buffer, and whether it can be read."""
    for shape, strides, suboffsets, itemsize, form in itertools.product(
            SHAPES, STRIDES, SUBOFFSETS, [4, 0, -4, 2], [b"f", b"<f", None, b"", b">f", b"d", b"i", b"T{f:a:}"]):
        dims = shape or ()
        right = [4 * int(np.prod(dims[axis + 1:], dtype=object)) % 2**62 for axis in range(len(dims))]
        steps = {"right": right, "backwards": [-step for step in right[:-1]] + right[-1:], "odd": [3] * len(dims), None: None}[strides]
        offsets = {"none": [-1] * len(dims), "one": [0] * len(dims), None: None}[suboffsets]
        for length in (None, -1, 3, 32):
            may = (itemsize, form) in ((4, b"f"), (4, b"<f")) and shape is not None and 0 < len(dims) <= 6 and min(
                dims) >= 0 and strides != "odd" and suboffsets != "one" and (length is None or length >= 4 * np.prod(dims))
            yield may, dims, Exporter(shape, steps, offsets, itemsize=itemsize, format=form, length=length, at=128)


def test_buffers_of_every_kind():
    read, refused = 0, 0
    for may, shape, exporter in exporters():
        try:
            out = np.empty(shape if max(shape, default=0) < 100 else 1, np.float32)
        except ValueError:
            out = np.empty(1, np.float32)
        for call in (lambda: _fovea.exp(None, exporter, out), lambda: _fovea.exp(None, np.ones_like(out), exporter)):
            try:
                call()
                read += 1
            except (fovea.Error, TypeError, ValueError):
                refused += 1
                assert not may or max(shape) > 100, (shape, exporter.__dict__)
        assert exporter.exports == 0
    assert read > 100 and refused > 1000


def test_buffers_are_read_as_they_say():
    for exporter, wanted in ((Exporter((4,), (8,), at=3), [3, 5, 7, 9]), (Exporter((3,), (-4,), at=9), [9, 8, 7]),
                             (Exporter(None, ndim=1, length=16, at=2), [2, 3, 4, 5]), (Exporter((2,), at=7), [7, 8]),
                             (Exporter((3,), (0,), [-1], at=5), [5, 5, 5]), (Exporter((2,), at=1, length=64), [1, 2])):
        nothing = np.zeros((len(wanted), 1), np.float32)
        assert np.array_equal(fovea.linear(np.zeros((1, 1), np.float32), nothing, exporter), [wanted])


def test_exporters_that_fail():
    pool = fovea.KVPool(kv_heads=1, head_dim=8, positions=8, sequences=1)._handle
    released = memoryview(bytearray(16))
    released.release()
    for given in (released, *([] if IS_DEBUG else [Exporter(outcome=-1), Exporter(outcome=-1, format=b"d")])):
        with pytest.raises((fovea.BadValue, TypeError), match="x: "):
            _fovea.exp(None, given, np.empty(8, np.float32))
        with pytest.raises((fovea.BadValue, TypeError), match="out: "):
            _fovea.exp(None, np.empty(8, np.float32), given)
        with pytest.raises((fovea.BadValue, TypeError), match="bytes: "):
            _fovea.kv_pool_restore(pool, given)
    for given in (Exporter(length=-1), Exporter(at=None)):
        with pytest.raises(ValueError, match="bytes: "):
            _fovea.kv_pool_restore(pool, given)


def of(source, **how):
    """An object whose __dlpack__ is what it is told to be."""
    return type("Lying", (), {"shape": np.shape(source), **how})()


def test_dlpack_that_lies():
    x = np.arange(8, dtype=np.float32)
    functions = fovea._fovea.exp.__self__, __import__("datetime").datetime_CAPI
    used = x.__dlpack__()
    np.from_dlpack(of(x, __dlpack__=lambda self, **_: used, __dlpack_device__=lambda self: (1, 0)))
    for given in (None, 3, x, "dltensor", *functions, used):
        with pytest.raises((TypeError, fovea.BadValue), match="x"):
            fovea.exp(of(x, __dlpack__=lambda self, *_, **__: given))
    for error in (ValueError, TypeError, RuntimeError, AttributeError, KeyError):
        def fail(self, *_, **__):
            raise error("no")
        with pytest.raises((TypeError, fovea.BadValue), match="x: .*no"):
            fovea.exp(of(x, __dlpack__=fail))
    with pytest.raises((TypeError, fovea.BadValue), match="x"):
        fovea.exp(of(x, __dlpack__=3))
    with pytest.raises(fovea.BadValue, match="x: .*no"):
        fovea.exp(of(x, __dlpack__=property(lambda self: (_ for _ in ()).throw(OSError("no")))))
    # Nobody asks for the device: the capsule says where it lies.
    honest = of(x, __dlpack__=lambda self, **_: x.__dlpack__(), __dlpack_device__=lambda self: ("gpu", None))
    assert np.array_equal(fovea.exp(honest), fovea.exp(x))
    # One that gives the same capsule each time: it is used once.
    capsule = x.__dlpack__()
    again = of(x, __dlpack__=lambda self, **_: capsule)
    fovea.exp(again)
    with pytest.raises(TypeError, match="x: its __dlpack__ gave no capsule to be used"):
        fovea.exp(again)


def tanh_into(x, out):
    _fovea.tanh(None, x, out)
    return out


class Temporary(np.ndarray):
    """Its array interface hands out one that is gone by the time it is read."""

    @property
    def __array_struct__(self):
        return np.full(2**16, 7, np.float32).__array_struct__

    @property
    def __array_interface__(self):
        return np.full(2**16, 7, np.float32).__array_interface__

    @property
    def dtype(self):
        return np.dtype("V2")


def test_an_array_interface_that_hands_out_a_temporary():
    x = np.arange(8, dtype=np.float32)
    assert np.array_equal(tanh_into(x.view(Temporary), np.empty(8, np.float32)), fovea.tanh(x))
    out = np.zeros(8, np.float32).view(Temporary)
    _fovea.tanh(None, x, out)
    assert np.array_equal(np.asarray(memoryview(out)), fovea.tanh(x))
    for given in (fovea._fovea.exp.__self__, None, 3, {"data": (16, False), "shape": (8,), "typestr": "<f4", "version": 3}):
        fake = of(x, __array_struct__=given, __array_interface__=given)
        with pytest.raises(TypeError, match="x: an array is wanted"):
            fovea.exp(fake)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.ones(4, np.float32), mask=[0, 1, 0, 0])
    with pytest.raises(fovea.BadValue, match="x: a masked array"):
        fovea.exp(masked)
    assert fovea.exp(masked.filled(0)).shape == (4,)


class Meddler:
    """An array that is another by the time it has been read: its __dlpack__ does something else first."""

    def __init__(self, of, deed):
        self.of, self.deed, self.shape = of, deed, of.shape

    def __dlpack__(self, **_):
        self.deed()
        return self.of.__dlpack__()


def quietly(deed):
    def run():
        try:
            deed()
        except (ValueError, BufferError):
            pass
    return run


def test_arrays_that_are_freed_while_others_are_read():
    b = random(512, 512)
    a = random(256, 512)
    wanted = fovea.matmul(a, b)
    # NumPy resizes no array that the call has seen.
    assert np.array_equal(fovea.matmul(a, Meddler(b, quietly(lambda: a.resize((1, 1), refcheck=False)))), wanted)
    assert a.shape == (256, 512)
    # ctypes resizes one whatever anybody has seen.
    numbers = (ctypes.c_float * 16)(*range(16))

    def move():
        ctypes.resize(numbers, 1 << 20)

    with pytest.raises(fovea.BadValue, match="x: the array was changed while the other arguments were read"):
        _fovea.exp(None, numbers, Meddler(np.empty(16, np.float32), move))
    # A bytearray or an array.array refuses by itself.
    row = array.array("f", range(16))
    out = np.empty(16, np.float32)
    _fovea.exp(None, row, Meddler(out, quietly(lambda: row.extend(range(10000)))))
    assert np.array_equal(out, fovea.exp(row)) and len(row) == 16


def test_options_that_vanish_while_they_are_read():
    options = {"valid_lens": np.array([2], np.int64)}

    class Clears:
        def __index__(self):
            options.clear()
            return 1

    options["query_offset"] = Clears()
    options["mask"] = np.ones((3, 3), bool)
    out = np.empty_like(Q)
    try:
        _fovea.sdpa(None, Q, Q, Q, out, options)
    except (fovea.Error, TypeError):
        pass
    assert options == {}


@pytest.mark.parametrize("options", [{b"x": Q}, {1: 2}, {None: None}, {"scale": Q, ("a",): 1}, {"colour": 1}, [], "scale", 3])
def test_options_of_other_kinds(options):
    with pytest.raises((TypeError, ValueError)):
        _fovea.sdpa(None, Q, Q, Q, np.empty_like(Q), options)


def test_runs_with_keywords_of_other_kinds():
    run = fovea.plan(Q, Q, Q)
    for key in (b"x", 1, None, ("mask",), Q.tobytes()):
        with pytest.raises(TypeError, match="keywords|str"):
            run(Q, Q, Q, **{key: Q})
    with pytest.raises(TypeError, match="\udcff was not planned|surrogates|not planned"):
        run(Q, Q, Q, **{"\udcff": Q})
    with pytest.raises(TypeError, match="value: an array is wanted"):
        run(Q, Q, None)


def handles():
    schedule = fovea.Schedule(query=(3, 2, 8), key=(4, 2, 8), value=(4, 2, 8), sequences=1)
    keys = fovea.PreparedKeys(fovea.Bilinear(random(8, 8)), batch=1, kv_heads=2, capacity=3, query_dim=8, key_dim=8)
    return [fovea.Context(max_threads=1)._handle, keys._handle,
            fovea.KVPool(kv_heads=2, head_dim=8, positions=8, sequences=1)._handle, schedule._handle,
            fovea.PackedMatrix(random(8, 8))._handle,
            fovea.MultiHeadAttention(2, in_weight=random(24, 8))._handle]


def test_handles_of_another_kind():
    for handle in handles():
        with pytest.raises(TypeError, match="Plan: a handle of a plan is wanted, not <fovea_"):
            fovea.Plan(handle, {}, {}, None)
    plan = _fovea.attention_plan_create(None, None, Q, Q, Q, np.empty_like(Q), None)
    for arguments in ((), (plan,), (plan, [], {}, None), (plan, {}, [], None), (None, {}, {}, None), (Q, {}, {}, None),
                      (plan, {}, {"out": 3}, None), (plan, {}, {"out": (np.empty, 3)}, None),
                      (plan, {}, {"out": (np.empty, (), ())}, None)):
        with pytest.raises(TypeError):
            fovea.Plan(*arguments)
    with pytest.raises(TypeError, match="fovea.plan makes one"):
        fovea.Plan(plan, {}, {}, None, colour=1)
    for other in (plan, *handles()):
        for call in (lambda: _fovea.sdpa(other, Q, Q, Q, np.empty_like(Q), None) if "context" not in repr(other) else 1 / 0,
                     lambda: _fovea.kv_pool_length(other, 1) if "pool" not in repr(other) else 1 / 0,
                     lambda: _fovea.schedule_run(other, {}),
                     lambda: _fovea.mha_run(other, {}, bytearray(8)),
                     lambda: _fovea.linear(None, Q, other, Q, None) if "matrix" not in repr(other) else 1 / 0):
            with pytest.raises((TypeError, ZeroDivisionError)):
                call()
    for kind in (fovea.Plan, _fovea.Handle):
        with pytest.raises(TypeError):
            object.__new__(kind)
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
        with pytest.raises(TypeError):
            kind.__call__ = None


def test_a_plan_knows_what_was_planned_whatever_it_is_made_with():
    plan = _fovea.attention_plan_create(None, None, Q, Q, Q, np.empty_like(Q), {"valid_lens": np.array([3])})
    run = fovea.Plan(plan, {"valid_lens": np.array([3], np.int32)}, {}, None)
    with pytest.raises(fovea.BadDtype, match="valid_lens: dtype int32, planned with int64"):
        run(Q, Q, Q, out=np.empty_like(Q))
    run = fovea.Plan(plan, {"mask": Q, 3: 4}, {"out": (lambda: Q[:, :1].copy(), ())}, None)
    with pytest.raises(fovea.BadShape, match="out: shape"):
        run(Q, Q, Q, valid_lens=np.array([3]))
    with pytest.raises(TypeError, match="out is missing"):
        fovea.Plan(plan, {}, {}, None)(Q, Q, Q, valid_lens=np.array([3]))
    with pytest.raises(TypeError):
        fovea.Plan(plan, {}, {}, None)(Q, Q, Q, out=np.empty_like(Q), valid_lens=[3])
    with pytest.raises((TypeError, ZeroDivisionError)):
        fovea.Plan(plan, {}, {"out": (lambda: 1 / 0, ())}, None)


def test_a_borrowed_exchange():
    """PyTorch's way without Python objects between serves PyTorch's own: another type that has its capsule is no tensor."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this PyTorch has no such way")
    borrower = of(Q, __dlpack_c_exchange_api__=torch.Tensor.__dlpack_c_exchange_api__)
    with pytest.raises(TypeError, match="x: an array is wanted"):
        fovea.exp(borrower)
    inherits = type("Own", (torch.Tensor,), {"__dlpack_c_exchange_api__": np.ones(3)})
    assert torch.equal(fovea.exp(torch.ones(3).as_subclass(inherits)).as_subclass(torch.Tensor), fovea.exp(torch.ones(3)))


def test_tensors_without_memory():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3)
    for tensor in (torch.ones(2, 3, device="meta"), x.to_sparse(), torch._efficientzerotensor((2, 3)),
                   torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), torch.nested.nested_tensor([x, x])):
        try:
            out = fovea.exp(tensor)
            assert out.shape == tensor.shape
        except Exception as error:
            assert not isinstance(error, SystemError)


def test_tensors_that_are_freed_while_others_are_read():
    torch = pytest.importorskip("torch")
    for deed in (lambda a: a.resize_(1, 1) if a.numel() < 0 else a.set_(), lambda a: setattr(a, "data", torch.ones(256, 512)),
                 lambda a: a.resize_(4096, 4096)):
        a, b = torch.randn(256, 512), random(512, 64)
        with pytest.raises(fovea.BadValue, match="a: the array was changed"):
            fovea.matmul(a, Meddler(b, lambda: deed(a)))


@pytest.mark.parametrize("make", [
    lambda: fovea.PackedMatrix(random(8, 8)), lambda: fovea.MultiHeadAttention(2, in_weight=random(24, 8)),
    lambda: fovea.plan(Q, Q, Q), lambda: fovea.Context(max_threads=1)])
def test_copies_of_what_never_changes(make):
    one = make()
    assert copy.copy(one) is one and copy.deepcopy(one) is one and copy.deepcopy([one])[0] is one
    if isinstance(one, fovea.Context):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(one, protocol)).threads == 1
        return
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled: .* this machine's instruction set"):
            pickle.dumps(one, protocol)


def test_copies_of_what_changes():
    pool = fovea.KVPool(kv_heads=2, head_dim=8, positions=8, sequences=1)
    sequence = pool.open()
    for one in (pool, sequence, pool.step({sequence: 1}), fovea.Schedule(query=(3, 2, 8), pool=pool)):
        for deed in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"a {type(one).__name__} cannot be copied or pickled"):
                deed(one)
    keys = fovea.PreparedKeys(fovea.Bilinear(random(8, 8)), batch=1, kv_heads=2, capacity=3, query_dim=8, key_dim=8)
    for deed in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="PreparedKeys cannot be copied or pickled: .*append the keys"):
            deed(keys)
    score = pickle.loads(pickle.dumps(copy.deepcopy(fovea.Gaussian(2.0))))
    assert np.array_equal(fovea.attention(Q, Q, Q, score=score), fovea.gaussian_attention(Q, Q, Q, 2.0))


def test_random_calls(tmp_path):
    """In a process of its own, as what this looks for ends it. FOVEA_FUZZ_SECONDS: how long."""
    script = pathlib.Path(__file__).with_name("fuzz.py")
    seconds = os.environ.get("FOVEA_FUZZ_SECONDS", "3")
    done = subprocess.run([sys.executable, "-X", "faulthandler", str(script), seconds], cwd=tmp_path, capture_output=True,
                          text=True, errors="replace", check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    print(done.stdout)
