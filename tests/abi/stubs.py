#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C file that defines every function of interface.json, empty: what abidw describes the ABI by, as a library without
debug information shows names alone.

usage: stubs.py INTERFACE
"""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    interface = json.load(file)
print("#include <fovea/fovea.h>")
for function in interface["functions"]:
    arguments = ", ".join(f"{a['type']['c']} {a['name']}" for a in function["arguments"]) or "void"
    returns = function["returns"]["c"]
    body = "" if returns == "void" else f"static {returns.replace('const ', '')} nothing; return nothing;"
    print(f"{returns} {function['name']}({arguments}) {{ {body} }}")
# Which are only pointed to, or are no function's argument.
for struct in interface["structs"]:
    print(f"FOVEA_API {struct['name']} *{struct['name']}_is_described(void) {{ return 0; }}")
# A constant's value, as the length of an array.
for value in (value for enum in interface["enums"] for value in enum["values"]):
    print(f"FOVEA_API char {value['name']}_is_one_less_than_the_length_of[{value['name']} + 1];")
