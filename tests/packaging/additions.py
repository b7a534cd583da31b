#!/usr/bin/env python3
"""Checks CONTRIBUTING.md's table of what an addition touches, by what has been added so far.

usage: additions.py SOURCE_ROOT

Every row names at most four places, and all of them exist. Everything of a kind that is there stands in each of the places
of its row: every operand of attention, every score function, every element type, every instruction set, every operation.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
MOST_PLACES = 4


def text(*paths):
    return "\n".join((ROOT / path).read_text(encoding="utf-8") for path in paths)


def rows():
    """(what is added, places) of the table."""
    table = text("CONTRIBUTING.md").split("| to add | touch |\n|---|---|\n")[1].split("\n\n")[0]
    for line in table.splitlines():
        added, places = [cell.strip() for cell in line.strip("|").split("|")[:2]]
        yield added, [re.findall(r"`([^`]+)`", place) for place in places.split(";")]


def missing(names, place, has):
    yield from (f"{place} lacks {name}" for name in names if not has(name))


def operands():
    """Tensors among attention's options."""
    header = text("include/fovea/fovea.h")
    options = re.search(r"typedef struct fovea_attention_options \{(.*?)\} fovea_attention_options;", header, re.S)[1]
    names = re.findall(r"const fovea_tensor \*(\w+);", options)
    buffers = re.search(r"typedef struct fovea_attention_buffers \{(.*?)\} fovea_attention_buffers;", header, re.S)[1]
    table, face = text("src/ops/attention/operands.cpp"), text("include/fovea/fovea.hpp")
    yield from missing(names, "fovea_attention_buffers", lambda name: re.search(rf"void \*{name};", buffers))
    yield from missing(names, "src/ops/attention/operands.cpp",
                       lambda name: re.search(rf"&Options::{name},\s+&Buffers::{name}\b", table))
    yield from missing(names, "include/fovea/fovea.hpp", lambda name: re.search(rf"c\.{name} = ", face))
    tests = text("tests/support/attention_operations.cpp")
    yield from missing(names, "tests/support/attention_operations.cpp", lambda name: f'"{name}"' in tests)


def scores():
    names = re.findall(r"\bFOVEA_SCORE_(\w+) = ", text("include/fovea/scores.h"))
    for place in ("src/ops/attention/score_check.cpp", "tests/support/score_function.hpp"):
        content = text(place)
        yield from missing(names, place, lambda name: f"FOVEA_SCORE_{name}" in content)
    kinds = re.search(r"enum class ScoreKind : int32_t \{(.*?)\}", text("src/kernels/attention/problem.hpp"))[1]
    kernels = [name for name in re.findall(r"(\w+) =", kinds)]
    units, listed = text(*(f"src/isa/scores_{name}.cpp" for name in kernels)), text("src/runtime/attention_rows.hpp")
    yield from missing(kernels, "src/isa/scores_*.cpp", lambda name: f"FOVEA_KERNELS({name})" in units)
    yield from missing(kernels, "src/runtime/attention_rows.hpp", lambda name: f"few_floats(ScoreKind::{name}, 0, &{name}_base)" in listed)


def element_types():
    enum = re.search(r"typedef int32_t fovea_dtype;.*?enum \{(.*?)\};", text("include/fovea/fovea.h"), re.S)[1]
    names = re.findall(r"FOVEA_(\w+) = ", enum)
    table = text("src/ops/tensors/dtype.cpp")
    yield from missing(names, "src/ops/tensors/dtype.cpp", lambda name: f'"FOVEA_{name}"' in table)
    types = text("src/types.hpp")
    enum = re.search(r"enum class Dtype : int32_t \{(.*?)\}", types, re.S)[1]
    traits = dict(re.findall(r"\{Dtype::(\w+), \d+, (?:ElementLoad::)?(\w+)[,(]", types))
    yield from missing(re.findall(r"(\w+) =", enum), "src/types.hpp, element_traits,", lambda name: name in traits)
    loaded = [name for name, load in traits.items() if load != "none"]
    elements = text("src/kernels/elements.hpp")
    yield from missing(loaded, "src/kernels/elements.hpp", lambda name: f"Dtype::{name}" in elements)


def instruction_sets():
    sets = re.search(r"constexpr Set sets\[isa_count\] = \{(.*?)\};", text("src/runtime/dispatch.cpp"), re.S)[1]
    names = re.findall(r'\{"(\w+)"', sets)
    for place in ("src/isa/meson.build", "src/runtime/dispatch.hpp"):
        content = text(place)
        yield from missing(names, place, lambda name: re.search(rf"\b{name}\b", content))


def operations():
    """Functions that compute: they take a context and return a status."""
    headers = text("include/fovea/fovea.h", "include/fovea/scores.h", "include/fovea/serving.h", "include/fovea/layers.h", "include/fovea/training.h")
    names = re.findall(r"FOVEA_API fovea_status\s+(fovea_\w+)\(\s*const fovea_context", headers)
    capi = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "capi").glob("*.cpp")))
    yield from missing(names, "capi/", lambda name: f"{name}(" in capi)
    symbols = text("capi/fovea.symbols")
    yield from missing(names, "capi/fovea.symbols", lambda name: re.search(rf"\b{name}\b", symbols))


def faults():
    found = dict(rows())
    for added, places in found.items():
        if len(places) > MOST_PLACES:
            yield f"{added}: {len(places)} places, expected at most {MOST_PLACES}"
        for names in places:
            if not names:
                yield f"{added}: a place without a name"
            yield from (f"{added}: there is no {name}" for name in names if "/" in name and not (ROOT / name).exists())
    checks = {"an element type": element_types, "a layout of keys and values": None, "a score function": scores,
              "an option": operands, "an output": operands, "an instruction set": instruction_sets,
              "an operation": operations}
    yield from (f"no row for {added}" for added in checks if added not in found)
    for check in dict.fromkeys(filter(None, checks.values())):
        yield from check()


def main():
    found = list(faults())
    print("\n".join(found) or "ok: each addition touches what the table says")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
