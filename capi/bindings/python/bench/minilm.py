#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real sentence encoder of transformers, all-MiniLM-L6-v2, with PyTorch's own attention, with fovea's, and with fovea's and
packed linear layers, in turns.

    PYTHONPATH=build/release/capi/bindings/python python minilm.py [--type f32|f16|bf16] build/minilm/model

`./dev example minilm` fetches the model; "random" in the folder's place takes random weights, as quick as any. Needs
PyTorch, transformers and safetensors. Prints the best runs, which others on the machine disturb least, and the median of the
rounds' ratios; of 16 bits also the smallest cosine of a sentence's mean to that of PyTorch in float32. taskset -c 0 gives all
one thread.
"""
import argparse
import copy
import json
import pathlib
import statistics
import sys
import time

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

import fovea.torch

ROUNDS, SECONDS = 11, 0.1
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CASES = [(1, 16), (1, 128), (1, 512), (8, 32), (8, 128)]


# The model's config.json, as far as speed goes.
SIZES = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}


def load(folder):
    if str(folder) == "random":
        return BertModel(BertConfig(**SIZES), add_pooling_layer=True).eval()
    config = json.loads((folder / "config.json").read_text())
    model = BertModel(BertConfig(**config), add_pooling_layer=True)
    weights = {name.removeprefix("bert."): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    missing, _ = model.load_state_dict(weights, strict=False)
    if any("encoder" in name for name in missing):
        sys.exit(f"{folder} is not the model: it lacks {missing[0]}")
    return model.eval()


def timed(run):
    """Seconds of a run, the best of as many as fit into a moment: others may share the machine. Of one thread it is the
    processor's time, which does not pass while others run."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    taken, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(taken) < 3:
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def smallest_cosine(one, other, mask):
    """Of the means over each sentence's tokens."""
    means = [(x.float() * mask[..., None]).sum(1) for x in (one, other)]
    return torch.nn.functional.cosine_similarity(*means, dim=-1).min().item()


def main(folder, dtype):
    if not torch.cuda.is_available():
        torch.cuda.is_current_stream_capturing = lambda: False
    torch.manual_seed(1)
    fovea.torch.register_with_transformers()
    exact = load(pathlib.Path(folder))
    model = copy.deepcopy(exact).to(dtype)
    packed = fovea.torch.pack_linear_layers(copy.deepcopy(model))
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; fovea {fovea.__version__} ({fovea.isa_name()}), {dtype}")
    for batch, length in CASES:
        tokens = torch.randint(1000, 20000, (batch, length))
        mask = torch.ones_like(tokens)
        for entry in range(1, batch):  # sentences of different length, padded to one
            mask[entry, length - length * entry // (2 * batch):] = 0
        times, outputs = {"sdpa": [], "fovea": [], "packed": []}, {}
        with torch.inference_mode():
            for _ in range(ROUNDS):
                for name, taken in times.items():
                    which = packed if name == "packed" else model
                    which.set_attn_implementation("sdpa" if name == "sdpa" else "fovea")
                    outputs[name] = which(tokens, attention_mask=mask)[0]
                    taken.append(timed(lambda: which(tokens, attention_mask=mask)))
            exact_output = exact(tokens, attention_mask=mask)[0]
        error = max(((outputs["sdpa"] - one) * mask[..., None]).abs().max().item() for one in outputs.values())
        theirs = min(times["sdpa"]) * 1e3
        said = []
        for name, words in (("fovea", "fovea's attention"), ("packed", "and packed linear layers")):
            ratios = sorted(a / b for a, b in zip(times["sdpa"], times[name]))
            said.append(f"{words} {min(times[name]) * 1e3:.2f} ms, {theirs / (min(times[name]) * 1e3):.2f} times as fast (rounds "
                        f"{ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f})")
        # What fovea takes the place of, alone, as the model calls it.
        query, key, value = (torch.randn(batch, length, 12, 32, dtype=dtype).transpose(1, 2) for _ in range(3))
        allowed = mask.bool()[:, None, None, :].expand(-1, -1, length, -1) if batch > 1 else None
        alone = [min(timed(lambda: function(query, key, value, allowed)) for _ in range(3)) * 1e3 for function in (
            torch.nn.functional.scaled_dot_product_attention, fovea.torch.scaled_dot_product_attention)]
        print(f"batch {batch}, {length:3} tokens: PyTorch {theirs:8.2f} ms, {', '.join(said)}, largest difference {error:.1e},"
              f" smallest cosine to float32 {smallest_cosine(outputs['packed'], exact_output, mask):.6f};"
              f" a layer's attention alone {alone[0]:.3f} and {alone[1]:.3f} ms", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("model")
    given = parser.parse_args()
    main(given.model, TYPES[given.type])
