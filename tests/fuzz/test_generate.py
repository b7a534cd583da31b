#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function and option of the interface is in the fuzzer's tables, with the shapes that the headers say: also one
that is added here, without a word in generate.py. What no row can describe is an error."""
import copy
import json
import pathlib
import re
import unittest

import generate
import shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTERFACE = json.loads((ROOT / "capi" / "bindings" / "interface.json").read_text(encoding="utf-8"))


def type_of(written):
    base, pointers = written.replace("const ", "").split(" ")[0], written.count("*")
    return {"c": written, "base": base, "pointers": pointers, "const": written.startswith("const ")}


def argument(name, written, **more):
    return {"name": name, "type": type_of(written), **more}


def letters(axes):
    """H D, ... as they are numbered."""
    return [axis and axis[0] for axis in axes]


class Tables(unittest.TestCase):
    def setUp(self):
        self.interface = copy.deepcopy(INTERFACE)

    def test_every_exported_function_is_there(self):
        exported = (ROOT / "capi" / "fovea.symbols").read_text(encoding="utf-8").split()
        left_out = {function["name"] for function in self.interface["functions"]
                    if function["header"] in generate.LEFT_OUT_HEADERS}
        text = generate.Tables(self.interface).text()
        self.assertEqual(sorted(re.findall(r'\.name = "(\w+)", \.slots = \w+, \.slot_count = \d+, \.result', text)),
                         sorted(set(exported) - left_out))

    def test_every_member_and_value_is_there(self):
        text = generate.Tables(self.interface).text()
        for struct in filter(lambda struct: struct["options"], self.interface["structs"]):
            if struct["header"] in generate.LEFT_OUT_HEADERS:
                continue
            for member in struct["members"][1:]:
                if generate.is_left_out(struct, member):
                    continue
                self.assertIn(f"offsetof({struct['name']}, {member['name']})", text)
        for enum in self.interface["enums"]:
            for value in enum["values"] if enum["of"] != "fovea_status" else []:
                if value["name"] not in generate.LEFT_OUT_VALUES:
                    self.assertIn(f'"{value["name"]}"', text)

    def test_a_new_function_needs_nothing(self):
        self.interface["functions"].append({
            "name": "fovea_new_norm", "returns": type_of("fovea_status"), "header": "layers.h",
            "doc": "x F [...,Q,E], rank 2 to 6, scale F32 [E] or NULL, out F of the same shape.",
            "arguments": [argument("context", "const fovea_context *"), argument("x", "const fovea_tensor *"),
                          argument("scale", "const fovea_tensor *"), argument("out", "const fovea_tensor *", output=True)]})
        tables = generate.Tables(self.interface)
        text = tables.text()
        self.assertIn('.name = "fovea_new_norm"', text)
        row = re.search(r'\{\.name = "scale"[^}]*\}[^}]*', text)
        self.assertIsNotNone(row)
        self.assertEqual([letters(axes) for axes in tables.docs.argument("fovea_new_norm", "scale")[0]],
                         [[f"s[{tables.symbols.names.index('E')}]"]])
        self.assertTrue(tables.docs.may_be_null("fovea_new_norm", "scale"))

    def test_a_new_option_and_a_new_value_need_nothing(self):
        options = next(struct for struct in self.interface["structs"] if struct["name"] == "fovea_linear_options")
        options["members"].append(argument("factor", "float", doc="finite", offset=32, size=4))
        next(enum for enum in self.interface["enums"] if enum["of"] == "fovea_linear_options.activation")["values"].append(
            {"name": "FOVEA_ACTIVATION_NEW", "value": 99, "doc": ""})
        text = generate.Tables(self.interface).text()
        self.assertIn("offsetof(fovea_linear_options, factor)", text)
        self.assertIn('"FOVEA_ACTIVATION_NEW"', text)

    def test_what_no_row_describes_is_an_error(self):
        self.interface["functions"][-1]["arguments"].append(argument("odd", "double"))
        with self.assertRaisesRegex(SystemExit, "no row for fovea_.*odd"):
            generate.Tables(self.interface).text()

    def test_a_kind_without_its_row_is_an_error(self):
        next(enum for enum in self.interface["enums"] if enum["of"] == "fovea_score.kind")["values"].append(
            {"name": "FOVEA_SCORE_NEW", "value": 99, "doc": ""})
        with self.assertRaisesRegex(SystemExit, "FOVEA_SCORE_NEW"):
            generate.Tables(self.interface).text()


class Words(unittest.TestCase):
    def setUp(self):
        self.symbols = shapes.Symbols()
        self.docs = shapes.Docs(INTERFACE, self.symbols)

    def names(self, function, name):
        axes = self.docs.argument(function, name)[0]
        return [[axis and self.symbols.names[axis[1]] for axis in shape] for shape in axes]

    def test_shapes(self):
        self.assertEqual(self.names("fovea_sdpa", "key"), [["B", "Hkv", "K", "D"]])
        self.assertEqual(self.names("fovea_sdpa_plan_create", "out"), [["B", "H", "Q", "Dv"]])
        self.assertEqual(self.names("fovea_matmul_packed", "a"), self.names("fovea_matmul", "a"))
        self.assertEqual(self.names("fovea_masked_softmax", "x"), [[None, "Q", "K"]])
        self.assertEqual(self.names("fovea_positional_encoding", "out"), [["L", "d"]])  # not the formula's out[i,2j]

    def test_sums_and_products(self):
        axes = self.symbols.axes("[(H + 2 Hkv) D, E]")
        self.assertEqual(letters(axes), ["( s[0] + 2u * s[1] ) * s[2]", "s[3]"])
        self.assertEqual([axis[2] for axis in axes], [7, 8])
        self.assertIsNone(self.symbols.axes("[rotary_dim/2]"))

    def test_numbers_with_scales(self):
        self.assertEqual(self.names("fovea_quantize", "x"), [[None, "D"]])
        self.assertEqual(self.names("fovea_dequantize", "q"), [[None, "D"]])
        self.assertEqual(shapes.element_types("F16 [...,D/group]", "scales"), "scales")
        self.assertEqual(shapes.element_types("F16 [B,Hkv,K,D/group]", "key_scales"), "scales")
        self.assertEqual(shapes.element_types("F32 [B,Hkv,K,D]", "key"), "floats")

    def test_integers(self):
        doc = "[B] or [B,Q], I32 or I64, each in [0, K]: key j is attended iff j < length."
        self.assertEqual(shapes.element_types(doc), "integers")
        self.assertEqual(shapes.bound(doc, self.symbols), f"s[{self.symbols.names.index('K')}]")
        self.assertEqual(shapes.bound("each in\n[0, B)", self.symbols), f"s[{self.symbols.names.index('B')}] - 1")

    def test_kinds(self):
        score = next(struct for struct in INTERFACE["structs"] if struct["name"] == "fovea_score")
        rows, equal = shapes.rows_by_kind(score, self.symbols)
        self.assertEqual(set(rows["CONCAT"]), {"weight", "bias", "score_vector"})
        self.assertEqual(set(rows["GAUSSIAN"]), {"sigma", "sigmas"})
        self.assertEqual(set(equal), {"DOT", "GAUSSIAN"})


if __name__ == "__main__":
    unittest.main()
