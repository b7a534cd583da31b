"""Errors against the formula in float64, beside those of the formula evaluated as it stands in float32 (NumPy)."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

import library as fovea
import sweeps

KEYS = (16, 64, 256, 1024, 4096)
QUERIES = 64


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def formula(query, key, value, parameters, dtype):
    """Attention in the given type throughout, one head."""
    query, key, value = (array[0, 0].astype(dtype) for array in (query, key, value))
    if parameters is None:
        scores = query @ key.T / dtype(query.shape[-1] ** 0.5)
    else:
        query_weight, key_weight, vector = (array.astype(dtype) for array in parameters)
        scores = np.stack([np.tanh(row + key @ key_weight.T) @ vector for row in query @ query_weight.T])
    return softmax(scores) @ value


def measure(library, isas, quick, progress):
    """Rows of largest errors, in units of the largest output."""
    rows = []
    for operation, size, units in (("attention", 64, 0), ("additive attention", 64, 64)):
        progress.begin(f"errors of {operation}")
        for keys in KEYS[:: 2 if quick else 1]:
            *arrays, parameters = sweeps.inputs(1, 1, 1, QUERIES, keys, size, units)
            truth = formula(*arrays, parameters, np.float64)
            most = np.abs(truth).max()
            outs = {
                isa: fovea.Attention(fovea.Context(library, isa, 1), *arrays, False, parameters).run()[0, 0]
                for isa in isas
            }
            outs["plain float32"] = formula(*arrays, parameters, np.float32)
            rows += [
                {
                    "operation": operation,
                    "dtype": "f32",
                    "keys": keys,
                    "way": way,
                    "error": float(np.abs(out - truth).max() / most),
                }
                for way, out in outs.items()
            ]
    return rows
