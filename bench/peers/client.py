"""The driver's side of a worker: sends requests to its process as lines of JSON and reads its answers.

Requests: {"do": "describe" | "ways" | "prepare" | "time" | "free", ...}; what each takes and answers is told in
worker.py. An answer with "reason" says why something could not be done. Standard library only.
"""
import json
import os
import pathlib
import select
import signal
import subprocess
import time


class WorkerGone(Exception):
    """The process ended, or did not answer in time."""


class Client:
    def __init__(self, command, environment, log_path):
        self._log = open(log_path, "w", encoding="utf-8")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
                                         env=environment, start_new_session=True)
        self._pending = b""

    def ask(self, do, timeout=600, **fields):
        request = json.dumps({"do": do, **fields}) + "\n"
        try:
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerGone(self._last_words()) from error
        return json.loads(self._read_line(time.monotonic() + timeout))

    def _read_line(self, deadline):
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise WorkerGone("no answer in time")
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise WorkerGone(self._last_words())
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def _last_words(self):
        code = self._process.wait()
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = [line for line in pathlib.Path(self._log.name).read_text(errors="replace").splitlines() if line.strip()]
        return f"the process ended ({ended})" + (f": {lines[-1][:200]}" if lines else "")

    def is_asleep(self):
        """Whether none of its threads runs."""
        for status in pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/stat"):
            try:
                if status.read_text().rsplit(")", 1)[1].split()[0] == "R":
                    return False
            except OSError:  # a thread that has ended
                pass
        return True

    def close(self):
        """Ends the process and what it started."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()
