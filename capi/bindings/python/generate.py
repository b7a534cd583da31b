#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables through which the extension reaches the C interface: every struct's members, every function's arguments.

usage: generate.py INTERFACE OUTPUT     INTERFACE: interface.json, as tools/interface.py writes it

Offsets and calls are written as C++, so the compiler checks them against the headers. What the extension does itself is not
in the tables: destroying handles, errors, views, running plans.
"""
import json
import re
import sys

BY_HAND = {"fovea_last_error", "fovea_last_error_copy", "fovea_tensor_contiguous", "fovea_tensor_from_dlpack",
           "fovea_attention_run", "fovea_schedule_run", "fovea_mha_run"}
# Python's threads take turns: a run shared among them is no quicker than one of the library's own.
LEFT_OUT_FUNCTIONS = {"fovea_schedule_run_tasks"}
# What is written to though the description does not say so, by whose argument or member it is.
WRITTEN = {"fovea_schedule_append": {"key_pages", "value_pages"},
           "fovea_append_options": {"key_scales", "value_scales"},
           "fovea_mha_options": {"key_pages", "value_pages", "key_scales", "value_scales"}}
# Tensors that are the library's only until its next call.
COPIED = {"fovea_schedule_positions"}
# A Python callable would have to hold the interpreter's lock for every task; workers are those of fovea_schedule_run_tasks.
LEFT_OUT = {"parallel_for", "parallel_for_user", "workers"}
# Members of fovea_mha_options whose data a run is given in fovea_mha_buffers.
MHA_PAGES = ("key_pages", "value_pages", "key_scales", "value_scales")
NUMBERS = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "size_t": "size", "float": "f32",
           "fovea_dtype": "i32", "fovea_status": "i32"}
RESULTS = {"fovea_status": "status", "const char *": "text", "size_t": "size", "int64_t": "i64", "int32_t": "i32",
           "fovea_tensor": "tensor"}


def is_options(name):
    return name.endswith("_options")


def place(struct, member, is_there):
    return f"offsetof({struct}, {member['name']})" if is_there else "no_offset"


class Tables:
    def __init__(self, interface):
        self.interface = interface
        self.handles = [handle["name"] for handle in interface["handles"]]
        self.options = {struct["name"]: struct for struct in interface["structs"] if struct["options"]}
        self.runs_take = [member["name"] for member in self.options["fovea_attention_buffers"]["members"][1:]]

    def kind(self, item, owner, reads=False):
        """(kind, what it refers to) of an argument or member of `owner`, None for what no table can describe. reads: in options
        of a backward pass, which writes nothing of what its forward call wrote there."""
        written, base, pointers = item["type"]["c"], item["type"]["base"], item["type"]["pointers"]
        if pointers == 0:
            return (NUMBERS[base], "nullptr, 0") if base in NUMBERS else None
        if written == "const char *":
            return "text", "nullptr, 0"
        if base == "fovea_tensor" and pointers == 1:
            written = (item.get("output") or item["name"] in WRITTEN.get(owner, ())) and not (reads and is_options(owner))
            return "output" if written else "tensor", "nullptr, 0"
        if base in self.options and pointers == 1:
            return "structure" if item["type"]["const"] else "new_structure", f"&{self.table(base, reads)}, 0"
        if base == "int64_t" and pointers == 1 and not item["type"]["const"]:
            return "new_i64", "nullptr, 0"
        if base in self.handles:
            which = f"nullptr, {self.handles.index(base)}"
            if pointers == 2:
                return "new_handle", which
            return "handle" if item["type"]["const"] else "changed_handle", which
        return None

    def buffer(self, name, struct=None):
        """In which buffer a run of a planned call takes a tensor, -1: in none."""
        if struct == "fovea_mha_options":
            return len(self.runs_take) + MHA_PAGES.index(name) if name in MHA_PAGES else -1
        if struct == "fovea_attention_gradients":
            name = "grad_" + name
        name = "score_bias" if (struct, name) == ("fovea_score", "bias") else name
        return self.runs_take.index(name) if name in self.runs_take else -1

    def has_outputs(self, base):
        """Whether these are options in which a forward call writes something."""
        return is_options(base) and any(
            member.get("output") or member["name"] in WRITTEN.get(base, ()) or self.has_outputs(member["type"]["base"])
            for member in self.options[base]["members"])

    def table(self, base, reads):
        return f"{base}_read_table" if reads and self.has_outputs(base) else f"{base}_table"

    def struct(self, struct, reads=False):
        rows = []
        for member in struct["members"]:
            if member["name"] in LEFT_OUT or re.match("struct_size|reserved", member["name"]):
                continue
            kind = self.kind(member, struct["name"], reads)
            if kind is None:
                raise SystemExit(f"generate.py: no table for {struct['name']}.{member['name']}")
            place = f"offsetof({struct['name']}, {member['name']})"
            buffer = self.buffer(member["name"], struct["name"])
            rows.append(f'    {{"{member["name"]}", Kind::{kind[0]}, {place}, {kind[1]}, {buffer}}},')
        name, table = struct["name"], self.table(struct["name"], reads)
        return (f"constexpr Member {table}_members[] = {{\n" + "\n".join(rows) + "\n};\n"
                f'constexpr Struct {table}{{"{name}{", read" if reads else ""}", sizeof({name}), {table}_members, {len(rows)}}};\n')

    def buffers(self):
        """The members of fovea_attention_buffers, which runs of plans fill in, and those of fovea_mha_buffers that it lacks."""
        members = self.options.pop("fovea_attention_buffers")["members"][1:]
        in_mha = {m["name"]: m for m in self.options.pop("fovea_mha_buffers")["members"][1:] if m["name"] != "attention"}
        for name in in_mha.keys() - set(MHA_PAGES) - {m["name"] for m in members}:
            raise SystemExit(f"generate.py: no table for fovea_mha_buffers.{name}")
        listed = [(m, True, m["name"] in in_mha and m["name"] not in MHA_PAGES) for m in members]
        listed += [(in_mha[name], False, True) for name in MHA_PAGES]
        rows = [f'    {{"{m["name"]}", {place("fovea_attention_buffers", m, own)}, {place("fovea_mha_buffers", m, mha)}}},'
                for m, own, mha in listed]
        return "constexpr Buffer plan_buffers[] = {\n" + "\n".join(rows) + "\n};\n"

    def function(self, function):
        """(its arguments, its wrapper, its row)"""
        name, rows, passed = function["name"], [], []
        arguments = function["arguments"]
        at = 0
        while at < len(arguments):
            argument = arguments[at]
            kind, place = self.kind(argument, name, "_backward" in name), len(rows)
            of = argument["type"]
            if of["base"] in ("void", "char") and of["pointers"] == 1 and kind is None:
                rows.append(f'    {{"{argument["name"]}", Kind::{"bytes" if of["const"] else "changed_bytes"}, 0, nullptr, 0, -1}},')
                passed += [f"static_cast<{of['c']}>(a[{place}].pointer)", f"a[{place}].length"]
                at += 2  # its size comes with it
                continue
            if kind is None:
                raise SystemExit(f"generate.py: no table for {name}'s {argument['name']}")
            buffer = self.buffer(argument["name"])
            rows.append(f'    {{"{argument["name"]}", Kind::{kind[0]}, 0, {kind[1]}, {buffer}}},')
            passed.append(f"a[{place}].{kind[0]}" if kind[0] in NUMBERS.values() else
                          f"reinterpret_cast<{of['c']}>(&a[{place}].pointer)" if kind[0] == "new_handle" else
                          f"&a[{place}].i64" if kind[0] == "new_i64" else
                          f"static_cast<{of['c']}>(a[{place}].pointer)")
            at += 1
        result = RESULTS[function["returns"]["c"]]
        target = "*static_cast<fovea_tensor *>(result.pointer)" if result == "tensor" else f"result.{result}"
        result = "copied_tensor" if name in COPIED else result
        call = f"{name}({', '.join(passed)})"
        listed = f"constexpr Member {name}_arguments[] = {{\n" + "\n".join(rows) + "\n};\n" if rows else ""
        wrapper = f"void call_{name}([[maybe_unused]] Slot *a, Slot &result) {{ {target} = {call}; }}\n"
        row = (f'    {{"{name.removeprefix("fovea_")}", Result::{result}, {name + "_arguments" if rows else "nullptr"}, '
               f"{len(rows)}, call_{name}}},")
        return listed + wrapper, row

    def text(self):
        parts = ["// Written by generate.py from interface.json.\n", self.buffers()]
        done = set()
        while len(done) < len(self.options):  # what a struct refers to comes first
            for struct in self.options.values():
                needed = {m["type"]["base"] for m in struct["members"]} & set(self.options)
                if struct["name"] not in done and needed <= done:
                    parts.append(self.struct(struct))
                    if self.has_outputs(struct["name"]):
                        parts.append(self.struct(struct, reads=True))
                    done.add(struct["name"])
        listed = ", ".join(f"&{self.table(name, False)}" for name in sorted(done))
        parts.append(f"constexpr const Struct *structs[] = {{{listed}}};\n")
        listed += "".join(f", &{self.table(name, True)}" for name in sorted(done) if self.has_outputs(name))
        parts.append(f"constexpr const Struct *laid_out_structs[] = {{{listed}}};\n")
        destroyers = {handle["destroy"] for handle in self.interface["handles"]}
        rows = []
        for function in self.interface["functions"]:
            if function["name"] in BY_HAND | LEFT_OUT_FUNCTIONS | destroyers:
                continue
            wrapper, row = self.function(function)
            parts.append(wrapper)
            rows.append(row)
        parts.append("constexpr Function functions[] = {\n" + "\n".join(rows) + "\n};\n")
        handles = [f'    {{"{name}", [](void *handle) {{ {name}_destroy(static_cast<{name} *>(handle)); }}}},'
                   for name in self.handles]
        parts.append("constexpr HandleKind handle_kinds[] = {\n" + "\n".join(handles) + "\n};\n")
        parts += [f"constexpr int {name}_kind = {self.handles.index('fovea_' + name)};\n" for name in ("context", "plan", "schedule", "mha_plan")]
        constants = [f'    {{"{value["name"].removeprefix("FOVEA_")}", {value["name"]}}},'
                     for enum in self.interface["enums"] for value in enum["values"]]
        parts.append("constexpr Constant constants[] = {\n" + "\n".join(constants) + "\n};\n")
        return "\n".join(parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = Tables(json.load(file)).text()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
