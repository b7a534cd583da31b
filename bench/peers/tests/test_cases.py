#!/usr/bin/env python3
"""test_cases.py FOVEA_BENCH LIBFOVEA HEADERS INTERFACE: tests that fovea's worker gives what the float64 reference says.

One small case of each operation, through the structs that are read from the headers; what the comparison itself has to
notice; and those structs' layout beside the C compiler's, as interface.json has it. Skipped (77) where there is no NumPy.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
BENCH, LIBRARY, HEADERS, INTERFACE = sys.argv[1:5]

try:
    import numpy as np
except ImportError:
    print("skipped: no numpy here")
    sys.exit(77)

import case as cases  # noqa: E402
import fovea_abi  # noqa: E402
import inputs  # noqa: E402
import library_fovea  # noqa: E402
import reference  # noqa: E402

SMALL = ("sdpa/f32/small", "sdpa/f32/small_one_shot", "sdpa/f32/bert_batch", "sdpa/f32/gpt_oss_window",
         "sdpa/f32/bloom_1b1_alibi", "sdpa/f32/t5_base_bias", "sdpa/f32/prefix_lm_mask", "sdpa/f32/bert_base_blhd",
         "sdpa/f32/bert_base_weights", "additive/f32/seq2seq", "additive_padded/f32/seq2seq", "additive_step/f32/seq2seq",
         "concat/f32/nmt", "gaussian/f32/bert_base", "bilinear/f32/bert_base", "kernel_regression/f32/4096x4096x8",
         "masked_softmax/f32/64x128x128_per_query", "matmul/f32/1x768x768", "matmul_packed/f32/1x384x384",
         "linear/f32/1x3072x768_gelu", "multi_head/f32/tiny_b2_l4_100_5", "multi_head/f32/gpt2_step_1000",
         "multi_head/f32/llama1b_step_1000", "multi_head_training/f32/b8_l128_768_12", "exp/f32/4096", "tanh/f32/4096",
         "layer_norm/f32/512x384_residual", "backward/f32/bert_batch", "backward_additive/f32/seq2seq_step",
         "backward_gaussian/f32/bert_base", "backward_bilinear/f32/bert_base")


def listed():
    text = subprocess.run([BENCH, "--cases"], check=True, capture_output=True, text=True).stdout
    return {case.name: case for case in map(cases.from_json, json.loads(text))}


class Outputs(unittest.TestCase):
    def test_every_compared_operation_is_here(self):
        """And can be made by fovea's worker. ./dev peers once left out gradients, which all else knew."""
        self.assertEqual({name.partition("/")[0] for name in SMALL}, set(cases.OPERATIONS))
        self.assertLessEqual(set(cases.OPERATIONS), set(library_fovea.OPERATIONS))

    def test_fovea_gives_what_the_reference_says(self):
        known, fovea, checker = listed(), library_fovea.make(LIBRARY, HEADERS, 2), reference.Checker()
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/out.npy"
            for case in map(known.get, SMALL):
                for way, make in fovea.ways(case).items():
                    with self.subTest(case.name, way=way):
                        fovea.write(make()(), case, path)
                        self.assertLess(checker.error(case, path), case.tolerance)

    def test_a_type_that_fovea_lacks_is_told(self):
        fovea = library_fovea.make(LIBRARY, HEADERS, 1)
        for dtype in set(library_fovea.DTYPES) - set(fovea.types):
            case = listed()["sdpa/f32/small"].of_type(dtype)
            with self.assertRaisesRegex(library_fovea.Unsupported, dtype):
                next(iter(fovea.ways(case).values()))()


class Comparisons(unittest.TestCase):
    def test_what_is_not_a_number_is_infinitely_wrong(self):
        self.assertEqual(reference.error_of(np.array([[1.0, np.nan]]), np.ones((1, 2))), float("inf"))
        self.assertEqual(reference.error_of(np.ones((1, 3)), np.ones((1, 2))), float("inf"))

    def test_a_small_row_beside_large_ones_is_compared_by_itself_no_closer_than_by_an_average_one(self):
        expected = np.array([[100.0], [1e-9]])
        self.assertLess(reference.error_of(np.array([[100.0], [2e-9]]), expected), 1e-9)
        self.assertAlmostEqual(reference.error_of(np.array([[100.0], [5.0]]), expected), 0.1)

    def test_each_part_of_a_training_step_is_compared_by_itself(self):
        """A bias' gradient is thousands of times that of an input: what would be wrong with the small ones must be seen."""
        case = cases.Case("multi_head_training", "small", "f32", "flops", 0, 0, 0,
                          {"batch": 2, "length": 40, "hidden": 8, "heads": 2})
        expected = np.ones(inputs.output_shape(case))
        last = 0
        for size, rows in enumerate(inputs.training_parts(case).values()):
            expected[last : last + rows] *= 10.0 ** size
            last += rows
        expected = expected[inputs.sampled_rows(case)]
        self.assertEqual(reference.error_of_parts(case, expected, expected), 0)
        ends = np.cumsum([len(inputs.sampled_of(count)) for count in inputs.compared_parts(case)])
        for end in ends:
            out = expected.copy()
            out[end - 1, 0] *= 1.5
            self.assertGreater(reference.error_of_parts(case, out, expected), 0.05, end)
        self.assertEqual(reference.error_of_parts(case, expected[:-1], expected), float("inf"))

    def test_gradients_of_a_training_step_are_what_differences_of_the_formula_say(self):
        case = cases.Case("multi_head_training", "small", "f32", "flops", 0, 0, 0,
                          {"batch": 2, "length": 3, "hidden": 4, "heads": 2})
        given, step = inputs.make(case), 2.0**-10
        parts = inputs.training_parts(case)
        firsts = dict(zip(parts, np.cumsum([0, *parts.values()])))

        def loss(changed):
            out = reference.multi_head_training(case, given | changed)[: parts["out"]]
            return (out.reshape(given["grad_out"].shape) * given["grad_out"]).sum()

        gradients = reference.multi_head_training(case, given)
        for name in list(parts)[1:]:
            for at in np.ndindex(given[name].shape):
                up, down = (given[name].astype(np.float64) for _ in range(2))
                up[at] += step
                down[at] -= step
                expected = (loss({name: up}) - loss({name: down})) / (2 * step)
                row, column = divmod(int(np.ravel_multi_index(at, given[name].shape)), case.hidden)
                self.assertAlmostEqual(gradients[firsts[name] + row, column], expected, 4, (name, at))

    def test_rounding_goes_to_the_nearest_number_and_to_even(self):
        ones = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-9], np.float32)
        expected = np.array([1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -1.0], np.float32)
        np.testing.assert_array_equal(inputs.round_to(ones, "bf16"), expected)
        np.testing.assert_array_equal(inputs.as_float(inputs.stored_as(expected, "bf16")), expected)

    def test_masks_are_what_their_words_say(self):
        case = cases.Case("sdpa", "mask", "f32", "flops", 0, 0, 0, {
            "batch": 2, "query_len": 3, "key_len": 5, "valid_lens": [5, 3], "causal": True, "window_left": 1, "prefix": 0})
        allowed = inputs.allowed_keys(case)
        for b, length in enumerate((5, 3)):
            for i in range(3):
                for j in range(5):
                    position = i + 2
                    self.assertEqual(allowed[b, 0, i, j], position - 1 <= j <= position and j < length, (b, i, j))

    def test_each_process_has_the_same_inputs_and_each_case_its_own(self):
        case = listed()["sdpa/f32/small"]
        first, second = inputs.make(case), inputs.make(case)
        np.testing.assert_array_equal(first["key"], second["key"])
        self.assertFalse(np.array_equal(first["key"], first["value"]))
        self.assertEqual(first["key"].ctypes.data % 64, 0)


class Layouts(unittest.TestCase):
    def test_structs_are_laid_out_as_in_c(self):
        structs = fovea_abi.structs(fovea_abi.read_headers(HEADERS))
        described = json.loads(pathlib.Path(INTERFACE).read_text(encoding="utf-8"))["structs"]
        self.assertLessEqual({struct["name"] for struct in described}, set(structs))
        for struct in described:
            made = structs[struct["name"]]
            self.assertEqual(ctypes.sizeof(made), struct["size"], struct["name"])
            self.assertEqual([(name, getattr(made, name).offset) for name, _ in made._fields_],
                             [(member["name"], member["offset"]) for member in struct["members"]], struct["name"])

    def test_what_is_not_understood_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not understood"):
            fovea_abi.structs("typedef struct a { int32_t bits : 3; } a;")
        with self.assertRaisesRegex(ValueError, "unknown type other"):
            fovea_abi.structs("typedef struct a { other member; } a;")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
