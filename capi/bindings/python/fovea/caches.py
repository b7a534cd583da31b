# SPDX-License-Identifier: Apache-2.0
"""Keys and values kept from call to call."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, shape_of
from .attention import results
from .contexts import Context, handle_of
from .options import AttentionOptions, read, size
from .scores import Score, options_of


def _number_of(dtype):
    """Of an element type: NumPy's, PyTorch's, ml_dtypes', or its name."""
    name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    numbers = {"float32": _fovea.F32, "float16": _fovea.F16, "bfloat16": _fovea.BF16}
    if name not in numbers:
        raise ValueError(f"dtype is {dtype}, expected float32, float16 or bfloat16")
    return numbers[name]


class KVCache:
    """Keys and values of B sequences of one length, [B, Hkv, capacity, D] and [..., Dv], as a decoder needs them.

    A step appends its keys and values, then attends to all there are. They are kept in `dtype`, float32, float16 or
    bfloat16, whatever they and the queries come in. Changing a cache while another thread uses it is an
    error. copy, deepcopy and pickle make a cache of its own, with what this one holds.
    """

    def __init__(self, batch: int, kv_heads: int, capacity: int, head_dim: int, value_dim: int | None = None, dtype="float32"):
        self._value_dim = size("value_dim", value_dim, head_dim)
        self._handle = _fovea.kv_cache_create({"batch": batch, "kv_heads": kv_heads, "capacity": capacity,
                                               "head_dim": head_dim, "value_dim": self._value_dim,
                                               "dtype": _number_of(dtype)})

    def append(self, key: Array, value: Array, *, context: Context | None = None) -> None:
        """Appends key [B, Hkv, n, D] and value [B, Hkv, n, Dv]."""
        _fovea.kv_cache_append(handle_of(context), self._handle, as_array(key, "key"), as_array(value, "value"))

    def attend(self, query: Array, *, score: Score | None = None, out: Array | None = None,
               context: Context | None = None, **options: Unpack[AttentionOptions]):
        """`fovea.attention` of query [B, H, Q, D] over all that the cache holds. With is_causal the last query faces the
        last key."""
        query = as_array(query, "query")
        shape = shape_of(query, "query")
        out = empty(shape[:-1] + (self._value_dim,), query) if out is None else out
        read_options, outputs = read(options, shape, len(self), query) if options else (None, [])
        _fovea.kv_cache_attend(handle_of(context), self._handle, options_of(score), query, out, read_options)
        return results(query, out, outputs)

    def truncate(self, length: int) -> None:
        """Forgets the positions from `length` on."""
        _fovea.kv_cache_truncate(self._handle, length)

    def reorder(self, source: Array, *, context: Context | None = None) -> None:
        """Sequence b becomes a copy of what was sequence source[b], source [B] of int32 or int64: beam search."""
        _fovea.kv_cache_reorder(handle_of(context), self._handle, as_array(source, "source"))

    def __len__(self) -> int:
        return _fovea.kv_cache_length(self._handle)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return _fovea.kv_cache_size(self._handle)

    def save(self) -> bytes:
        """What it holds, for a file or another machine; `restore` reads it, and so do other languages."""
        saved = bytearray(_fovea.kv_cache_saved_size(self._handle))
        _fovea.kv_cache_save(self._handle, saved)
        return bytes(saved)

    @classmethod
    def restore(cls, saved: bytes, capacity: int | None = None) -> KVCache:
        """A cache of `capacity` positions (None: as it was saved with) from what `save` returned."""
        saved = bytes(saved)  # so that what is read below is what the library has checked
        cache = cls.__new__(cls)
        cache._handle = _fovea.kv_cache_restore(saved, size("capacity", capacity))
        cache._value_dim = int.from_bytes(saved[52:56], "little")
        return cache

    def __reduce__(self):
        return type(self).restore, (self.save(),)


class PreparedKeys:
    """Keys that are attended again and again, projected once by an Additive, Concat or Bilinear score.

    Room for `capacity` keys of each of batch x kv_heads sequences; the score's weights are copied. A Bilinear score's may be
    kept in `dtype` float16 or bfloat16. They cannot be copied or pickled.
    """

    def __init__(self, score: Score, *, batch: int, kv_heads: int = 1, capacity: int, query_dim: int, key_dim: int,
                 dtype="float32", context: Context | None = None):
        self._handle = _fovea.prepared_keys_create(
            handle_of(context), options_of(score), {"batch": batch, "kv_heads": kv_heads, "capacity": capacity,
                                                    "query_dim": query_dim, "key_dim": key_dim,
                                                    "dtype": _number_of(dtype)})

    def append(self, key: Array, *, context: Context | None = None) -> None:
        """Appends key [B, Hkv, n, Dk]."""
        _fovea.prepared_keys_append(handle_of(context), self._handle, as_array(key, "key"))

    def __reduce_ex__(self, protocol):
        raise TypeError("PreparedKeys cannot be copied or pickled: what they were projected from is not kept, and what they "
                        "hold is this machine's order of it; make others of the same score and append the keys to them")

    def attend(self, query: Array, value: Array, *, out: Array | None = None, context: Context | None = None,
               **options: Unpack[AttentionOptions]):
        """`fovea.attention` of query [B, H, Q, Dq] over all keys, value [B, Hkv, K, Dv], K = len(keys)."""
        query, value = as_array(query, "query"), as_array(value, "value")
        shape = shape_of(query, "query")
        out = empty(shape[:-1] + shape_of(value, "value")[-1:], query, value) if out is None else out
        read_options, outputs = read(options, shape, len(self), query) if options else (None, [])
        _fovea.attention_prepared(handle_of(context), query, self._handle, value, out, read_options)
        return results(query, out, outputs)

    def truncate(self, length: int) -> None:
        """Forgets the keys from `length` on."""
        _fovea.prepared_keys_truncate(self._handle, length)

    def __len__(self) -> int:
        return _fovea.prepared_keys_length(self._handle)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return _fovea.prepared_keys_size(self._handle)
