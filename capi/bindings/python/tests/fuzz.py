"""Calls of everything in the extension and in the package with objects that are not what they seem.

usage: fuzz.py SECONDS [SEED]

Ends with 1 where an exception says that the extension itself is wrong; a crash says it by itself.
"""
import array
import ctypes
import faulthandler
import gc
import itertools
import random
import resource
import sys
import time
import warnings

import numpy as np
from exporters import IS_DEBUG
from exporters import Uncounted as Exporter

import fovea
from fovea import _fovea

try:
    import torch
except ImportError:
    torch = None

MEMBERS = _fovea.members()
SIZES = [0, 1, 2, 3, 4, 7, 8]
# What is slow by design, or ends the process's own state.
LEFT_OUT = {"set_errors"}


class Fuzz:
    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.alive = []  # what deeds act upon
        self.handles = [fovea.Context(max_threads=2)._handle]

    def shape(self):
        return tuple(self.choose.choice(SIZES) for _ in range(self.choose.choice([0, 1, 2, 2, 3, 4, 4, 5])))

    def array(self):
        """One that is what it seems."""
        made = self.numbers.standard_normal(self.shape()).astype(
            self.choose.choice([np.float32] * 4 + [np.float16, np.int64, np.int32, np.bool_, np.float64, np.complex64, "U3", "V2"])
            if self.choose.random() < 0.5 else np.float32)
        made = made if made.ndim < 2 or self.choose.random() < 0.7 else made.swapaxes(-1, self.choose.randrange(made.ndim))
        kind = self.choose.random()
        if torch is not None and kind < 0.3 and made.dtype.kind in "fib":
            made = torch.from_numpy(made.copy())
            if self.choose.random() < 0.2:
                made = torch._neg_view(made) if made.dtype.is_floating_point else made
        elif kind < 0.4 and made.dtype == np.float32:
            made = (ctypes.c_float * made.size)(*made.ravel())
        elif kind < 0.5 and made.dtype == np.float32:
            made = array.array("f", made.ravel().tolist())
        elif kind < 0.6 and made.dtype.kind in "fi":
            made = memoryview(made)
        self.alive = [*self.alive[-20:], made]
        return made

    def exporter(self):
        shape = self.choose.choice([None, (), (4,), (2, 4), (0,), (-1,), (2**62, 2**62), (2, 2, 2), (1,) * 70])
        strides = None if self.choose.random() < 0.5 else [self.choose.choice([0, 4, -4, 8, 16, 3]) for _ in shape or ()]
        offsets = None if self.choose.random() < 0.7 else [self.choose.choice([-1, 0, 8]) for _ in shape or ()]
        return Exporter(shape, strides, offsets, at=128 if self.choose.random() < 0.95 else None,
                        ndim=None if self.choose.random() < 0.9 else self.choose.choice([-1, 0, 1, 2, 65]),
                        itemsize=self.choose.choice([4] * 6 + [0, 1, 2, -4]), length=self.choose.choice([None] * 6 + [-1, 0, 3, 64]),
                        format=self.choose.choice([b"f"] * 5 + [None, b"", b"<f", b">f", b"i", b"e", b"T{f:x:}", b"\xff\xfe"]),
                        readonly=self.choose.choice([0, 1]), outcome=0 if IS_DEBUG else self.choose.choice([0] * 9 + [-1]))

    def deed(self):
        """Something done to arrays that a call may be looking at."""
        if not self.alive:
            return
        victim = self.choose.choice(self.alive)
        try:
            if isinstance(victim, np.ndarray):
                victim.resize(self.shape(), refcheck=False)
            elif isinstance(victim, ctypes.Array):
                ctypes.resize(victim, max(ctypes.sizeof(victim), self.choose.choice([64, 1 << 16])))
            elif isinstance(victim, array.array):
                victim.extend([1.0] * self.choose.choice([1, 10000]))
            elif isinstance(victim, memoryview):
                victim.release()
            elif isinstance(victim, dict):
                victim.clear()
            elif torch is not None:
                self.choose.choice([lambda: victim.resize_(64, 64), lambda: victim.set_(),
                                    lambda: setattr(victim, "data", victim.new_ones(3))])()
        except (ValueError, BufferError, RuntimeError, TypeError):
            pass

    def liar(self):
        """An object that runs code whenever it is looked at."""
        fuzz, honest = self, self.array()

        def answer(self, *_, **__):
            fuzz.deed()
            what = fuzz.choose.randrange(8)
            if what == 0:
                raise fuzz.choose.choice([ValueError, TypeError, AttributeError, KeyError, MemoryError, StopIteration])("no")
            if what == 1:
                return fuzz.plain()
            if what == 2 and fuzz.choose.random() < 0.5:
                return honest.__array_struct__ if isinstance(honest, np.ndarray) else None
            if hasattr(honest, "__dlpack__"):
                capsule = getattr(self, "capsule", None)
                self.capsule = capsule if capsule is not None and what == 3 else honest.__dlpack__()
                return self.capsule
            return None

        attributes = {name: answer if self.choose.random() < 0.5 else property(answer) for name in (
            "__dlpack__", "__dlpack_device__", "__array_struct__", "__array_interface__", "__dlpack_c_exchange_api__", "shape",
            "dtype", "strides", "stride", "ndim", "devices", "__class__", "new_empty", "is_neg", "resolve_neg", "reshape",
            "__len__", "_handle", "__array__") if self.choose.random() < 0.3}
        attributes |= {name: answer for name in ("__index__", "__float__", "__bool__", "__hash__", "__eq__", "__iter__")
                       if self.choose.random() < 0.3}
        if self.choose.random() < 0.6:
            attributes["__dlpack__"] = answer
        if self.choose.random() < 0.5:
            attributes["shape"] = tuple(np.shape(honest))
        bases = [(), (np.ndarray,), (dict,), (str,), (int,), (float,), (list,), (fovea.Score,), (fovea.Context,), (Exporter,)]
        bases += [(torch.Tensor,)] if torch is not None else []
        base = self.choose.choice(bases) if self.choose.random() < 0.5 else ()
        kind = type("Liar", base, attributes)
        if base == (np.ndarray,):
            return honest.view(kind) if isinstance(honest, np.ndarray) else kind((2, 2), np.float32)
        if torch is not None and base == (torch.Tensor,):
            return torch.ones(2, 3).as_subclass(kind)
        return kind()

    def plain(self):
        return self.choose.choice([
            None, True, 0, 1, -1, 2, 3, 2**31, 2**63, -2**63, 2**64, 10**30, 0.0, 0.5, -1.0, 1e-300, 1e300, float("nan"),
            float("inf"), "", "text", "medium", "average", "relu", "\udcff", "a\0b", b"", b"bytes", bytearray(8), object(), int,
            np.float32(0.5), np.int64(2), np.float64("nan"), np.datetime64("now"), np.bool_(True), np.array(3, np.int64), [], [1],
            [1, 2], [[1.0, 2.0], [3.0]], ["x"], [None], [True, False], (), (1, 2), {}, {1: 2}, {b"x": 1}, {"x": {}}, set(), len,
            fovea.Dot(), fovea.Gaussian(1.0), fovea.Context(max_threads=1), ..., fovea._fovea.exp.__self__, 1j, range(3),
            Exporter, np.ndarray, lambda *_, **__: 3, self.choose.choice(self.handles)])

    def options(self):
        """A dict for some struct, with members of others now and then."""
        members = self.choose.choice(list(MEMBERS.values()))
        made = {}
        for name, kind in members.items():
            if self.choose.random() < 0.7:
                continue
            made[name] = {"tensor": self.array, "output": self.array, "struct": self.options, "handle": self.plain,
                          "number": lambda: self.choose.choice([0, 1, 2, 0.5])}.get(kind, self.plain)()
            if self.choose.random() < 0.1:
                made[name] = self.anything()
        if self.choose.random() < 0.05:
            made[self.plain_key()] = self.anything()
        self.alive = [*self.alive[-20:], made]
        return made

    def plain_key(self):
        return self.choose.choice([b"x", 1, None, (), "colour", "\udcff", "flags"])

    def anything(self):
        return self.choose.choices([self.array, self.exporter, self.liar, self.plain, self.options,
                                    lambda: self.choose.choice(self.handles)], [6, 2, 3, 4, 2, 1])[0]()

    def call_extension(self):
        name = self.choose.choice([n for n in dir(_fovea) if callable(getattr(_fovea, n)) and n not in LEFT_OUT and n[0] != "_"])
        arguments = [self.anything() for _ in range(self.choose.choice([0, 1, 2, 3, 4, 5, 6, 7]))]
        if arguments and self.choose.random() < 0.6:
            arguments[0] = None
        made = getattr(_fovea, name)(*arguments)
        if isinstance(made, _fovea.Handle):
            self.handles = [*self.handles[-20:], made]

    def attend(self):
        """One that may well succeed, with something wrong in one place."""
        query, key = (self.numbers.standard_normal((1, 2, n, 8)).astype(np.float32) for n in (3, 5))
        arguments = [query, key, key.copy()]
        if self.choose.random() < 0.5:
            arguments[self.choose.randrange(3)] = self.anything()
        names = self.choose.sample(fovea.options.names(), self.choose.randrange(4))
        options = {name: self.anything() if self.choose.random() < 0.5 else True for name in names}
        self.alive += arguments
        if self.choose.random() < 0.5:
            return fovea.attention(*arguments, **options)
        run = fovea.plan(*arguments, **options)
        if self.choose.random() < 0.5:
            arguments[self.choose.randrange(3)] = self.anything()
        named = {name: self.anything() for name in names if self.choose.random() < 0.3}
        return run(*arguments, **named) if self.choose.random() < 0.9 else run(*arguments, **{self.plain_key(): 1})

    def serve(self):
        """A few steps of a pool that may well succeed, with something wrong in one place."""
        pool = fovea.KVPool(kv_heads=2, head_dim=8, positions=64, page_size=8, sequences=3)
        schedule = fovea.Schedule(query=(16, 2, 8), pool=pool, is_causal=self.choose.random() < 0.5)
        sequences = [pool.open(), pool.open()]
        for _ in range(4):
            growth = {sequence: self.choose.choice([0, 1, 5]) for sequence in sequences}
            schedule.set(pool.step(growth))
            count = schedule.tokens
            arrays = [self.numbers.standard_normal((count, 2, 8)).astype(np.float32) for _ in range(3)]
            pages = [pool.keys(0), pool.values(0)]
            if self.choose.random() < 0.5:
                arrays[self.choose.randrange(3)] = self.anything()
            if self.choose.random() < 0.2:
                pages[self.choose.randrange(2)] = self.anything()
            self.alive += arrays + pages
            layer = 0 if self.choose.random() < 0.5 else tuple(pages)
            self.choose.choice([lambda: schedule.append(layer, *arrays[1:]), lambda: schedule.run(arrays[0], layer),
                                lambda: schedule.run(arrays[0], layer, out=self.anything()),
                                lambda: schedule.set(**{name: self.anything() for name in ("query_starts", "key_lens", "page_ids")}),
                                lambda: sequences.append(self.choose.choice(sequences).fork()),
                                lambda: self.choose.choice(sequences).truncate(self.choose.choice([0, 1, self.plain()])),
                                lambda: pool.restore(self.plain()), sequences.pop, gc.collect])()

    def call_package(self):
        name = self.choose.choice([n for n in fovea.__all__ if n not in ("show_heatmaps",)])
        function = getattr(fovea, name)
        names = list(getattr(function, "__annotations__", {})) or ["out"]
        arguments = [self.anything() for _ in range(self.choose.choice([0, 1, 1, 2, 3, 4]))]
        named = {self.choose.choice(names): self.anything() for _ in range(self.choose.choice([0, 0, 1, 2]))}
        return function(*arguments, **named)

    def one(self):
        call = self.choose.choices([self.call_extension, self.attend, self.serve, self.call_package, self.deed], [5, 4, 2, 4, 1])[0]
        try:
            call()
        except SystemError as error:
            raise SystemExit(f"{call.__name__}: {error!r}") from error
        except fovea.InternalError as error:
            raise SystemExit(f"{call.__name__}: {error!r}") from error
        except Exception:
            return False
        return True


def main(seconds, seed):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if "asan" not in repr(sys.flags) and not hasattr(ctypes.CDLL(None), "__asan_init"):
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"seed {seed}", flush=True)
    fuzz, end, done = Fuzz(seed), time.monotonic() + seconds, 0
    for count in itertools.count(1):
        done += fuzz.one()
        if time.monotonic() > end:
            break
    x = np.arange(8, dtype=np.float32)
    if not np.allclose(fovea.exp(x), np.exp(x)):
        sys.exit("exp is wrong afterwards")
    print(f"{count} calls, {done} of which succeeded")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32))
