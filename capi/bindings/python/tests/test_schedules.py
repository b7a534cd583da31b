"""Schedules and attention of variable lengths: each sequence has what it has alone."""
import gc
import threading

import numpy as np
import pytest
from reference import attention, causal, close, gaussian, random

import fovea

QUERY_LENS, KEY_LENS = (3, 0, 1, 7), (5, 4, 30, 7)
QUERY_STARTS, KEY_STARTS = np.cumsum((0, *QUERY_LENS)), np.cumsum((0, *KEY_LENS))
Q, K, V = random(11, 4, 16), random(46, 2, 16), random(46, 2, 12)


def heads_first(x, starts, n):
    return x[starts[n]:starts[n + 1]].swapaxes(0, 1)[None]


def alone(**options):
    """Of each sequence by a call of its own."""
    return [fovea.attention(heads_first(Q, QUERY_STARTS, n), heads_first(K, KEY_STARTS, n), heads_first(V, KEY_STARTS, n),
                            query_invariant=True, **options) for n in range(4)]


def joined(parts):
    return np.concatenate([part[0].swapaxes(0, 1) for part in parts])


def test_variable_lengths():
    out = fovea.varlen_attention(Q, K, V, QUERY_STARTS, KEY_STARTS, is_causal=True)
    wanted = [attention(heads_first(Q, QUERY_STARTS, n), heads_first(K, KEY_STARTS, n), heads_first(V, KEY_STARTS, n),
                        keep=causal(QUERY_LENS[n], KEY_LENS[n]))[0] for n in range(4)]
    assert out.dtype == np.float32
    close(out, joined(wanted))


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True, "window_left": 2}, {"softcap": 2.0, "scale": 0.3}, {"sinks": [0.5, 1, 2, 3]},
    {"alibi_slopes": [0.1, 0.2, 0.3, 0.4], "is_causal": True}, {"scale": 0}])
def test_options(options):
    close(fovea.varlen_attention(Q, K, V, QUERY_STARTS, KEY_STARTS, **options), joined(alone(**options)))


def test_other_outputs_and_scores():
    out, log_sum_exp = fovea.varlen_attention(Q, K, V, QUERY_STARTS.tolist(), KEY_STARTS.astype(np.int32),
                                              return_log_sum_exp=True)
    wanted = alone(return_log_sum_exp=True)
    close(out, joined([one[0] for one in wanted]))
    close(log_sum_exp, np.concatenate([one[1][0].T for one in wanted]))
    given = np.full_like(out, 9)
    assert fovea.varlen_attention(Q, K, V, QUERY_STARTS, KEY_STARTS, out=given) is given and np.array_equal(given, out)
    found = fovea.varlen_attention(Q, K, V, QUERY_STARTS, KEY_STARTS, score=fovea.Gaussian(2.0))
    close(found, joined([attention(heads_first(Q, QUERY_STARTS, n), heads_first(K, KEY_STARTS, n),
                                   heads_first(V, KEY_STARTS, n), score=gaussian(2.0))[0] for n in range(4)]))
    both = random(46, 4, 16)
    wide = np.concatenate([both, both], 2)
    assert np.array_equal(fovea.varlen_attention(wide[:11, :, :16], wide[..., 16:], wide[..., :16], QUERY_STARTS, KEY_STARTS),
                          fovea.varlen_attention(both[:11], both, both, QUERY_STARTS, KEY_STARTS))
    assert fovea.varlen_attention(Q[:0], K, V, [0], [0]).shape == (0, 4, 12)
    narrow = [x.astype(np.float16) for x in (Q, K, V)]
    assert fovea.varlen_attention(*narrow, QUERY_STARTS, KEY_STARTS).dtype == np.float16


def test_8_bits():
    keys, key_scales = fovea.quantize(random(2, 2, 30, 32))
    values, value_scales = fovea.quantize(random(2, 2, 30, 64, seed=2), 16)
    assert keys.dtype == np.int8 and key_scales.dtype == np.float16
    assert key_scales.shape == (2, 2, 30, 1) and value_scales.shape == (2, 2, 30, 4)
    assert fovea.quantize(random(3, 20))[1].shape == (3, 1)
    assert fovea.quantize(random(3, 64).astype(np.float16))[1].shape == (3, 2)
    back = fovea.dequantize(keys, key_scales)
    assert np.abs(back - random(2, 2, 30, 32)).max() <= float(key_scales.max()) / 2 * 1.001
    half = np.empty(keys.shape, np.float16)
    assert fovea.dequantize(keys, key_scales, out=half) is half
    query = random(2, 4, 5, 32)
    given = {"key_scales": key_scales, "value_scales": value_scales}
    wanted = fovea.attention(query, back, fovea.dequantize(values, value_scales))
    close(fovea.attention(query, keys, values, **given), wanted)
    close(fovea.plan(query, keys, values, **given)(query, keys, values), wanted)
    with pytest.raises(fovea.BadArgument, match="key_scales|scales"):
        fovea.attention(query, keys, values)
    packed = [x[0].swapaxes(0, 1) for x in (query, keys, values, key_scales, value_scales)]
    scales = dict(zip(given, packed[3:]))
    try:
        found = fovea.varlen_attention(*packed[:3], [0, 5], [0, 30], **scales)
    except fovea.BadArgument as error:  # as long as schedules take none
        assert "int8" in str(error) or "scales" in str(error)
    else:
        close(found, wanted[0].swapaxes(0, 1))
    for group in (7, 24, -1):
        with pytest.raises(fovea.BadArgument, match="group"):
            fovea.quantize(random(3, 64), group)


def test_4_bits():
    x = random(2, 2, 30, 64, seed=2)
    values, value_scales = fovea.quantize(x, bits=4)
    assert values.dtype == np.uint8 and values.shape == (2, 2, 30, 32) and value_scales.shape == (2, 2, 30, 4)
    assert fovea.quantize(x, 64, bits=4)[1].shape == (2, 2, 30, 2)
    back = fovea.dequantize(values, value_scales)
    assert back.shape == x.shape and np.abs(back - x).max() <= float(value_scales[..., ::2].max()) / 2 * 1.001
    query, key = random(2, 4, 5, 32), random(2, 2, 30, 32, seed=3)
    wanted = fovea.attention(query, key, back)
    assert np.array_equal(fovea.attention(query, key, values, value_scales=value_scales), wanted)
    keys, key_scales = fovea.quantize(key)
    given = {"key_scales": key_scales, "value_scales": value_scales}
    wanted = fovea.attention(query, fovea.dequantize(keys, key_scales), back)
    close(fovea.attention(query, keys, values, **given), wanted)
    close(fovea.plan(query, keys, values, **given)(query, keys, values), wanted)
    packed = [one[0].swapaxes(0, 1) for one in (query, keys, values, key_scales, value_scales)]
    close(fovea.varlen_attention(*packed[:3], [0, 5], [0, 30], **dict(zip(given, packed[3:]))), wanted[0].swapaxes(0, 1))
    with pytest.raises(fovea.BadArgument, match="value_scales"):
        fovea.attention(query, keys, values, key_scales=key_scales, out=np.empty((2, 4, 5, 64), np.float32))
    with pytest.raises(fovea.BadArgument, match="bits is 3"):
        fovea.quantize(x, bits=3)
    with pytest.raises(fovea.BadArgument, match="multiple of 32"):
        fovea.quantize(random(3, 48), 16, bits=4)
    with pytest.raises(fovea.BadArgument, match="uint8"):
        fovea.exp(np.zeros(4, np.uint8))


def test_pools_of_4_bits():
    pool = fovea.KVPool(kv_heads=2, head_dim=32, value_dim=64, positions=64, page_size=8, sequences=2, key_dtype="int8",
                        value_dtype="uint8")
    assert pool.value_dim == 64
    assert pool.values(0).dtype == np.uint8 and pool.values(0).shape == (8, 2, 8, 32)
    assert pool.value_scales(0).shape == (8, 2, 8, 4)
    query, key, value = random(9, 4, 32), random(9, 2, 32, seed=4), random(9, 2, 64, seed=5)
    schedule = fovea.Schedule(query=(9, 4, 32), pool=pool, is_causal=True)
    with pool.open() as sequence:
        schedule.set(pool.step({sequence: 9}))
        schedule.append(0, key, value)
        found = schedule.run(query, 0)
    kept_key = fovea.dequantize(*fovea.quantize(key))
    kept_value = fovea.dequantize(*fovea.quantize(value, bits=4))
    wanted = fovea.attention(query.swapaxes(0, 1)[None], kept_key.swapaxes(0, 1)[None], kept_value.swapaxes(0, 1)[None],
                             is_causal=True)
    close(found, wanted[0].swapaxes(0, 1))
    with pytest.raises(fovea.BadArgument, match="key_dtype is uint8"):
        fovea.KVPool(kv_heads=2, head_dim=32, positions=64, sequences=2, key_dtype="uint8")


def make_paged(dtype="float32", **options):
    pool = fovea.KVPool(layers=2, kv_heads=2, head_dim=16, value_dim=12, positions=256, page_size=8, sequences=4, key_dtype=dtype)
    return pool, fovea.Schedule(query=(40, 4, 16), pool=pool, is_causal=True, **options)


def grow(pool, schedule, growth, layer=0):
    """A step of random keys and values, which it returns with the queries."""
    schedule.set(pool.step(growth))
    count = schedule.tokens
    q, k, v = random(count, 4, 16), random(count, 2, 16, seed=2), random(count, 2, 12, seed=3)
    schedule.append(layer, k, v)
    return q, k, v


def test_a_decoder_over_a_pool():
    pool, schedule = make_paged()
    first, second = pool.open(), pool.open()
    held = {first: [], second: []}
    for growth in ({first: 20, second: 3}, {second: 1, first: 1}, {first: 1}, {second: 10}):
        q, k, v = grow(pool, schedule, growth, 1)
        out, at = schedule.run(q, 1), 0
        for sequence, tokens in growth.items():
            rows = slice(at, at + tokens)
            held[sequence].append((k[rows], v[rows]))
            keys, values = (np.concatenate(x).swapaxes(0, 1)[None] for x in zip(*held[sequence]))
            wanted = fovea.attention(q[rows].swapaxes(0, 1)[None], keys, values, is_causal=True, query_invariant=True)
            close(out[rows], wanted[0].swapaxes(0, 1))
            assert schedule.positions[rows].tolist() == list(range(len(sequence) - tokens, len(sequence)))
            at += tokens
    assert "op=ragged" in schedule.describe() and "sequences=1 " in schedule.describe()
    assert schedule.workspace_size > 0 and len(schedule.tasks) == 3 and sum(schedule.tasks) > 0


def test_rotary_on_the_way():
    pool, schedule = make_paged()
    sequence = pool.open()
    pool.step({sequence: 5})
    _, k, v = grow(pool, schedule, {sequence: 3})
    schedule.append(0, k, v, rotary={"base": 100.0})
    turned = fovea.rotary(k.swapaxes(0, 1), base=100.0, positions=schedule.positions)
    page = pool.step({sequence: 0}).page_ids[0]
    close(pool.keys(0)[page][:, 5:8], turned)
    assert np.array_equal(pool.values(0)[page][:, 5:8], v.swapaxes(0, 1))


def test_pages_of_ones_own():
    pool, schedule = make_paged()
    sequence = pool.open()
    q, _, _ = grow(pool, schedule, {sequence: 20})
    step = pool.step({sequence: 0})
    other = fovea.Schedule(query=(20, 4, 16), key=pool.keys(0), value=pool.values(0), sequences=1, is_causal=True)
    other.set(query_starts=[0, 20], key_lens=[20], page_ids=step.page_ids[None])
    wanted = other.run(q, (pool.keys(0), pool.values(0)))
    other.set(query_starts=[0, 20], key_lens=[20], page_ids=step.page_ids, page_starts=[0, 3])
    assert np.array_equal(other.run(q, (pool.keys(0), pool.values(0))), wanted)
    schedule.set(query_starts=[0, 20], key_lens=[20], page_ids=step.page_ids[None])
    assert np.array_equal(schedule.run(q, 0), wanted)


def test_fewer_and_more_rows_than_tokens():
    pool, schedule = make_paged(return_log_sum_exp=True, sinks=[0, 0, 0, 0])
    sequence = pool.open()
    q, _, _ = grow(pool, schedule, {sequence: 5})
    out, log_sum_exp = schedule.run(q, 0)
    longer = np.concatenate([q, q])
    more, more_sums = schedule.run(longer, 0)
    assert np.array_equal(more[:5], out) and (more[5:] == 0).all() and np.array_equal(more_sums[:5], log_sum_exp)
    given = np.full((10, 4, 12), 9, np.float32)
    schedule.run(longer, 0, out=given, log_sum_exp=more_sums)
    assert np.array_equal(given[:5], out) and (given[5:] == 9).all()
    assert not np.array_equal(schedule.run(q, 0, sinks=[5, 5, 5, 5])[0], out)
    for query, error, words in ((q[:4], fovea.BadShape, "query: 4 rows, the step has 5 tokens"),
                                (random(41, 4, 16), fovea.BadShape, "query: shape .*planned with"),
                                (q[:, :2], fovea.BadShape, "query: shape"),
                                (q.astype(np.float16), fovea.BadDtype, "query: dtype"),
                                (q.swapaxes(0, 1).copy().swapaxes(0, 1), fovea.BadStride, "query: strides")):
        with pytest.raises(error, match=words):
            schedule.run(query, 0)
    for out in (np.empty((4, 4, 12), np.float32), np.empty((5, 4, 12), np.float16), q):
        with pytest.raises(fovea.BadArgument, match="out: "):
            schedule.run(q, 0, out=out)
    for layer, error in ((2, IndexError), (-3, IndexError), ((pool.keys(0),), TypeError), ("a", TypeError),
                         ((pool.keys(0)[:3], pool.values(0)), fovea.BadShape), ((pool.values(0), pool.keys(0)), fovea.BadShape)):
        with pytest.raises(error):
            schedule.run(q, layer)
    with pytest.raises(TypeError, match="not planned"):
        schedule.run(q, (pool.keys(0), pool.values(0), random(2, 2), random(2, 2)))
    with pytest.raises(TypeError, match="not planned"):
        schedule.run(q, 0, alibi_slopes=[0, 0, 0, 0])


def test_a_step_that_is_out_of_date():
    pool, schedule = make_paged()
    first, second = pool.open(), pool.open()
    q, k, v = grow(pool, schedule, {first: 5})
    wanted = schedule.run(q, 0)
    pool.step({second: 9})
    assert np.array_equal(schedule.run(q, 0), wanted)  # none of its sequences
    old = pool.step({first: 1})
    pool.step({first: 1})
    for deed in (lambda: schedule.run(q, 0), lambda: schedule.append(0, k, v), lambda: schedule.set(old)):
        with pytest.raises(fovea.BadValue, match="out of date"):
            deed()
    other, _ = make_paged()
    with pytest.raises(fovea.BadValue, match="another pool"):
        schedule.set(other.step({}))


def test_what_is_refused():
    pool, schedule = make_paged()
    sequence = pool.open()
    q, k, v = grow(pool, schedule, {sequence: 5})
    wanted = schedule.run(q, 0)
    for members, error in (({"query_starts": [0, 5]}, fovea.BadArgument), ({}, fovea.BadArgument),
                           ({"query_starts": [0, 5], "key_lens": [5], "page_ids": [[99]]}, fovea.BadValue),
                           ({"query_starts": [0, 5], "key_lens": [9], "page_ids": [[0]]}, fovea.BadValue),
                           ({"query_starts": [5, 0], "key_lens": [5], "page_ids": [[0]]}, fovea.BadValue),
                           ({"query_starts": [0, 41], "key_lens": [41], "page_ids": [[0, 1, 2, 3, 4, 5]]}, fovea.BadShape),
                           ({"query_starts": [0.5, 5], "key_lens": [5], "page_ids": [[0]]}, fovea.BadDtype),
                           ({"query_starts": "05"}, TypeError), ({"step": 3}, TypeError)):
        with pytest.raises(error):
            schedule.set(**members)
        assert np.array_equal(schedule.run(q, 0), wanted)
    for wrong in ({"pool": pool, "key": (1, 2, 3)}, {"pool": 3}, {"key": (9, 2, 16), "value": (9, 2, 16)},
                  {"key": (9, 2, 16), "sequences": 1}):
        with pytest.raises(TypeError):
            fovea.Schedule(query=(4, 4, 16), **wrong)
    for options in ({"return_weights": True}, {"dropout": 0.5}, {"valid_lens": [1]}, {"bias": q}, {"score": fovea.Gaussian()}):
        with pytest.raises(fovea.BadArgument):
            fovea.Schedule(query=(4, 4, 16), pool=pool, **options)
    for shape in ((2**40, 2**40, 2**40), (-1, 4, 16), (1,) * 7, (4, "x", 16)):
        with pytest.raises((ValueError, TypeError)):
            fovea.Schedule(query=shape, pool=pool)
    with pytest.raises(fovea.BadArgument):
        schedule.append(0, k[:3], v)
    read_only = pool.keys(0)
    read_only.flags.writeable = False
    with pytest.raises(fovea.BadValue, match="key_pages: the array is read-only"):
        schedule.append((read_only, pool.values(0)), k, v)


def test_layouts_have_no_data():
    from fovea import _fovea
    layout = _fovea.layout(_fovea.F32, (2, 3))
    assert layout.shape == (2, 3) and layout.dtype == "float32"
    for deed in (lambda: memoryview(layout), lambda: fovea.exp(layout), lambda: fovea.exp(np.ones((2, 3), "f"), out=layout)):
        with pytest.raises((BufferError, fovea.BadArgument)):
            deed()


def test_a_schedule_keeps_what_it_needs():
    pool, _ = make_paged()
    schedule = fovea.Schedule(query=(4, 4, 16), pool=pool, context=fovea.Context(max_threads=1))
    sequence = pool.open()
    schedule.set(pool.step({sequence: 2}))
    del pool, sequence
    gc.collect()
    schedule.append(0, K[:2], V[:2])
    assert schedule.run(Q[:2], 0).shape == (2, 4, 12)
    positions = schedule.positions
    del schedule
    gc.collect()
    assert positions.tolist() == [0, 1]


def test_a_schedule_in_use_is_not_set():
    query, keys = random(64, 8, 64), random(8000, 8, 64)
    schedule = fovea.Schedule(query=query, key=keys, value=keys, sequences=1)
    step = {"query_starts": np.array([0, 64]), "key_starts": np.array([0, 8000])}
    schedule.set(**step)
    wanted = schedule.run(query, (keys, keys))
    stop, refused = threading.Event(), []

    def run():
        while not stop.is_set():
            try:
                assert np.array_equal(schedule.run(query, (keys, keys)), wanted)
            except RuntimeError:
                pass

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5000):
        try:
            schedule.set(**step)
        except RuntimeError as error:
            refused.append(str(error))
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert refused and "fovea_schedule is in use by another thread" in refused[0]


def test_torch():
    torch = pytest.importorskip("torch")
    import fovea.torch
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    starts, key_starts = (torch.from_numpy(x.astype(np.int32)) for x in (QUERY_STARTS, KEY_STARTS))
    out = fovea.torch.varlen_attention(q, k, v, starts, key_starts, 7, 30, causal=True, window_size=(3, -1), softcap=5.0)
    wanted = fovea.varlen_attention(Q, K, V, QUERY_STARTS, KEY_STARTS, is_causal=True, window_left=3, softcap=5.0)
    assert isinstance(out, torch.Tensor) and np.array_equal(out.numpy(), wanted)
    with pytest.raises(RuntimeError, match="no gradients"):
        fovea.torch.varlen_attention(q.clone().requires_grad_(), k, v, starts, key_starts)
    with pytest.raises(ValueError, match="fewer keys than queries"):
        fovea.torch.varlen_attention(q, k, v, starts, torch.tensor([0, 1, 2, 3, 4], dtype=torch.int32), causal=True)
    pool = fovea.KVPool(kv_heads=2, head_dim=16, value_dim=12, positions=64, sequences=1, key_dtype=torch.bfloat16)
    schedule = fovea.Schedule(query=(11, 4, 16), pool=pool, dtype=torch.bfloat16)
    sequence = pool.open()
    schedule.set(pool.step({sequence: 11}))
    schedule.append(0, k[:11], v[:11])
    assert schedule.run(q.bfloat16(), 0).dtype == torch.bfloat16


def test_latent_attention_appends_keys_alone():
    rows, query = random(6, 1, 16, seed=8), random(6, 4, 16, seed=9)
    pages = np.zeros((3, 1, 4, 16), np.float32)
    layer = (pages, pages[..., :12])
    schedule = fovea.Schedule(query=query, key=pages, value=layer[1], sequences=1, is_causal=True, query_invariant=True)
    schedule.set(query_starts=[0, 6], key_lens=[6], page_ids=[[2, 0]])
    schedule.append(layer, rows)
    assert np.array_equal(pages[2, 0], rows[:4, 0]) and np.array_equal(pages[0, 0, :2], rows[4:, 0])
    wanted = fovea.varlen_attention(query, rows, rows[..., :12], [0, 6], [0, 6], is_causal=True, query_invariant=True)
    assert np.array_equal(schedule.run(query, layer), wanted)
    with pytest.raises(fovea.NullPointer):
        pool = fovea.KVPool(layers=1, kv_heads=1, head_dim=16, positions=8, sequences=1)
        of_pool = fovea.Schedule(query=query, pool=pool)
        of_pool.set(pool.step({pool.open(): 6}))
        of_pool.append(0, rows)


def test_packed_keys_of_8_bits():
    key, value, starts = random(10, 2, 32, seed=8), random(10, 2, 32, seed=9), [0, 4, 10]
    (k, key_scales), (v, value_scales) = fovea.quantize(key), fovea.quantize(value)
    query = random(5, 4, 32)
    out = fovea.varlen_attention(query, k, v, [0, 2, 5], starts, key_scales=key_scales, value_scales=value_scales)
    close(out, fovea.varlen_attention(query, fovea.dequantize(k, key_scales), fovea.dequantize(v, value_scales), [0, 2, 5], starts))
