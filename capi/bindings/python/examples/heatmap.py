#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the words of two real sentences look: one attention layer of a sentence encoder, drawn as heatmaps.

    python3 heatmap.py [PICTURE]     PICTURE: by default heatmap.png

Runs one layer over two padded sentences (capi/examples/data), compares with the float64 reference, tells where three words
look, and draws two of the twelve heads if matplotlib is there.
"""
import pathlib
import sys

import numpy as np

import fovea

DATA = pathlib.Path(__file__).resolve().parents[3] / "examples" / "data"


def main(picture):
    query, key, value, valid_lens, reference = (
        np.load(DATA / f"{name}.npy") for name in ("query", "key", "value", "valid_lens", "out"))
    out, weights = fovea.attention(query, key, value, valid_lens=valid_lens, return_weights=True)
    error = np.abs(out - reference).max()
    print(f"fovea {fovea.__version__} ({fovea.isa_name()}) from Python: largest error against float64 {error:.1e}")

    sentences = [line.split("\t") for line in (DATA / "tokens.txt").read_text(encoding="utf-8").splitlines()]
    for sentence, head, word in ((0, 8, "the"), (1, 9, "happy"), (1, 9, "family")):
        words = sentences[sentence]
        row = weights[sentence, head, words.index(word), 1:len(words) - 1]
        print(f"  {word} -> {words[1 + row.argmax()]} {row.max():.0%}")
    if not error <= 1e-5:
        sys.exit("the output is not the reference")

    words = sentences[0]
    try:
        fovea.show_heatmaps(weights[0, 8:10, :len(words), :len(words)], query_labels=words, key_labels=words,
                            titles=["head 8", "head 9"], size=4, file=picture)
    except ModuleNotFoundError as missing:
        print(f"no picture: {missing.name} is not installed")
    else:
        print(f"picture: {picture}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["heatmap.png"]))
