#!/usr/bin/env python3
"""Makes the Python environment that the peers run in: environment.py FOLDER puts it into FOLDER/venv.

Only wheels' own needs are installed, one package at a time, so that one that cannot be had is left out with its reason
while the others go on. What was installed is written into FOLDER/made-with; what fits that is not done again.
Standard library only.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys

import gpu_stand_ins

# What is installed for a library, without the dependencies that a call on the processor does not need.
PACKAGES = {
    "numpy": ["numpy"],
    "torch": ["torch", "filelock", "typing-extensions", "setuptools", "sympy", "mpmath", "networkx", "jinja2",
              "markupsafe", "fsspec"],
    "onnxruntime": ["onnxruntime", "onnx", "protobuf", "flatbuffers", "packaging", "ml_dtypes", "typing-extensions"],
    "openvino": ["openvino", "openvino-telemetry"],
    "ggml": ["ggml-python"],
    "keops": ["pykeops", "keopscore", "pybind11"],
}
SOURCES = ("ggml", "keops")
# What a second process of the library has set: those that bring OpenMP have it wait for work by spinning.
VARIANTS = dict.fromkeys(("torch", "ggml"), "OMP_WAIT_POLICY=PASSIVE")


def worker_variables(threads, home):
    """The workers' environment: so many threads, freed memory kept, large pages, compilers' results in the build tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_", "KMP_"))}
    count = str(threads)
    return kept | {
        "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": "1",  # NumPy's own, never timed
        "MALLOC_TRIM_THRESHOLD_": str(1 << 60), "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": str(64 << 20),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"), "TORCHINDUCTOR_FREEZING": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "KEOPS_CACHE_FOLDER": str(home / "keops"), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
    }


def pip(folder, *arguments):
    """None, or the last line of what went wrong."""
    command = [str(folder / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    print("+", " ".join(arguments), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    return (errors or done.stdout.splitlines() or ["pip failed"])[-1]


def install(folder, library):
    """Installs a library's packages; None or the reason why not."""
    # KeOps comes as source, Python alone; ggml is C++ that builds in minutes, and then for this processor.
    binary = () if library in SOURCES else ("--only-binary", ":all:")
    reason = pip(folder, "install", "--no-deps", *binary, *PACKAGES[library])
    if reason is None and library == "torch":
        reason = add_stand_ins(folder)
    return reason


def add_stand_ins(folder):
    for libraries in (folder / "venv/lib").glob("python*/site-packages/torch/lib"):
        try:
            made = gpu_stand_ins.make(libraries)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"no stand-ins for the GPU's libraries: {error}"
        print("stand-ins:", " ".join(made) or "none needed", flush=True)
    return None


def fingerprint():
    return [sys.version, platform.machine(), sys.executable]


def read_stamp(folder):
    try:
        stamp = json.loads((folder / "made-with").read_text())
        return stamp if stamp["fingerprint"] == fingerprint() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(folder):
    """Returns {library: reason} of what is not there."""
    stamp = read_stamp(folder)
    if stamp is None:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], check=True)
        stamp = {"fingerprint": fingerprint(), "installed": {}}
    missing = {}
    for library, packages in PACKAGES.items():
        if stamp["installed"].get(library) == packages:
            continue
        reason = install(folder, library)
        if reason:
            missing[library] = reason
        else:
            stamp["installed"][library] = packages
        (folder / "made-with").write_text(json.dumps(stamp, indent=1) + "\n")
    return missing


def not_installed(folder):
    """{library: reason} of what the last run could not install."""
    try:
        return json.loads((folder / "missing.json").read_text())
    except (OSError, ValueError):
        return {}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    missing = make(folder)
    (folder / "missing.json").write_text(json.dumps(missing, indent=1) + "\n")
    for library, reason in missing.items():
        print(f"{library}: not installed: {reason}", flush=True)
    return 1 if "numpy" in missing else 0


if __name__ == "__main__":
    sys.exit(main())
