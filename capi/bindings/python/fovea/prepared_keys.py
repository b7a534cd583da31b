# SPDX-License-Identifier: Apache-2.0
"""Keys that are projected once and attended often."""
from __future__ import annotations

from typing import Unpack

from . import _fovea
from .arrays import Array, as_array, empty, shape_of
from .attention import results
from .contexts import Context, handle_of
from .options import AttentionOptions, dtype_number, read
from .scores import Score, options_of


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
                                                    "dtype": dtype_number("dtype", dtype)})

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
