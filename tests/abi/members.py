#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What abidiff does not tell apart: a struct that grows at its end from one whose members change. Every member of the structs
in one of abidw's descriptions has the same place and type in the other.

usage: members.py RELEASED NOW
"""
import sys
from xml.etree import ElementTree


def members(path):
    """{(struct, member): (offset, type)}"""
    tree = ElementTree.parse(path)
    types = {element.get("id"): element for element in tree.iter() if element.get("id")}

    def spelled(of):
        element = types[of]
        if element.tag in ("pointer-type-def", "qualified-type-def"):
            return spelled(element.get("type-id")) + {"pointer-type-def": "*"}.get(element.tag, " const")
        if element.tag == "array-type-def":
            return spelled(element.get("type-id")) + f"[{element.get('size-in-bits')}]"
        return element.get("name", element.tag)

    found = {}
    for struct in tree.iter("class-decl"):
        for member in struct.findall("data-member"):
            variable = member.find("var-decl")
            place = struct.get("name"), variable.get("name")
            found[place] = int(member.get("layout-offset-in-bits")), spelled(variable.get("type-id"))
    return found


def main(released, now):
    before, after = members(released), members(now)
    changed = [place for place in before if after.get(place) != before[place]]
    for place in changed:
        print(f"{'.'.join(place)} was {before[place]}, is {after.get(place, 'no more')}")
    return 1 if changed or not before else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
