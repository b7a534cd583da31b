"""A running fovea_bench --serve, as bench/harness/serve.hpp describes it."""
import os
import random
import select
import subprocess
import time

BANNER = "fovea_bench serves 1"
ANSWER_SECONDS = 600


class Refused(Exception):
    """The program answered with an error, and goes on."""


class Broken(Exception):
    """The program ended, says nothing, or speaks another language."""


class Server:
    def __init__(self, command, answer_seconds=ANSWER_SECONDS):
        # An environment of random length moves the stack; what else the system chooses, it chooses for each process.
        environment = dict(os.environ, FOVEA_BENCH_PADDING="x" * random.randrange(4096))
        self.answer_seconds = answer_seconds
        self.received = b""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment)
        try:
            self.banner = " ".join(self.read_answer())
            if self.banner != BANNER:
                raise Broken(f"{command[0]} says '{self.banner}' where '{BANNER}' is expected")
        except (Refused, Broken):
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except OSError:  # what was left to be written to a program that has ended
                pass

    def ask(self, line):
        """The words of the answer."""
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Broken(self.last_words()) from error
        return self.read_answer()

    def read_answer(self):
        line = self.read_line()
        state, _, rest = line.partition(" ")
        if state == "error":
            raise Refused(rest)
        if state != "ok":
            raise Broken(f"answered '{line}'")
        return rest.split()

    def read_line(self):
        deadline = time.monotonic() + self.answer_seconds
        while b"\n" not in self.received:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Broken(f"no answer within {self.answer_seconds} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Broken(self.last_words())
            self.received += piece
        line, _, self.received = self.received.partition(b"\n")
        return line.decode(errors="replace")

    def last_words(self):
        self.process.stdin.close()
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        status = self.process.wait()
        return f"ended with status {status}" + (f": {said[-1]}" if said else "")

    def numbers(self, request):
        """The answer as numbers above 0."""
        words = self.ask(request)
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            numbers = []
        if not numbers or not all(number > 0 for number in numbers):
            raise Broken(f"answered '{' '.join(words)}' where numbers above 0 are expected")
        return numbers
