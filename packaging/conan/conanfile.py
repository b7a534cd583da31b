# SPDX-License-Identifier: Apache-2.0
"""Conan 2's recipe of the clone it lies in: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.files import copy, load, rmdir
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

required_conan_version = ">=2.0"


class FoveaConan(ConanFile):
    name = "fovea"
    description = "Attention kernels for CPUs, with a C interface"
    license = "Apache-2.0"
    topics = ("attention", "transformer", "simd")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "threads": ["tbb", "caller"]}
    default_options = {"shared": False, "threads": "tbb"}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def configure(self):
        # The library's own is C++20, whatever the profile's: what its users link is C.
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        basic_layout(self)  # Meson does not build in the folder of the sources

    def set_version(self):
        self.version = re.search(r"version: '([^']+)'", load(self, os.path.join(self._root, "meson.build")))[1]

    def export_sources(self):
        for pattern in ("meson.build", "meson_options.txt", "LICENSE", "include/*", "src/*", "capi/*", "subprojects/*"):
            copy(self, pattern, self._root, self.export_sources_folder, excludes=["capi/bindings/*", "*/packagecache/*"])

    def requirements(self):
        if self.options.threads == "tbb":
            self.requires("onetbb/[>=2021.5]")

    def build_requirements(self):
        self.test_requires("xsimd/[>=13.2]")
        self.tool_requires("meson/[>=1.0]")
        self.tool_requires("pkgconf/[>=1.8]")

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options["threads"] = str(self.options.threads)
        toolchain.generate()
        PkgConfigDeps(self).generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build("library")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        for folder in ("pkgconfig", "cmake"):
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        # Meson builds both; a package has one.
        for name in os.listdir(os.path.join(self.package_folder, "lib")):
            if name.endswith(".a") == bool(self.options.shared):
                os.remove(os.path.join(self.package_folder, "lib", name))

    def package_info(self):
        self.cpp_info.libs = ["fovea"]
        self.cpp_info.set_property("cmake_target_name", "fovea::fovea")
        if not self.options.shared:
            self.cpp_info.system_libs = ["stdc++", "m", "pthread", "dl"]
