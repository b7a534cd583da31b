#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the fuzzer's tables: every function of the C interface with its arguments, every struct with its members.

usage: generate.py INTERFACE OUTPUT     INTERFACE: interface.json, as tools/interface.py writes it

model.hpp says what the tables hold. A new function, option, enum or handle is in them without a word here; what the
headers do not say in a manner that shapes.py reads stands in HINTS. An argument of a kind that no row can describe is an
error. Offsets and calls are written as C++, so the compiler checks them against the headers.
"""
import json
import re
import sys

import shapes

# Members of which one list or the other is given; shapes of arguments.
HINTS = {"fovea_mha_parameters": [["query_weight", "key_weight", "value_weight"], ["in_weight"]],
         **dict.fromkeys(("fovea_attention_gradients", "fovea_norm_gradients", "fovea_linear_gradients", "fovea_merge_gradients",
                          "fovea_mha_gradients"), [["out"]]),
         "fovea_linear_pack.weight": "[N,K]"}

# What the tables cannot describe: sequences of a pool are numbers that only that pool knows, and a step's numbers depend on each
# other. pooling.cpp makes calls of pools, serving.cpp of schedules; tests/ragged spoils steps.
# What a layer keeps has a number of elements that no one size gives (tests/layer_gradients).
# Gradients of what a call may have are left to tests/gradients, tests/layer_gradients and interface/every_operation: it would have
# to be given at random, too, which is rare.
RARE_GRADIENTS = {"log_sum_exp", "weights", "bias", "alibi_slopes", "sinks", "query_weight", "key_weight", "weight", "score_bias",
                  "score_vector", "sigmas"}
RARE_GRADIENTS_OF = {"fovea_linear_gradients": ("bias", "multiplier"),
                     "fovea_mha_gradients": ("key", "value", "query_weight", "key_weight", "value_weight", "in_weight", "out_weight",
                                             "query_bias", "key_bias", "value_bias", "in_bias", "out_bias", "attention")}
LEFT_OUT_HEADERS = {"serving.h"}
LEFT_OUT_MEMBERS = {"schedule", "key_pages", "value_pages", "kept", "fovea_mha_options.flags",
                    "fovea_mha_buffers.attention"} | \
    {f"{struct}.{name}" for struct in ("fovea_mha_options", "fovea_mha_buffers") for name in ("key_scales", "value_scales")} | \
    {f"fovea_attention_gradients.{name}" for name in RARE_GRADIENTS} | \
    {f"grad_{name}" for name in RARE_GRADIENTS} | \
    {f"{struct}.{name}" for struct, names in RARE_GRADIENTS_OF.items() for name in names}
LEFT_OUT_VALUES = {"FOVEA_MHA_KEEP_PAGES"}

NUMBERS = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "size_t": "size", "float": "f32"}
RESULTS = {"fovea_status": "status", "const char *": "text", "size_t": "size", "int64_t": "number", "int32_t": "number",
           "fovea_tensor": "tensor", "void": "nothing"}


def is_left_out(struct, member):
    return not LEFT_OUT_MEMBERS.isdisjoint({member["name"], f"{struct['name']}.{member['name']}"})


def without_what_is_left_out(interface):
    kept = dict(interface)
    for kind in ("handles", "structs", "functions"):
        kept[kind] = [item for item in interface[kind]
                      if item.get("header") not in LEFT_OUT_HEADERS]
    kept["structs"] = [dict(struct, members=[member for member in struct["members"] if not is_left_out(struct, member)])
                       for struct in kept["structs"]]
    kept["enums"] = [dict(enum, values=[value for value in enum["values"] if value["name"] not in LEFT_OUT_VALUES])
                     for enum in interface["enums"]]
    return kept


class Tables:
    def __init__(self, interface):
        self.interface = interface = without_what_is_left_out(interface)
        self.symbols = shapes.Symbols()
        self.docs = shapes.Docs(interface, self.symbols)
        self.aliases = {alias["name"]: alias["type"] for alias in interface["aliases"]}
        self.handles = [handle["name"] for handle in interface["handles"]]
        self.structs = {struct["name"]: struct for struct in interface["structs"] if struct["options"]}
        self.callbacks = {callback["name"] for callback in interface["callbacks"]}
        self.enums = {enum["of"]: enum for enum in interface["enums"]}
        self.arrays, self.made = [], {}

    # ---- pieces of tables, each written once -------------------------------------------------------------------------

    def array(self, kind, rows):
        """(name of, length of) an array of these rows."""
        if not rows:
            return "nullptr", 0
        key = (kind, tuple(rows))
        if key not in self.made:
            self.made[key] = f"array_{len(self.made)}"
            self.arrays.append(f"constexpr {kind} {self.made[key]}[] = {{\n  " + ",\n  ".join(rows) + "};\n")
        return self.made[key], len(rows)

    def size(self, code):
        return f"[]([[maybe_unused]] const uint64_t *s) -> uint64_t {{ return {code}; }}"

    def shape_list(self, found):
        rows = []
        for axes in found:
            name, count = self.array("Axis", [f"{{{self.size(axis[0])}, {axis[1]}, {axis[2]}u}}" if axis
                                              else "{nullptr, -1, 0}"
                                              for axis in axes])
            rows.append(f"{{{name}, {count}}}")
        name, count = self.array("Shape", rows)
        return f".shapes = {name}, .shape_count = {count}, "

    def values(self, of, only=None):
        enum = self.enums[of]
        rows = [f'{{"{value["name"]}", {value["name"]}}}' for value in enum["values"]
                if only is None or value["name"] in only]
        name, count = self.array("EnumValue", rows)
        return f".values = {name}, .value_count = {count}, .bits = {'true' if enum['bits'] else 'false'}, "

    # ---- arguments and members ---------------------------------------------------------------------------------------

    def kind(self, item, following):
        of = item["type"]
        base, pointers = self.aliases.get(of["base"], of["base"]), of["pointers"]
        sized = following is not None and following["type"]["c"] == "size_t"
        if base in self.callbacks:
            return "callback"
        if pointers == 0 and base in NUMBERS:
            return NUMBERS[base]
        if base == "fovea_tensor" and pointers == 1:
            return "tensor" if of["const"] else "written_tensor"
        if base in self.structs and pointers == 1:
            return "structure"
        if base in self.handles:
            return "new_handle" if pointers == 2 else "handle" if of["const"] else "changed_handle"
        if base in ("void", "char") and pointers == 1 and sized:
            return "bytes" if of["const"] else "written_bytes"
        if base == "char" and pointers == 1 and of["const"]:
            return "text"
        if base == "void" and pointers == 1:
            return "dl_tensor" if item["name"] == "dl_tensor" else "address"
        return "integers" if of["c"] == "const int64_t *" else None

    def slot(self, item, kind, offset, described):
        """The row of an argument or member; described: (shapes, words, whose shape it has)."""
        of = item["type"]
        row = f'{{.name = "{item["name"]}", .kind = Kind::{kind}, .offset = {offset}, '
        if kind == "tensor":
            found, words, other = described
            if found:
                row += self.shape_list(found)
            if other:
                row += f'.shape_of = "{other}", '
            row += f".elements = Elements::{shapes.element_types(words, item['name'])}, "
            most = shapes.bound(words, self.symbols)
            if most:
                row += f".bound = {self.size(most)}, "
        if kind == "structure":
            row += f".structure = &{of['base']}_row, "
        if of["base"] in self.handles:
            row += f".handle = {self.handles.index(of['base'])}, "
        if item.get("output"):
            row += ".output = true, "
        if item.get("doc", "").startswith("output F32"):
            row += ".float32 = true, "
        if item.get("reserved"):
            row += ".reserved = true, "
        enum = item.get("enum") or (of["base"] if of["base"] in self.enums else None)
        if enum and not item.get("reserved"):
            row += self.values(enum, item.get("values"))
        size = re.match(r"([A-Z][a-z]*)[,;]", item.get("doc", ""))
        if kind in ("i64", "i32") and size:
            row += f".symbol = {self.symbols.number(size[1])}, "
        if kind == "text":
            name, count = self.array("const char *", [f'"{word}"' for word in re.findall(r'"(\w+)"', item.get("doc", ""))])
            row += f".words = {name}, .word_count = {count}, "
        return row.rstrip(", ") + "}"

    def struct(self, struct):
        name, members = struct["name"], struct["members"]
        buffers = all(member["type"]["base"] == "void" and member["type"]["pointers"] == 1 for member in members[1:])
        rows = []
        for member, doc in zip(members[1:], shapes.member_docs(struct)[1:]):
            kind = "buffer" if buffers else self.kind(member, None)
            if kind is None:
                raise SystemExit(f"generate.py: no row for {name}.{member['name']}")
            described = (self.docs.member(doc), doc, self.docs.shape_of(doc))
            rows.append(self.slot(member, kind, f"offsetof({name}, {member['name']})", described))
        slots, count = self.array("SlotRow", rows)
        text = f'.name = "{name}", .size = sizeof({name}), .slots = {slots}, .slot_count = {count}, '
        text += f".buffers = {'true' if buffers else 'false'}, "
        numbers = {member["name"]: at for at, member in enumerate(members[1:])}
        text += self.kinds(struct, numbers) + self.groups(name, numbers)
        return f"constexpr StructRow {name}_row = {{{text.rstrip(', ')}}};\n"

    def kinds(self, struct, numbers):
        """Which members go with which kind."""
        rows, equal = shapes.rows_by_kind(struct, self.symbols)
        kind = next((member for member in struct["members"] if member["name"] == "kind" and "enum" in member), None)
        if kind is None:
            return ""
        prefix = self.enums[kind["enum"]]["prefix"]
        names = [value["name"].removeprefix(prefix) for value in self.enums[kind["enum"]]["values"]]
        by_words = not rows
        rows = rows or shapes.rows_by_words(struct, names, self.symbols)
        if not rows:
            return ""
        made = []
        for value in self.enums[kind["enum"]]["values"]:
            cells = rows.get(value["name"].removeprefix(prefix))
            if cells is None:
                raise SystemExit(f"generate.py: {struct['name']}'s table has no row for {value['name']}")
            name = value["name"].removeprefix(prefix)
            members, count = self.array("KindMember", [f"{{.slot = {numbers[member]}, {self.shape_list(found)[:-2]}}}"
                                                       for member, found in cells.items()])
            same = equal.get(name, (-1, -1))
            made.append(f"{{{value['name']}, {members}, {count}, {{{same[0]}, {same[1]}}}, {str(by_words).lower()}}}")
        kinds, count = self.array("KindRow", made)
        return f".kind_slot = {numbers['kind']}, .kinds = {kinds}, .kind_count = {count}, "

    def groups(self, name, numbers):
        if name not in HINTS:
            return ""
        rows = []
        for members in HINTS[name]:
            slots, count = self.array("int", [str(numbers[member]) for member in members])
            rows.append(f"{{{slots}, {count}}}")
        groups, count = self.array("Group", rows)
        return f".groups = {groups}, .group_count = {count}, "

    def function(self, function):
        """(its call, its row)"""
        name, arguments = function["name"], function["arguments"]
        rows, passed = [], []
        for at, argument in enumerate(arguments):
            of = argument["type"]
            kind = self.kind(argument, arguments[at + 1] if at + 1 < len(arguments) else None)
            if kind is None:
                raise SystemExit(f"generate.py: no row for {name}'s {argument['name']}")
            if rows and "bytes" in rows[-1].split(",")[1] and kind == "size":
                kind = "size_of_bytes"
            found, words = self.docs.argument(name, argument["name"]) if kind == "tensor" else ([], "")
            if f"{name}.{argument['name']}" in HINTS:
                found = [self.symbols.axes(HINTS[f"{name}.{argument['name']}"])]
            row = self.slot(argument, kind, 0, (found, words, None))
            if kind == "tensor" and self.docs.may_be_null(name, argument["name"]):
                row = row.removesuffix("}") + ", .optional = true}"
            rows.append(row)
            passed.append(f"static_cast<{of['c']}>(a[{at}].real)" if kind == "f32" else
                          f"static_cast<{of['c']}>(a[{at}].integer)" if of["pointers"] == 0 else
                          f"static_cast<{of['c']}>(a[{at}].pointer)")
        result = RESULTS[function["returns"]["c"]]
        call = f"{name}({', '.join(passed)})"
        call = call if result == "nothing" else f"r.{result} = {call}"
        slots, count = self.array("SlotRow", rows)
        conventions = " ".join(self.interface["conventions"].split())
        inexact = re.search(r"((?:fovea_\w+(?:,| and) )*fovea_\w+) may compute with less", conventions)
        row = (f'{{.name = "{name}", .slots = {slots}, .slot_count = {count}, .result = ResultKind::{result}, '
               f".call = []([[maybe_unused]] const Word *a, [[maybe_unused]] Result &r) {{ {call}; }}, "
               f".inexact_narrow = {'true' if inexact and name in inexact[1] else 'false'}}}")
        return row

    def text(self):
        parts = []
        done = set()
        while len(done) < len(self.structs):  # what a struct refers to comes first
            for name, struct in self.structs.items():
                needed = {member["type"]["base"] for member in struct["members"]} & set(self.structs)
                if name not in done and needed <= done:
                    row = self.struct(struct)
                    self.arrays.append(row)
                    done.add(name)
        functions = [self.function(function) for function in self.interface["functions"]]
        destroyers = ", ".join(f'"{handle["destroy"]}"' for handle in self.interface["handles"])
        parts.append("constexpr FunctionRow function_rows[] = {\n  " + ",\n  ".join(functions) + "};\n")
        parts.append("constexpr const StructRow *struct_rows[] = {" +
                     ", ".join(f"&{name}_row" for name in self.structs) + "};\n")
        names = ", ".join(f'"{name}"' for name in self.symbols.names)
        return ('// Written by generate.py from interface.json.\n#include <fovea/fovea.h>\n\n#include "model.hpp"\n\n'
                "namespace fuzz {\nnamespace {\n\n" + "\n".join(self.arrays + parts) +
                f"\nconstexpr const char *symbol_names[] = {{{names}}};\n"
                f"constexpr const char *destroyers[] = {{{destroyers}}};\n\n}}  // namespace\n\n"
                "const Tables tables = {function_rows, std::size(function_rows), struct_rows, std::size(struct_rows), "
                "symbol_names, std::size(symbol_names), destroyers, std::size(destroyers)};\n\n}  // namespace fuzz\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = Tables(json.load(file)).text()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
