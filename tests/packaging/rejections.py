#!/usr/bin/env python3
"""Every rejection lives in check, and nothing calls back up: read from the sources, after which the reading is itself tried
on sources that break each rule.

usage: rejections.py SOURCE_ROOT

`fail(` stands only in files named check.cpp or *_check.cpp, but for memory that cannot be had and sizes that overflow, which
show where they are added up, and for the files listed below. No file of src/ calls a function of the C interface, but for
src/mpi/, a library of its own beside the core: that one includes nothing of the core's, and calls it as other programs do.
"""
import pathlib
import re
import sys

# What may fail anywhere.
ANYWHERE = {"FOVEA_OUT_OF_MEMORY", "FOVEA_SIZE_OVERFLOW"}

# Files that refuse something themselves, and why.
ELSEWHERE = {
    "src/status.cpp": "says what failing is",
    "src/status.hpp": "says what failing is",
    "src/read_options.cpp": "reads the structs of any version of the header, below all operations",
    "src/runtime/context.cpp": "contexts are below all operations",
    "src/runtime/dispatch.cpp": "names of instruction sets",
    "src/mpi/error.cpp": "says what failing is, beside the core",
    "src/mpi/error.hpp": "says what failing is, beside the core",
    "capi/mpi/mpi.cpp": "exceptions that were not expected",
    "capi/guard.hpp": "exceptions that were not expected",
    "capi/tensor.cpp": "another library's descriptors are refused while they are translated",
}


def is_check(path):
    return re.search(r"(^|[/_])check\.cpp$", path) is not None


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.S)


def places(text, pattern):
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match


def breaches(sources, functions):
    """What breaks a rule, a line each; sources: text by path, functions: names of the C interface."""
    calls = re.compile(r"\b(" + "|".join(map(re.escape, sorted(functions))) + r")\(")
    refusing = set()
    for path, text in sorted(sources.items()):
        text = without_comments(text)
        for line, match in places(text, r"(?<![\w.])fail\(\s*(\w*)"):
            if match.group(1) in ANYWHERE or is_check(path):
                continue
            refusing.add(path)
            if path not in ELSEWHERE:
                yield f"{path}:{line}: fails with {match.group(1)}; rejections live in check.cpp and *_check.cpp"
        if path.startswith("src/mpi/"):
            for line, match in places(text, r'#\s*include\s*"(?!fovea/(?:fovea|mpi)\.h"|mpi/)([^"]*)"'):
                yield f"{path}:{line}: includes {match.group(1)}, which is none of the library's own nor a public C header"
        elif path.startswith("src/"):
            for line, match in places(text, calls):
                yield f"{path}:{line}: calls {match.group(1)}, a function of the C interface"
    for path in sorted(set(ELSEWHERE) - refusing):
        yield f"{path}: is listed in rejections.py, and refuses nothing"


def read(root):
    folders = [root / "src", root / "capi"]
    paths = [path for folder in folders for path in folder.rglob("*.[ch]pp")]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    sources = {name: path.read_text() for name, path in names.items() if not re.match(r"capi/(examples|bindings)/", name)}
    functions = set((root / "capi" / "fovea.symbols").read_text().split())
    return sources, functions


def main(root):
    sources, functions = read(root)
    found = list(breaches(sources, functions))
    for breach in found:
        print(breach)
    if found:
        return 1
    plan = "src/ops/attention/plan.cpp"
    for words, path, text in [
            ("fails with FOVEA_BAD_VALUE", plan, '\n  return fail(FOVEA_BAD_VALUE, "no");\n'),
            ("calls fovea_version", plan, "\nconst char *version() { return fovea_version(); }\n"),
            ("includes status.hpp", "src/mpi/ring.cpp", '\n#include "status.hpp"\n'),
            ("refuses nothing", "src/runtime/dispatch.cpp", None)]:
        broken = dict(sources)
        broken[path] = "" if text is None else broken[path] + text
        said = list(breaches(broken, functions))
        if len(said) != 1 or words not in said[0] or path not in said[0]:
            print(f"not noticed: {words}: {said}")
            return 1
        print(f"ok, noticed: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
