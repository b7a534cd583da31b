# SPDX-License-Identifier: Apache-2.0
"""Generates Node from the description of the C interface: for each function that can fail a function that reads its
arguments from JavaScript, the names of options, and their types for TypeScript."""
import re

from generate_go import Shape
from generate_rust import about, camel, cannot_be_zero, enum_name, given, mha_buffers, plain, planned_buffers

HEAD = "// Written by tools/bindings.py from the headers in include/fovea.\n// SPDX-License-Identifier: Apache-2.0\n"
READERS = {"int32_t": "int32", "int64_t": "int64", "uint64_t": "uint64", "float": "float32", "size_t": "size"}


def js(name):
    """snake_case as JavaScript has it."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def operation(function):
    return js(plain(function["name"]))


def called(handle):
    """What a handle's class is called, or a struct: a step is what KVPool's step gives, its tensors are those of any."""
    return "StepTensors" if handle == "fovea_step" else camel(plain(handle)).replace("Kv", "KV")


def value_name(enum, value):
    return js(value["name"][len(enum["prefix"]):].lower())


# Runs take tensors that are compared with what was planned; tasks are for threads, of which JavaScript has none to offer.
BY_HAND = {"fovea_context_create", "fovea_attention_run", "fovea_tensor_from_dlpack", "fovea_schedule_run",
           "fovea_schedule_run_tasks", "fovea_mha_run"}
# What keeps the layouts of what it was made with.
PLANNED = {"fovea_plan": "layouts", "fovea_schedule": "planned", "fovea_mha_plan": "planned"}
# Whose data the library reads in every run of what it made.
LASTING = ("positions", "frequencies", "sections", "cosines", "sines")


class Addon(Shape):
    def functions(self):
        """Those that can fail, but for the ones that are written by hand."""
        return [f for f in self.described["functions"] if f["returns"]["c"] == "fovea_status" and f["name"] not in BY_HAND]

    def kind(self, argument):
        kind = argument["type"]
        if kind["pointers"] == 1 and not kind["const"]:
            if kind["base"] == "int64_t":
                return "made number"
            if kind["base"] in self.structs:
                return "made struct"
        return super().kind(argument)

    def changes(self, function, argument):
        """Whether a handle is changed: then no other call may use it meanwhile."""
        return not argument["type"]["const"]

    # ---- C++ ---------------------------------------------------------------------------------------------------------

    def read_member(self, member, meant):
        name, base = member["name"], member["type"]["base"]
        key, target = js(name), f"made->{name}"
        if base == "fovea_tensor":
            return f'  {target} = in.tensor(in.get(from, "{key}"), "{key}");\n'
        if base in self.structs:
            return f'  {target} = read_{base}(in, in.get(from, "{key}"));\n'
        if base in self.handles:
            return (f'  {target} = in.handle<{base}>(in.get(from, "{key}"), Kind::{plain(base)}, '
                    f'{"false" if member["type"]["const"] else "true"}, "{key}");\n')
        enum = self.enum_of(member)
        if enum and enum["bits"]:
            keys = [(js(meant.get(constant, bit)), "true" if constant in meant else "false", constant)
                    for bit, constant, _ in self.bits_of(member)]
            return "".join(f'  if (in.flag(in.get(from, "{bit}"), {any_value}, "{bit}")) {target} |= {constant};\n'
                           for bit, any_value, constant in keys)
        if enum:
            names = ", ".join(f'{{"{value_name(enum, value)}", {value["name"]}}}' for value in enum["values"]
                              if value["name"] in member.get("values", [value["name"]]))
            return f'  {target} = in.choice(in.get(from, "{key}"), {{{names}}}, "{key}");\n'
        reader = "given_size" if cannot_be_zero(member) else READERS[base]
        return f'  {target} = in.{reader}(in.get(from, "{key}"), "{key}");\n'

    def enum_of(self, member):
        """An element type is one wherever it stands, whatever its comment says."""
        base = member["type"]["base"]
        return self.enums.get(member.get("enum") or (base if base == "fovea_dtype" else None))

    def bits_of(self, member):
        enum = self.enums[member["enum"]]
        for value in enum["values"]:
            if value["name"] in member.get("values", [value["name"]]):
                yield value["name"][len(enum["prefix"]):].lower(), value["name"], value["doc"]

    def reader(self, struct):
        name = struct["name"]
        meant = given(struct)
        body = "".join(self.read_member(member, meant) for member in self.members(struct))
        return (f"static const {name} *read_{name}(Reader &in, napi_value from) {{\n  if (in.is_none(from)) return nullptr;\n"
                f"  {name} *made = in.call.make<{name}>();\n  made->struct_size = sizeof({name});\n{body}  return made;\n}}\n")

    def parse(self, function):
        lines, values, at = [], [], 0
        for argument in function["arguments"]:
            kind, name, base = self.kind(argument), argument["name"], argument["type"]["base"]
            if kind == "made":
                lines.append(f"  Call *call = &in.call;\n  call->made_kind = Kind::{plain(base)};\n")
                values.append(f"reinterpret_cast<{base} **>(&call->made)")
                continue
            if kind == "made number":
                lines.append("  Call *call = &in.call;\n  call->gives_number = true;\n")
                values.append("&call->number")
                continue
            if kind == "made struct":
                lines.append(f"  {base} *{name} = in.call.make_to_fill<{base}>();\n  in.call.step = {name};\n")
                values.append(name)
                continue
            if name == "size" and "bytes->data" in values:  # as the array says, not whoever calls
                values.append("bytes->size")
                continue
            value = f"args[{at}]"
            at += 1
            values.append(f"{name}->data" if kind == "bytes" else name)
            if kind == "tensor":
                lines.append(f'  const fovea_tensor *{name} = in.tensor({value}, "{name}");\n')
            elif kind == "options":
                lines.append(f"  const {base} *{name} = read_{base}(in, {value});\n")
            elif kind == "handle":
                changes = "true" if self.changes(function, argument) else "false"
                lines.append(f'  {argument["type"]["c"]}{name} = in.handle<{base}>({value}, Kind::{plain(base)}, {changes}, '
                             f'"{name}");\n')
            elif kind == "bytes":
                lines.append(f'  const Bytes *{name} = in.bytes({value}, "{name}");\n')
            elif base == "int32_t" and any(enum["of"].endswith("." + name) for enum in self.enums.values()):
                enum = next(enum for enum in self.enums.values() if enum["of"].endswith("." + name))
                names = ", ".join(f'{{"{value_name(enum, one)}", {one["name"]}}}' for one in enum["values"])
                lines.append(f'  int32_t {name} = in.choice({value}, {{{names}}}, "{name}");\n')
            else:
                lines.append(f'  {base} {name} = in.{READERS[base]}({value}, "{name}");\n')
        lines += [self.layouts(function, PLANNED[argument["type"]["base"]]) for argument in function["arguments"]
                  if argument["type"]["pointers"] == 2 and argument["type"]["base"] in PLANNED]
        body = "".join(lines)
        return (f"static void parse_{function['name']}(Reader &in, const napi_value *args) {{\n{body}"
                f"  in.call.run = [=] {{ return {function['name']}({', '.join(values)}); }};\n}}\n"), at

    def layouts(self, function, kept):
        names = {argument["name"] for argument in function["arguments"]}
        out = []
        for _, _, place in planned_buffers(self.described):
            struct, _, member = place.rpartition(".")
            if struct == "gradients" and function["name"] == "fovea_mha_plan_create":
                out.append("nullptr")
            elif struct and function["name"] == "fovea_mha_plan_create":
                held = "attention" if struct == "options" else struct
                out.append(f"options && options->{held} ? options->{held}->{member} : nullptr")
            elif struct:
                out.append(f"{struct} ? {place.replace('.', '->')} : nullptr" if struct in names else "nullptr")
            else:
                out.append(member if member in names else "nullptr")
        if function["name"] != "fovea_mha_plan_create":
            return f"  call->{kept} = {kept}_of({{{', '.join(out)}}});\n"
        out += [f"options ? options->{name} : nullptr" for name in self.mha_pages()]
        lasting = ", ".join(f"options->rotary->{name}" for name in LASTING)
        return (f"  call->{kept} = {kept}_of({{{', '.join(out)}}});\n"
                f"  if (options && options->rotary) call->lasting = {{{lasting}}};\n")

    def mha_pages(self):
        """The members of fovea_mha_buffers but for the rows, which stand first among those of attention, too."""
        return [name for name, _ in mha_buffers(self.described)][4:]

    def source(self):
        kinds = ", ".join(sorted(plain(handle) for handle in self.handles))
        parsed = [(function, *self.parse(function)) for function in self.functions()]
        buffers = list(planned_buffers(self.described))
        names = ", ".join(f'"{called(handle)}"' for handle in sorted(self.handles))
        taken = ", ".join(f'"{js(name)}"' for name, _, _ in buffers)
        table = "".join(f'    {{"{operation(function)}", {count}, parse_{function["name"]}}},\n' for function, _, count in parsed)
        destroys = "".join(f"    case Kind::{plain(handle)}: return fovea_{plain(handle)}_destroy(static_cast<{handle} *>(raw));\n"
                           for handle in sorted(self.handles))
        header = (f"{HEAD}#pragma once\n\n#include <fovea/fovea.h>\n\nenum class Kind {{ {kinds} }};\n\n"
                  f"constexpr int buffer_count = {len(buffers)};\n\n"
                  "/* Those of multi-head attention come after them. */\n"
                  f"constexpr int mha_buffer_count = buffer_count + {len(self.mha_pages())};\n\n"
                  "/* Of a planned run: the pointers in the order of fovea_attention_buffers. */\n"
                  "fovea_attention_buffers buffers_of(void *const *data);\n\n"
                  "/* Of a run of multi-head attention, whose attention has all but the rows. */\n"
                  "fovea_mha_buffers mha_buffers_of(void *const *data, fovea_attention_buffers &attention);\nvoid destroy(Kind kind, void *raw);\n"
                  "const char *name_of(Kind kind);\nextern const char *const buffer_names[];\n")
        sets = "".join(f"  buffers.{name} = static_cast<decltype(buffers.{name})>(data[{n}]);\n"
                       for n, (name, _, _) in enumerate(buffers))
        rows = [name for name, _ in mha_buffers(self.described)]
        mha_sets = "".join(f"  buffers.{name} = static_cast<decltype(buffers.{name})>(data[{n if n < 4 else len(buffers) + n - 4}]);\n"
                           for n, name in enumerate(rows))
        taken += "".join(f', "{js(name)}"' for name in self.mha_pages())
        declared = "".join(f"static const {name} *read_{name}(Reader &in, napi_value from);\n" for name in self.structs)
        readers = declared + "\n" + "\n".join(self.reader(struct) for struct in self.structs.values())
        parses = "\n".join(text for _, text, _ in parsed)
        source = (f'{HEAD}#include "../src/call.hpp"\n\n{readers}\n{parses}\nconst Operation operations[] = {{\n{table}}};\n'
                  "const size_t operation_count = sizeof operations / sizeof operations[0];\n\n"
                  "fovea_attention_buffers buffers_of(void *const *data) {\n  fovea_attention_buffers buffers = {};\n"
                  f"  buffers.struct_size = sizeof buffers;\n{sets}  return buffers;\n}}\n\n"
                  "fovea_mha_buffers mha_buffers_of(void *const *data, fovea_attention_buffers &attention) {\n"
                  "  attention = buffers_of(data);\n  attention.query = attention.key = attention.value = nullptr;\n"
                  "  attention.out = nullptr;\n  fovea_mha_buffers buffers = {};\n  buffers.struct_size = sizeof buffers;\n"
                  f"  buffers.attention = &attention;\n{mha_sets}  return buffers;\n}}\n\n"
                  f"void destroy(Kind kind, void *raw) {{\n  switch (kind) {{\n{destroys}  }}\n}}\n\n"
                  f"const char *name_of(Kind kind) {{\n  static const char *const names[] = {{{names}}};\n"
                  "  return names[static_cast<int>(kind)];\n}\n\n"
                  f"const char *const buffer_names[] = {{{taken}}};\n")
        return header, source

    # ---- JavaScript and TypeScript -----------------------------------------------------------------------------------

    def keys(self, struct):
        """(key, its type in TypeScript, comment) for each property."""
        for member in self.members(struct):
            base, enum = member["type"]["base"], self.enum_of(member)
            if enum and enum["bits"]:
                for bit, constant, doc in self.bits_of(member):
                    if constant not in given(struct):
                        yield js(bit), "boolean", doc
                continue
            kind = "Input" if base == "fovea_tensor" else called(base) if base in self.structs | dict.fromkeys(self.handles) \
                else enum_name(enum) if enum else "number | bigint" if base in ("int64_t", "uint64_t") else "number"
            yield js(member["name"]), kind, about(member)

    def javascript(self):
        structs = "".join(f"  {called(struct['name'])}: [{', '.join(repr(key) for key, _, _ in self.keys(struct))}],\n"
                          for struct in self.structs.values())
        buffers = ", ".join(repr(js(name)) for name, _, _ in planned_buffers(self.described))
        dtype = next(enum for enum in self.described["enums"] if enum["of"] == "fovea_dtype")
        dtypes = ", ".join(f"{value['name'][len('FOVEA_'):]}: {value['value']}n" for value in dtype["values"])
        return (f"{HEAD}'use strict';\n\nexports.dtypes = {{ {dtypes} }};\n"
                f"exports.maxRank = {self.described['constants']['FOVEA_MAX_RANK']};\n\n// The properties that each kind of options has.\nexports.options = {{\n{structs}}};\n\n"
                f"// The data of a planned run, in the order of fovea_attention_buffers.\nexports.buffers = [{buffers}];\n")

    def types(self):
        out = [HEAD, "import { Input, Schedule } from '../index';\n"]
        for enum in self.described["enums"]:
            if enum["bits"]:
                continue
            if enum["of"] == "fovea_status":
                values = " | ".join(f"'{value['name']}'" for value in enum["values"] if value["value"])
                out.append(f"/** `code` of the errors that are thrown. */\nexport type Status = {values};\n")
                continue
            taken = max((m["values"] for s in self.structs.values() for m in s["members"]
                         if m.get("enum") == enum["of"] and "values" in m), key=len,
                        default=[value["name"] for value in enum["values"]])
            values = " | ".join(f"'{value_name(enum, value)}'" for value in enum["values"] if value["name"] in taken)
            out.append(f"{block(enum['doc'])}export type {enum_name(enum)} = {values};\n")
        required = {"KVPoolSizes": {"kvHeads", "headDim", "positions", "sequences"},
                    "PreparedKeysSizes": {"capacity", "queryDim", "keyDim"}}
        for struct in self.structs.values():
            name = called(struct["name"])
            body = "".join(f"{block(doc, '  ')}  {key}{'' if key in required.get(name, ()) else '?'}: {kind};\n"
                           for key, kind, doc in self.keys(struct))
            out.append(f"{block(struct['doc'])}export interface {name} {{\n{body}}}\n")
        body = "".join(f"  {js(name)}?: Data;\n" for name, _, _ in planned_buffers(self.described)
                       if name not in ("query", "key", "value", "out"))
        out.append("/** Node 24's Float16Array, where TypeScript knows it. */\n"
                   "export type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T : never;\n"
                   "export type Data = Float32Array | Float16 | Uint16Array | Int32Array | BigInt64Array | Uint8Array | Int8Array;\n\n"
                   f"/** The data of a planned run beside query, key, value and out. */\nexport interface Buffers {{\n{body}}}\n")
        return "\n".join(out)


def block(text, indent=""):
    if not text:
        return ""
    lines = text.replace("*/", "* /").split("\n")
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def files(described):
    addon = Addon(described)
    header, source = addon.source()
    return {f"node/generated/{name}": text for name, text in
            (("shim.hpp", header), ("shim.cpp", source), ("options.js", addon.javascript()), ("options.d.ts", addon.types()))}
