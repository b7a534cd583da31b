"""What README.md shows runs, and so does the example a newcomer starts."""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parents[1]


def run(*command, folder):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "MPLCONFIGDIR": str(folder)})


def test_the_ten_lines(tmp_path):
    pytest.importorskip("matplotlib")
    program = (HERE / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    done = run("-c", program, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heatmaps.png").stat().st_size > 1000


def test_many_sequences(tmp_path):
    program = (HERE / "README.md").read_text().split("```python\n")[2].partition("```")[0]
    program = "import numpy as np, fovea\n" + program + "assert out.shape == (301, 8, 64) and len(third) == 200"
    done = run("-c", program, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_heatmap_example(tmp_path):
    done = run(str(HERE / "examples" / "heatmap.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "happy ->" in done.stdout


def test_the_continuous_batching_example(tmp_path):
    done = run(str(HERE / "examples" / "continuous_batching.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " w" in done.stdout and "20 of 20 pages are free" in done.stdout


def test_the_examples_of_the_reference_pages(tmp_path):
    done = run(str(HERE.parents[2] / "docs" / "reference" / "examples.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
