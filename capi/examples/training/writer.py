# SPDX-License-Identifier: Apache-2.0
"""A small GPT (Radford et al. 2018) over characters, and its trainer.

    writer.py fovea|PyTorch float32|bfloat16 STEPS        serves gpt.py

Layers are normalised before attention and before what follows it; positions are learned.
"""
import pathlib
import sys

import torch
import turns
from torch import nn
from torch.nn import functional as F

import fovea.torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAYERS, HEADS, WIDTH, CONTEXT, BATCH, LEARNING_RATE = 2, 4, 128, 256, 8, 3e-3
TEMPERATURE = 0.7
ATTENTION = {"fovea": fovea.torch.scaled_dot_product_attention, "PyTorch": F.scaled_dot_product_attention}


def documents():
    """The project's own: the first nine tenths of each to train on, and the last."""
    files = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("include/fovea/*.h"))]
    texts = [file.read_text(encoding="utf-8") for file in files]
    ends = [len(text) * 9 // 10 for text in texts]
    return ("".join(text[:end] for text, end in zip(texts, ends)), "".join(text[end:] for text, end in zip(texts, ends)))


def in_bfloat16(wanted=True):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=wanted)


class Layer(nn.Module):
    def __init__(self, attention, bfloat16):
        super().__init__()
        self.attention, self.bfloat16 = attention, bfloat16
        self.before_attention, self.before_units = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.units = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        projected = self.project(self.before_attention(x)).unflatten(-1, (3 * HEADS, WIDTH // HEADS))
        query, key, value = projected.transpose(1, 2).chunk(3, 1)
        with in_bfloat16(self.bfloat16 or torch.is_autocast_enabled("cpu")):
            found = self.attention(query, key, value, is_causal=True)
        x = x + self.merge(found.transpose(1, 2).flatten(2).to(x.dtype))
        return x + self.units(self.before_units(x))


class GPT(nn.Module):
    """With bfloat16: its attention is computed in that; the rest, where autocast says so."""

    def __init__(self, characters, attention, bfloat16):
        super().__init__()
        self.embed, self.positions = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.Sequential(*(Layer(attention, bfloat16) for _ in range(LAYERS)))
        self.last = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, characters)

    def forward(self, numbers):
        """Logits [B, L, characters] of what follows each of numbers [B, L]."""
        x = self.embed(numbers) + self.positions.weight[:numbers.shape[1]]
        return self.output(self.last(self.layers(x)))


class WritingTrainer:
    def __init__(self, attention, dtype, steps):
        training, held_out = documents()
        self.characters = sorted(set(training + held_out))
        self.training, self.held_out = self.numbers(training), self.numbers(held_out)
        bfloat16 = dtype == "bfloat16"
        self.autocast = bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        torch.manual_seed(0)
        self.model = GPT(len(self.characters), ATTENTION[attention], bfloat16)
        self.order = torch.Generator().manual_seed(1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.2)

    def numbers(self, text):
        known = {character: number for number, character in enumerate(self.characters)}
        return torch.tensor([known[character] for character in text])

    def loss(self, numbers, begins):
        """Of the windows that begin there."""
        windows = numbers[begins[:, None] + torch.arange(CONTEXT + 1)]
        with in_bfloat16(self.autocast):
            logits = self.model(windows[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())

    def step(self):
        loss = self.loss(self.training, torch.randint(len(self.training) - CONTEXT, (BATCH,), generator=self.order))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss.item(), BATCH * CONTEXT

    def train(self, steps):
        """Loss, tokens and seconds of each step."""
        return [turns.timed(self.step) for _ in range(steps)]

    @torch.no_grad()
    def held_out_loss(self, batches):
        begins = torch.linspace(0, len(self.held_out) - CONTEXT - 1, batches * BATCH).long()
        return sum(self.loss(self.held_out, some).item() for some in begins.split(BATCH)) / batches

    @torch.no_grad()
    def sample(self, begin, length):
        """`begin` and what the model writes after it."""
        numbers, draw = self.numbers(begin).tolist(), torch.Generator().manual_seed(2)
        for _ in range(length):
            logits = self.model(torch.tensor([numbers[-CONTEXT:]]))[0, -1].float()
            numbers += torch.multinomial((logits / TEMPERATURE).softmax(-1), 1, generator=draw).tolist()
        return "".join(self.characters[number] for number in numbers)

    def attention_seconds(self, rounds):
        """What one layer's attention of a batch takes, there and back, by itself."""
        layer = self.model.layers[0]
        rows = torch.randn(3, BATCH, HEADS, CONTEXT, WIDTH // HEADS, dtype=torch.bfloat16 if layer.bfloat16 else torch.float32)
        query, key, value = rows.requires_grad_()

        def attend():
            layer.attention(query, key, value, is_causal=True).sum().backward()
            return ()

        return [turns.timed(attend)[0] for _ in range(rounds)]

    def autocasts(self):
        """Whether more than attention is in bfloat16, which this processor then multiplies."""
        return self.autocast

    def memory(self):
        return turns.peak_memory()


if __name__ == "__main__":
    turns.serve(WritingTrainer(sys.argv[1], sys.argv[2], int(sys.argv[3])))
