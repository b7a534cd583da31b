#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masked attention from Python through the C interface: ctypes and NumPy.

    python3 attention.py LIBRARY ../data         LIBRARY: path of libfovea.so

Runs one layer of a sentence encoder over two padded sentences (../data/README.md), compares with the float64 reference
and tells where three words look. Exits with an error if the result is not what it must be.
"""

import ctypes
import pathlib
import sys

import numpy as np

DTYPES = {np.dtype(np.float32): 1, np.dtype(np.int32): 5, np.dtype(np.int64): 6, np.dtype(np.bool_): 7}


class Tensor(ctypes.Structure):
    """fovea_tensor: a view of memory that must live as long as the view."""
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 6), ("strides", ctypes.c_int64 * 6)]

    def __init__(self, array):
        """Of a NumPy array of any strides."""
        super().__init__(array.ctypes.data, DTYPES[array.dtype], array.ndim)
        self.shape[: array.ndim] = array.shape
        self.strides[: array.ndim] = [stride // array.itemsize for stride in array.strides]

    @classmethod
    def from_dlpack(cls, fovea, source):
        """Of whatever speaks DLPack: a NumPy array, a PyTorch or JAX tensor on the CPU."""
        capsule = source.__dlpack__()
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.argtypes, get_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
        view = cls.__new__(cls)
        if fovea.fovea_tensor_from_dlpack(get_pointer(capsule, b"dltensor"), view) != 0:
            raise ValueError(fovea.fovea_last_error().decode())
        return view  # the capsule frees its DLTensor, which is not needed any more; the memory is source's


class AttentionOptions(ctypes.Structure):
    """fovea_attention_options. What is not named is 0, the default."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("empty_rows", ctypes.c_int32),
                ("scale", ctypes.c_float), ("softcap", ctypes.c_float), ("query_offset", ctypes.c_int64),
                ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64)] + [
                    (name, ctypes.POINTER(Tensor)) for name in
                    ("valid_lens", "mask", "bias", "alibi_slopes", "sinks", "log_sum_exp", "weights")] + [
                        ("dropout", ctypes.c_float), ("reserved", ctypes.c_int32), ("dropout_seed", ctypes.c_uint64),
                        ("query_offsets", ctypes.POINTER(Tensor))]


def open_library(path):
    fovea = ctypes.CDLL(path)
    for name in ("fovea_version", "fovea_isa_name", "fovea_last_error"):
        getattr(fovea, name).restype = ctypes.c_char_p
    fovea.fovea_isa_name.argtypes = [ctypes.c_void_p]
    fovea.fovea_tensor_from_dlpack.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor)]
    fovea.fovea_sdpa.argtypes = [ctypes.c_void_p] + 4 * [ctypes.POINTER(Tensor)] + [ctypes.POINTER(AttentionOptions)]
    fovea.fovea_sdpa.restype = ctypes.c_int32
    return fovea


def attention(fovea, query, key, value, valid_lens):
    """softmax(query key^T / sqrt(D)) value over the first valid_lens[b] keys; returns the output and the weights."""
    out = np.empty(query.shape[:-1] + value.shape[-1:], np.float32)
    weights = np.empty(query.shape[:-1] + key.shape[-2:-1], np.float32)
    options = AttentionOptions(struct_size=ctypes.sizeof(AttentionOptions), weights=ctypes.pointer(Tensor(weights)),
                               valid_lens=ctypes.pointer(Tensor(valid_lens)))
    views = [Tensor(array) for array in (query, key, value, out)]
    if fovea.fovea_sdpa(None, *views, options) != 0:
        raise ValueError(fovea.fovea_last_error().decode())
    return out, weights


def main(library, folder):
    fovea = open_library(library)
    folder = pathlib.Path(folder)
    names = ("query", "key", "value", "valid_lens", "out")
    query, key, value, valid_lens, reference = (np.load(folder / (name + ".npy")) for name in names)
    out, weights = attention(fovea, query, key, value, valid_lens)

    # The same numbers with the heads inside, [batch, token, head, feature] in memory: only the strides differ.
    inside = [np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2) for array in (query, key, value)]
    assert np.array_equal(attention(fovea, *inside, valid_lens)[0], out), "another layout gives another result"

    # DLPack describes the same views, slices of any layout too.
    for array in (query, inside[0], inside[0][:, 3:, ::2], valid_lens):
        view = Tensor.from_dlpack(fovea, array)
        assert bytes(view) == bytes(Tensor(array)), "DLPack describes another view"

    error = np.abs(out - reference).max()
    version, isa = fovea.fovea_version().decode(), fovea.fovea_isa_name(None).decode()
    print(f"fovea {version} ({isa}) from Python: largest error against float64 {error:.1e}")
    sentences = [line.split("\t") for line in (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()]
    for sentence, head, word in ((0, 8, "the"), (1, 9, "happy"), (1, 9, "family")):
        words = sentences[sentence]
        row = weights[sentence, head, words.index(word), 1 : len(words) - 1]
        print(f"  {word} -> {words[1 + row.argmax()]} {row.max():.0%}")
    if not error <= 1e-5:
        sys.exit("the output is not the reference")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} LIBRARY DATA_DIRECTORY")
    main(*sys.argv[1:])
