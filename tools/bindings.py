#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes all that bindings take from the C interface: capi/bindings/interface.json and what is generated from it.

usage: bindings.py                  writes them
       bindings.py --check          fails if one of them is not what the headers say
       bindings.py --reach BINDING  fails if that binding leaves out a function or a member of an options struct

Members of options structs are generated, so a new one is there after this command; functions are wrapped by hand, and
--reach names those that are not.
"""
import pathlib
import re
import sys

import generate_go
import generate_node
import generate_rust
import interface

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "capi" / "bindings"

# What a binding does without, and why. The error that a call carries takes the place of the thread's.
NOT_NEEDED = {
    "rust": {"fovea_last_error_copy": "a call and fovea_last_error() stand in one function, which stays on its thread",
             "fovea_tensor_contiguous": "its own views say whether they fit their memory",
             "fovea_tensor_from_dlpack": "tensors of other libraries come as slices and strides"},
    "go": {"fovea_last_error": "fovea_last_error_copy, in the C function that made the call",
           "fovea_tensor_contiguous": "its own views say whether they fit their memory",
           "fovea_tensor_from_dlpack": "nothing in Go speaks DLPack"},
    "node": {"fovea_last_error": "fovea_last_error_copy, in the C function that made the call",
             "fovea_tensor_contiguous": "its own views say whether they fit their memory",
             "fovea_tensor_from_dlpack": "nothing in Node speaks DLPack"},
}
SOURCES = {
    "rust": ["rust/fovea/src/*.rs"],
    "go": ["go/*.go"],
    "node": ["node/src/*.cpp"],
}


def generated(described):
    """{path below capi/bindings: text}"""
    files = {}
    for module in (generate_rust, generate_go, generate_node):
        files.update(module.files(described))
    return files


def check(files):
    stale = [path for path, text in files.items() if not (FOLDER / path).exists() or (FOLDER / path).read_text() != text]
    for path in stale:
        print(f"capi/bindings/{path} is not what the headers say: run tools/bindings.py", file=sys.stderr)
    if not stale:
        print(f"{len(files)} files are what the headers say")
    return 1 if stale else 0


def reach(binding, described):
    """Every function is called, every member of a struct is named beside its struct."""
    text = "\n".join(path.read_text() for pattern in SOURCES[binding] for path in sorted(FOLDER.glob(pattern)))
    left_out = [function["name"] for function in described["functions"]
                if function["name"] not in NOT_NEEDED[binding] and not re.search(rf"\b(go_)?{function['name']}\b", text)]
    for struct in described["structs"]:
        if struct["options"]:
            left_out += [f"{struct['name']}.{member['name']}" for member in struct["members"]
                         if member["name"] not in ("struct_size", "reserved") and not re.search(
                             rf"\b{struct['name']}\b.*?\b{member['name']}\b", text, re.S)]
    for name in left_out:
        print(f"{binding} does not reach {name}")
    if not left_out:
        print(f"{binding} reaches {len(described['functions']) - len(NOT_NEEDED[binding])} functions and every option;"
              f" it does without {', '.join(NOT_NEEDED[binding])}")
    return 1 if left_out else 0


def main():
    described = interface.described()
    if sys.argv[1:2] == ["--reach"] and sys.argv[2:] and sys.argv[2] in SOURCES:
        return reach(sys.argv[2], described)
    files = {"interface.json": interface.read_interface().text(), **generated(described)}
    if sys.argv[1:] == ["--check"]:
        return check(files)
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for path, text in files.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
