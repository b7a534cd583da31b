#!/bin/sh
# `conan create packaging/conan` to its end, where Conan 2 is ($FOVEA_CONAN, or conan in PATH): the library built, packaged and
# linked by the recipe's test package, both ways. No network is needed: what the recipe requires are recipes made here, which
# hand the machine's own packages on.
#
# usage: conan.sh SOURCE SCRATCH XSIMD_VERSION XSIMD_INCLUDE_DIRECTORY     with CC and CXX
set -eu

source=$1
scratch=$2
xsimd_version=$3
xsimd_includes=$4

skip() {
  echo "skipped: $1"
  exit 77
}

conan=${FOVEA_CONAN:-conan}
command -v "$conan" >/dev/null 2>&1 || skip "no Conan here (pip install conan)"
case $("$conan" --version) in "Conan version 2"*) ;; *) skip "$("$conan" --version) is not Conan 2" ;; esac
[ -n "$xsimd_includes" ] || skip "xsimd is a subproject of this build, and no package of the machine's"
pkg-config --exists tbb || skip "no oneTBB here"
command -v cmake >/dev/null 2>&1 || skip "no CMake here, which the test package is built with"

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
export CONAN_HOME="$scratch/home"
env -u CC -u CXX "$conan" profile detect >log 2>&1 || { cat log && exit 1; }

# offer NAME VERSION TYPE LINE...: a recipe whose package is on the machine already, and what it says of that.
offer() {
  name=$1
  mkdir -p "$name"
  {
    printf 'from conan import ConanFile\n\n\nclass OfTheMachine(ConanFile):\n    name = "%s"\n    version = "%s"\n' "$1" "$2"
    printf '    settings = "os", "arch", "compiler", "build_type"\n    package_type = "%s"\n\n    def package_info(self):\n' "$3"
    printf '        self.cpp_info.includedirs = self.cpp_info.libdirs = self.cpp_info.bindirs = []\n'
    shift 3
    for line in "$@"; do printf '        %s\n' "$line"; done
  } >"$name/conanfile.py"
  "$conan" create "$name" --no-remote >log 2>&1 || { cat log && exit 1; }
}
offer onetbb "$(pkg-config --modversion tbb)" shared-library \
  'self.cpp_info.system_libs = ["tbb"]' 'self.cpp_info.set_property("pkg_config_name", "tbb")'
offer xsimd "$xsimd_version" header-library \
  "self.cpp_info.includedirs = [\"$xsimd_includes\"]" 'self.cpp_info.set_property("pkg_config_name", "xsimd")'
offer meson "$(meson --version)" application 'pass'
offer pkgconf "$(pkg-config --version)" application 'pass'

for way in 'shared=False threads=tbb' 'shared=True threads=tbb' 'shared=False threads=caller'; do
  # shellcheck disable=SC2086 # two words
  set -- $way
  echo "conan create packaging/conan -o fovea/*:$1 -o fovea/*:$2"
  "$conan" create "$source/packaging/conan" --no-remote -o "fovea/*:$1" -o "fovea/*:$2" >log 2>&1 || {
    tail -n 60 log
    echo "FAILED: $way"
    exit 1
  }
  grep -q '^fovea .*: 20 30$' log || { tail -n 60 log && echo "FAILED: $way: the test package has not run" && exit 1; }
  echo "ok: $way"
done
cd /
rm -rf "$scratch"
