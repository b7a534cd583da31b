"""fovea.torch runs on PyTorch's own threads: as many as it says, no further ones, and its own again in a forked process."""
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import fovea  # noqa: E402
import fovea.torch  # noqa: E402
from fovea.torch import threads  # noqa: E402

needs_team = pytest.mark.skipif(threads._address == 0, reason="PyTorch has no OpenMP runtime here whose teams fovea could join")


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def given(length=384):
    torch.manual_seed(3)
    return [torch.randn(2, 4, length, 64) for _ in range(3)]


def attended(query, key, value):
    """The result, and gradients."""
    query = query.clone().requires_grad_()
    out = fovea.torch.attention(query, key, value, is_causal=True)
    return out.detach(), torch.autograd.grad(out.sum(), query)[0]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_as_many_threads_as_pytorch_says(count):
    torch.set_num_threads(count)
    assert threads.context().threads == count
    assert threads.context() is threads.context()
    wanted = fovea.attention(*given(), is_causal=True)
    out, gradient = attended(*given())
    assert torch.equal(out, wanted)
    torch.set_num_threads(2)
    assert torch.equal(gradient, attended(*given())[1])


def test_from_many_threads_at_once():
    arrays = given()
    wanted = attended(*arrays)[0]
    found = []
    callers = [threading.Thread(target=lambda: found.append(attended(*arrays)[0])) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 6 and all(torch.equal(one, wanted) for one in found)


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_team
def test_no_thread_beside_pytorchs():
    before, after = run("""
import os, torch, fovea.torch
torch.set_num_threads(4)
x = torch.randn(512, 512)
(x @ x).exp_().sum()
torch.randn(1000000).exp_()
q = torch.randn(4, 8, 512, 64)
print(len(os.listdir("/proc/self/task")))
fovea.torch.scaled_dot_product_attention(q, q, q)
fovea.torch.attention(q.requires_grad_(), q, q).sum().backward()
print(len(os.listdir("/proc/self/task")))
""")
    assert before == after


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_does_not_wait_for_its_parents_team():
    assert run("""
import os, torch, fovea.torch
q = torch.randn(2, 4, 512, 64)
wanted = fovea.torch.scaled_dot_product_attention(q, q, q)
read, write = os.pipe()
if os.fork() == 0:
    same = bytes(fovea.torch.scaled_dot_product_attention(q, q, q).numpy()) == bytes(wanted.numpy())
    os.write(write, b"same" if same else b"other")
    os._exit(0)
print(os.read(read, 5).decode())
os.wait()
""") == ["same"]


def test_a_context_of_a_team_is_made_anew_where_it_is_loaded():
    import pickle
    torch.set_num_threads(2)
    assert pickle.loads(pickle.dumps(threads.context())).threads == 2


def test_what_is_no_team_is_refused():
    for parallel, count in ((0, 2), (-1, 0), (1, -1)):
        with pytest.raises((ValueError, OverflowError)):
            fovea._fovea.team_context(parallel, count)
