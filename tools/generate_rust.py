# SPDX-License-Identifier: Apache-2.0
"""Generates Rust from the description of the C interface: the declarations of fovea-sys, and the options of the crate
fovea."""
import re

HEAD = """// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0
"""
TYPES = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "size_t": "usize", "float": "f32",
         "uint8_t": "u8", "char": "c_char", "void": "c_void"}
KEYWORDS = {"type", "match", "move", "ref", "in", "use", "where"}
# A context's options hold a caller's loop, and plans' buffers are slices: they are written by hand.
BY_HAND = {"fovea_context_options", "fovea_attention_buffers", "fovea_mha_buffers"}


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def plain(name):
    return name.replace("fovea_", "", 1)


def settable(struct):
    """The members of an options struct that can be given."""
    return [member for member in struct["members"] if member["name"] != "struct_size" and not member.get("reserved")]


def given(struct):
    """{flag: member}: of the flags that say that a member stands for itself, and are no options of their own."""
    return {member["given"]: member["name"] for member in struct["members"] if "given" in member}


def cannot_be_zero(member):
    """Whether 0 is another number's default that no flag takes away: a size, of which a 0 that is given is a mistake."""
    return member.get("zero", "none") != "none" and not member["type"]["pointers"] and "given" not in member and \
        not member.get("enum")


# Written, though their comments do not begin with that: pages, which a call reads too, and their scales.
WRITTEN = {"fovea_mha_options": {"key_pages", "value_pages", "key_scales", "value_scales"}}


def is_output(struct, member):
    """Whether a call writes the tensor that a member points to."""
    return bool(member.get("output")) or member["name"] in WRITTEN.get(struct["name"], ())


def about(member, absent="left out"):
    """What the header says of a member, in a language that tells what was left out from 0."""
    if "given" not in member and not cannot_be_zero(member):
        return member["doc"]
    return re.sub(r"(^|; )0: ", rf"\1{absent}: ", member["doc"]).replace(f"; unless {member.get('given')}", "")


def doc(text, indent="", note=""):
    """A doc comment. What is set in columns stays so."""
    if not text:
        return ""
    lines = text.split("\n")
    columns = any(re.search(r"\S {2,}\S|^ ", line) for line in lines)
    if columns:
        lines = ["```text", *lines, "```"]
    lines += ["", note] if note else []
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in lines)


def sys_type(kind):
    base = TYPES.get(kind["base"], kind["base"])
    if base == "c_void" and not kind["pointers"]:
        return "()"
    for level in range(kind["pointers"]):
        base = ("*const " if kind["const"] and level == 0 else "*mut ") + base
    return f"[{base}; {kind['array']}]" if "array" in kind else base


def arguments(function, separator=", "):
    return separator.join(f"{a['name']}: {sys_type(a['type'])}" for a in function["arguments"])


def returns(function):
    kind = sys_type(function["returns"])
    return "" if kind == "()" else f" -> {kind}"


# ---- fovea-sys -------------------------------------------------------------------------------------------------------

def sys_bindings(described):
    out = [HEAD, "use core::marker::{PhantomData, PhantomPinned};\nuse std::os::raw::{c_char, c_void};\n"]
    for name, value in described["constants"].items():
        out.append(f"pub const {name}: usize = {value};")
    for alias in described["aliases"]:
        out.append(f"\npub type {alias['name']} = {TYPES[alias['type']]};")
    for callback in described["callbacks"]:
        out.append(f"\n{doc(callback['doc'])}pub type {callback['name']} =\n"
                   f"    Option<unsafe extern \"C\" fn({arguments(callback)}){returns(callback)}>;")
    for enum in described["enums"]:
        kind = enum["of"] if "." not in enum["of"] else TYPES[enum["type"]]
        out.append("")
        for value in enum["values"]:
            out.append(f"{doc(value['doc'])}pub const {value['name']}: {kind} = {value['value']};")
    for handle in described["handles"]:
        out.append(f"\n{doc(handle['doc'])}#[repr(C)]\npub struct {handle['name']} {{\n    _opaque: [u8; 0],\n"
                   "    _not_send: PhantomData<(*mut u8, PhantomPinned)>,\n}")
    for struct in described["structs"]:
        out.append(f"\n{doc(struct['doc'])}#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {struct['name']} {{")
        for member in struct["members"]:
            out.append(f"{doc(member['doc'], '    ')}    pub {member['name']}: {sys_type(member['type'])},")
        out.append("}")
        if struct["options"]:
            out.append(f"\nimpl Default for {struct['name']} {{\n    /// Zeros, which are the defaults, and struct_size.\n"
                       "    fn default() -> Self {\n        // Zeros are a value of every member: numbers and pointers that may be "
                       "null.\n        let mut options: Self = unsafe { core::mem::zeroed() };\n"
                       "        options.struct_size = core::mem::size_of::<Self>();\n        options\n    }\n}")
    out.append('\nextern "C" {')
    for function in described["functions"]:
        one_line = f"    pub fn {function['name']}({arguments(function)}){returns(function)};"
        if len(one_line) > 100:
            joined = arguments(function, ",\n        ")
            one_line = f"    pub fn {function['name']}(\n        {joined},\n    ){returns(function)};"
        out.append(doc(function["doc"], "    ") + one_line)
    out.append("}\n")
    return "\n".join(out)


def sys_layouts(described):
    """A test that a compiler lays the structs out as the header's description says."""
    out = [HEAD, "#![cfg_attr(rustfmt, rustfmt_skip)]\n\nuse fovea_sys::*;\nuse std::mem::{align_of, size_of, MaybeUninit};\nuse std::ptr::addr_of;\n",
           "macro_rules! offset {\n    ($type:ty, $member:ident) => {{\n        let place = MaybeUninit::<$type>::uninit();\n"
           "        let base = place.as_ptr();\n        unsafe { addr_of!((*base).$member) as usize - base as usize }\n"
           "    }};\n}\n", '#[test]\n#[cfg(target_pointer_width = "64")]\nfn structs_are_laid_out_as_in_c() {']
    for struct in described["structs"]:
        name = struct["name"]
        out.append(f"    assert_eq!((size_of::<{name}>(), align_of::<{name}>()), ({struct['size']}, {struct['align']}));")
        out += [f"    assert_eq!(offset!({name}, {member['name']}), {member['offset']});" for member in struct["members"]]
    out.append("}\n")
    return "\n".join(out)


# ---- fovea: statuses and element types -------------------------------------------------------------------------------

# What a slice is made of that holds a type's elements, and the crate that has it.
ELEMENTS = {"F32": ["f32"], "F64": ["f64"], "I32": ["i32"], "I64": ["i64"], "I8": ["i8"], "BOOL": ["bool", "u8"],
            "F16": ["half::f16"], "BF16": ["half::bf16"],
            "U8": ["crate::tensor::FourBits"],  # bytes are masks
            "F8_E4M3": [], "F8_E5M2": []}  # no operation takes these yet


def statuses(described):
    enum = next(enum for enum in described["enums"] if enum["of"] == "fovea_status")
    values = [(camel(value["name"][len("FOVEA_"):].lower()), value) for value in enum["values"] if value["value"]]
    out = [HEAD, "use crate::sys;\n", "/// What kind of failure.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[non_exhaustive]\n"
           "pub enum Status {"]
    out += [f"{doc(value['doc'] or value['name'], '    ')}    {name}," for name, value in values]
    out.append("    /// A status that this crate is too old to know.\n    Unknown(i32),\n}\n\nimpl From<i32> for Status {\n"
               "    fn from(status: i32) -> Self {\n        match status {")
    out += [f"            sys::{value['name']} => Status::{name}," for name, value in values]
    out.append("            other => Status::Unknown(other),\n        }\n    }\n}\n\nimpl From<Status> for i32 {\n"
               "    fn from(status: Status) -> Self {\n        match status {")
    out += [f"            Status::{name} => sys::{value['name']}," for name, value in values]
    out.append("            Status::Unknown(other) => other,\n        }\n    }\n}\n")
    return "\n".join(out)


def dtypes(described):
    enum = next(enum for enum in described["enums"] if enum["of"] == "fovea_dtype")
    names = [value["name"][len("FOVEA_"):] for value in enum["values"]]
    out = [HEAD, "use crate::sys;\nuse crate::tensor::Element;\n"]
    for name in names:
        for element in ELEMENTS[name]:
            feature = '#[cfg(feature = "half")]\n' if element.startswith("half::") else ""
            out.append(f"{feature}unsafe impl Element for {element} {{\n    const DTYPE: i32 = sys::FOVEA_{name};\n}}\n")
    return "\n".join(out)


# ---- fovea: enums and options ----------------------------------------------------------------------------------------

def enum_name(enum):
    """Dtype, EmptyRows, Activation; ScoreKind and WeightLayout, whose prefix alone does not tell what is numbered."""
    if "." not in enum["of"]:
        return camel(plain(enum["of"]))
    name, member = camel(enum["prefix"].lower()[len("fovea_"):]), camel(enum["of"].split(".")[-1])
    return name if member in name else member if member.startswith(name) else name + member


def public_enum(enum):
    name = enum_name(enum)
    out = [f"{doc(enum['doc'])}#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n#[repr(i32)]\n"
           f"pub enum {name} {{"]
    for value in enum["values"]:
        default = "    #[default]\n" if value is enum["values"][0] else ""
        out.append(f"{doc(value['doc'], '    ')}{default}    {camel(value['name'][len(enum['prefix']):].lower())} = "
                   f"sys::{value['name']},")
    out.append("}\n")
    return "\n".join(out)


class Options:
    """The safe struct of an options struct: what borrows is held, what is a number is kept in the C struct's own type."""

    def __init__(self, struct, described):
        self.struct = struct
        self.name = camel(plain(struct["name"]))
        self.enums = {enum["of"]: enum for enum in described["enums"]}
        self.options = {s["name"] for s in described["structs"] if s["options"]}
        self.handles = {handle["name"] for handle in described["handles"]}
        self.members = settable(struct)

    def kind(self, member):
        """What is done with a member: flags, enum, number, tensor, output, options, handle."""
        kind = member["type"]
        if member.get("enum") and self.enums[member["enum"]]["bits"]:
            return "flags"
        if kind["pointers"] == 0:
            return "enum" if member.get("enum") else "number"
        if kind["base"] == "fovea_tensor":
            return "output" if is_output(self.struct, member) else "tensor"
        if kind["base"] in self.options:
            return "options"
        if kind["base"] in self.handles and kind["const"]:
            return "handle"
        raise ValueError(f"{self.struct['name']}.{member['name']}: no rule for {kind['c']}")

    def type_of(self, member):
        base = member["type"]["base"]
        return {"flags": "u32", "enum": "", "tensor": "Tensor<'a>", "output": "TensorMut<'a>",
                "options": self.other(base), "handle": f"&'a {camel(plain(base))}",
                "number": TYPES.get(base, base)}[self.kind(member)] or enum_name(self.enums[member["enum"]])

    def other(self, base):
        return camel(plain(base)) + ("<'a>" if base not in NO_LIFETIME else "")

    def is_option(self, member):
        return self.kind(member) in ("tensor", "output", "options", "handle") or self.is_choice(member)

    def is_choice(self, member):
        """An enum of which no value is 0: a member that is left out is none of them."""
        return self.kind(member) == "enum" and all(value["value"] for value in self.enums[member["enum"]]["values"])

    def may_be_refused(self):
        return any(cannot_be_zero(member) for member in self.members)

    def borrows(self):
        return any(self.kind(member) in ("tensor", "output", "options", "handle") for member in self.members)

    def text(self):
        lifetime = "<'a>" if self.borrows() else ""
        fields = "".join(f"    pub(crate) {m['name']}: " + (f"Option<{self.type_of(m)}>" if self.is_option(m) or cannot_be_zero(m)
                                                            else self.type_of(m)) + ",\n" for m in self.members)
        setters = "\n".join(filter(None, [self.setter(m) for m in self.members] + [self.flag_setters()]))
        note = "Every setter left out is a default. In C: `" + self.struct["name"] + "`."
        text = doc(self.struct["doc"], note=note) or f"/// {note}\n"
        return (f"{text}#[derive(Default)]\npub struct {self.name}{lifetime} {{\n{fields}}}\n\n"
                f"impl{lifetime} {self.name}{lifetime} {{\n    /// The defaults.\n    pub fn new() -> Self {{\n"
                f"        Self::default()\n    }}\n\n{setters}\n{self.raw()}}}\n")

    def setter(self, member):
        kind, name = self.kind(member), member["name"]
        if kind == "flags":
            return ""
        bit = f"        self.flags |= sys::{member['given']};\n" if "given" in member else ""
        given = "impl Into<Tensor<'a>>" if kind == "tensor" else \
            "impl Into<TensorMut<'a>>" if kind == "output" else self.type_of(member)
        value = f"Some({name}{'.into()' if kind in ('tensor', 'output') else ''})" if self.is_option(member) \
            else f"Some({name})" if cannot_be_zero(member) else name
        return (f"{doc(about(member) or name, '    ')}    pub fn {name}(mut self, {name}: {given}) -> Self {{\n{bit}"
                f"        self.{name} = {value};\n        self\n    }}\n")

    def bits(self):
        member = next((m for m in self.members if self.kind(m) == "flags"), None)
        if not member:
            return []
        return [value for value in self.enums[member["enum"]]["values"]
                if value["name"] in member.get("values", [value["name"]])]

    def bit_name(self, value):
        enum = next(self.enums[m["enum"]] for m in self.members if self.kind(m) == "flags")
        return value["name"][len(enum["prefix"]):].lower()

    def flag_setters(self):
        out = []
        for value in self.bits():
            name = self.bit_name(value)
            if value["name"] not in given(self.struct):
                out.append(f"{doc(value['doc'], '    ')}    pub fn {name}(mut self) -> Self {{\n"
                           f"        self.flags |= sys::{value['name']};\n        self\n    }}\n")
        return "\n".join(out)

    def raw(self):
        """The C struct, all members named: a new one does not compile before it is known here."""
        nested = [m for m in self.members if self.kind(m) == "options"]
        values = []
        for member in self.struct["members"]:
            name = member["name"]
            if name == "struct_size":
                values.append(f"struct_size: std::mem::size_of::<sys::{self.struct['name']}>()")
            elif member not in self.members:
                values.append(f"{name}: 0")
            elif cannot_be_zero(member):
                values.append(f'{name}: given_size(self.{name}, "{name}")?')
            else:
                values.append(f"{name}: " + {
                    "flags": f"self.{name}", "number": f"self.{name}",
                    "enum": f"self.{name}.map_or(0, |one| one as i32)" if self.is_choice(member) else f"self.{name} as i32",
                    "tensor": f"tensor_pointer(&self.{name})", "output": f"output_pointer(&self.{name})",
                    "options": f"{name}.as_ref().map_or(null(), |raw| raw as *const _)",
                    "handle": f"self.{name}.map_or(null(), |handle| handle.raw())"}[self.kind(member)])
        literal = f"sys::{self.struct['name']} {{\n" + "".join(f"            {value},\n" for value in values) + "        }"
        if self.may_be_refused():
            return f"\n    pub(crate) fn raw(&self) -> Result<sys::{self.struct['name']}> {{\n        Ok({literal})\n    }}\n"
        if not nested:
            return f"\n    pub(crate) fn raw(&self) -> sys::{self.struct['name']} {{\n        {literal}\n    }}\n"
        held = "".join(f"        let {m['name']} = self.{m['name']}.as_ref().map(|options| options.raw());\n" for m in nested)
        return (f"\n    pub(crate) fn with_raw<R>(&self, call: impl FnOnce(&sys::{self.struct['name']}) -> R) -> R {{\n{held}"
                f"        call(&{literal})\n    }}\n")


NO_LIFETIME = set()


def public_options(described):
    structs = [Options(s, described) for s in described["structs"] if s["options"] and s["name"] not in BY_HAND]
    NO_LIFETIME.update(options.struct["name"] for options in structs if not options.borrows())
    enums = [enum for enum in described["enums"] if not enum["bits"] and enum["of"] != "fovea_status"]
    return "\n".join([HEAD, "use crate::sys;\nuse crate::tensor::{output_pointer, tensor_pointer, Tensor, TensorMut};\n"
                      "use crate::{Error, Result, Schedule, Status};\nuse std::ptr::null;\n\n"
                      "/// A size that was left out, or is not 0.\n"
                      "fn given_size(size: Option<i64>, name: &str) -> Result<i64> {\n    if size == Some(0) {\n"
                      "        return Err(Error::new(Status::BadValue, format!(\"{name} is 0, expected at least 1\")));\n    }\n"
                      "    Ok(size.unwrap_or(0))\n}\n",
                      *map(public_enum, enums), *(options.text() for options in structs)])


# ---- fovea: a plan's buffers -----------------------------------------------------------------------------------------

def planned_buffers(described):
    """The members of fovea_attention_buffers, and from which tensor of the planned call each has its layout."""
    structs = {s["name"]: {m["name"]: m for m in s["members"]} for s in described["structs"]}
    options, score = structs["fovea_attention_options"], structs["fovea_score"]
    for name, member in structs["fovea_attention_buffers"].items():
        if name == "struct_size":
            continue
        if name in ("query", "key", "value", "out"):
            yield name, member, name
        elif name.startswith("grad_") and name[len("grad_"):] in structs["fovea_attention_gradients"]:
            yield name, member, f"gradients.{name[len('grad_'):]}"
        elif name in options:
            yield name, member, f"options.{name}"
        elif name in score:
            yield name, member, f"score.{name}"
        elif name.startswith("score_") and name[len("score_"):] in score:
            yield name, member, f"score.{name[len('score_'):]}"
        else:
            raise ValueError(f"fovea_attention_buffers.{name} belongs to no tensor of the call")


def mha_buffers(described):
    """The members of fovea_mha_buffers but for those of attention."""
    struct = next(s for s in described["structs"] if s["name"] == "fovea_mha_buffers")
    return [(m["name"], m) for m in struct["members"] if m["name"] not in ("struct_size", "attention")]


def buffers(described):
    out = [HEAD, "use crate::options::{AttentionGradients, AttentionOptions, Score};\nuse crate::sys;\n"
           "use crate::tensor::sealed::Raw;\n"
           "use crate::tensor::{Data, DataMut, Layout, View};\nuse crate::Result;\n"]
    members = [(name, not m["type"]["const"], place) for name, m, place in planned_buffers(described)]
    out.append("/// Where the tensors of a planned call lie in the slices of a run.\n#[derive(Default)]\npub(crate) struct Layouts {")
    out += [f"    {name}: Option<Layout>," for name, _, _ in members]
    out.append("}\n\nimpl Layouts {\n    pub(crate) fn new(\n        query: &dyn View,\n        key: Option<&dyn View>,\n"
               "        value: &dyn View,\n        out: &dyn View,\n        score: Option<&Score<'_>>,\n"
               "        options: &AttentionOptions<'_>,\n    ) -> Self {\n        Layouts {")
    out += [f"            {name}: " + (f"Some({name}.layout())," if name != "key" else "key.map(|key| key.layout()),")
            for name, _, place in members if "." not in place]
    out.append("            ..Layouts::of_options(score, options)\n        }\n    }\n\n"
               "    /// Of the tensors in options and score alone.\n"
               "    pub(crate) fn of_options(score: Option<&Score<'_>>, options: &AttentionOptions<'_>) -> Self {\n        Layouts {")
    for name, _, place in members:
        struct, _, member = place.rpartition(".")
        value = {"options": f"options.{member}.as_ref().map(|tensor| tensor.layout())",
                 "score": f"score.and_then(|score| score.{member}.as_ref()).map(|tensor| tensor.layout())",
                 "gradients": "None", "": "None"}[struct]
        out.append(f"            {name}: {value},")
    out.append("        }\n    }\n\n    /// And of a backward pass.\n"
               "    pub(crate) fn add_gradients(mut self, gradients: &AttentionGradients<'_>) -> Self {")
    out += [f"        self.{name} = gradients.{place.split('.')[1]}.as_ref().map(|tensor| tensor.layout());"
            for name, _, place in members if place.startswith("gradients.")]
    out.append("        self\n    }\n}\n")
    out.append("/// The data of a planned run: a slice for every tensor that was planned, beginning with the first element of it in\n"
               "/// memory. The default has none, for [`crate::MhaBuffers::attention`].\n#[derive(Default)]\npub struct Buffers<'a> {")
    out += [f"    {name}: Option<{'DataMut' if writes else 'Data'}<'a>>," for name, writes, _ in members]
    rest = "".join(f"            {name}: None,\n" for name, _, _ in members if name not in ("query", "key", "value", "out"))
    out.append("}\n\nimpl<'a> Buffers<'a> {\n    /// Of a call that was planned without optional tensors.\n    pub fn new(\n"
               "        query: impl Into<Data<'a>>,\n        key: impl Into<Data<'a>>,\n        value: impl Into<Data<'a>>,\n"
               "        out: impl Into<DataMut<'a>>,\n    ) -> Self {\n        Buffers {\n            query: Some(query.into()),\n"
               "            key: Some(key.into()),\n            value: Some(value.into()),\n            out: Some(out.into()),\n"
               f"{rest}        }}\n    }}\n\n"
               "    /// Of a call over prepared keys, which takes none.\n    pub fn prepared(\n        query: impl Into<Data<'a>>,\n"
               "        value: impl Into<Data<'a>>,\n        out: impl Into<DataMut<'a>>,\n    ) -> Self {\n        Buffers {\n"
               "            query: Some(query.into()),\n            key: None,\n            value: Some(value.into()),\n"
               f"            out: Some(out.into()),\n{rest}        }}\n    }}\n")
    for name, writes, place in members:
        if name in ("query", "key", "value", "out"):
            continue
        out.append(f"    /// The data of `{place}`.\n    pub fn {name}(mut self, {name}: impl Into<{'DataMut' if writes else 'Data'}"
                   f"<'a>>) -> Self {{\n        self.{name} = Some({name}.into());\n        self\n    }}\n")
    out.append("    /// Refuses what is shorter than was planned, or of another element type.\n    #[inline]\n"
               "    pub(crate) fn raw(self, planned: &Layouts) -> Result<sys::fovea_attention_buffers> {\n"
               "        Ok(sys::fovea_attention_buffers {\n"
               "            struct_size: std::mem::size_of::<sys::fovea_attention_buffers>(),")
    for name, writes, _ in members:
        out.append(f'            {name}: Data{"Mut" if writes else ""}::pointer(self.{name}, &planned.{name}, "{name}")?,')
    out.append("        })\n    }\n}\n")
    return "\n".join(out)


def files(described):
    return {"rust/fovea-sys/src/generated/bindings.rs": sys_bindings(described),
            "rust/fovea-sys/tests/generated/main.rs": sys_layouts(described),
            "rust/fovea/src/generated/status.rs": statuses(described),
            "rust/fovea/src/generated/dtypes.rs": dtypes(described),
            "rust/fovea/src/generated/options.rs": public_options(described),
            "rust/fovea/src/generated/buffers.rs": buffers(described)}
