#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes all that bindings take from the C interface: capi/bindings/interface.json and what is generated from it.

usage: bindings.py                  writes them
       bindings.py --check          fails if one of them is not what the headers say
       bindings.py --reach BINDING  fails if that binding leaves out a function or a member of an options struct

Members of options structs are generated, so a new one is there after this command; functions are wrapped by hand, and
--reach names those that are not. What it writes lies in folders named "generated"; in Go, whose packages are one folder
each, in files whose names begin with that word.
"""
import pathlib
import re
import sys

import generate_go
import generate_java
import generate_node
import generate_rust
import interface

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "capi" / "bindings"

# What a binding does without, and why.
VIEWS = "its own views say whether they fit their memory"
NOT_NEEDED = {
    "rust": {"fovea_last_error_copy": "a call and fovea_last_error() stand in one function, which stays on its thread",
             "fovea_tensor_contiguous": VIEWS,
             "fovea_tensor_from_dlpack": "tensors of other libraries come as slices and strides"},
    "go": {"fovea_last_error": "fovea_last_error_copy instead",
           "fovea_last_error_copy": "called in C beside every call, whose error carries the message",
           "fovea_tensor_contiguous": VIEWS,
           "fovea_tensor_from_dlpack": "nothing in Go speaks DLPack",
           "fovea_context_options.parallel_for": "goroutines have no threads of their own that C could wait on",
           "fovea_context_options.parallel_for_user": "likewise"},
    "node": {"fovea_last_error": "fovea_last_error_copy instead",
             "fovea_last_error_copy": "called in C beside every call, whose error carries the message",
             "fovea_tensor_contiguous": VIEWS,
             "fovea_tensor_from_dlpack": "nothing in Node speaks DLPack",
             "fovea_schedule_run_tasks": "JavaScript has one thread",
             "fovea_context_options.parallel_for": "JavaScript has one thread",
             "fovea_context_options.parallel_for_user": "likewise"},
    "java": {"fovea_last_error": "fovea_last_error_copy instead",
             "fovea_status_name": "the enum Status has the names",
             "fovea_tensor_contiguous": VIEWS,
             "fovea_tensor_from_dlpack": "tensors of other libraries come as memory segments and strides",
             "fovea_context_options.parallel_for_user": "each loop has a C function of its own"},
}


class Binding:
    """Where a function has to be called for a user to reach it, and where members are set."""

    def __init__(self, calls, members, call):
        self.calls, self.members, self.call = calls, members, call

    @staticmethod
    def read(patterns):
        return "\n".join(path.read_text() for pattern in patterns for path in sorted(FOLDER.glob(pattern)))

    def functions(self, described):
        text = self.read(self.calls)
        for function in described["functions"]:
            if not re.search(self.call(function["name"]), text):
                yield function["name"]

    def options(self, described):
        text = self.read(self.members)
        for struct in filter(lambda struct: struct["options"], described["structs"]):
            name = struct["name"]
            # Literals that name every member; and what is set between a variable's declaration and the next return.
            places = [set(re.findall(r"\w+", one)) for one in re.findall(rf"\b{name} \{{\n(.*?)\n *\}}[;)]?\n", text, re.S)]
            for variable, rest in re.findall(rf"\b{name} [*&]?(\w+) =(.*?)\breturn\b", text, re.S):
                places.append(set(re.findall(rf"\b{variable}(?:\.|->)(\w+) \|?=", rest)))
            places = [place for place in places if place]  # not those that only hold one
            for member in generate_rust.settable(struct):
                if not (places and all(member["name"] in place for place in places)):
                    yield f"{name}.{member['name']}"


# What runs are given, and Java's classes of it.
RUNS = {"fovea_attention_buffers": "Buffers", "fovea_mha_buffers": "MhaBuffers"}


class Java(Binding):
    """A member is set where the class of its struct puts it into the layout; what of that a user can call, the compiler knows."""

    def options(self, described):
        text = self.read(self.members)
        for struct in filter(lambda struct: struct["options"], described["structs"]):
            for member in generate_rust.settable(struct):
                if not re.search(rf"raw\.set\(\w+, Layouts\.{struct['name']}\.{member['name']},", text) and \
                        struct["name"] not in RUNS:
                    yield f"{struct['name']}.{member['name']}"
        for name, java in RUNS.items():
            for member in generate_rust.settable(struct_named(described, name)):
                if not re.search(rf"public {java} {generate_node.js(member['name'])}\(", text):
                    yield f"{name}.{member['name']}"


def struct_named(described, name):
    return next(struct for struct in described["structs"] if struct["name"] == name)


def in_go(name):
    return rf"\bc{generate_rust.camel(generate_rust.plain(name))}\(|C\.(go_)?{name}\("


def in_node(name):
    if name.endswith("_destroy"):
        return r"native\.close\("
    operation = generate_node.operation({"name": name})
    return rf"native\.{operation}\(|'{operation}'|\b{name}\("


JAVA = ("java/src/main/java/fovea", "java/src/generated/main/java/fovea")

BINDINGS = {
    "rust": Binding(["rust/fovea/src/**/*.rs"], ["rust/fovea/src/**/*.rs"], lambda name: rf"sys::{name}\("),
    "go": Binding(["go/fovea.go", "go/operations.go", "go/handles.go", "go/plan.go", "go/mha_plan.go", "go/pools.go", "go/schedules.go",
                   "go/generated_buffers.go", "go/generated_shim.c"],
                  ["go/generated_shim.c"], in_go),
    "java": Java([f"{folder}/[!N]*.java" for folder in JAVA], [f"{folder}/*.java" for folder in JAVA],
                 lambda name: rf"Native(\.|::){name}\b"),
    "node": Binding(["node/*.js", "node/src/*.cpp"], ["node/src/*.cpp", "node/generated/*.cpp"], in_node),
}


def generated(described):
    """{path below capi/bindings: text}"""
    files = {}
    for module in (generate_rust, generate_go, generate_node, generate_java):
        files.update(module.files(described))
    return files


def check(files):
    stale = [path for path, text in files.items() if not (FOLDER / path).exists() or (FOLDER / path).read_text() != text]
    for path in stale:
        print(f"capi/bindings/{path} is not what the headers say: run tools/bindings.py", file=sys.stderr)
    if not stale:
        print(f"{len(files)} files are what the headers say")
    return 1 if stale else 0


def reach(name, described):
    """Every function is there for users, and every member of an options struct is set."""
    binding = BINDINGS[name]
    left_out = [one for one in (*binding.functions(described), *binding.options(described)) if one not in NOT_NEEDED[name]]
    for one in left_out:
        print(f"{name} does not reach {one}")
    if not left_out:
        print(f"{name} reaches every function and option, but for")
        for one, reason in NOT_NEEDED[name].items():
            print(f"  {one}: {reason}")
    return 1 if left_out else 0


def main():
    described = interface.described()
    if sys.argv[1:2] == ["--reach"] and sys.argv[2:] and sys.argv[2] in BINDINGS:
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
