#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program smollm2 and OpenVINO in turns, on the same numbers: tokens per second, and their ratio to OpenVINO's.

    peers.py PROGRAM MODEL GGUF [ROUNDS]

OpenVINO GenAI (package openvino-genai) opens the model's GGUF as it is. Each keeps its process, is asked case by case in turns and
uses all processors; shown are medians of the rounds (5).
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

CASES = ["prompt 1 512", "decode 1 512", "decode 8 512", "decode 1 4096"]
STEPS = 32


def tokens(sequences, depth):
    return [[(1000 + 37 * at + 5 * n * at) % 49152 for at in range(depth)] for n in range(sequences)]


def best(times, run):
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return min(taken)


class OpenVino:
    def __init__(self, path):
        import openvino_genai

        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_batched_tokens = 2, 512  # GB; tokens of a step
        scheduler.enable_prefix_caching = False  # each prompt is to be read
        self.pipeline = openvino_genai.LLMPipeline(path, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=os.cpu_count())

    def generate(self, sequences, depth, count):
        import numpy
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        ids = numpy.array(tokens(sequences, depth), dtype=numpy.int64)
        self.pipeline.generate(openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids))), config)

    def seconds(self, what, sequences, depth):
        times = 3 if sequences * depth <= 512 else 2
        prompts = best(times, lambda: self.generate(sequences, depth, 1))
        if what == "prompt":
            return prompts
        return (best(times, lambda: self.generate(sequences, depth, 1 + STEPS)) - prompts) / STEPS


def serve(gguf):
    """Answers cases as `smollm2 MODEL measure` does, with the rate alone."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries say is no answer
    peer = OpenVino(gguf)
    for line in sys.stdin:
        what, sequences, depth = line.split()
        seconds = peer.seconds(what, int(sequences), int(depth))
        count = int(depth) if what == "prompt" else int(sequences)
        os.write(answers, f"{count / seconds:.1f}\n".encode())


class Engine:
    def __init__(self, name, command):
        self.name = name
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def rate(self, case):
        print(case, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            sys.exit(f"{self.name} has ended: {self.said.read()[-1000:]}")
        return float(line.split()[0])


def main(program, model, gguf, rounds=5):
    running = [
        Engine("OpenVINO", [sys.executable, __file__, "--serve", gguf]),
        Engine("fovea, bf16", [program, model, "measure"]),
        Engine("fovea, 8 bits", [program, "--weights", "i8", model, "measure"]),
        Engine("fovea, 8 bits, cache too", [program, "--weights", "i8", "--cache", "i8", model, "measure"]),
    ]
    for case in CASES:
        taken = [[] for _ in running]
        for _ in range(int(rounds)):
            for engine, rates in zip(running, taken):
                rates.append(engine.rate(case))
        medians = [statistics.median(rates) for rates in taken]
        print(f"\n{case}")
        for engine, rate in zip(running, medians):
            print(f"  {engine.name:26} {rate:8.1f} tokens/s {rate / medians[0]:6.2f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--serve":
        serve(sys.argv[2])
    elif len(sys.argv) in (4, 5):
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)
