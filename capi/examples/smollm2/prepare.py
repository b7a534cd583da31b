#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what the example smollm2 reads out of the model's GGUF file.

    prepare.py GGUF MODEL     MODEL/model.safetensors, float32; vocabulary.txt, a line of hexadecimal digits for the bytes of each
                              token; tokenizer.json, for the library tokenizers

Needs gguf, NumPy and tokenizers. Queries and keys are in GGUF as rotary embedding of neighbouring pairs wants them.
"""
import json
import pathlib
import struct
import sys


def write_safetensors(tensors, path):
    """tensors: name, shape and a function that makes the float32 numbers, which are not all held at once."""
    header, at = {}, 0
    for name, shape, _ in tensors:
        size = 4
        for length in shape:
            size *= length
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, numbers in tensors:
            file.write(numbers().astype("<f4").tobytes())
    partial.rename(path)


def bytes_of_letters():
    """GPT-2 writes bytes as letters: those that print as themselves, the others from 256 on."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    letters = {chr(byte): byte for byte in printed}
    letters.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return letters


def write_vocabulary(tokens, special, path):
    letters = bytes_of_letters()
    lines = ["" if n in special else bytes(letters[letter] for letter in token).hex() for n, token in enumerate(tokens)]
    path.write_text("".join(line + "\n" for line in lines), encoding="ascii")


def write_tokenizer(tokens, merges, special, path):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(tokens[n], special=True, normalized=False) for n in sorted(special)])
    tokenizer.save(str(path))


def prepare(source, folder):
    import gguf

    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(source)
    tensors = [(tensor.name, [int(size) for size in reversed(tensor.shape)],
                lambda tensor=tensor: gguf.quants.dequantize(tensor.data, tensor.tensor_type))
               for tensor in reader.tensors]
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    special = {n for n, kind in enumerate(kinds) if kind != gguf.TokenType.NORMAL}
    write_vocabulary(tokens, special, folder / "vocabulary.txt")
    write_tokenizer(tokens, reader.fields["tokenizer.ggml.merges"].contents(), special, folder / "tokenizer.json")
    write_safetensors(tensors, folder / "model.safetensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    prepare(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
