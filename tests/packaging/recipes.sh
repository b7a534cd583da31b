#!/bin/sh
# The recipes in packaging/, as far as that goes without a network and without the package managers: they parse, name the
# version that Meson does and options that there are; README.md's FetchContent snippet builds a program.
#
# usage: recipes.sh SOURCE BUILD SCRATCH     with CC; BUILD: Meson's, whose library is taken
set -eu

source=$1
build=$2
scratch=$3

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$source/meson.build")
[ -n "$version" ] || fail "meson.build names no version"

if command -v python3 >/dev/null 2>&1; then
  python3 -B "$source/tests/packaging/recipes.py" "$source" "$version" || fail "a recipe"
else
  echo "left out: what Python checks, as there is none"
fi

if ! command -v cmake >/dev/null 2>&1; then
  echo "left out: CMake is not installed"
  exit 0
fi

# vcpkg's own functions, as ones that say how they were called.
cat >port.cmake <<'END'
cmake_minimum_required(VERSION 3.18)
foreach(name vcpkg_configure_meson vcpkg_install_meson vcpkg_fixup_pkgconfig vcpkg_install_copyright)
  function(${name})
    message("${CMAKE_CURRENT_FUNCTION} ${ARGN}")
  endfunction()
endforeach()
include("${CURRENT_PORT_DIR}/portfile.cmake")
END
for features in core 'core;tbb'; do
  cmake "-DCURRENT_PORT_DIR=$source/packaging/vcpkg/fovea" "-DCURRENT_PACKAGES_DIR=$scratch/packages" "-DFEATURES=$features" \
    -DVCPKG_LIBRARY_LINKAGE=static -P port.cmake >port.log 2>&1 || {
    cat port.log
    fail "vcpkg's portfile"
  }
  case $features in *tbb) threads=tbb ;; *) threads=caller ;; esac
  grep -q "^vcpkg_configure_meson SOURCE_PATH;$source;OPTIONS;-Dthreads=$threads" port.log || fail "vcpkg's options for $features"
  grep -q '^vcpkg_install_copyright' port.log || fail "vcpkg's port installs no license"
done
echo "ok: vcpkg's portfile"

# README.md's snippet, around its C program, on what is built already.
block() { awk -v fence="^\`\`\`$1\$" '$0 ~ fence { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md"; }
mkdir consumer
ln -s "$source" consumer/fovea
block c >consumer/main.c
{
  printf 'cmake_minimum_required(VERSION 3.18)\nproject(consumer C)\nadd_executable(main main.c)\n'
  block cmake
} >consumer/CMakeLists.txt
grep -q FetchContent_MakeAvailable consumer/CMakeLists.txt || fail "README.md shows no FetchContent"
if ! { cmake -S consumer -B consumer/build "-DFOVEA_BUILD_DIR=$build" && cmake --build consumer/build; } >cmake.log 2>&1; then
  cat cmake.log
  fail "README.md's FetchContent does not build"
fi
block text >expected.txt
consumer/build/main >printed.txt || fail "the program does not run"
cmp printed.txt expected.txt || fail "the program prints something else"
echo "ok: FetchContent"

cd /
rm -rf "$scratch"
