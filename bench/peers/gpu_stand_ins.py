"""Lets a PyTorch that was built for GPUs run without their libraries, which are several times its own size.

The wheel of the package index is linked against them. Where they are missing, each gets a stand-in beside PyTorch's own
libraries: an empty one by its name, all needing one that answers every call with "no device". On the processor none of
them is called but while loading. Needs nm, readelf and a C compiler. Standard library only.
"""
import os
import pathlib
import re
import subprocess
import tempfile

LIBRARY = re.compile(r"lib(cu|nccl|nv)\w*\.so")
SYMBOL = re.compile(r"(__cuda|__nv|cu|nccl|nv)\w*")
NO_DEVICE = 100  # cudaErrorNoDevice


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def symbols(libraries, kind):
    return {line.split()[-1].split("@")[0] for library in libraries for line in lines_of("nm", "-D", kind, str(library))
            if line.strip()}


def needed(libraries):
    """Names of GPU libraries that are asked for and not among `libraries`."""
    names = {name for library in libraries for line in lines_of("readelf", "-d", str(library))
             for name in re.findall(r"\(NEEDED\).*\[(.*)\]", line)}
    # The driver's library is opened by hand, if at all.
    return sorted(name for name in names - {library.name for library in libraries}
                  if LIBRARY.match(name) and name != "libcuda.so.1")


def build(compiler, source, target, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "source.c"
        path.write_text(source)
        subprocess.run([*compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(path), *arguments], check=True)


def make(folder):
    """Puts stand-ins into the folder of PyTorch's libraries; none where the real ones are installed."""
    folder = pathlib.Path(folder)
    libraries = [path for path in sorted(folder.glob("*.so*")) if not path.is_symlink()]
    missing = needed(libraries)
    if not missing or (folder.parent.parent / "nvidia").is_dir():
        return []
    compiler = os.environ.get("CC", "cc").split()
    wanted = symbols(libraries, "--undefined-only") - symbols(libraries, "--defined-only")
    names = sorted(name for name in wanted if SYMBOL.fullmatch(name))
    aliases = "".join(f'int {name}(void) __attribute__((alias("no_device")));\n' for name in names)
    answers = folder / "libno_device.so"
    build(compiler, f"int no_device(void) {{ return {NO_DEVICE}; }}\n{aliases}", answers)
    for name in missing:
        build(compiler, "", folder / name, f"-Wl,-soname,{name}", "-Wl,--no-as-needed", str(answers), "-Wl,-rpath,$ORIGIN")
    return missing
