# SPDX-License-Identifier: Apache-2.0
"""Generates Java from the description of the C interface: the functions and struct layouts of java.lang.foreign, enums,
and a class for each options struct with a method for each member."""
import re
import textwrap

from generate_node import js
from generate_rust import (about, camel, cannot_be_zero, enum_name, given, is_output, mha_buffers, plain, planned_buffers,
                           settable)

HEAD = "// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.\n// SPDX-License-Identifier: Apache-2.0\npackage fovea;\n"
SOURCES = "java/src/generated/main/java/fovea/"
TESTS = "java/src/generated/test/java/fovea/"
LAYOUTS = {"int32_t": "JAVA_INT", "uint32_t": "JAVA_INT", "int64_t": "JAVA_LONG", "uint64_t": "JAVA_LONG",
           "size_t": "JAVA_LONG", "float": "JAVA_FLOAT"}
TYPES = {"JAVA_INT": "int", "JAVA_LONG": "long", "JAVA_FLOAT": "float", "ADDRESS": "MemorySegment"}
# Bytes of an element.
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "BOOL": 1, "I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1}
# Written by hand: a context's, whose loop would be a caller's, and what a run is given.
BY_HAND = {"fovea_context_options", "fovea_attention_buffers", "fovea_mha_buffers"}
# Of whose outputs some rows alone are written: an array's other elements have to come back as they were.
WRITTEN_IN_PART = {"fovea_append_options", "fovea_mha_options"}
# These give or take structs, callbacks or texts that are handled elsewhere, or not at all.
LEFT_OUT = {"fovea_tensor_contiguous", "fovea_tensor_from_dlpack", "fovea_last_error"}


def doc(text, indent="", note=""):
    """A Javadoc comment; what is set in columns stays so."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("*/", "*&#47;").replace("@", "&#64;")
    lines = []
    for paragraph in filter(None, [*escaped.split("\n\n"), note]):
        rows = paragraph.split("\n")
        if any(re.search(r"\S {2,}\S|^ ", row) for row in rows):
            lines += ["<pre>", *rows, "</pre>"]
        else:
            lines += textwrap.wrap(("<p>" if lines else "") + " ".join(rows), 112 - len(indent))
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def layout(kind, aliases):
    """How java.lang.foreign names a C type."""
    if kind["pointers"]:
        return "ADDRESS"
    return LAYOUTS.get(aliases.get(kind["base"], kind["base"]), "ADDRESS")  # else a function pointer


class Java:
    def __init__(self, described):
        self.described = described
        self.aliases = {alias["name"]: alias["type"] for alias in described["aliases"]}
        self.enums = {enum["of"]: enum for enum in described["enums"]}
        self.options = {s["name"]: s for s in described["structs"] if s["options"] and s["name"] not in BY_HAND}
        self.handles = {handle["name"] for handle in described["handles"]}

    # ---- the C interface as it stands --------------------------------------------------------------------------------

    def function(self, function):
        name = function["name"]
        arguments = [(a["name"], layout(a["type"], self.aliases)) for a in function["arguments"]]
        given = ", ".join(f"{TYPES[kind]} {js(one)}" for one, kind in arguments)
        values = ", ".join(js(one) for one, _ in arguments)
        kinds = ", ".join(kind for _, kind in arguments)
        if function["returns"]["c"] == "void":
            descriptor, java, result = f"FunctionDescriptor.ofVoid({kinds})", "void", ""
        elif function["returns"]["c"] == "fovea_tensor":
            descriptor = f"FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, {kinds})"
            given, values = f"SegmentAllocator allocator, {given}", f"allocator, {values}"
            java, result = "MemorySegment", "return (MemorySegment) "
        else:
            returns = layout(function["returns"], self.aliases)
            descriptor, java = f"FunctionDescriptor.of({', '.join(filter(None, [returns, kinds]))})", TYPES[returns]
            result = f"return ({java}) "
        if function["returns"]["c"] == "fovea_status":
            return self.pinning(name, given, values, descriptor)
        return (f"  private static final class {camel(plain(name))} {{\n    static final MethodHandle CALL = Library.function(\n"
                f"        \"{name}\", {descriptor});\n  }}\n\n"
                f"  static {java} {name}({given}) {{\n    try {{\n"
                f"      {result}{camel(plain(name))}.CALL.invokeExact({values});\n"
                "    } catch (Throwable thrown) {\n      throw Library.unexpected(thrown);\n    }\n  }\n")

    def pinning(self, name, given, values, descriptor):
        """A function that computes: it keeps the arenas of its segments open. Handles are made when they are wanted."""
        short = camel(plain(name))
        return (f"  private static final class {short} {{\n    static final FunctionDescriptor ARGUMENTS = {descriptor};\n"
                f"    static final MethodHandle CALL = Library.function(\"{name}\", ARGUMENTS);\n  }}\n\n"
                f"  private static final class {short}Pinning {{\n    static final MethodHandle CALL = Library.pinning("
                f"\"{name}\", {short}.ARGUMENTS, Pins.FEW);\n  }}\n\n"
                f"  static int {name}({given}, MemorySegment[] pins) {{\n    try {{\n"
                f"      if (pins == null) return (int) {short}.CALL.invokeExact({values});\n"
                f"      if (pins.length == Pins.FEW) return (int) {short}Pinning.CALL.invokeExact({values}, pins);\n"
                f"      return (int) Library.pinning(\"{name}\", {short}.ARGUMENTS, pins.length).invokeExact({values}, pins);\n"
                "    } catch (Throwable thrown) {\n      throw Library.unexpected(thrown);\n    }\n  }\n")

    def functions(self):
        body = "\n".join(self.function(f) for f in self.described["functions"] if f["name"] not in LEFT_OUT)
        return (f"{HEAD}\nimport static java.lang.foreign.ValueLayout.*;\n\nimport java.lang.foreign.FunctionDescriptor;\n"
                "import java.lang.foreign.MemorySegment;\nimport java.lang.foreign.SegmentAllocator;\n"
                "import java.lang.invoke.MethodHandle;\n\n/** The C functions. Each is looked up at its first call. */\nfinal class Native {\n  private Native() {}\n\n"
                f"{body}}}\n")

    def struct(self, struct):
        """A layout, with the places of its members as that computes them."""
        members, at = [], 0
        for member in struct["members"]:
            if member["offset"] != at:
                members.append(f"MemoryLayout.paddingLayout({member['offset'] - at})")
            kind = layout(member["type"], self.aliases)
            if "array" in member["type"]:
                kind = f"MemoryLayout.sequenceLayout({member['type']['array']}, {kind})"
            members.append(f'{kind}.withName("{member["name"]}")')
            at = member["offset"] + member["size"]
        if struct["size"] != at:
            members.append(f"MemoryLayout.paddingLayout({struct['size'] - at})")
        listed = "".join(f"        {one},\n" for one in members)[:-2]
        places = "".join(f'    static final long {m["name"]} = place("{m["name"]}");\n' for m in struct["members"])
        return (f"  static final class {struct['name']} {{\n    static final StructLayout LAYOUT = MemoryLayout.structLayout(\n{listed});\n"
                f"    static final long SIZE = LAYOUT.byteSize();\n{places}\n"
                "    private static long place(String member) {\n"
                "      return LAYOUT.byteOffset(PathElement.groupElement(member));\n    }\n  }\n")

    def layouts(self):
        body = "\n".join(self.struct(struct) for struct in self.described["structs"])
        return (f"{HEAD}\nimport static java.lang.foreign.ValueLayout.*;\n\nimport java.lang.foreign.MemoryLayout;\n"
                "import java.lang.foreign.MemoryLayout.PathElement;\nimport java.lang.foreign.StructLayout;\n\n"
                "/** The C structs, under their names there. */\nfinal class Layouts {\n"
                f"  static final int MAX_RANK = {self.described['constants']['FOVEA_MAX_RANK']};\n\n  private Layouts() {{}}\n\n{body}}}\n")

    def layouts_test(self):
        lines = ""
        for struct in self.described["structs"]:
            name = struct["name"]
            lines += (f'    check("{name}", Layouts.{name}.SIZE, {struct["size"]});\n'
                      f'    check("alignment of {name}", Layouts.{name}.LAYOUT.byteAlignment(), {struct["align"]});\n')
            lines += "".join(f'    check("{name}.{m["name"]}", Layouts.{name}.{m["name"]}, {m["offset"]});\n'
                             for m in struct["members"])
        return (f"{HEAD}\n/** Structs are laid out as a C compiler lays them out. */\nfinal class LayoutsTest {{\n"
                "  private LayoutsTest() {}\n\n  static void structsAreLaidOutAsInC() {\n"
                f"{lines}  }}\n\n  private static void check(String what, long found, long expected) {{\n"
                '    if (found != expected) throw new AssertionError(what + " is " + found + ", in C " + expected);\n  }\n}\n')

    # ---- enums -------------------------------------------------------------------------------------------------------

    def enum(self, enum):
        if enum["of"] == "fovea_status":
            name, first = "Status", "What kind of failure."
        elif enum["of"] == "fovea_dtype":
            name, first = "Dtype", enum["doc"]
        else:
            name, first = enum_name(enum), enum["doc"]
        values, with_size = [], enum["of"] == "fovea_dtype"
        for value in enum["values"]:
            short = value["name"][len(enum["prefix"]):]
            numbers = f"{value['value']}, {SIZES[short]}" if with_size else str(value["value"])
            values.append(f"{doc(value['doc'], '  ')}  {short}({numbers})")
        if name == "Status":
            values.append("  /** A status that this package is too old to know. */\n  UNKNOWN(-1)")
        body = ",\n".join(values)
        members = ("  final int number;\n  final int size;\n\n  Dtype(int number, int size) {\n    this.number = number;\n"
                   "    this.size = size;\n  }\n\n  /** Bytes of an element. */\n  public int size() {\n    return size;\n  }\n"
                   if with_size else f"  final int number;\n\n  {name}(int number) {{\n    this.number = number;\n  }}\n")
        if name == "Status":
            members += ("\n  static Status of(int number) {\n    for (Status status : values()) if (status.number == number) return "
                        "status;\n    return UNKNOWN;\n  }\n")
        return name, f"{HEAD}\n{doc(first)}public enum {name} {{\n{body};\n\n{members}}}\n"

    # ---- options -----------------------------------------------------------------------------------------------------

    def bits(self, member):
        enum = self.enums[member["enum"]]
        for value in enum["values"]:
            if value["name"] in member.get("values", [value["name"]]):
                yield value["name"][len(enum["prefix"]):].lower(), value["name"], value["value"], value["doc"]

    def kind(self, struct, member):
        """(kind, Java's type)"""
        base, enum = member["type"]["base"], self.enums.get(member.get("enum"))
        if enum and enum["bits"]:
            return "flags", "int"
        if base == "fovea_tensor":
            written = "both" if struct["name"] in WRITTEN_IN_PART else "output"
            return written if is_output(struct, member) else "tensor", "Tensor"
        if base in self.options:
            return "options", camel(plain(base))
        if base in self.handles:
            return "handle", camel(plain(base))
        if enum:
            return "enum", enum_name(enum)
        return "number", TYPES[LAYOUTS[base]]

    def option(self, struct):
        c_name, name = struct["name"], camel(plain(struct["name"]))
        members = settable(struct)
        bits = [bit for member in members if self.kind(struct, member)[0] == "flags" for bit in self.bits(member)]
        numbers, meant = {constant: value for _, constant, value, _ in bits}, given(struct)
        flags = {bit: (value, text) for bit, constant, value, text in bits if constant not in meant}
        fields, setters, writes = "", "", ""
        for member in members:
            kind, java = self.kind(struct, member)
            field = js(member["name"])
            place = f"Layouts.{c_name}.{member['name']}"
            fields += f"  private {java} {field};\n"
            if kind == "flags":
                setters += "".join(self.flag(name, bit, value, text) for bit, (value, text) in flags.items())
                writes += f"    raw.set(JAVA_INT, {place}, options.{field});\n"
                continue
            bit = f"    flags |= {numbers[member['given']]};\n" if "given" in member else ""
            if cannot_be_zero(member):
                bit = (f'    if ({field} == 0) throw new FoveaException(Status.BAD_VALUE, "{field} is 0, expected at least 1");\n')
            setters += (f"\n{doc(about(member), '  ')}  public {name} {field}({java} {field}) {{\n{bit}"
                        f"    this.{field} = {field};\n    return this;\n  }}\n")
            value = f"options.{field}"
            writes += "    " + {
                "number": f"raw.set({layout(member['type'], self.aliases)}, {place}, {value});",
                "enum": f"if ({value} != null) raw.set(JAVA_INT, {place}, {value}.number);",
                "tensor": f"raw.set(ADDRESS, {place}, call.in({value}));",
                "output": f"raw.set(ADDRESS, {place}, call.out({value}));",
                "both": f"raw.set(ADDRESS, {place}, call.both({value}));",
                "options": f"raw.set(ADDRESS, {place}, {java}.raw({value}, call));",
                "handle": f"raw.set(ADDRESS, {place}, call.{'reads' if member['type']['const'] else 'changes'}({value}));"}[kind] + "\n"
        getters = "".join(f"\n  {self.kind(struct, m)[1]} {js(m['name'])}() {{\n    return {js(m['name'])};\n  }}\n"
                          for m in members if self.kind(struct, m)[0] in ("tensor", "output", "both", "handle", "enum", "options"))
        return name, (f"{HEAD}\nimport static java.lang.foreign.ValueLayout.*;\n\nimport java.lang.foreign.MemorySegment;\n\n"
                      f"{doc(struct['doc'], note='Whatever is left out has its default. In C: {@code ' + c_name + '}.')}"
                      f"public final class {name} {{\n{fields}\n  public {name}() {{}}\n{setters}{getters}\n"
                      f"  static MemorySegment raw({name} options, Call call) {{\n    if (options == null) return MemorySegment.NULL;\n"
                      f"    MemorySegment raw = call.allocate(Layouts.{c_name}.SIZE);\n"
                      f"    raw.set(JAVA_LONG, Layouts.{c_name}.struct_size, Layouts.{c_name}.SIZE);\n{writes}    return raw;\n  }}\n}}\n")

    def flag(self, name, bit, value, text):
        return f"\n{doc(text, '  ')}  public {name} {js(bit)}() {{\n    flags |= {value};\n    return this;\n  }}\n"

    # ---- a plan's buffers --------------------------------------------------------------------------------------------

    def buffers(self):
        members = list(planned_buffers(self.described))
        setters, planned = "", []
        for at, (name, _, place) in enumerate(members):
            struct, _, member = place.rpartition(".")
            planned.append(f"{struct} == null ? null : {struct}.{js(member)}()" if struct else name)
            what = f"The data of {{@code {place}}}."
            for java, one in (("MemorySegment", js(name)), ("float[]", f"MemorySegment.ofArray({js(name)})"),
                              ("short[]", f"MemorySegment.ofArray({js(name)})"), ("int[]", f"MemorySegment.ofArray({js(name)})"),
                              ("long[]", f"MemorySegment.ofArray({js(name)})"), ("byte[]", f"MemorySegment.ofArray({js(name)})")):
                if java in self.arrays(name, place) or java == "MemorySegment":
                    setters += (f"\n  /** {what} */\n  public Buffers {js(name)}({java} {js(name)}) {{\n"
                                f"    data[{at}] = {one};\n    return this;\n  }}\n")
        names = ", ".join(f'"{js(name)}"' for name, _, _ in members)
        writes = ", ".join("false" if m["type"]["const"] else "true" for _, m, _ in members)
        listed = ",\n".join(f"      {one}" for one in planned)
        return (f"{HEAD}\nimport java.lang.foreign.MemorySegment;\n\n"
                "/**\n * The data of a planned run: for every tensor that was planned a segment or an array that begins with the first\n"
                " * element of it in memory. In C: {@code fovea_attention_buffers}.\n */\npublic final class Buffers {\n"
                f"  static final int COUNT = {len(members)};\n  static final String[] NAMES = {{{names}}};\n"
                f"  static final boolean[] WRITES = {{{writes}}};\n\n"
                f"  final MemorySegment[] data = new MemorySegment[COUNT];\n\n  public Buffers() {{}}\n{setters}\n"
                "  /** The tensors of a planned call, in the order of their data here. */\n"
                "  static Tensor[] planned(Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options) {\n"
                "    return planned(score, query, key, value, out, options, null);\n  }\n\n"
                "  /** And of a backward pass. */\n"
                "  static Tensor[] planned(Score score, Tensor query, Tensor key, Tensor value, Tensor out, AttentionOptions options,\n"
                "      AttentionGradients gradients) {\n"
                f"    return new Tensor[] {{\n{listed}}};\n  }}\n}}\n")

    def mha_buffers(self):
        """The data of a planned run of multi-head attention; its attention's is that of other runs."""
        members, setters = mha_buffers(self.described), ""
        for at, (name, _) in enumerate(members):
            arrays = {"short[]"} if name.endswith("scales") else {"float[]", "short[]"} | ({"byte[]"} if "pages" in name else set())
            for java in ("MemorySegment", *sorted(arrays)):
                one = js(name) if java == "MemorySegment" else f"MemorySegment.ofArray({js(name)})"
                setters += (f"\n  /** The data of {{@code {js(name)}}}. */\n  public MhaBuffers {js(name)}({java} {js(name)}) {{\n"
                            f"    data[{at}] = {one};\n    return this;\n  }}\n")
        names = ", ".join(f'"{js(name)}"' for name, _ in members)
        writes = ", ".join("false" if m["type"]["const"] else "true" for _, m in members)
        return (f"{HEAD}\nimport java.lang.foreign.MemorySegment;\n\n"
                "/**\n * The data of a planned run of multi-head attention: for every tensor that was planned a segment or an array that begins\n"
                " * with the first element of it in memory. In C: {@code fovea_mha_buffers}.\n */\npublic final class MhaBuffers {\n"
                f"  static final String[] NAMES = {{{names}}};\n  static final boolean[] WRITES = {{{writes}}};\n\n"
                "  final MemorySegment[] data = new MemorySegment[NAMES.length];\n  Buffers attention = new Buffers();\n\n"
                f"  public MhaBuffers() {{}}\n{setters}\n"
                "  /** A layer's pages, with its scales if it has any. */\n  public MhaBuffers pages(Pages pages) {\n"
                "    Tensor[] all = {pages.keys(), pages.values(), pages.keyScales(), pages.valueScales()};\n"
                f"    for (int i = 0; i < all.length; ++i) data[{len(members) - 4} + i] = all[i] == null ? null : all[i].data();\n"
                "    return this;\n  }\n\n"
                "  /** The data of the tensors in {@code options.attention} and {@code options.score}. */\n"
                "  public MhaBuffers attention(Buffers attention) {\n    this.attention = attention;\n    return this;\n  }\n}\n")

    def arrays(self, name, place):
        """Which arrays hold such a tensor's elements."""
        if name in ("valid_lens", "query_offsets"):
            return {"int[]", "long[]"}
        if name in ("key_scales", "value_scales"):
            return {"short[]"}
        return {"byte[]"} if name == "mask" else {"float[]", "short[]"}

    def all(self):
        out = {"Native": self.functions(), "Layouts": self.layouts(), "Buffers": self.buffers(), "MhaBuffers": self.mha_buffers()}
        out.update(self.enum(enum) for enum in self.described["enums"] if not enum["bits"])
        out.update(self.option(struct) for struct in self.options.values())
        return out


def files(described):
    java = Java(described)
    made = {f"{SOURCES}{name}.java": text for name, text in java.all().items()}
    made[f"{TESTS}LayoutsTest.java"] = java.layouts_test()
    return made
