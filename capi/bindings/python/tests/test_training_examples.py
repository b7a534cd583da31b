"""The examples that train, a few steps of each: with fovea's attention and with PyTorch's, from the same weights."""
import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "training"


def run(name, folder):
    done = subprocess.run([sys.executable, "-B", EXAMPLES / f"{name}.py", folder, "--quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((folder / "results.json").read_text())
    for losses in results["losses"].values():
        assert losses[-1] < 0.8 * losses[0]
    assert "tokens per second" in done.stdout and min(results["tokens_per_second"].values()) > 0
    assert (folder / "losses.png").read_bytes().startswith(b"\x89PNG")
    return results


def agree(losses, measure, relative):
    assert len(losses) == len(measure) and losses == pytest.approx(measure, rel=relative)


def test_translation(tmp_path):
    results = run("translation", tmp_path)
    fovea, pytorch = results["losses"]["fovea"], results["losses"]["PyTorch"]
    agree(fovea[:1], pytorch[:1], 1e-6)
    agree(fovea, pytorch, 1e-3)
    assert (tmp_path / "alignment.png").read_bytes().startswith(b"\x89PNG")
    assert results["wanted"] and set(results["accuracy"]) == {"fovea", "PyTorch"}


def test_gpt(tmp_path):
    results = run("gpt", tmp_path)
    losses = results["losses"]
    agree(losses["fovea"][:1], losses["PyTorch"][:1], 1e-6)
    agree(losses["fovea"], losses["PyTorch"], 1e-3)
    agree(losses["fovea bfloat16"][:1], losses["PyTorch bfloat16"][:1], 1e-3)
    agree(losses["fovea bfloat16"], losses["PyTorch bfloat16"], 0.05)
    assert (tmp_path / "sample.txt").read_text(encoding="utf-8") == results["sample"]


@pytest.mark.parametrize("name", ["translation", "gpt"])
def test_usage(name):
    done = subprocess.run([sys.executable, "-B", EXAMPLES / f"{name}.py"], capture_output=True, text=True)
    assert done.returncode == 1 and f"{name}.py FOLDER [--quick]" in done.stderr


def test_held_out_dates_are_in_no_training_pair(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import dates

    training, held_out = dates.pairs(2000, 500)
    assert not {iso for _, iso in training} & {iso for _, iso in held_out}
    assert (training, held_out) == dates.pairs(2000, 500)
    assert {len(iso) for _, iso in held_out} == {dates.ISO_LENGTH}
    assert all(set(written) <= set(dates.CHARACTERS) for written, _ in training + held_out)
