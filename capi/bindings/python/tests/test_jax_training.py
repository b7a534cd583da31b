"""Training in JAX: fovea.jax.attention beside jax.grad of the formula in float64."""
import os
import subprocess
import sys

import numpy as np
import pytest
from reference import close, random

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import fovea  # noqa: E402
import fovea.jax  # noqa: E402

B, H, GROUPS, QUERIES, KEYS, D, VALUES, UNITS = 2, 4, 2, 5, 7, 6, 3, 8
NAMES = ("query", "key", "value")


def qkv(dtype=jnp.float32, front=()):
    shapes = ((B, H, QUERIES, D), (B, GROUPS, KEYS, D), (B, GROUPS, KEYS, VALUES))
    return {name: jnp.asarray(random(*front, *shape, seed=n), dtype) for n, (name, shape) in enumerate(zip(NAMES, shapes))}


PARAMETERS = {
    "dot": {}, "bilinear": {"weight": random(D, D) / 2}, "gaussian": {"sigmas": abs(random(H)) + 1},
    "additive": {"query_weight": random(UNITS, D), "key_weight": random(UNITS, D, seed=2), "score_vector": random(UNITS)},
    "concat": {"weight": random(UNITS, 2 * D), "score_vector": random(UNITS), "score_bias": random(UNITS, seed=2)},
}
CLASSES = {"dot": fovea.Dot, "bilinear": fovea.Bilinear, "gaussian": fovea.Gaussian, "additive": fovea.Additive,
           "concat": fovea.Concat}


def scores_by_hand(kind, given):
    q, k = given["query"][:, :, :, None], given["key"][:, :, None]
    if kind == "dot":
        return (q * k).sum(-1) / D**0.5
    if kind == "bilinear":
        return (q @ given["weight"] * k).sum(-1)
    if kind == "gaussian":
        return -((q - k) ** 2).sum(-1) / (2 * given["sigmas"].reshape(H, 1, 1) ** 2)
    if kind == "additive":
        return jnp.tanh(q @ given["query_weight"].T + k @ given["key_weight"].T) @ given["score_vector"]
    pairs = jnp.concatenate(jnp.broadcast_arrays(q, k), -1)
    return jnp.tanh(pairs @ given["weight"].T + given["score_bias"]) @ given["score_vector"]


def by_hand(kind, given, keep=True, scale=None, softcap=None, distances=None, factors=1.0, returned=3):
    """(out, log-sum-exp, weights), or the first of them."""
    given = given | {name: given[name].repeat(H // GROUPS, 1) for name in ("key", "value")}
    scores = scores_by_hand(kind, given)
    if scale is not None:
        scores = scores * (scale * D**0.5 if kind == "dot" else scale)
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    if "bias" in given:
        scores = scores + given["bias"]
    if "alibi_slopes" in given:
        scores = scores - given["alibi_slopes"].reshape(H, 1, 1) * abs(distances)
    exps = jnp.exp(scores) * keep
    total = exps.sum(-1)
    if "sinks" in given:
        total = total + jnp.exp(given["sinks"]).reshape(H, 1)
    some = jnp.where(total == 0, 1, total)
    weights = exps / some[..., None] * factors
    return (weights @ given["value"], jnp.where(total == 0, -jnp.inf, jnp.log(some)), weights)[:returned]


def run(kind, given, **options):
    """The same by fovea, with the options of a mix."""
    parameters = {"bias" if name == "score_bias" else name: given[name] for name in PARAMETERS[kind]}
    options |= {name: given[name] for name in ("bias", "alibi_slopes", "sinks") if name in given}
    return fovea.jax.attention(*(given[name] for name in NAMES), score=CLASSES[kind](**parameters), **options)


I, J = np.arange(QUERIES)[:, None], np.arange(KEYS)
LAST = I + KEYS - QUERIES
MASK = (random(B, 1, QUERIES, KEYS, seed=4) > -0.5) | (J == 0)
LENS, OWN_LENS = np.array([3, KEYS]), np.array([[1, 2, 3, 4, 5], [7, 0, 1, 7, 2]])
OFFSETS = np.array([0, 2])
MIXES = {
    "alone": ({}, {}, {}),
    "mask and bias": ({"bias": random(1, H, QUERIES, KEYS)}, {"mask": MASK}, {"keep": MASK}),
    "a bias of a row": ({"bias": random(B, 1, 1, KEYS)}, {"scale": 0.3}, {"scale": 0.3}),
    "a bias for all": ({"bias": random(QUERIES, KEYS)}, {"valid_lens": LENS}, {"keep": J < LENS.reshape(B, 1, 1, 1)}),
    "lengths": ({}, {"valid_lens": LENS, "softcap": 1.5}, {"keep": J < LENS.reshape(B, 1, 1, 1), "softcap": 1.5}),
    "lengths of queries": ({}, {"valid_lens": OWN_LENS}, {"keep": J < OWN_LENS.reshape(B, 1, QUERIES, 1)}),
    "causal": ({}, {"is_causal": True}, {"keep": J <= LAST}),
    "top-left": ({}, {"is_causal": True, "top_left": True}, {"keep": J <= I}),
    "an offset": ({}, {"is_causal": True, "query_offset": 1}, {"keep": J <= I + 1}),
    "offsets": ({}, {"is_causal": True, "query_offsets": OFFSETS}, {"keep": J <= I + OFFSETS.reshape(B, 1, 1, 1)}),
    "windows": ({}, {"window_left": 2, "window_right": 1}, {"keep": (J >= LAST - 2) & (J <= LAST + 1)}),
    "leave one out": ({}, {"leave_one_out": True}, {"keep": I != J}),
    "slopes and sinks": ({"alibi_slopes": abs(random(H)), "sinks": random(H)}, {"top_left": True}, {"distances": I - J}),
    "all": ({"bias": random(1, 1, QUERIES, KEYS), "alibi_slopes": abs(random(H)), "sinks": random(H)},
            {"mask": MASK, "valid_lens": OWN_LENS, "window_left": 4, "softcap": 2.0, "scale": 0.7},
            {"keep": MASK & (J < OWN_LENS.reshape(B, 1, QUERIES, 1)) & (J >= LAST - 4), "distances": LAST - J, "softcap": 2.0,
             "scale": 0.7}),
}
ALL = {"return_log_sum_exp": True, "return_weights": True}
REACHING = (random(B, H, QUERIES, VALUES, seed=5), random(B, H, QUERIES, seed=6), random(B, H, QUERIES, KEYS, seed=7))


def loss_of(results):
    """A loss that all results reach, but for the log-sum-exp of rows with nothing to attend, -infinity."""
    results = results if isinstance(results, tuple) else (results,)
    return sum((jnp.where(jnp.isinf(x), 0, x) * reaching).sum() for x, reaching in zip(results, REACHING))


def value_and_gradients(attention, given):
    return jax.value_and_grad(lambda given: loss_of(attention(given)))(given)


def exactly(attention, given):
    """The same of float64."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, value_and_gradients(attention, {name: jnp.float64(x) for name, x in given.items()}))


def compare(found, wanted, tolerance=3e-5):
    """Values, and gradients by name, each within `tolerance` of its largest number, which is not next to nothing."""
    np.testing.assert_allclose(found[0], wanted[0], rtol=0, atol=100 * tolerance)
    assert found[1].keys() == wanted[1].keys()
    for name, one in wanted[1].items():
        assert found[1][name].shape == one.shape
        np.testing.assert_allclose(np.asarray(found[1][name], "d"), one, rtol=0, atol=tolerance * max(abs(one).max(), 0.1),
                                   err_msg=name)


def arguments(kind, mix="alone", dtype=jnp.float32):
    """(what is differentiated, options, what they mean)"""
    tensors, options, meant = MIXES[mix]
    return {**qkv(dtype), **PARAMETERS[kind], **tensors}, options, meant


@pytest.mark.parametrize("kind", PARAMETERS)
def test_projections_are_kept(kind, monkeypatch):
    """For a backward pass, where there are any."""
    calls: dict = {"attention": [], "attention_backward": []}
    for name, options_of in calls.items():
        def recorded(*args, function=getattr(fovea.jax.calls, name), options_of=options_of, **options):
            options_of.append(options)
            return function(*args, **options)

        monkeypatch.setattr(fovea.jax.calls, name, recorded)
    kept = ["projected_key", "projected_query"] if kind in ("additive", "concat") else []
    given = {name: jnp.asarray(x) for name, x in (qkv() | PARAMETERS[kind]).items()}
    jax.grad(lambda x: run(kind, given | {"query": x}).sum())(given["query"])
    assert sorted(name for name in calls["attention"][-1] if "projected" in name) == ["return_" + name for name in kept]
    assert sorted(name for name in calls["attention_backward"][-1] if "projected" in name) == kept
    run(kind, given)
    assert not any("projected" in name for name in calls["attention"][-1])


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("kind", PARAMETERS)
def test_gradients_are_those_of_the_formula(kind, mix):
    given, options, meant = arguments(kind, mix)
    compare(value_and_gradients(jax.jit(lambda given: run(kind, given, **options, **ALL)), given),
            exactly(lambda given: by_hand(kind, given, **meant), given))


@pytest.mark.parametrize("options", [{}, {"return_log_sum_exp": True}, ALL])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_without_gradients(kind, options):
    given, _, _ = arguments(kind)
    found = jax.jit(lambda given: run(kind, given, **options))(given)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == 1 + len(options)
    for one, other in zip(found, by_hand(kind, given)):
        close(one, other, 3e-5)


def test_outside_of_jit():
    given, options, meant = arguments("additive", "lengths")
    compare(value_and_gradients(lambda given: run("additive", given, **options), given),
            exactly(lambda given: by_hand("additive", given, **meant, returned=1), given))


@pytest.mark.parametrize("dtype, tolerance", [("bfloat16", 0.03), ("float16", 4e-3)])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_16_bits(kind, dtype, tolerance):
    given, options, meant = arguments(kind, "causal", dtype)
    found = value_and_gradients(jax.jit(lambda given: run(kind, given, **options)), given)
    assert all(found[1][name].dtype == dtype for name in NAMES)
    assert all(found[1][name].dtype == "float32" for name in PARAMETERS[kind])
    compare(found, exactly(lambda given: by_hand(kind, given, **meant, returned=1), given), tolerance)


@pytest.mark.parametrize("rank", [2, 3])
def test_fewer_axes(rank):
    shape = (B,)[:rank - 2]
    query, key, mask = random(*shape, QUERIES, D), random(*shape, KEYS, D), random(QUERIES, KEYS) > -1
    loss = lambda attend: lambda q, k, b: (attend(q, k, k, mask=mask, bias=b) ** 2).sum()  # noqa: E731
    plain = lambda q, k, v, mask, bias: jax.nn.softmax(  # noqa: E731
        jnp.where(mask, q @ k.swapaxes(-1, -2) / D**0.5 + bias, -jnp.inf), -1) @ v
    for bias in (random(QUERIES, KEYS), random(*shape, QUERIES, KEYS)):
        for one, other in zip(jax.grad(loss(fovea.jax.attention), (0, 1, 2))(query, key, bias),
                              jax.grad(loss(plain), (0, 1, 2))(query, key, bias)):
            close(one, other, 3e-5)
    out, log_sum_exp, weights = fovea.jax.attention(query, key, key, **ALL)
    assert (out.shape, log_sum_exp.shape, weights.shape) == (query.shape, query.shape[:-1], query.shape[:-1] + (KEYS,))


AXES = {"queries": ("query",), "keys and values": ("key", "value"), "all three": NAMES, "parameters": ("parameters",),
        "queries and options": ("query", "options"), "all": (*NAMES, "parameters", "options")}


@pytest.mark.parametrize("kind, mix, own", [
    ("dot", "all", "all"), ("dot", "all", "queries"), ("dot", "mask and bias", "keys and values"),
    ("dot", "a bias of a row", "all three"), ("dot", "a bias of a row", "all"), ("dot", "slopes and sinks", "parameters"),
    ("dot", "a bias for all", "queries and options"), ("gaussian", "causal", "all three"), ("gaussian", "causal", "parameters"),
    ("concat", "lengths", "queries and options"), ("additive", "offsets", "all"), ("bilinear", "lengths of queries", "all")])
def test_vmap(kind, mix, own):
    """As calls one after another, of gradients, and within gradients; of one axis, and of two."""
    given, options, _ = arguments(kind, mix)
    numbers = {name: x for name, x in options.items() if not isinstance(x, np.ndarray)}
    arrays = {name: jnp.asarray(x) for name, x in options.items() if isinstance(x, np.ndarray)}
    of = lambda name: name if name in NAMES else "parameters"  # noqa: E731
    axes = {name: 0 if of(name) in AXES[own] else None for name in given}
    more = {name: 0 if "options" in AXES[own] else None for name in arrays}
    several = lambda x, axis: x if axis is None else jnp.stack([x, jnp.roll(x, 1, 0), x[::-1]])  # noqa: E731
    given = {name: several(jnp.asarray(x), axes[name]) for name, x in given.items()}
    arrays = {name: several(x, more[name]) for name, x in arrays.items()}
    one = lambda given, arrays: loss_of(run(kind, given, **numbers, **arrays, **ALL))  # noqa: E731
    nth = lambda n: ({name: x if axes[name] is None else x[n] for name, x in given.items()},  # noqa: E731
                     {name: x if more[name] is None else x[n] for name, x in arrays.items()})
    singly = [jax.value_and_grad(one)(*nth(n)) for n in range(3)]
    found = jax.jit(jax.vmap(jax.value_and_grad(one), (axes, more)))(given, arrays)
    for n, wanted in enumerate(singly):
        compare(jax.tree.map(lambda x: x[n], found), wanted, 1e-5)  # noqa: B023
    total = lambda given: jax.vmap(one, (axes, more))(given, arrays).sum()  # noqa: E731
    whole = jax.grad(lambda given: one(given, nth(0)[1]))
    assert jax.tree.map(jnp.shape, jax.grad(total)(given)) == jax.tree.map(jnp.shape, given)
    summed = {name: (sum if axes[name] is None else jnp.stack)([single[1][name] for single in singly]) for name in given}
    compare((0, jax.jit(jax.grad(total))(given)), (0, summed), 1e-5)
    twice = jax.vmap(jax.vmap(jax.grad(lambda query: one(nth(0)[0] | {"query": query}, nth(0)[1]))))
    queries = jnp.stack([nth(0)[0]["query"]] * 6).reshape(3, 2, B, H, QUERIES, D)
    close(twice(queries)[2, 1], whole(nth(0)[0])["query"], 1e-5)


def counted(run, monkeypatch):
    calls = []
    for name in ("attention", "attention_backward"):
        real = getattr(fovea.jax.calls, name)
        monkeypatch.setattr(fovea.jax.calls, name, lambda *given, real=real, name=name, **named: (
            calls.append((name, named.get("wanted"))), real(*given, **named))[1])
    jax.block_until_ready(run())
    monkeypatch.undo()
    return calls


def test_vmap_is_one_call_where_it_may_be(monkeypatch):
    query, key, value = qkv(front=(3,)).values()
    total = lambda q, k, v: fovea.jax.attention(q, k, v).sum()  # noqa: E731
    assert len(counted(lambda: jax.vmap(jax.grad(total))(query, key, value), monkeypatch)) == 2
    assert len(counted(lambda: jax.vmap(jax.grad(total), (0, None, None))(query, key[0], value[0]), monkeypatch)) == 2
    dropping = lambda q, k, v: fovea.jax.attention(q, k, v, dropout=0.5, dropout_seed=1).sum()  # noqa: E731
    assert len(counted(lambda: jax.vmap(jax.grad(dropping))(query, key, value), monkeypatch)) == 6


def test_only_gradients_that_are_asked_for(monkeypatch):
    given, _, _ = arguments("bilinear", "mask and bias")
    loss = lambda query, others: run("bilinear", others | {"query": query}).sum()  # noqa: E731
    call = lambda: jax.jit(jax.grad(loss))(given["query"], given)  # noqa: E731
    assert counted(call, monkeypatch) == [("attention", None), ("attention_backward", ("query",))]


def test_dropout():
    """The same weights are dropped for a seed, backwards too and twice, be it a number or traced."""
    given, _, _ = arguments("additive")
    call = jax.jit(lambda given, seed: run("additive", given, dropout=0.3, dropout_seed=seed, **ALL))
    seed = jax.random.bits(jax.random.key(3))
    results = call(given, seed)
    factors = np.where(results[2] > 0, np.float32(1 / 0.7), 0)
    assert 0.1 < (factors == 0).mean() < 0.5
    wanted = exactly(lambda given: by_hand("additive", given, factors=factors), given)
    as_a_number = lambda given: run("additive", given, dropout=0.3, dropout_seed=int(seed), **ALL)  # noqa: E731
    compare(value_and_gradients(lambda given: call(given, seed), given), wanted)
    compare(value_and_gradients(as_a_number, given), wanted)
    for one, other in zip(results, call(given, seed)):
        assert np.array_equal(one, other)
    assert not np.array_equal(results[0], call(given, seed + 1)[0])
    large = fovea.jax.attention(*qkv().values(), dropout=0.3, dropout_seed=2**63 + 5)
    assert np.array_equal(large, fovea.attention(*qkv().values(), dropout=0.3, dropout_seed=2**63 + 5))
    assert np.array_equal(run("dot", qkv(), dropout=0.0), run("dot", qkv()))
    seeds = jnp.arange(3)
    several = jax.vmap(lambda seed: call(given, seed)[0])(seeds)
    assert all(np.array_equal(several[n], call(given, n)[0]) for n in range(3))


def test_dropout_by_central_differences():
    query, key, value = qkv().values()
    at = lambda x: (fovea.jax.attention(x, key, value, dropout=0.4, dropout_seed=9) * REACHING[0]).sum()  # noqa: E731
    direction = random(*query.shape, seed=8)
    rise = float(at(query + 1e-2 * direction) - at(query - 1e-2 * direction)) / 2e-2
    assert float((jax.grad(at)(query) * direction).sum()) == pytest.approx(rise, rel=2e-3)


@pytest.mark.parametrize("empty_rows", ["zero", "uniform", "nan"])
def test_empty_rows_have_no_gradient(empty_rows):
    given, _, _ = arguments("dot")
    lens = np.array([[0, 2, 3, 4, 5], [7, 7, 7, 7, 0]])
    call = lambda value: run("dot", given | {"value": value}, valid_lens=lens, empty_rows=empty_rows)  # noqa: E731
    out, pull = jax.vjp(jax.jit(call), given["value"])
    policy = {"zero": jnp.zeros((B, H, VALUES)), "uniform": given["value"].mean(2).repeat(2, 1), "nan": jnp.nan}[empty_rows]
    close(out[0, :, 0], jnp.broadcast_to(policy, (B, H, VALUES))[0])
    assert float(abs(pull(jnp.zeros_like(out).at[0, :, 0].set(1))[0]).max()) == 0


def test_within_checkpoint_and_scan():
    given, _, _ = arguments("dot")
    layer = jax.checkpoint(lambda x, weight: fovea.jax.attention(x @ weight, x, x, is_causal=True))
    plain = lambda x, weight: jax.nn.dot_product_attention(  # noqa: E731
        *(y.swapaxes(1, 2) for y in (x @ weight, x, x)), is_causal=True).swapaxes(1, 2)
    weights = random(3, D, D)
    loss = lambda layer: lambda weights: jax.lax.scan(  # noqa: E731
        lambda x, weight: (layer(x, weight), None), given["query"], weights)[0].sum()
    close(jax.jit(jax.grad(loss(layer)))(weights), jax.grad(loss(plain))(weights), 1e-4)


def test_a_sigma_that_is_a_number_and_lists():
    query, key, value = qkv().values()
    call = lambda query, score: fovea.jax.attention(query, key, value, score=score, valid_lens=[3, 7]).sum()  # noqa: E731
    close(jax.grad(call)(query, fovea.Gaussian(2.0)), jax.grad(call)(query, fovea.Gaussian(sigmas=[2.0] * H)))
    close(jax.grad(call)(query, fovea.Gaussian()), jax.grad(call)(query, fovea.Gaussian(1.0)))


def test_errors_name_the_argument():
    query, key, value = qkv().values()
    attention = jax.jit(fovea.jax.attention, static_argnames=("dropout", "return_weights", "window_left", "score"))
    for options, error, words in [
            ({"key_scales": key}, TypeError, "fovea.jax.attention has no option 'key_scales'; it has is_causal"),
            ({"return_scores": True}, TypeError, "no option 'return_scores'"),
            ({"scale": jnp.float32(1)}, TypeError, "scale: a number is wanted, not an array; there is no gradient of it"),
            ({"window_left": (1,)}, TypeError, "window_left: a number is wanted, not tuple"),
            ({"return_weights": "average"}, ValueError, "return_weights: 'average' is neither True nor False"),
            ({"dropout": 0.5}, fovea.BadOption, "dropout_seed: one is wanted with dropout"),
            ({"dropout": 0.5, "dropout_seed": jnp.zeros(2, int)}, TypeError, r"dropout_seed: .*, not int32\[2\]"),
            ({"dropout": 1.5, "dropout_seed": 1}, fovea.BadValue, "dropout is 1.5"),
            ({"mask": MASK[0]}, fovea.BadRank, "mask has rank 3, expected 4"),
            ({"bias": random(B, H, QUERIES, KEYS + 1)}, fovea.BadShape, "bias"),
            ({"valid_lens": jnp.zeros(3, int)}, fovea.BadShape, "valid_lens"),
            ({"score": "dot"}, TypeError, r"score: a fovea.Score is wanted, Dot\(\) or another, not str")]:
        with pytest.raises(error, match=words):
            attention(query, key, value, **options)
    for wrong in ({"dropout_seed": -1}, {"dropout_seed": 2**64}):
        with pytest.raises(ValueError, match=f"dropout_seed: {wrong['dropout_seed']} is out of range"):
            fovea.jax.attention(query, key, value, dropout=0.5, **wrong)
    with jax.enable_x64(True), pytest.raises(fovea.BadDtype, match="query has dtype float64"):
        fovea.jax.attention(jnp.float64(query), key, value)
    with pytest.raises(fovea.BadOption, match="sigma: None is expected where sigmas are given"):
        fovea.jax.attention(query, key, value, score=fovea.Gaussian(1.0, PARAMETERS["gaussian"]["sigmas"]))
    total = lambda query: fovea.jax.attention(query, key, value).sum()  # noqa: E731
    with pytest.raises(NotImplementedError, match="fovea.jax.attention has gradients, but no gradients of gradients"):
        jax.grad(lambda query: jax.grad(total)(query).sum())(query)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(total, (query,), (query,))


def test_one_core():
    """Where JAX's callbacks may wait for ever: said once, unless JAX is told to start two threads."""
    program = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); import fovea.jax"
    for threads, said in (({}, True), ({"NPROC": "2"}, False)):
        environment = {name: x for name, x in os.environ.items() if name != "NPROC"} | threads
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
        assert ("RuntimeWarning: with one core, JAX may wait for ever" in done.stderr) == said
