#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the C interface as data: what the headers in include/fovea declare, for bindings and reference pages.

usage: interface.py            writes capi/bindings/interface.json
       interface.py --check    fails if that file is not what the headers say
       interface.py --c-check  prints a C file that compiles only if a compiler agrees with that file

The headers are regular C99, so a page of parser reads them: no variable arguments, bit-fields, unions or macros that hide a
declaration. What it meets and does not know is an error, never left out. The file holds

  version, constants         macros that are numbers
  aliases, callbacks         typedefs of numbers, and of functions
  enums                      "of" names what the numbers are stored in (an alias, or "struct.member"), "type" its type (C's
                             own would be unsigned where no value is negative), "bits" tells flags from alternatives
  handles                    opaque structs, and the function that destroys each
  structs                    members with their types, offsets and sizes where pointers have 64 bits; "options": begins with
                             struct_size; "zero": what a member's 0 or NULL means, "output": the tensor is written,
                             "enum": whose numbers it holds, and "values" if it takes no others of them,
                             "reserved": nothing but 0 yet, "given": the flag that says that the member stands for itself
  functions                  arguments with their types
  sections                   the names of all these, and what stands between them ("note"), in the headers' order

A type is {"c": as it is written, "base": a name, "pointers": how many, "const": whether what it points to is, "array": n}.
A "doc" is the comment as it is laid out; a member's is one line.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ["fovea.h", "scores.h", "serving.h", "layers.h", "training.h"]
OUTPUT = ROOT / "capi" / "bindings" / "interface.json"
SIZES = {"char": 1, "uint8_t": 1, "int32_t": 4, "uint32_t": 4, "float": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8}
COMMENT = re.compile(r"/\*.*?\*/", re.S)
POINTER = 8


class Unknown(Exception):
    """Something the parser has no rule for."""


def macros_and_rest(text):
    """({name: number}, the text without directives); line numbers stay."""
    constants, kept, for_cpp = {}, [], False
    for line in text.split("\n"):
        if line.startswith("#"):
            number = re.fullmatch(r"#define (FOVEA_\w+) (\d+)\s*", line)
            if number:
                constants[number[1]] = int(number[2])
            for_cpp = line.startswith("#ifdef __cplusplus") or (for_cpp and not line.startswith("#endif"))
        kept.append("" if line.startswith("#") or for_cpp else line)
    return constants, "\n".join(kept)


def comment_text(comment):
    """What a comment says, without its frame."""
    lines = re.sub(r"[ \t]*\*?\n", "\n", comment[2:-2]).split("\n")
    return "\n".join(re.sub(r"^\s*\*( |$)", "", line).rstrip() for line in lines).strip()


def beside(comment):
    """What a comment beside a member says: its lines are one text."""
    return re.sub(r"\s+", " ", comment_text(comment)).strip()


def items(text):
    """("comment" or "declaration", text, first line, last line) for all that stands at the top level."""
    at = 0
    while True:
        at += len(re.match(r"\s*", text[at:])[0])
        if at >= len(text):
            return
        comment = COMMENT.match(text, at)
        end = comment.end() if comment else declaration_end(text, at)
        first = text.count("\n", 0, at)
        yield "comment" if comment else "declaration", text[at:end], first, text.count("\n", 0, end)
        at = end


def declaration_end(text, at):
    depth = 0
    for token in re.finditer(r"/\*.*?\*/|[{};]", text[at:], re.S):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == ";" and depth == 0:
            return at + token.end()
    raise Unknown(f"a declaration that does not end: {text[at:at + 60]!r}")


def read_type(declarator):
    """(name, type) of `const fovea_tensor *query` or `int64_t shape[FOVEA_MAX_RANK]`; the array's length stays text."""
    found = re.fullmatch(r"(const )?(?:struct )?(\w+)\s*([* ]*?)\s*(?:\b(\w+))?(?:\[(\w+)\])?", declarator.strip())
    if not found:
        raise Unknown(f"a declaration of another form: {declarator!r}")
    const, base, stars, name, length = found.groups()
    pointers = stars.count("*")
    written = (const or "") + base + (" " + "*" * pointers if pointers else "")
    kind = {"c": written, "base": base, "pointers": pointers, "const": bool(const)}
    if length:
        kind["array"] = length
    return name, kind


def read_arguments(text):
    if text.strip() == "void":
        return []
    return [dict(zip(("name", "type"), read_type(part))) for part in re.sub(r"\s+", " ", text).split(",")]


class Interface:
    def __init__(self):
        self.constants, self.sections = {}, []
        self.aliases, self.callbacks, self.enums = [], [], []
        self.handles, self.structs, self.functions = [], [], []
        self.conventions = ""

    # ---- reading -----------------------------------------------------------------------------------------------------

    def read(self, header):
        constants, text = macros_and_rest((ROOT / "include" / "fovea" / header).read_text())
        self.constants.update(constants)
        waiting = previous = None  # a comment that may be the next declaration's; the declaration before
        for kind, item, first, last in items(text):
            if kind == "comment":
                self.note(waiting)
                waiting = self.comment(header, item, first, last)
                continue
            if waiting and waiting[2] + 1 != first:
                self.note(waiting)
                waiting = None
            shared = previous[1] if previous and not waiting and previous[0] + 1 == first else ""
            doc = waiting[0] if waiting else shared
            self.declaration(header, item, doc)
            waiting, previous = None, (last, doc)
        self.note(waiting)

    def comment(self, header, item, first, last):
        ruler = re.fullmatch(r"/\* -+ (.*?) -+ \*/", item)
        if ruler:
            self.sections.append({"title": ruler[1], "header": header, "items": []})
            return None
        said = comment_text(item)
        if "SPDX-License-Identifier" in said:
            self.conventions = self.conventions or said.replace("SPDX-License-Identifier: Apache-2.0\n", "")
            return None
        return said, first, last

    def note(self, waiting):
        if waiting and self.sections:
            self.sections[-1]["items"].append({"note": waiting[0]})

    def declaration(self, header, item, doc):
        plain = re.sub(r"\s+", " ", COMMENT.sub(" ", item)).strip().rstrip(";").strip()
        for pattern, add in ((r"typedef struct (\w+) \{ .* \} \1", self.struct), (r"typedef struct (\w+) \1", self.handle),
                             (r"typedef (\w+) (\w+)", self.alias), (r"typedef (\w+) \(\*(\w+)\)\((.*)\)", self.callback),
                             (r"enum \{.*\}", self.enum),
                             (r"FOVEA_API (?:FOVEA_NO_ACCESS\(\d+\) )?(.*?)(\w+)\((.*)\)", self.function)):
            found = re.fullmatch(pattern, plain)
            if found:
                name = add(item, doc, *found.groups())
                kind = {"struct": "structs", "handle": "handles", "alias": "aliases", "callback": "callbacks",
                        "enum": "enums", "function": "functions"}[add.__name__]
                getattr(self, kind)[-1]["header"] = header
                self.sections[-1]["items"].append({add.__name__: name})
                return
        raise Unknown(f"a declaration of a kind the parser does not know: {plain[:80]}")

    def alias(self, _item, doc, base, name):
        self.aliases.append({"name": name, "type": base, "doc": doc})
        return name

    def callback(self, _item, doc, result, name, arguments):
        self.callbacks.append({"name": name, "returns": read_type(result)[1], "arguments": read_arguments(arguments),
                               "doc": doc})
        return name

    def handle(self, _item, doc, name):
        self.handles.append({"name": name, "doc": doc})
        return name

    def function(self, _item, doc, result, name, arguments):
        function = {"name": name, "returns": read_type(result + "x")[1], "arguments": read_arguments(arguments), "doc": doc}
        for argument in function["arguments"]:
            backward = "_backward" in name  # which reads what was given
            gives = argument["name"] == "grad_x" if backward else argument["name"] in ("out", "log_sum_exp")
            written = gives or re.search(rf"\b{argument['name']} output\b", doc)
            if argument["type"]["base"] == "fovea_tensor" and written:
                argument["output"] = True
        self.functions.append(function)
        return name

    def enum(self, item, doc):
        values = []
        for part in re.finditer(r"(FOVEA_\w+)\s*=\s*([-\w <]+?)\s*(?:,|(?=/\*|\}))\s*(/\*.*?\*/)?", item, re.S):
            left, _, shift = part[2].partition("<<")
            values.append({"name": part[1], "value": int(left, 0) << int(shift or "0", 0),
                           "doc": beside(part[3]) if part[3] else ""})
        if len(values) != COMMENT.sub("", item).count("="):
            raise Unknown(f"an enum of another form: {item[:80]!r}")
        self.enums.append({"values": values, "doc": doc})
        return values[0]["name"]

    def struct(self, item, doc, name):
        members = []
        body = item[item.index("{") + 1:item.rindex("}")]
        for part in re.finditer(r"\s*([^;/]+);[ \t]*((?:/\*.*?\*/)?)|\s*(\S)", body, re.S):
            if part[3]:
                raise Unknown(f"a member of another form in {name}: {body[part.start():][:60]!r}")
            member, kind = read_type(re.sub(r"\s+", " ", part[1]))
            members.append({"name": member, "type": kind, "doc": beside(part[2]) if part[2] else ""})
        self.structs.append({"name": name, "options": members[0]["name"] == "struct_size", "members": members, "doc": doc})
        return name

    # ---- what follows from the declarations --------------------------------------------------------------------------

    def finish(self):
        for struct in self.structs:
            self.lay_out(struct)
            for member in struct["members"]:
                self.judge(member)
        for enum, before in zip(self.enums, self.before_enums()):
            self.name_enum(enum, before)
        for struct in self.structs:
            for member in struct["members"]:
                self.find_enum(f"{struct['name']}.{member['name']}", member)
            self.follow(struct)
            self.find_given(struct)
        destroyers = {function["name"] for function in self.functions}
        for handle in self.handles:
            handle["destroy"] = handle["name"] + "_destroy"
            if handle["destroy"] not in destroyers:
                raise Unknown(f"nothing destroys {handle['name']}")

    def size_of(self, kind):
        if kind["pointers"] or kind["base"] in {callback["name"] for callback in self.callbacks}:
            return POINTER
        aliases = {alias["name"]: alias["type"] for alias in self.aliases}
        return SIZES[aliases.get(kind["base"], kind["base"])]

    def lay_out(self, struct):
        at, alignment = 0, 1
        for member in struct["members"]:
            if "array" in member["type"]:
                length = member["type"]["array"]
                member["type"]["array"] = int(length) if length.isdigit() else self.constants[length]
            size = self.size_of(member["type"])
            at += -at % size
            member["offset"], member["size"] = at, size * member["type"].get("array", 1)
            at += member["size"]
            alignment = max(alignment, size)
        struct["size"], struct["align"] = at + -at % alignment, alignment

    @staticmethod
    def judge(member):
        nothing = "NULL" if member["type"]["pointers"] or member["type"]["base"] == "fovea_parallel_for" else "0"
        zero = re.search(rf"(?:^|[\s(;]){nothing}: ([^.;]+)", member["doc"])
        if zero:
            member["zero"] = zero[1].strip()
        if member["doc"] == "0":
            member["reserved"] = True
        if member["doc"].startswith("output"):
            member["output"] = True

    def before_enums(self):
        """For each enum the item before it, which is its type's alias where it has one."""
        for section in self.sections:
            before = {}
            for item in section["items"]:
                if "enum" in item:
                    yield before.get("alias")
                before = item

    def name_enum(self, enum, alias):
        """Where its numbers are kept: in the alias before it, in the member it names, or in one whose comment names it."""
        members = {f"{s['name']}.{m['name']}": m for s in self.structs for m in s["members"]}
        names = [value["name"] for value in enum["values"]]
        bits = re.match(r"Bits of (\w+\.\w+)", enum["doc"])
        enum["prefix"], enum["bits"] = re.match(r"(.*)_", _common_start(names))[0], bool(bits)
        if alias:
            enum["of"], enum["type"] = alias, next(a["type"] for a in self.aliases if a["name"] == alias)
            return
        said = [bits[1]] if bits else [name for name, m in members.items() if enum["prefix"] + "*" in m["doc"]]
        if not said:
            raise Unknown(f"no member says that it holds {enum['prefix']}*")
        member = members[said[0]]
        enum["of"], enum["type"] = said[0], member["type"]["base"]
        prefix = re.search(r"(FOVEA_\w*_)\*", member["doc"])
        if prefix:
            enum["prefix"] = prefix[1]

    def find_enum(self, name, member):
        """Which enum's numbers a member holds; "values" where it takes some of them alone."""
        for enum in self.enums:
            values = [value["name"] for value in enum["values"]]
            some = [value for value in values if re.search(value + r"\b", member["doc"])]
            if enum["of"] == name or (enum["prefix"] != "FOVEA_" and enum["prefix"] + "*" in member["doc"]):
                member["enum"] = enum["of"]
            elif member["type"]["base"] == enum["of"] and some:
                member["enum"], member["values"] = enum["of"], some
            elif member["name"] == "flags" and enum["bits"] and some and "..." not in member["doc"]:
                member["enum"], member["values"] = enum["of"], some
            others = re.findall(r", not (FOVEA_\w+)", member["doc"])
            if enum["of"] == name and others:
                member["values"] = [value for value in values if value not in others]

    @staticmethod
    def follow(struct):
        """A member whose comment begins with "likewise" holds and is what the one before it does and is; "likewise, or" a value:
        that one, too."""
        for before, member in zip(struct["members"], struct["members"][1:]):
            if member["doc"].startswith("likewise") and member["type"]["c"] == before["type"]["c"]:
                too = member.get("values", [])
                member.update({key: before[key] for key in ("output", "enum", "values") if key in before})
                if too:
                    member["values"] = member["values"] + too

    def find_given(self, struct):
        """For each member that a flag of its struct is named after, that flag: FOVEA_QUERY_OFFSET, FOVEA_ROTARY_BASE_GIVEN."""
        enums = {enum["of"]: enum for enum in self.enums if enum["bits"]}
        for flags in [member for member in struct["members"] if member.get("enum") in enums]:
            enum = enums[flags["enum"]]
            bits = flags.get("values", [value["name"] for value in enum["values"]])
            for member in struct["members"]:
                name = member["name"].upper()
                meant = [bit for bit in bits if bit in ("FOVEA_" + name, "FOVEA_" + name + "_GIVEN",
                                                        enum["prefix"] + name + "_GIVEN")]
                if meant:
                    member["given"] = meant[0]

    # ---- writing -----------------------------------------------------------------------------------------------------

    def text(self):
        """JSON with a line for each thing, so that a change of the interface is a change of few lines."""
        version = ".".join(str(self.constants["FOVEA_VERSION_" + part]) for part in ("MAJOR", "MINOR", "PATCH"))
        parts = [f'"version": "{version}"', f'"constants": {json.dumps(self.constants)}',
                 f'"conventions": {json.dumps(self.conventions)}']
        for kind in ("aliases", "callbacks", "enums", "handles", "structs", "functions", "sections"):
            parts.append(f'"{kind}": [\n' + ",\n".join(_thing(thing) for thing in getattr(self, kind)) + "\n]")
        return "{\n" + ",\n".join(parts) + "\n}\n"


def _common_start(names):
    """What all begin with."""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))
    return first[:same]


def _thing(thing):
    for inner in ("members", "values", "items"):
        if inner in thing:
            rest = json.dumps({key: value for key, value in thing.items() if key != inner})[:-1]
            return f'  {rest}, "{inner}": [\n' + ",\n".join("    " + json.dumps(one) for one in thing[inner]) + "\n  ]}"
    return "  " + json.dumps(thing)


def read_interface():
    interface = Interface()
    for header in HEADERS:
        interface.read(header)
    interface.finish()
    return interface


def described():
    """What interface.json holds, read from the headers."""
    return json.loads(read_interface().text())


def c_check(interface):
    """A C file of nothing but assertions: a compiler reads the same from the headers."""
    print("/* Compiles only if interface.json is what the headers declare. */\n#include <fovea/fovea.h>\n")
    for name, number in interface["constants"].items():
        print(f'_Static_assert({name} == {number}, "{name}");')
    for enum in interface["enums"]:
        for value in enum["values"]:
            print(f'_Static_assert({value["name"]} == {value["value"]}, "{value["name"]}");')
    print("#if defined(__LP64__)")
    for struct in interface["structs"]:
        print(f'_Static_assert(sizeof({struct["name"]}) == {struct["size"]}, "{struct["name"]}");')
        for member in struct["members"]:
            place = f"{struct['name']}, {member['name']}"
            print(f'_Static_assert(offsetof({place}) == {member["offset"]}, "{place}");')
            print(f'_Static_assert(sizeof((({struct["name"]} *)0)->{member["name"]}) == {member["size"]}, "{place}");')
    print("#endif")
    for function in interface["functions"]:
        arguments = ", ".join(argument["type"]["c"] for argument in function["arguments"]) or "void"
        name = function["name"]
        print(f"extern {function['returns']['c']} (*const is_{name})({arguments});")
        print(f"{function['returns']['c']} (*const is_{name})({arguments}) = {name};")


def main():
    if sys.argv[1:] == ["--c-check"]:
        c_check(json.loads(OUTPUT.read_text()))
        return 0
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        text = read_interface().text()
    except Unknown as unknown:
        print(f"interface.py: {unknown}", file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--check"]:
        if OUTPUT.read_text() != text:
            print(f"{OUTPUT.relative_to(ROOT)} is not what the headers say: run tools/interface.py", file=sys.stderr)
            return 1
        found = json.loads(text)
        print(*(f"{len(found[kind])} {kind}" for kind in ("functions", "structs", "enums", "handles")), sep=", ")
        return 0
    OUTPUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
