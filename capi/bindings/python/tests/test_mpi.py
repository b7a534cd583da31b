"""fovea.mpi: what mpi_cases.py does on 1 to 4 ranks, what an import says where something is missing, and ctypes' layouts."""
import ast
import ctypes
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import fovea

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
PACKAGE = pathlib.Path(fovea.__file__).parent
BUILT = PACKAGE.parents[3] / "capi" / "mpi" / "libfovea-mpi.so.0"
LIBRARY = os.environ.get("FOVEA_MPI_LIBRARY") or (str(BUILT) if BUILT.exists() else "")
MPIRUN = shutil.which(os.environ.get("FOVEA_MPIRUN", "mpirun")) or shutil.which("mpirun")
PATHS = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = {**os.environ, "FOVEA_MPI_LIBRARY": LIBRARY, "PYTHONPATH": PATHS,
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "MPIEXEC_TIMEOUT": "200", "OMPI_MCA_hwloc_base_binding_policy": "none"}
CASES = {"ring": [1, 2, 3, 4], "types": [1, 2, 3], "transport": [1, 2, 3], "figures": [2, 4], "heads": [1, 2, 3],
         "decode": [1, 2, 3], "positions": [1, 3], "contexts": [2], "from_threads": [2], "errors": [1, 2, 3], "two_errors": [2, 3],
         "handles": [1, 2], "shares_refused": [1], "grid": [4], "torch_tensors": [2], "jax_arrays": [2]}
"""On how many ranks each case runs."""
NEEDS = {"torch_tensors": "torch", "jax_arrays": "jax"}


def has(module):
    return importlib.util.find_spec(module) is not None


def python(program, **environment):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120,
                          env={**ENVIRONMENT, **environment})


@pytest.fixture(scope="session")
def mpi():
    """mpirun; or why there is nothing to run."""
    if not has("mpi4py"):
        pytest.skip("mpi4py is missing (in Debian python3-mpi4py)")
    if not LIBRARY:
        pytest.skip("libfovea-mpi is not built (-Dmpi=enabled)")
    if MPIRUN is None:
        pytest.skip("mpirun is missing (in Debian openmpi-bin)")
    done = python("import fovea.mpi")
    if "another MPI" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return MPIRUN


def on_ranks(mpirun, ranks, *program):
    done = subprocess.run([mpirun, "-n", str(ranks), sys.executable, "-m", "mpi4py", *map(str, program)], capture_output=True,
                          text=True, check=False, timeout=240, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_on_ranks(mpi, ranks):
    cases = [name for name, counts in CASES.items() if ranks in counts and has(NEEDS.get(name, "numpy"))]
    assert on_ranks(mpi, ranks, HERE / "mpi_cases.py", *cases) == "".join(f"ok {name}\n" for name in cases)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_gradients(mpi, ranks):
    assert on_ranks(mpi, ranks, HERE / "mpi_cases.py", "backward") == "ok backward\n"


def test_every_case_runs_somewhere():
    tree = ast.parse((HERE / "mpi_cases.py").read_text())
    first = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and
             [a.arg for a in node.args.args] in (["ranks"], ["_"])]
    assert sorted(first) == sorted([*CASES, "backward"])


def test_what_the_readme_shows(mpi, tmp_path):
    shown = (HERE.parent / "README.md").read_text().partition("## MPI\n\n```py\n")[2].partition("```")[0]
    program = f"import numpy as np\nq, k, v = np.ones((3, 2, 4, 40, 16), 'f')\n{shown}    assert out.shape == (2, 4, 20, 16)\n"
    (tmp_path / "program.py").write_text(program)
    on_ranks(mpi, 2, tmp_path / "program.py")


def test_the_ring_example(mpi):
    said = on_ranks(mpi, 4, HERE.parent / "examples" / "ring.py", 500)
    assert "500 positions on 4 ranks: within" in said and "rank 3: " in said, said


def test_the_example_of_torch_distributed(mpi):
    pytest.importorskip("torch")
    said = on_ranks(mpi, 2, HERE.parent / "examples" / "torch_distributed.py")
    assert "1000 positions on 2 ranks, over MPI: within" in said, said


def test_the_example_of_torch_distributed_without_mpi():
    pytest.importorskip("torch")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    done = subprocess.run([*torchrun, HERE.parent / "examples" / "torch_distributed.py"], capture_output=True, text=True,
                          check=False, timeout=240, env={**ENVIRONMENT, "FOVEA_MPI_LIBRARY": "/nowhere"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000 positions on 3 ranks, by gloo: within" in done.stdout, done.stdout


# ---- what an import says -------------------------------------------------------------------------------------------------


def refusal(program="import fovea.mpi", **environment):
    done = python(f"import fovea\ntry:\n    {program}\nexcept ImportError as error:\n    print(error.name, error, sep='|')\n",
                  **environment)
    assert done.returncode == 0 and "|" in done.stdout, done.stdout + done.stderr
    return done.stdout


def test_the_package_needs_no_mpi():
    done = python("import sys, fovea; assert not {'mpi4py', 'fovea.mpi'} & set(sys.modules)", FOVEA_MPI_LIBRARY="/nowhere")
    assert done.returncode == 0, done.stderr


def test_without_mpi4py():
    said = refusal("import sys; sys.modules['mpi4py'] = None; import fovea.mpi")
    assert said.startswith("mpi4py|fovea.mpi needs mpi4py, which is not installed: pip install mpi4py"), said


def test_without_an_mpi_for_mpi4py():
    """As its wheels are where no MPI is installed."""
    said = refusal("import sys, types; sys.modules['mpi4py'] = types.ModuleType('mpi4py'); import fovea.mpi")
    assert said.startswith("mpi4py.MPI|fovea.mpi needs mpi4py, which is installed but does not load: "), said


@pytest.fixture
def mpi4py():
    return pytest.importorskip("mpi4py.MPI", reason="mpi4py is missing (in Debian python3-mpi4py), or has no MPI")


def test_without_the_library(mpi4py, tmp_path):
    said = refusal(FOVEA_MPI_LIBRARY=str(tmp_path / "none.so"))
    assert said.startswith(f"libfovea-mpi|fovea.mpi: FOVEA_MPI_LIBRARY is {tmp_path}/none.so, where there is no file"), said
    (tmp_path / "text.so").write_text("no library")
    assert f"{tmp_path}/text.so does not load: " in refusal(FOVEA_MPI_LIBRARY=str(tmp_path / "text.so"))
    nothing_there = ("import ctypes, mpi4py.MPI; "
                     "ctypes.CDLL = lambda name: (_ for _ in ()).throw(OSError(f'{name}: no such file')); import fovea.mpi")
    said = refusal(nothing_there, FOVEA_MPI_LIBRARY="")
    assert "libfovea-mpi.so.0 is nowhere that the loader looks. Build fovea with -Dmpi=enabled" in said, said
    assert "FOVEA_MPI_LIBRARY name the file" in said, said


def stub(folder, text):
    """A library of these functions."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "stub.c").write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "stub.so", folder / "stub.c"], check=True)
    return str(folder / "stub.so")


def functions(**given):
    from_layouts = re.findall(r'"(fovea_\w+)": ', (PACKAGE / "mpi" / "layouts.py").read_text())
    return "".join(given.get(name, f"int {name}(void) {{ return 0; }}") + "\n" for name in from_layouts
                   if not name.endswith("options") and name != "fovea_mpi_figures")


OF_THIS_VERSION = f'const char *fovea_version(void) {{ return "{fovea.__version__}"; }}'
OTHER_MPI = """
#include <string.h>
int MPI_Get_library_version(char *text, int *length) { strcpy(text, "Some MPI 7.0, of another kind"); *length = 29; return 0; }
"""


def test_another_library(mpi4py, tmp_path):
    said = refusal(FOVEA_MPI_LIBRARY=stub(tmp_path, "int nothing(void) { return 0; }"))
    assert f"stub.so has no fovea_version: it is no libfovea-mpi of version {fovea.__version__}, the package's" in said, said


def test_another_version(mpi4py, tmp_path):
    text = functions(fovea_version='const char *fovea_version(void) { return "7.1.0"; }')
    said = refusal(FOVEA_MPI_LIBRARY=stub(tmp_path, text))
    assert f"stub.so calls fovea 7.1.0, the package is {fovea.__version__}: install both from one version" in said, said


def test_another_mpi(mpi4py, tmp_path):
    said = refusal(FOVEA_MPI_LIBRARY=stub(tmp_path, OTHER_MPI + functions(fovea_version=OF_THIS_VERSION)))
    assert "stub.so is for another MPI (Some MPI 7.0) than mpi4py (" in said and "-Dmpi_package" in said, said
    said = refusal(FOVEA_MPI_LIBRARY=stub(tmp_path, functions(fovea_version=OF_THIS_VERSION)))
    assert "stub.so calls no MPI" in said, said


def test_a_library_beside_the_package(mpi, tmp_path):
    """Found without the variable; and before what the loader finds, which here is nothing."""
    shutil.copytree(PACKAGE, tmp_path / "fovea", ignore=shutil.ignore_patterns("__pycache__", "*.p"))
    os.symlink(LIBRARY, tmp_path / "fovea" / "libfovea-mpi.so.0")
    folders = os.pathsep.join([str(pathlib.Path(LIBRARY).parents[1]), os.environ.get("LD_LIBRARY_PATH", "")])
    done = python("import fovea.mpi.library as l; print(l.LIBRARY._name)", FOVEA_MPI_LIBRARY="", LD_LIBRARY_PATH=folders,
                  PYTHONPATH=os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]]))
    assert done.stdout == f"{tmp_path}/fovea/libfovea-mpi.so.0\n", done.stdout + done.stderr


def test_an_open_handle_is_told_of(mpi):
    opened = "import fovea.mpi; from mpi4py import MPI; ranks = fovea.mpi.Ranks(MPI.COMM_SELF); "
    done = python(opened + "del ranks", PYTHONWARNINGS="default")
    assert done.returncode == 0 and "ResourceWarning: a fovea.mpi.Ranks was not closed" in done.stderr, done.stderr
    done = python(opened + "MPI.Finalize(); ranks.close()")
    assert done.returncode == 0 and done.stderr == "", done.stderr


# ---- layouts -------------------------------------------------------------------------------------------------------------


def test_layouts_are_the_headers(tmp_path):
    """Sizes and offsets as a C compiler has them, constants, and the functions there are with how much they take."""
    spec = importlib.util.spec_from_file_location("layouts", PACKAGE / "mpi" / "layouts.py")  # without MPI
    layouts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layouts)
    header = (ROOT / "include" / "fovea" / "mpi.h").read_text()
    (tmp_path / "mpi.h").write_text("typedef struct comm *MPI_Comm;\n")
    lines, wanted = [], []
    for name, struct in layouts.STRUCTS.items():
        declared = header.partition(f"typedef struct {name} {{")[2].partition("}")[0]
        members = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", declared, flags=re.S))
        assert members == [member for member, _ in struct._fields_]
        lines.append(f"sizeof({name})")
        wanted.append(ctypes.sizeof(struct))
        for member in members:
            lines += [f"offsetof({name}, {member})", f"sizeof((({name} *)0)->{member})"]
            wanted += [getattr(struct, member).offset, getattr(struct, member).size]
    for name in ("FAILED", "CONTIGUOUS", "ZIGZAG", "STRIPED", "QUERY_ON_RANK_0"):
        lines.append(f"FOVEA_MPI_{name}")
        wanted.append(getattr(layouts, name))
    assert set(re.findall(r"^  (FOVEA_MPI_\w+) = |enum \{ (FOVEA_MPI_\w+) = ", header, re.M)) <= {
        pair for line in lines if line.startswith("FOVEA") for pair in ((line, ""), ("", line))}
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler")
    printing = "".join(f'  printf("%lld\\n", (long long)({line}));\n' for line in lines)
    (tmp_path / "print.c").write_text("#include <fovea/mpi.h>\n#include <stddef.h>\n#include <stdio.h>\n"
                                      f"int main(void) {{\n{printing}  return 0;\n}}\n")
    subprocess.run([compiler, "-I", tmp_path, "-I", ROOT / "include", "-o", tmp_path / "print", tmp_path / "print.c"], check=True)
    printed = subprocess.run([tmp_path / "print"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == wanted
    declared = dict(re.findall(r"^FOVEA_API [\w *]*?(fovea_mpi_\w+)\(([^;]*)\);", header, re.M))
    assert declared.keys() == layouts.FUNCTIONS.keys()
    for name, arguments in declared.items():
        count = 0 if arguments == "void" else arguments.count(",") + 1
        assert len(layouts.FUNCTIONS[name][1]) == count, name


def test_the_binary_interface():
    """The library's soname is what meson.build says."""
    number = re.search(r"^abi_number = '(\d+)'", (ROOT / "meson.build").read_text(), re.M)[1]
    assert re.search(r"^ABI = (\d+)", (PACKAGE / "mpi" / "library.py").read_text(), re.M)[1] == number
