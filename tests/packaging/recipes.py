# SPDX-License-Identifier: Apache-2.0
"""What of packaging/ Python can check: see recipes.sh. usage: recipes.py SOURCE VERSION"""
import importlib.util
import json
import pathlib
import re
import sys
import types

source, version = pathlib.Path(sys.argv[1]), sys.argv[2]
packaging = source / "packaging"
options = dict(re.findall(r"option\('(\w+)', type: '\w+'(?:, choices: \[(.*?)\])?", (source / "meson_options.txt").read_text()))


def conan():
    """The recipe as Conan would load it, with stand-ins for what it imports."""
    class ConanFile:
        recipe_folder = str(packaging / "conan")

    modules = {"conan": {"ConanFile": ConanFile}, "conan.tools": {}, "conan.tools.gnu": {"PkgConfigDeps": None},
               "conan.tools.meson": {"Meson": None, "MesonToolchain": None},
               "conan.tools.files": {"copy": None, "rmdir": None, "load": lambda _self, path: pathlib.Path(path).read_text()}}
    for name, content in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    spec = importlib.util.spec_from_file_location("conanfile", packaging / "conan" / "conanfile.py")
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    fovea = recipe.FoveaConan()
    fovea.set_version()
    assert fovea.version == version, f"Conan's recipe finds version {fovea.version}"
    assert re.findall(r"\w+", options["threads"]) == fovea.options["threads"], "Conan's option threads is not Meson's"
    text = (packaging / "conan" / "conanfile.py").read_text()
    for pattern in re.search(r"for pattern in \((.*?)\)", text, re.S)[1].replace('"', "").split(", "):
        assert list(source.glob(pattern)), f"Conan's recipe exports {pattern}, which is not there"


def vcpkg():
    described = json.loads((packaging / "vcpkg" / "fovea" / "vcpkg.json").read_text())
    assert described["version"] == version, f"vcpkg's version is {described['version']}"
    assert set(described["default-features"]) <= set(described["features"])


def conda():
    text = (packaging / "conda" / "meta.yaml").read_text()
    assert re.search(r'^  version: "(.*)"$', text, re.M)[1] == version, "conda's version is another"
    try:
        import yaml
    except ImportError:
        print("left out: conda's recipe is not parsed, as there is no PyYAML")
        return
    described = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "expression", text))
    assert (packaging / "conda" / described["source"]["path"]).resolve() == source.resolve()
    for requirement in ("tbb-devel", "xsimd"):
        assert any(line.startswith(requirement) for line in described["requirements"]["host"])


for check in (conan, vcpkg, conda):
    check()
    print(f"ok: {check.__name__}'s recipe")
