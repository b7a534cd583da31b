#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, as C++ for table.hpp, every function that can fail and takes tensors, with all places where tensors are given.

usage: operand_table.py capi/bindings/interface.json
"""
import json
import pathlib
import sys


def holds(thing, structs, handles):
    """(what an argument or member holds, the index of its struct)"""
    kind = thing["type"]
    if kind["base"] == "fovea_tensor" and kind["pointers"] == 1 and kind["const"]:
        return ("output" if thing.get("output") else "input"), -1
    if kind["base"] in structs and kind["pointers"] == 1 and kind["const"]:
        return "options", list(structs).index(kind["base"])
    if kind["base"] in handles and kind["pointers"] == 2:
        return "made", -1
    if kind["base"] == "void" and kind["pointers"] == 1:
        return ("data_in" if kind["const"] else "data_out"), -1
    return ("other" if kind["pointers"] else "number"), -1


def main():
    described = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    structs = {struct["name"]: struct for struct in described["structs"] if struct["options"]}
    handles = {handle["name"]: handle["destroy"] for handle in described["handles"]}
    takes = {}
    for name, struct in structs.items():  # whether tensors can be given through it; structs that hold structs come last
        found = [holds(member, structs, handles) for member in struct["members"]]
        takes[name] = any(what in ("input", "output") or (what == "options" and takes.get(list(structs)[of]))
                          for what, of in found)

    print('#include "table.hpp"\n\nnamespace testing {\n\nconst std::vector<TableStruct> table_structs = {')
    for name, struct in structs.items():
        print(f'    {{"{name}", sizeof({name}), {{')
        for member in struct["members"]:
            what, of = holds(member, structs, handles)
            print(f'        {{"{member["name"]}", Holds::{what}, {of}, offsetof({name}, {member["name"]})}},')
        print("    }},")
    print("};\n\nconst std::vector<TableFunction> table_functions = {")
    for function in described["functions"]:
        found = [holds(argument, structs, handles) for argument in function["arguments"]]
        if function["returns"]["c"] != "fovea_status":
            continue
        if not any(what in ("input", "output") or (what == "options" and takes[list(structs)[of]]) for what, of in found):
            continue
        arguments = ", ".join(f'{{"{argument["name"]}", Holds::{what}, {of}, 0}}'
                              for argument, (what, of) in zip(function["arguments"], found))
        made = next((argument["type"]["base"] for argument, (what, _) in zip(function["arguments"], found) if what == "made"), None)
        destroy = f"[](void *made) {{ {handles[made]}(static_cast<{made} *>(made)); }}" if made else "nullptr"
        values = ", ".join(f"static_cast<{argument['type']['c'].strip()}>(v[{n}].{'number' if what == 'number' else 'pointer'})"
                           for n, (argument, (what, _)) in enumerate(zip(function["arguments"], found)))
        print(f'    {{"{function["name"]}", {{{arguments}}},\n     [](const Value *v) {{ return {function["name"]}({values}); }},'
              f"\n     {destroy}}},")
    print("};\n\n}  // namespace testing")


if __name__ == "__main__":
    main()
