# SPDX-License-Identifier: Apache-2.0
"""Pools: keys and values of many sequences, in pages that sequences share where they begin alike."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _fovea
from .arrays import Array, features_of
from .contexts import Context, handle_of
from .errors import BadValue
from .options import dtype_number, size

KEPT = ("float32", "float16", "bfloat16", "int8")
VALUES_KEPT = (*KEPT, "uint8")


def numpy_of(memory) -> np.ndarray:
    """Memory of the library's as an array, without a copy; it lives as long as the array."""
    array = np.asarray(memory)
    if memory.dtype != "bfloat16":
        return array
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("NumPy has bfloat16 with ml_dtypes alone: pip install ml_dtypes") from error
    return array.view(ml_dtypes.bfloat16)


class NotCopied:
    """What is one place in memory: neither copy nor pickle make another."""

    _instead = ""

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled{self._instead}")


class KVPool(NotCopied):
    """Keys and values of many sequences and layers, as servers of language models keep them.

        pool = fovea.KVPool(layers=32, kv_heads=8, head_dim=128, positions=100_000, sequences=64)
        with pool.open() as sequence:
            step = pool.step({sequence: 7})      # room for 7 more positions, in all layers

    positions: room for so many of all sequences together, which is rounded up to whole pages of page_size positions (None: so
    that a layer's keys of a page take 128 KB or more). sequences: the most that are open at once. value_dim: head_dim unless
    given. key_dtype, value_dtype: "float32", "float16", "bfloat16" or "int8", which has a scale for scale_group features
    (None: 32 where that divides them, else all). value_dtype may as well be "uint8", two features of 4 bits in each.

    Sequences, arrays and schedules keep the pool alive. One call at a time may use it: a second thread's is an error.
    """

    _instead = "; save its sequences"

    def __init__(self, *, kv_heads: int, head_dim: int, positions: int, sequences: int, layers: int = 1,
                 value_dim: int | None = None, page_size: int | None = None, key_dtype: Any = "float32",
                 value_dtype: Any = None, scale_group: int | None = None):
        sizes = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "value_dim": size("value_dim", value_dim),
                 "positions": positions, "page_size": size("page_size", page_size), "sequences": sequences,
                 "key_dtype": dtype_number("key_dtype", key_dtype, KEPT),
                 "value_dtype": 0 if value_dtype is None else dtype_number("value_dtype", value_dtype, VALUES_KEPT),
                 "scale_group": size("scale_group", scale_group)}
        self._handle = _fovea.kv_pool_create(sizes)
        self.layers, self.sequences = layers, sequences
        # Of each layer (keys, values, key scales, value scales). Pages never move.
        self._pages = [(_fovea.kv_pool_keys(self._handle, layer), _fovea.kv_pool_values(self._handle, layer),
                        _fovea.kv_pool_key_scales(self._handle, layer), _fovea.kv_pool_value_scales(self._handle, layer))
                       for layer in range(layers)]
        self.pages, self.kv_heads, self.page_size, self.head_dim = self._pages[0][0].shape
        self.value_dim = features_of(self._pages[0][1], self._pages[0][3])[-1]
        self._left: list[int] = []  # sequences whose objects went while another call used the pool

    def open(self) -> Sequence:
        """A new, empty sequence. PoolExhausted if as many as there may be are open."""
        self._settle()
        return Sequence(self, _fovea.kv_pool_open(self._handle))

    def restore(self, saved: bytes) -> Sequence:
        """A new sequence from what Sequence.save returned, in a pool of the same layers, heads, features and types."""
        self._settle()
        return Sequence(self, _fovea.kv_pool_restore(self._handle, bytes(saved)))

    def step(self, growth: Mapping[Sequence, int] | Iterable[tuple[Sequence, int]], *,
             context: Context | None = None) -> Step:
        """Makes room for a step: {sequence: how many positions it grows by}, or pairs of these. Pages that a sequence shares
        and would write into are copied. All or nothing: PoolExhausted says how many pages are needed and how many are free,
        and nothing has changed."""
        self._settle()
        pairs = list(growth.items()) if isinstance(growth, Mapping) else list(growth)
        sequences = tuple(sequence for sequence, _ in pairs)
        numbers = np.array([self._number_of(sequence) for sequence in sequences], np.int64)
        tokens = np.array([tokens for _, tokens in pairs])
        members = _fovea.kv_pool_step(handle_of(context), self._handle, numbers,
                                      tokens if tokens.size else tokens.astype(np.int64))
        for sequence in sequences:
            sequence._changes += 1
        return Step(self, sequences, members)

    def _number_of(self, sequence) -> int:
        if not isinstance(sequence, Sequence):
            raise TypeError(f"a step takes sequences and numbers of tokens, not {type(sequence).__name__}")
        if sequence.pool is not self:
            raise BadValue("a sequence of another pool")
        return sequence._open_number()

    def keys(self, layer: int) -> np.ndarray:
        """The layer's keys [pages, Hkv, page_size, D], without a copy: what is written to them is what later steps attend."""
        return numpy_of(self._pages[layer][0])

    def values(self, layer: int) -> np.ndarray:
        """The layer's values [pages, Hkv, page_size, Dv], likewise."""
        return numpy_of(self._pages[layer][1])

    def key_scales(self, layer: int) -> np.ndarray | None:
        """Of int8 keys, float16 [pages, Hkv, page_size, D / group]; else None."""
        scales = self._pages[layer][2]
        return None if scales is None else numpy_of(scales)

    def value_scales(self, layer: int) -> np.ndarray | None:
        """Of int8 values, likewise."""
        scales = self._pages[layer][3]
        return None if scales is None else numpy_of(scales)

    @property
    def free_pages(self) -> int:
        """Pages that no sequence holds."""
        self._settle()
        return _fovea.kv_pool_free_pages(self._handle)

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return _fovea.kv_pool_size(self._handle)

    def __repr__(self) -> str:
        return (f"fovea.KVPool(layers={self.layers}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, "
                f"{self.pages} pages of {self.page_size} positions)")

    def _give_back(self, number: int) -> None:
        """Closes a sequence whose object is gone: now, or as soon as no other call uses the pool."""
        self._left.append(number)
        self._settle()

    def _settle(self) -> None:
        while self._left:
            try:
                number = self._left.pop()
            except IndexError:  # another thread was quicker
                return
            try:
                _fovea.kv_pool_close(self._handle, number)
            except RuntimeError:  # in use
                self._left.append(number)
                return


class Sequence(NotCopied):
    """A sequence in a pool: KVPool.open makes it. `len` is its positions, the dropped ones included. It is closed by `close`, at
    the end of a `with`, or when nothing refers to it any more."""

    _instead = ": fork it, or save it"

    def __init__(self, pool: KVPool, number: int):
        if not isinstance(pool, KVPool):
            raise TypeError("KVPool.open makes sequences")
        self.pool = pool
        self._number: int | None = number
        self._changes = 0

    def fork(self, length: int | None = None) -> Sequence:
        """A new sequence that begins as the first `length` positions of this one, None: all. Pages are shared, and copied by the
        step that writes into one."""
        self.pool._settle()
        number = self._open_number()
        forked = _fovea.kv_pool_fork(self.pool._handle, number, len(self) if length is None else length)
        return Sequence(self.pool, forked)

    def truncate(self, length: int) -> None:
        """Forgets the positions from `length` on."""
        _fovea.kv_pool_truncate(self.pool._handle, self._open_number(), length)
        self._changes += 1

    def drop(self, first: int) -> None:
        """Gives back the pages that hold only positions before `first`, for windows that have left them. Positions keep their
        numbers."""
        _fovea.kv_pool_drop(self.pool._handle, self._open_number(), first)
        self._changes += 1

    def save(self) -> bytes:
        """Its keys and values, for a file or another machine; KVPool.restore reads them, and so do other languages."""
        number = self._open_number()
        saved = bytearray(_fovea.kv_pool_saved_size(self.pool._handle, number))
        _fovea.kv_pool_save(self.pool._handle, number, saved)
        return bytes(saved)

    def close(self) -> None:
        """Gives its pages back. A closed one may be closed again."""
        number = self._number
        if number is None:
            return
        _fovea.kv_pool_close(self.pool._handle, number)
        self._number = None
        self._changes += 1

    @property
    def is_closed(self) -> bool:
        return self._number is None

    def _open_number(self) -> int:
        if self._number is None:
            raise BadValue("the sequence is closed")
        return self._number

    def __len__(self) -> int:
        return _fovea.kv_pool_length(self.pool._handle, self._open_number())

    def __bool__(self) -> bool:
        """An empty sequence is one, too."""
        return True

    def __enter__(self) -> Sequence:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def __del__(self) -> None:
        number = getattr(self, "_number", None)
        if number is not None:
            self.pool._give_back(number)

    def __repr__(self) -> str:
        return "<fovea.Sequence, closed>" if self._number is None else f"<fovea.Sequence {self._number}>"


class Step(NotCopied):
    """What a step does to a pool: which pages each of its sequences has, once they have grown. KVPool.step makes it, and
    Schedule.set takes it. It is out of date as soon as one of its sequences changes again: grows, is truncated, dropped from or
    closed; what schedules are asked then is an error."""

    def __init__(self, pool: KVPool, sequences: tuple[Sequence, ...], members: dict):
        self.pool, self.sequences = pool, sequences
        self._members = members
        self._changes = tuple(sequence._changes for sequence in sequences)

    @property
    def is_current(self) -> bool:
        """Whether none of its sequences has changed since."""
        return all(sequence._changes == changes for sequence, changes in zip(self.sequences, self._changes))

    @property
    def query_starts(self) -> np.ndarray:
        """[S + 1]: sequence s has the tokens from query_starts[s] to query_starts[s + 1] - 1."""
        return numpy_of(self._members["query_starts"])

    @property
    def key_lens(self) -> np.ndarray:
        """[S]: positions of each sequence, those of the step's tokens included."""
        return numpy_of(self._members["key_lens"])

    @property
    def page_ids(self) -> np.ndarray:
        """The pages of all sequences, one behind the other."""
        return numpy_of(self._members["page_ids"])

    @property
    def page_starts(self) -> np.ndarray:
        """[S + 1]: where each sequence's pages begin."""
        return numpy_of(self._members["page_starts"])


Pages = int | tuple[Array, ...]
"""A pool's layer; or arrays: (keys, values), with scales (keys, values, key scales, value scales)."""
