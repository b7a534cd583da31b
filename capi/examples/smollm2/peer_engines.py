#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other engines with the model of the example smollm2, each behind the protocol of `smollm2 MODEL measure`.

    peer_engines.py GGUF openvino | llama WEIGHTS CACHE

OpenVINO GenAI opens the GGUF as it is; so does llama.cpp where WEIGHTS is "as it is", else it first makes a GGUF of such weights
beside it, once. A line `prompt 1 LENGTH` or `decode SEQUENCES DEPTH` is answered by tokens per second: the best of as many
repetitions as the program smollm2 does, of as many steps, on the same tokens.
"""
import os
import pathlib
import sys
import time

PROMPTS, DECODES, STEPS = 4, 3, 32
CHUNK = 512  # tokens of a prompt that are read at once
LLAMA_CACHES = {"f16": 1, "q8_0": 8}  # as ggml numbers them


def processors():
    return len(os.sched_getaffinity(0))


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
    def __init__(self, gguf):
        import openvino_genai

        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_batched_tokens = 2, CHUNK  # GB; tokens of a step
        scheduler.enable_prefix_caching = False  # each prompt is to be read
        threads = {"INFERENCE_NUM_THREADS": processors()}
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(str(gguf), scheduler, "CPU", threads)

    def open(self, prompts, count):
        """Handles, without which the requests would end at once."""
        import numpy
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
        ids = [openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)) for prompt in prompts]
        return [self.pipeline.add_request(n, one, config) for n, one in enumerate(ids)]

    def finish(self):
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()

    def prompt(self, prompt):
        def read():
            handles = self.open([prompt], 1)
            self.finish()
            if not handles[0].can_read():
                raise RuntimeError("OpenVINO has read no prompt")

        return best(PROMPTS, read)

    def decode(self, prompts):
        # The first sequences decode while the last are being read, a token for each prompt's chunk or less.
        most = len(prompts) * (2 + len(prompts[0]) // CHUNK) + DECODES * STEPS
        handles = self.open(prompts, most)
        while not all(handle.can_read() for handle in handles):
            self.pipeline.step()
        seconds = best(DECODES, lambda: [self.pipeline.step() for _ in range(STEPS)])
        for handle in handles:
            handle.cancel()
        self.finish()
        return seconds / STEPS


class LlamaCpp:
    def __init__(self, gguf, weights, cache):
        import llama_cpp

        self.api, self.cache, self.context, self.open_prompts = llama_cpp, LLAMA_CACHES[cache], None, None
        path = gguf if weights == "as it is" else self.requantized(gguf, weights)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp could not read {path}")
        self.batch = llama_cpp.llama_batch_init(CHUNK, 0, 1)

    def requantized(self, gguf, weights):
        path = gguf.with_name(f"{gguf.stem}-{weights}.gguf")
        if not path.exists():
            params = self.api.llama_model_quantize_default_params()
            params.allow_requantize = True
            params.ftype = getattr(self.api, f"LLAMA_FTYPE_MOSTLY_{weights.upper()}")
            partial = path.with_suffix(".part")
            if self.api.llama_model_quantize(str(gguf).encode(), str(partial).encode(), params) != 0:
                raise RuntimeError(f"llama.cpp could not write {path}")
            partial.rename(path)
        return path

    def make_context(self, sequences, positions):
        """A cache as large as is needed, its sequences apart (eight at 512: 119 tokens/s, 87 where they lie in one)."""
        if self.context:
            self.api.llama_free(self.context)
        params = self.api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = sequences * (positions + -positions % 256), CHUNK, CHUNK
        params.n_seq_max, params.kv_unified = sequences, False
        params.n_threads = params.n_threads_batch = processors()
        params.flash_attn_type = self.api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.type_k = params.type_v = self.cache
        self.context = self.api.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp could not make a context")
        self.memory = self.api.llama_get_memory(self.context)

    def step(self, entries):
        """entries: token, position, sequence, whether its logits are wanted."""
        batch = self.batch
        batch.n_tokens = len(entries)
        for n, (token, position, sequence, wanted) in enumerate(entries):
            batch.token[n], batch.pos[n], batch.logits[n] = token, position, wanted
            batch.n_seq_id[n], batch.seq_id[n][0] = 1, sequence
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self.api.llama_synchronize(self.context)

    def read(self, prompts):
        self.api.llama_memory_clear(self.memory, False)
        for sequence, prompt in enumerate(prompts):
            for begin in range(0, len(prompt), CHUNK):
                places = range(begin, min(begin + CHUNK, len(prompt)))
                self.step([(prompt[at], at, sequence, at == len(prompt) - 1) for at in places])

    def prompt(self, prompt):
        self.open_prompts = None
        self.make_context(1, len(prompt))
        return best(PROMPTS, lambda: self.read([prompt]))

    def decode(self, prompts):
        """Asked for the same again, it goes back to the prompts' ends."""
        depth = len(prompts[0])
        if self.open_prompts != prompts:
            self.make_context(len(prompts), depth + DECODES * STEPS)
            self.read(prompts)
            self.open_prompts = prompts
        else:
            for sequence in range(len(prompts)):
                self.api.llama_memory_seq_rm(self.memory, sequence, depth, -1)
        at = iter(range(depth, depth + DECODES * STEPS))

        def steps():
            for _ in range(STEPS):
                position = next(at)
                self.step([(1000, position, sequence, True) for sequence in range(len(prompts))])

        return best(DECODES, steps) / STEPS


def main(gguf, engine, *settings):
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries say is no answer
    peer = {"openvino": OpenVino, "llama": LlamaCpp}[engine](pathlib.Path(gguf), *settings)
    for line in sys.stdin:
        what, sequences, depth = line.split()
        prompts = tokens(int(sequences), int(depth))
        seconds = peer.prompt(prompts[0]) if what == "prompt" else peer.decode(prompts)
        count = int(depth) if what == "prompt" else int(sequences)
        os.write(answers, f"{count / seconds:.1f}\n".encode())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
