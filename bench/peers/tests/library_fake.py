"""A library that moves a clock instead of computing. Its case's model says how it behaves; what it writes is the error."""
import os
import threading

from worker import Unsupported

class Clock:
    def __init__(self, factor):
        self.seconds, self._factor = 0.0, factor

    def taking(self, milliseconds):
        """A way whose runs take so long."""
        def run():
            self.seconds += milliseconds * 1e-3 * self._factor

        return lambda: run

    def __call__(self):
        return self.seconds


def failing():
    raise ValueError("no such\noperator")


def spinning():
    """A way whose thread spins until there is a file named FAKE_SPINS_UNTIL."""
    def spin():
        while not os.path.exists(os.environ["FAKE_SPINS_UNTIL"]):
            for _ in range(10000):
                pass

    return lambda: threading.Thread(target=spin).start()


class Fake:
    version, types = "1.0", ["f32"]
    untried = {"bf16": "has none"}

    def __init__(self, name, errors, ways, clock):
        self.name, self._errors, self._ways, self.clock = name, errors, ways, clock

    def ways(self, case):
        if case.model == "unsupported":
            raise Unsupported("cannot")
        if case.dtype not in self.types:
            raise Unsupported(f"no {case.dtype}")
        if case.model == "crash" and self.name != "fovea":
            return {"crash": lambda: os._exit(3)}
        names = {"spins": ["spins"], "all_wrong": ["wrong"]}.get(case.model) if self.name != "fovea" else None
        self._made = []
        return {name: self._maker(name) for name in names or self._ways}

    def _maker(self, name):
        def make():
            self._made.append(name)
            return self._ways[name]()

        return make

    def write(self, result, case, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._errors.get(self._made[-1], "1e-6"))

    def free(self):
        pass


FACTORS = {"TWICE=AS_FAST": 0.5, "TWICE=AS_SLOW": 2}


def make(name, variant=None):
    if name == "absent":
        raise ImportError("No module named absent")
    clock = Clock(FACTORS.get(variant, 1))
    if name == "fovea":
        return Fake(name, {}, {"default": clock.taking(2)}, clock)
    print("chatter that must not reach the driver")
    ways = {"slow": clock.taking(20), "wrong": clock.taking(1), "fails": failing, "fast": clock.taking(6)}
    if name == "spinner":
        ways["spins"] = spinning
    return Fake(name, {"wrong": "0.5"}, ways, clock)
