"""layouts.py EXAMPLE: what layouts.c prints, of the structs in the example in Python."""
import ctypes
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
for name, struct in (("fovea_tensor", example.Tensor), ("fovea_attention_options", example.AttentionOptions)):
    print(name, ctypes.sizeof(struct))
    for member, _ in struct._fields_:
        print(f"{name}.{member}", getattr(struct, member).offset)
