# SPDX-License-Identifier: Apache-2.0
"""What pip calls to build the wheel: meson-python, for which this provides what the machine may lack.

The library takes minutes to compile, once: it is built in build/wheel, where the next `pip install` finds it again. pip hides
what its build prints unless told -v, so where there is a terminal, how far the compiler is goes straight to that.

  xsimd     where pkg-config knows none that is new enough: what ./dev left in build/deps, else what tools/debian.sh can
            unpack there, as ./dev does; else Meson fetches what subprojects/xsimd.wrap names
  oneTBB    where pkg-config knows none: the package index's tbb-devel, for the time of the build
  pkgconf   where there is no pkg-config: the package index's

The wheel holds the library and oneTBB's.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata

import mesonpy
import packaging.version
import progress
import pyproject_metadata

ROOT = pathlib.Path(__file__).resolve().parents[3]
XSIMD, TBB = "xsimd >= 13.2", "tbb >= 2021.5"


def has(module):
    try:
        return subprocess.run(["pkg-config", "--exists", module], check=False).returncode == 0
    except FileNotFoundError:
        return False


def required():
    """What the package index has to bring besides meson-python."""
    lacking = [] if shutil.which("pkg-config") else ["pkgconf"]
    return lacking + ([] if has(TBB) else ["tbb-devel>=2021.5"])


def look_in(folder):
    os.environ["PKG_CONFIG_PATH"] = os.pathsep.join(filter(None, [os.environ.get("PKG_CONFIG_PATH"), str(folder)]))


def provide_pkg_config():
    """The package pkgconf calls its program pkgconf, and lays it beside its module."""
    if shutil.which("pkg-config"):
        return
    try:
        import pkgconf
    except ImportError:
        return
    os.environ["PKG_CONFIG"] = str(pkgconf.get_executable())


def provide_tbb():
    try:
        files = metadata.files("tbb-devel") or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "tbb.pc":
            look_in(pathlib.Path(file.locate()).resolve().parent)


def provide_xsimd():
    deps = ROOT / "build" / "deps"
    if has(XSIMD):
        return
    if not (deps / "pkgconfig" / "xsimd.pc").exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        deps.mkdir(parents=True, exist_ok=True)
        script = ('root=$1; build=$root/build; machine=$(uname -m); '
                  'say() { printf "%s\\n" "$*"; }; warn() { say "$*" >&2; }; die() { warn "$*"; exit 1; }; '
                  'have() { command -v "$1" >/dev/null 2>&1; }; logged() { shift; "$@"; }; '
                  '. "$root/tools/debian.sh"; provide_xsimd')
        subprocess.run(["sh", "-euc", script, "sh", str(ROOT)], check=False, stdout=sys.stderr)
    if (deps / "pkgconfig" / "xsimd.pc").exists():
        look_in(deps / "pkgconfig")


def provide():
    provide_pkg_config()
    if not has(TBB):
        provide_tbb()
    provide_xsimd()


def get_requires_for_build_wheel(config_settings=None):
    return mesonpy.get_requires_for_build_wheel(config_settings) + required()


def get_requires_for_build_sdist(config_settings=None):
    return mesonpy.get_requires_for_build_sdist(config_settings) + required()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """What the wheel says of itself, without building it: pip asks for it first, and would otherwise compile everything here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    metadata = pyproject_metadata.StandardMetadata.from_pyproject(project, ROOT)
    metadata.version = packaging.version.Version(version())
    folder = pathlib.Path(metadata_directory) / f"{metadata.canonical_name.replace('-', '_')}-{metadata.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(bytes(metadata.as_rfc822()))
    return folder.name


def version():
    return re.search(r"^ *version: '([^']+)'", (ROOT / "meson.build").read_text(), re.MULTILINE).group(1)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    provide()
    settings = {"build-dir": str(ROOT / "build" / "wheel")} | (config_settings or {})
    with progress.shown(pathlib.Path(settings["build-dir"])):
        return mesonpy.build_wheel(wheel_directory, settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    provide()
    return mesonpy.build_sdist(sdist_directory, config_settings)
