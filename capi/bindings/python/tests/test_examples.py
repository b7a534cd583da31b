"""The worked examples: textbook cases whose answers are known."""
import numpy as np
from reference import close, random

import fovea

KEYS = np.ones((2, 10, 2), np.float32)
VALUES = np.arange(40, dtype=np.float32).reshape(1, 10, 4).repeat(2, 0)
LENGTHS = np.array([2, 6])
POOLED = [[[2, 3, 4, 5]], [[10, 11, 12, 13]]]


def test_masked_softmax():
    x = random(2, 2, 4)
    out = fovea.masked_softmax(x, [2, 3])
    assert (out[0, :, 2:] == 0).all() and (out[1, :, 3:] == 0).all()
    close(out.sum(-1), np.ones((2, 2)))
    out = fovea.masked_softmax(x, np.array([[1, 3], [2, 4]]))
    assert out[0, 0].tolist() == [1, 0, 0, 0] and (out[1, 1] > 0).all()
    assert np.array_equal(fovea.masked_softmax(x), fovea.masked_softmax(x, [4, 4]))


def test_additive_attention_over_equal_keys():
    out = fovea.additive_attention(random(2, 1, 20), KEYS, VALUES, random(8, 20), random(8, 2), random(8),
                                   valid_lens=LENGTHS)
    close(out, POOLED, 1e-5)


def test_scaled_dot_product_over_equal_keys():
    close(fovea.attention(random(2, 1, 2), KEYS, VALUES, valid_lens=LENGTHS), POOLED, 1e-5)


def test_multi_head_attention_of_equal_keys():
    weights = {name: random(100, 100, seed=n) for n, name in
               enumerate(("query_weight", "key_weight", "value_weight", "out_weight"))}
    layer = fovea.MultiHeadAttention(5, **weights)
    x, y = np.ones((2, 4, 100), np.float32), np.ones((2, 6, 100), np.float32)
    out = layer(x, y, y, valid_lens=np.array([3, 2]))
    assert out.shape == (2, 4, 100)
    wanted = weights["out_weight"].astype(np.float64) @ (weights["value_weight"].astype(np.float64) @ np.ones(100))
    close(out / 1000, np.broadcast_to(wanted, (2, 4, 100)) / 1000)
    assert layer(x).shape == (2, 4, 100)


def test_positional_encoding():
    encoding = fovea.positional_encoding(60, 32)
    position, pair = np.arange(60)[:, None], np.arange(16)
    angle = position / 10000 ** (2 * pair / 32)
    close(encoding[:, 0::2], np.sin(angle), 1e-6)
    close(encoding[:, 1::2], np.cos(angle), 1e-6)

    def changes_of_sign(column):
        return (np.diff(np.signbit(encoding[:, column])) != 0).sum()

    assert changes_of_sign(6) > changes_of_sign(8)  # the later pair is slower
    assert np.array_equal(fovea.positional_encoding(10, 32, offset=50), encoding[50:])


def test_kernel_regression():
    x = np.sort(np.random.default_rng(1).uniform(0, 5, 50)).astype(np.float32)
    y = (2 * np.sin(x) + x**0.8 + 0.5 * random(50)).astype(np.float32)
    at = np.arange(0, 5, 0.1, dtype=np.float32)
    close(fovea.kernel_regression(at, x, y, sigma=1e4), np.full(50, y.astype(np.float64).mean()), 1e-4)
    close(fovea.kernel_regression(x, x, y, sigma=1e-4), y)
    out, weights = fovea.kernel_regression(x, x, y, leave_one_out=True, return_weights=True)
    assert (np.diag(weights) == 0).all()
    close(out, weights.astype(np.float64) @ y)


def test_heatmaps(tmp_path):
    import pytest

    pytest.importorskip("matplotlib")
    picture = tmp_path / "weights.png"
    fovea.show_heatmaps(np.eye(4)[None, None], query_labels="abcd", key_labels="abcd", titles=["one"], file=picture)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="rank 1"):
        fovea.show_heatmaps(np.ones(3))
