"""Arrays of every kind in and out, without copies; and what is refused, with the library's words."""
import array
import threading

import numpy as np
import pytest
from reference import attention, close, random

import fovea

Q = random(2, 4, 5, 16)
WANTED = attention(Q, Q, Q)[0]


class OnlyDlpack:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, of, versions=True):
        self.of, self.versions, self.shape = of, versions, of.shape

    def __dlpack__(self, **options):
        if options and not self.versions:
            raise TypeError("an older one")
        return self.of.__dlpack__()

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def test_strides_are_taken_as_they_are():
    wide = np.zeros((2, 5, 4, 40), np.float32)
    wide[..., 3:19] = Q.swapaxes(1, 2)
    view = wide[..., 3:19].swapaxes(1, 2)
    close(fovea.attention(view, view, view), WANTED)
    # Backwards, as a negative stride.
    assert np.array_equal(fovea.attention(Q[:, ::-1], Q[:, ::-1], Q[:, ::-1]), fovea.attention(Q, Q, Q)[:, ::-1])


@pytest.mark.parametrize("versions", [True, False])
def test_dlpack(versions):
    source = OnlyDlpack(Q.copy(), versions)
    close(fovea.attention(source, source, source), WANTED)
    target = np.zeros_like(Q)
    fovea.attention(source, source, source, out=OnlyDlpack(target, versions))
    close(target, WANTED)


def test_buffers():
    row = array.array("f", [1, 2, 3])
    assert np.array_equal(fovea.exp(row), fovea.exp(np.array([1, 2, 3], np.float32)))
    out = array.array("f", [0, 0, 0])
    fovea.tanh(row, out=out)
    close(out, np.tanh([1, 2, 3]), 1e-6)
    view = memoryview(Q)
    close(fovea.attention(view, view, view), WANTED)


def test_read_only_is_read_but_not_written():
    fixed = Q.copy()
    fixed.flags.writeable = False
    close(fovea.attention(fixed, fixed, fixed), WANTED)
    for out in (fixed, memoryview(fixed)):
        with pytest.raises(fovea.BadValue, match="out: .* read-only"):
            fovea.attention(Q, Q, Q, out=out)
    assert np.array_equal(fixed, Q)


def test_lengths_are_left_alone():
    lens = np.array([1, 9, 3, 9], np.int64)[::2]
    close(fovea.attention(Q, Q, Q, valid_lens=lens)[0, :, :, :], np.broadcast_to(Q[0, :, :1], Q[0].shape))


@pytest.mark.parametrize("make, error, words", [
    (lambda: fovea.attention(Q, Q, Q[:, :, :, 0]), fovea.BadRank, "value"),
    (lambda: fovea.attention(Q, Q[..., :8], Q), fovea.BadShape, "key"),
    (lambda: fovea.attention(Q, Q, Q.swapaxes(2, 3)[:, :, :5]), fovea.BadArgument, "value"),
    (lambda: fovea.attention(Q.astype(np.float64), Q, Q), fovea.BadDtype,
     "query has dtype float64, expected float32, float16 or bfloat16"),
    (lambda: fovea.attention(Q.astype(">f4"), Q, Q), fovea.BadDtype, "query: .* order"),
    (lambda: fovea.attention(Q, Q.astype("U4"), Q), fovea.BadDtype, "key has dtype <U4, expected float32"),
    (lambda: fovea.attention(Q, Q, Q.astype(np.complex64)), fovea.BadDtype, "value has dtype complex64, expected float32"),
    (lambda: fovea.attention(Q, Q, Q, valid_lens=np.array([1.0, 2.0])), fovea.BadDtype,
     "valid_lens has dtype float64, expected int32 or int64"),
    (lambda: fovea.attention(Q, Q, Q, mask=np.ones((5, 5), np.int16)), fovea.BadDtype,
     "mask has dtype int16, expected bool"),
    (lambda: fovea.exp(memoryview(np.zeros(3))), fovea.BadDtype, "x has dtype float64, expected float32"),
    (lambda: fovea.exp(array.array("u", "ab")), fovea.BadDtype, "x has dtype w, expected float32"),
    (lambda: fovea.exp(np.zeros((1,) * 7, np.float32)), fovea.BadRank, "x: rank 7, expected at most 6"),
    (lambda: fovea.attention(Q, Q, Q, scale="half"), TypeError, "scale: must be real number, not str"),
    (lambda: fovea.attention(Q, Q, Q, window_left=1.5), TypeError, "window_left: 'float' object cannot be"),
    (lambda: fovea.attention(Q, Q, Q, context=3), TypeError, "context: a fovea.Context is wanted, not int"),
    (lambda: fovea.attention(Q, Q, Q, score="dot"), TypeError, r"score: a fovea.Score is wanted, Dot\(\) .* not str"),
    (lambda: fovea.attention(Q, Q, Q, precision=[]), ValueError, r"precision: \[\] is none of"),
    (lambda: fovea.Context(max_isa="avx2\0"), ValueError, "max_isa: embedded null"),
    (lambda: fovea.attention(Q, Q, Q, valid_lens=np.array([1, 99])), fovea.BadValue, "valid_lens.* 99"),
    (lambda: fovea.attention(Q, Q, Q, dropout=1.5), fovea.BadValue, "dropout"),
    (lambda: fovea.attention(Q, Q, Q, scale=1e300), fovea.BadValue, "scale"),
    (lambda: fovea.attention(Q, Q, Q, out=Q), fovea.Overlap, "out"),
    (lambda: fovea.attention(Q, Q, Q, dropout_seed=-1), ValueError, "dropout_seed: -1"),
    (lambda: fovea.attention(Q, Q, Q, colour=1), TypeError, "no option 'colour'.*valid_lens"),
    (lambda: fovea.attention(Q, "text", Q), TypeError, "an array is wanted .* not str"),
    (lambda: fovea.attention(Q, Q, Q, mask=object()), TypeError, "mask: an array is wanted"),
    (lambda: fovea.exp(np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float32)), fovea.BadValue, "x: .*aligned"),
    (lambda: fovea.KVPool(kv_heads=1, head_dim=5000, positions=1, sequences=1), fovea.BadValue, "head_dim"),
])
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words) as caught:
        make()
    if issubclass(error, fovea.Error):
        assert isinstance(caught.value, ValueError) and caught.value.status != 0


def test_an_error_leaves_the_output_alone():
    out = np.full_like(Q, 7)
    with pytest.raises(fovea.Error):
        fovea.attention(Q, Q, Q, valid_lens=np.array([-1, 1]), out=out)
    assert (out == 7).all()


def test_every_status_has_its_exception():
    from fovea import _fovea
    from fovea.errors import BY_STATUS

    status = 1
    while _fovea.status_name(status) != "FOVEA_UNKNOWN_STATUS":
        assert status in BY_STATUS, _fovea.status_name(status)
        status += 1
    assert issubclass(fovea.OutOfMemory, MemoryError) and not issubclass(fovea.InternalError, ValueError)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision(name):
    """As the library takes it: outputs are of query's element type."""
    dtype = np.dtype(np.float16) if name == "float16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    half = Q.astype(dtype)
    out, weights = fovea.attention(half, half, half, return_weights=True)
    assert out.dtype == dtype and weights.dtype == np.float32
    wanted = half.astype(np.float64)
    close(out.astype(np.float64), attention(wanted, wanted, wanted)[0], 2e-3 if name == "float16" else 2e-2)
    run = fovea.plan(half, half, half)
    assert run(half, half, half).dtype == dtype
    with pytest.raises(fovea.BadDtype, match="query"):
        run(Q, half, half)
    assert fovea.masked_softmax(half).dtype == dtype


def same(given, wanted):
    """Of one element type, and the same bits."""
    assert given.dtype == wanted.dtype
    assert np.array_equal(given.view(np.uint16), wanted.view(np.uint16))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_float32_rounded_once(name):
    """Where no products of bfloat16 are taken, which are the library's to choose on some processors."""
    dtype = np.dtype(np.float16) if name == "float16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    base = fovea.Context(max_isa="base")
    q, k, v = (random(2, 4, n, 16).astype(dtype) for n in (5, 7, 8))
    v = v[:, :, :7]
    wide, bias = [x.astype(np.float32) for x in (q, k, v)], random(5, 7).astype(dtype)
    wanted = fovea.attention(*wide, context=base)
    rounded = wanted.astype(dtype)
    assert not np.array_equal(rounded.astype(np.float32), wanted)
    same(fovea.attention(q, k, v, context=base), rounded)
    same(fovea.scaled_dot_product_attention(q, k, v, context=base), rounded)
    same(fovea.plan(q, k, v, context=base)(q, k, v), rounded)
    assert np.array_equal(fovea.attention(q, k, v, out=np.zeros_like(wanted), context=base), wanted)
    same(fovea.gaussian_attention(q, k, v, 2.0, context=base),
         fovea.gaussian_attention(*wide, 2.0, context=base).astype(dtype))
    same(fovea.attention(q, k, v, bias=bias, context=base),
         fovea.attention(*wide, bias=bias.astype(np.float32), context=base).astype(dtype))


def test_float16_through_dlpack_and_buffers():
    half = Q.astype(np.float16)
    wanted = fovea.attention(half, half, half)
    for source in (OnlyDlpack(half), OnlyDlpack(half, False), memoryview(half)):
        target = np.zeros_like(half)
        fovea.attention(source, source, source, out=OnlyDlpack(target))
        same(target, wanted)
    target = np.zeros_like(half)
    fovea.attention(half, half, half, out=memoryview(target))
    same(target, wanted)


def test_the_lock_is_released():
    """While a long call runs another thread goes on."""
    big = random(1, 8, 2048, 64)
    one = fovea.Context(max_threads=1)
    steps, running = [], threading.Event()

    def work():
        running.set()
        fovea.attention(big, big, big, context=one)
        running.clear()

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    while running.is_set():
        steps.append(None)
    thread.join()
    assert len(steps) > 1000


def test_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(Q)
    out = fovea.attention(x, x, x)
    assert isinstance(out, jax.Array)
    close(out, WANTED)
    with pytest.raises(fovea.BadValue, match="read-only"):
        fovea.attention(x, x, x, out=x + 0)
