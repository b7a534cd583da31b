"""fovea's constants and structs for ctypes, read from its headers, so that they are written down in one place.

Understands what the headers hold to: enums with pinned values, structs without unions, bit-fields or nesting. Every
pointer is a void pointer. Standard library only.
"""
import ctypes
import pathlib
import re

SIZES = {"size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
         "uint64_t": ctypes.c_uint64, "float": ctypes.c_float, "double": ctypes.c_double}


def read_headers(folder):
    text = "\n".join(path.read_text() for path in sorted(pathlib.Path(folder).glob("*.h")))
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def constants(text):
    """{"FOVEA_F32": 1, ...}, of enums and of defines that are plain numbers."""
    pairs = re.findall(r"\b(FOVEA_\w+)\s*=\s*(-?\d+)", text) + re.findall(r"#define\s+(FOVEA_\w+)\s+(\d+)\s*$", text, re.M)
    return {name: int(number) for name, number in pairs}


def field(declaration, types, numbers):
    """(name, ctypes type) of one member."""
    words = re.fullmatch(r"(?:const\s+)?(?:struct\s+)?(\w+)\s*(\**)\s*(\w+)\s*(?:\[(\w+)\])?", declaration.strip())
    if not words:
        raise ValueError(f"not understood: {declaration.strip()}")
    kind, stars, name, count = words.groups()
    if stars or kind not in types:  # what is neither a number nor a known name is a pointer to a function
        if not stars and kind != "fovea_parallel_for":
            raise ValueError(f"unknown type {kind} of {name}")
        return name, ctypes.c_void_p
    return name, types[kind] * (numbers.get(count) or int(count)) if count else types[kind]


def structs(text):
    """{"fovea_tensor": ctypes.Structure, ...}."""
    numbers = constants(text)
    types = dict(SIZES)
    for old, new in re.findall(r"typedef\s+(\w+)\s+(fovea_\w+)\s*;", text):
        if old in SIZES:
            types[new] = SIZES[old]
    found = {}
    for name, body in re.findall(r"typedef\s+struct\s+(\w+)\s*\{(.*?)\}\s*\1\s*;", text, re.DOTALL):
        fields = [field(declaration, types, numbers) for declaration in body.split(";") if declaration.strip()]
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found
