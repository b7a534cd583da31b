# SPDX-License-Identifier: Apache-2.0
"""A model that turns written dates into ISO dates, with the attention of Bahdanau, Cho and Bengio (2015), and its trainer.

    translator.py fovea|PyTorch STEPS        serves translation.py

The encoder is two GRUs over the characters, one from either end. The decoder's lower GRU reads the ISO date so far, its
states are the queries, and the upper GRU reads what attention found (as in Wu et al. 2016, section 3): so one call of
attention serves all queries of a batch in training, [B, Q, ...].
"""
import sys

import dates
import torch
import turns
from torch import nn

from fovea.torch import AdditiveAttention

STATE, HIDDENS, EMBEDDING, BATCH, LEARNING_RATE = 64, 256, 32, 64, 1e-2
PADDING = END = 0  # of what is written; of what is translated, which begins with it too


class EagerAttention(AdditiveAttention):
    """The same in PyTorch's operations, as textbooks write it, with a tensor [B, Q, K, h] of hidden units."""

    def forward(self, queries, keys, values, valid_lens):
        units = torch.tanh(self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None])
        scores = self.w_v(units).squeeze(-1)
        behind = torch.arange(keys.shape[1]) >= valid_lens[:, None]
        self.attention_weights = scores.masked_fill(behind[:, None], -torch.inf).softmax(-1)
        return self.attention_weights @ values


ATTENTION = {"fovea": AdditiveAttention, "PyTorch": EagerAttention}


class Translator(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embed_written = nn.Embedding(1 + len(dates.CHARACTERS), EMBEDDING)
        self.embed_iso = nn.Embedding(1 + len(dates.ISO_CHARACTERS), EMBEDDING)
        self.forwards = nn.GRU(EMBEDDING, STATE, batch_first=True)
        self.backwards = nn.GRU(EMBEDDING, STATE, batch_first=True)
        self.summary = nn.Linear(2 * STATE, STATE)
        self.lower = nn.GRU(EMBEDDING, STATE, batch_first=True)
        self.attention = attention(HIDDENS, query_size=STATE, key_size=2 * STATE)
        self.upper = nn.GRU(3 * STATE, STATE, batch_first=True)
        self.output = nn.Linear(STATE, 1 + len(dates.ISO_CHARACTERS))

    def encode(self, written, valid_lens):
        """Keys [B, K, 2 states], which are the values too, and the decoder's first states."""
        rows, embedded = torch.arange(len(written))[:, None], self.embed_written(written)
        mirrored = (valid_lens[:, None] - 1 - torch.arange(written.shape[1])) % written.shape[1]  # padding stays behind
        forwards, _ = self.forwards(embedded)
        backwards = self.backwards(embedded[rows, mirrored])[0][rows, mirrored]
        keys = torch.cat([forwards, backwards], -1)
        ends = torch.cat([forwards[rows[:, 0], valid_lens - 1], backwards[:, 0]], -1)
        state = torch.tanh(self.summary(ends))[None]
        return keys, (state, state)

    def decode(self, iso, keys, valid_lens, states):
        """Logits [B, Q, characters] of what follows each character of iso [B, Q], and the states after the last."""
        queries, lower = self.lower(self.embed_iso(iso), states[0])
        found = self.attention(queries, keys, keys, valid_lens)
        read, upper = self.upper(torch.cat([queries, found], -1), states[1])
        return self.output(read), (lower, upper)

    def forward(self, written, valid_lens, iso):
        keys, states = self.encode(written, valid_lens)
        return self.decode(iso, keys, valid_lens, states)[0]

    @torch.no_grad()
    def translate(self, written, valid_lens):
        """The likeliest character at each place, [B, Q], and the weights by which it was found, [B, Q, K]."""
        keys, states = self.encode(written, valid_lens)
        chosen, weights = [torch.full((len(written), 1), END)], []
        self.attention.keep_weights = True
        for _ in range(dates.ISO_LENGTH):
            logits, states = self.decode(chosen[-1], keys, valid_lens, states)
            chosen.append(logits.argmax(-1))
            weights.append(self.attention.attention_weights)
        self.attention.keep_weights = False
        return torch.cat(chosen[1:], 1), torch.cat(weights, 1)


def encoded(pairs):
    """Tensors written [n, K], valid_lens [n] and iso [n, 1 + Q + 1], which begins and ends with END."""
    valid_lens = torch.tensor([len(written) for written, _ in pairs])
    written = torch.full((len(pairs), int(valid_lens.max())), PADDING)
    for row, (text, _) in zip(written, pairs):
        row[:len(text)] = torch.tensor([1 + dates.CHARACTERS.index(c) for c in text])
    iso = torch.tensor([[END, *(1 + dates.ISO_CHARACTERS.index(c) for c in text), END] for _, text in pairs])
    return written, valid_lens, iso


def text_of(numbers):
    return "".join("" if n == END else dates.ISO_CHARACTERS[n - 1] for n in numbers)


class TranslationTrainer:
    def __init__(self, attention, steps):
        training, self.held_out = dates.pairs(dates.TRAINING, dates.HELD_OUT)
        self.pairs = encoded(training)
        torch.manual_seed(0)
        self.model = Translator(ATTENTION[attention])
        self.order = torch.Generator().manual_seed(1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.2)
        self.memory_before = turns.peak_memory()

    def step(self):
        chosen = torch.randint(dates.TRAINING, (BATCH,), generator=self.order)
        written, valid_lens, iso = (x[chosen] for x in self.pairs)
        logits = self.model(written[:, :valid_lens.max()], valid_lens, iso[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), iso[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss.item(), int(valid_lens.sum()) + iso[:, 1:].numel()

    def train(self, steps):
        """Loss, tokens and seconds of each step."""
        return [turns.timed(self.step) for _ in range(steps)]

    def accuracy(self, count):
        """The share of held-out dates, of the first so many, of which every character is right."""
        right = 0
        for first in range(0, count, BATCH):
            some = self.held_out[first:min(first + BATCH, count)]
            written, valid_lens, _ = encoded(some)
            chosen, _ = self.model.translate(written, valid_lens)
            right += sum(text_of(row) == iso for row, (_, iso) in zip(chosen.tolist(), some))
        return right / count

    def alignment(self, written):
        """The translation and its weights, [Q, K]."""
        chosen, weights = self.model.translate(*encoded([(written, "")])[:2])
        return text_of(chosen[0].tolist()), weights[0].tolist()

    def attention_seconds(self, rounds):
        """What the attention of one batch takes, forwards and backwards, by itself."""
        written, valid_lens, iso = (x[:BATCH] for x in self.pairs)
        queries = torch.randn(BATCH, iso.shape[1] - 1, STATE, requires_grad=True)
        keys = torch.randn(BATCH, int(valid_lens.max()), 2 * STATE, requires_grad=True)

        def attend():
            self.model.attention(queries, keys, keys, valid_lens).sum().backward()
            return ()

        return [turns.timed(attend)[0] for _ in range(rounds)]

    def memory(self):
        """MB before the first step, and at the peak."""
        return self.memory_before, turns.peak_memory()


if __name__ == "__main__":
    turns.serve(TranslationTrainer(sys.argv[1], int(sys.argv[2])))
