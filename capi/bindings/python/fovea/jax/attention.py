# SPDX-License-Identifier: Apache-2.0
"""Attention of JAX's arrays with any score function, and its gradients."""
from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ..errors import BadOption, BadRank
from ..gradients import IN_FLOAT32, REACHING, WANTED
from ..options import KEPT, MEMBERS, AttentionOptions, names
from ..scores import Score
from .calls import Backward, Call, Forward

NOT_TAKEN = ("key_scales", "value_scales", "return_scores", *("return_" + name for name in KEPT))
OPTIONS = tuple(name for name in names() if name not in NOT_TAKEN)
TENSORS = tuple(name for name in OPTIONS if MEMBERS.get(name) == "tensor")
NUMBERS = (bool, int, float, str, np.generic)


def attention(query: jax.Array, key: jax.Array, value: jax.Array, *, score: Score | None = None,
              **options: Unpack[AttentionOptions]):
    """`fovea.attention` of JAX's arrays, with gradients: of query, key and value, of bias, alibi_slopes and sinks, and of the
    score's parameters, but for a sigma that is a number.

        def loss(query, key, value, sigmas):
            return fovea.jax.attention(query, key, value, score=fovea.Gaussian(sigmas=sigmas), valid_lens=lengths).sum()

        gradients = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(query, key, value, sigmas)

    query [B, H, Q, D], key [B, Hkv, K, Dk], value [B, Hkv, K, Dv], H a multiple of Hkv, gives [B, H, Q, Dv]; or all of rank 3,
    [B, L, D] (one head), or 2, [L, D]. float32, bfloat16 or float16.
    score and options: those of `fovea.attention`, but key_scales, value_scales, return_scores and the projections, which are kept
    for the backward pass by themselves. What is an array there may be traced; numbers, as scale and windows, may not. With dropout
    goes a dropout_seed, a number or an array of one whole number, such as jax.random.bits(random_key): the same weights are
    dropped for the same seed, backwards too.

    Returns out; with return_log_sum_exp, return_weights a tuple of out and these, in this order, with gradients too. No Q x K
    matrix is held unless weights are asked for. Only gradients that are asked for are computed; rows with nothing to attend
    have none. Under jax.vmap it is one call of the library where samples have no parameters of their own, want no gradients of
    shared ones and drop nothing, else one for each. There are no forward derivatives (jax.jvp) and no gradients of gradients.
    """
    given = {"query": query, "key": key, "value": value}
    numbers, arrays = _options(options)
    kind, sigma, parameters = _parameters(score)
    given = {name: jnp.asarray(x) for name, x in (given | arrays | parameters).items()}
    rank = given["query"].ndim
    for name in ("query", "key", "value", "mask", "bias"):
        if name in given:
            given[name] = _of_rank_4(given[name], name, rank)
    for name in IN_FLOAT32:
        if name in given:
            given[name] = given[name].astype(jnp.float32)
    returned = tuple(name for name in REACHING if name == "out" or numbers.pop("return_" + name, False))
    call = Call(kind, sigma, tuple(sorted(numbers.items())))
    differentiable = {name: given.pop(name) for name in WANTED if name in given}
    results = [x if rank == 4 else x[:, 0] if rank == 3 else x[0, 0] for x in _attend(call, returned, differentiable, given)]
    return results[0] if len(results) == 1 else tuple(results)


def _options(options) -> tuple[dict, dict]:
    """(numbers, arrays) of what is given."""
    numbers: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, option in options.items():
        if name not in OPTIONS:
            raise TypeError(f"fovea.jax.attention has no option {name!r}; it has {', '.join(OPTIONS)}")
        if option is None:
            continue
        if name in TENSORS:
            arrays[name] = option
        elif name != "dropout_seed":
            numbers[name] = _number(name, option)
    if numbers.get("return_weights", False) not in (False, True):
        raise ValueError(f"return_weights: {numbers['return_weights']!r} is neither True nor False")
    if numbers.get("dropout"):
        arrays["dropout_seed"] = _seed(options.get("dropout_seed"))
    return numbers, arrays


def _number(name, given):
    if not isinstance(given, NUMBERS):
        kind = "an array" if isinstance(given, (jax.Array, np.ndarray)) else type(given).__name__
        raise TypeError(f"{name}: a number is wanted, not {kind}; there is no gradient of it")
    return given


def _seed(seed):
    """As an array of one unsigned number, or of two halves of 64 bits, which JAX has not without jax_enable_x64."""
    if seed is None:
        raise BadOption("dropout_seed: one is wanted with dropout, such as jax.random.bits(random_key)")
    if isinstance(seed, (int, np.integer)):
        if not 0 <= seed < 2**64:
            raise ValueError(f"dropout_seed: {seed} is out of range")
        return np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    seed = jnp.asarray(seed)
    if seed.ndim != 0 or not jnp.issubdtype(seed.dtype, jnp.integer):
        raise TypeError(f"dropout_seed: one whole number is wanted, such as jax.random.bits(random_key), not "
                        f"{seed.dtype}{list(seed.shape)}")
    return seed.astype(jnp.uint64 if seed.dtype.itemsize == 8 else jnp.uint32)


def _parameters(score) -> tuple[type | None, float | None, dict]:
    """(kind, sigma, arrays) of a score function; a bias of its own as score_bias."""
    if score is None:
        return None, None, {}
    if not isinstance(score, Score):
        raise TypeError(f"score: a fovea.Score is wanted, Dot() or another, not {type(score).__name__}")
    given = {"score_bias" if name == "bias" else name: one for name, one in vars(score).items() if one is not None}
    sigma = given.pop("sigma", None)
    if sigma is not None and "sigmas" in given:
        raise BadOption("sigma: None is expected where sigmas are given")
    return type(score), None if sigma is None else _number("sigma", sigma), given


def _of_rank_4(x, name, rank):
    """Of query's rank, or a mask [Q, K] that serves all."""
    if x.ndim != rank and not (name in ("mask", "bias") and x.ndim == 2) or not 2 <= x.ndim <= 4:
        raise BadRank(f"{name} has rank {x.ndim}, expected {rank if 2 <= rank <= 4 else '2, 3 or 4'}")
    return x if x.ndim == 4 else x[:, None] if x.ndim == 3 else x[None, None]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(call, returned, differentiable, others):
    """What is to be returned of out, log-sum-exp and weights."""
    return _called(Forward(call, returned), differentiable | others)


def _attend_and_keep(call, returned, differentiable, others):
    wanted = [name for name, x in differentiable.items() if x.perturbed]
    given = {name: x.value for name, x in (differentiable | others).items()}
    kept = ("out", "log_sum_exp") + (KEPT if call.keeps else ())
    names = tuple(name for name in REACHING + KEPT if name in returned or name in kept)
    results = dict(zip(names, _called(Forward(call, names), given)))
    given |= {name: results[name] for name in kept}
    return tuple(results[name] for name in returned), (given, dict.fromkeys(wanted))


def _backwards(call, returned, kept, reaching):
    given, wanted = kept
    wanted = tuple(wanted)
    arriving = {"grad_" + name: x for name, x in zip(returned, reaching) if not isinstance(x, SymbolicZero)}
    if not arriving or not wanted:
        return None, None
    arriving.setdefault("grad_out", jnp.zeros_like(given["out"]))
    gradients = dict(zip(wanted, _called(Backward(call, wanted), given | arriving)))
    return {name: gradients.get(name) for name in WANTED if name in given}, None


_attend.defvjp(_attend_and_keep, _backwards, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _called(run, given):
    """run(given) by a callback, once it is known that the library takes such arrays."""
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in run.check(given)]
    return tuple(jax.pure_callback(run, shapes, given, vmap_method="expand_dims"))


@_called.defjvp
def _(run, given, tangents):
    raise NotImplementedError("fovea.jax.attention has gradients, but no gradients of gradients")
