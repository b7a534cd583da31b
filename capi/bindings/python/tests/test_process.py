"""No setting of the process changes a result or its type: NumPy's error state and printing, warnings, the locale, threads."""
import contextlib
import decimal
import gc
import locale
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from reference import random

import fovea

Q, K, V = random(2, 4, 5, 16), random(2, 2, 7, 16, seed=2), random(2, 2, 7, 12, seed=3)
with np.errstate(over="ignore"):  # made here, where NumPy's own settings are not yet changed
    LARGE_Q, LARGE_K, LARGE_X, LARGE_W = Q * 1e38, K * 1e38, random(3, 8) * 1e38, random(8, 8) * 1e38


def results():
    """Of everything, numbers past every range among them."""
    large = [[1e300, -1e300, 1.5, 0.0]]
    layer = fovea.MultiHeadAttention(2, in_weight=random(24, 8))
    return [
        fovea.attention(Q, K, V, valid_lens=[0, 7]), fovea.attention(Q, K, V, bias=np.full((5, 7), -np.inf, np.float32)),
        fovea.attention(LARGE_Q, LARGE_K, V), fovea.attention(Q.astype(np.float16), K, V),
        fovea.attention(Q, K, V, sinks=[1e300, -1e300, 0, 1], scale=0.1), fovea.exp(large), fovea.tanh(large),
        fovea.exp(np.array([1000, -1000, np.nan, np.inf], np.float32)), fovea.masked_softmax(np.full((2, 3), np.nan, np.float32)),
        fovea.layer_norm(np.zeros((2, 3), np.float32), epsilon=0), fovea.rms_norm(np.zeros((2, 3), np.float16), epsilon=0.0),
        fovea.linear(LARGE_X, LARGE_W), fovea.linear([[65504.0] * 8], random(8, 8).astype(np.float16)),
        fovea.scaled_dot_product_attention(Q, K, V, enable_gqa=True, scale=0.0), layer(random(3, 8)),
        fovea.gaussian_attention(Q, K, V, 1e-20), fovea.plan(Q, K, V, scale=1e-45)(Q, K, V),
        fovea.kernel_regression([0.0, 1e300], [0.0, 1.0], [1.0, 2.0]), fovea.rotary(Q, positions=[1, 2, 3, 4, 2**30]),
        *fovea.merge_states(np.stack([V, V]), np.full((2, 2, 2, 7), -np.inf, np.float32)), fovea.positional_encoding(4, 5)]


@contextlib.contextmanager
def other_locale():
    before = locale.setlocale(locale.LC_ALL)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8", "C"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
            break
    yield
    locale.setlocale(locale.LC_ALL, before)


@contextlib.contextmanager
def warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def eager_collector():
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


SETTINGS = {
    "errors raise": lambda: np.errstate(all="raise"), "errors warn": warnings_as_errors,
    "errors are called": lambda: np.errstate(all="call", call=lambda *_: 1 / 0),
    "printing": lambda: np.printoptions(precision=1, suppress=True), "locale": other_locale, "collector": eager_collector,
    "decimals": lambda: decimal.localcontext(decimal.Context(prec=1)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name):
    wanted = results()
    with SETTINGS[name]():
        found = results()
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


def test_messages_in_another_locale():
    with other_locale(), pytest.raises(fovea.BadValue, match=r"dropout is 1\.5, expected"):
        fovea.attention(Q, K, V, dropout=1.5)


def test_threads_have_settings_of_their_own():
    wanted, found = results(), []

    def work():
        with np.errstate(all="raise"):
            found.append(results())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for one in found:
        assert all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(one, wanted, strict=True))


@pytest.mark.parametrize("flags", [["-O"], ["-OO"], ["-X", "dev", "-W", "error"], ["-B", "-s"], ["-X", "utf8=0"]])
def test_flags_of_the_interpreter(flags):
    program = ("import sys; import numpy as np; import fovea; x = np.arange(6, dtype=np.float32).reshape(2, 3); "
               "sys.stdout.write(fovea.attention(x, x, x, bias=[[1e300, 0], [0, 1]]).tobytes().hex())")
    done = [subprocess.run([sys.executable, *some, "-c", program], capture_output=True, text=True, check=False)
            for some in ([], flags)]
    assert done[0].stdout and done[1].stdout == done[0].stdout, done[1].stderr
