# SPDX-License-Identifier: Apache-2.0
"""What of packaging/ Python can check: see recipes.sh. usage: recipes.py SOURCE VERSION"""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import types

source, version = pathlib.Path(sys.argv[1]), sys.argv[2]
packaging = source / "packaging"
options = dict(re.findall(r"option\('(\w+)', type: '\w+'(?:, choices: \[(.*?)\])?", (source / "meson_options.txt").read_text()))


def conan():
    """The recipe as Conan would load it, with stand-ins for what it imports."""
    class ConanFile:
        recipe_folder = str(packaging / "conan")

    laid_out = []
    modules = {"conan": {"ConanFile": ConanFile}, "conan.tools": {}, "conan.tools.gnu": {"PkgConfigDeps": None},
               "conan.tools.layout": {"basic_layout": lambda recipe: laid_out.append(recipe)},
               "conan.tools.meson": {"Meson": None, "MesonToolchain": None},
               "conan.tools.files": {"copy": None, "rmdir": None, "load": lambda _self, path: pathlib.Path(path).read_text()}}
    for name, content in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    spec = importlib.util.spec_from_file_location("conanfile", packaging / "conan" / "conanfile.py")
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    fovea = recipe.FoveaConan()
    removed = []
    fovea.settings = types.SimpleNamespace(rm_safe=removed.append)
    fovea.configure()
    assert removed == ["compiler.cppstd"], "a profile of an older C++ would be what fovea is compiled as"
    fovea.layout()
    assert laid_out == [fovea], "Meson would be asked to build in the folder of the sources, which it refuses"
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
    """What rattler-build makes of the recipe, where its Python package is; else what can be read without."""
    path = packaging / "conda" / "recipe.yaml"
    text = path.read_text()
    assert re.search(r'^  version: "(.*)"$', text, re.M)[1] == version, "conda's version is another"
    folder = re.search(r"^source:\n  path: (.*)$", text, re.M)[1]
    assert (path.parent / folder).resolve() == source.resolve(), "conda's recipe builds another folder"
    try:
        import rattler_build
    except ImportError:
        print("left out: conda's recipe is not rendered, as there is no py-rattler-build")
        return
    variants = rattler_build.VariantConfig({"c_compiler": ["gcc"], "cxx_compiler": ["gxx"], "c_stdlib": ["sysroot"]})
    rendered = [one.recipe.to_dict() for one in rattler_build.Stage0Recipe.from_file(str(path)).render(variants)]
    assert len(rendered) == 1 and rendered[0]["package"]["version"] == version, f"conda's recipe gives {rendered}"
    host = str(rendered[0]["requirements"]["host"])
    assert all(name in host for name in ("tbb-devel", "xsimd")), f"conda's recipe builds on {host}"


def pip():
    """A wheel carries oneTBB, and so the licence it came under: the index's own, a distribution's, else ours to say."""
    program = source / "capi" / "bindings" / "python" / "licence_of.py"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        places = {"index": ("lib/libtbb.so.12", "lib/python3.11/site-packages/tbb-2022.1.0.dist-info/LICENSE.txt"),
                  "debian": ("usr/lib/x86_64-linux-gnu/libtbb.so.12", "usr/share/doc/libtbb12/copyright"),
                  "unknown": ("lib/libtbb.so.12", None)}
        for name, files in places.items():
            for file in filter(None, files):
                (root / name / file).parent.mkdir(parents=True, exist_ok=True)
                (root / name / file).write_text("")
            said = subprocess.run([sys.executable, "-B", program, root / name / files[0], "other"], check=True,
                                  capture_output=True, text=True).stdout.strip()
            wanted = str((root / name / files[1]).resolve()) if files[1] else "other"
            assert said == wanted, f"the licence of {name}'s oneTBB: {said}"
    text = (program.parent / "fovea" / "meson.build").read_text()
    assert "rename: 'oneTBB-LICENSE.txt'" in text, "the wheel carries no licence of oneTBB"


for check in (conan, vcpkg, conda, pip):
    check()
    print(f"ok: {check.__name__}'s recipe")
