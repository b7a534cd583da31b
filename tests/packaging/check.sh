#!/bin/sh
# Installs fovea with DESTDIR and uses it from there in every documented way: through pkg-config (shared and static), through
# CMake and as a Meson subproject. The program is the one that README.md shows, so it is known to compile and run.
#
# usage: check.sh SOURCE BUILD SCRATCH PREFIX LIBDIR CC...
set -eu

source=$1
build=$2
scratch=$3
prefix=$4
libdir=$5
shift 5 # what is left is the C compiler's command

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

DESTDIR=$scratch/root meson install -C "$build" --no-rebuild --quiet
installed=$scratch/root$prefix
library_path=$installed/$libdir
export PKG_CONFIG_PATH="$library_path/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

for file in include/fovea/fovea.h include/fovea/layers.h include/fovea/fovea.hpp include/fovea/layers.hpp include/fovea/tensor.hpp "$libdir/libfovea.so" "$libdir/libfovea.so.0" "$libdir/libfovea.a"; do
  [ -e "$installed/$file" ] || fail "$file is not installed"
done

# The first C block of the README, as it stands.
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" >readme.c
grep -q fovea_sdpa readme.c || fail "README.md shows no C program that calls fovea_sdpa"

# run PROGRAM: it must succeed and print the numbers that the README promises under it.
awk '/^```text$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" >expected.txt
[ -s expected.txt ] || fail "README.md does not show what the program prints"
run() {
  LD_LIBRARY_PATH="$library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$1" >printed.txt || fail "$1 exits with $?"
  cmp printed.txt expected.txt || fail "$1 prints something else than README.md says"
  echo "ok: $1"
}

# use_pkg_config NAME FLAG CC...: the flags come with spaces in paths escaped for the shell, hence the eval.
use_pkg_config() {
  name=$1
  flags=$(pkg-config "$2" --cflags --libs fovea)
  shift 2
  eval "set -- \"\$@\" -std=c99 -Wall -Wextra -Wpedantic -Werror readme.c -o $name $flags"
  "$@" || fail "$name does not build"
  run "./$name"
}

use_pkg_config pkgconfig_shared --print-errors "$@"

# With the shared library out of the way, -lfovea finds the static one.
mkdir aside
mv "$library_path"/libfovea.so* aside/
use_pkg_config pkgconfig_static --static "$@"
mv aside/libfovea.so* "$library_path/"

if command -v cmake >/dev/null 2>&1; then
  mkdir cmake
  cp readme.c cmake/
  cat >cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(fovea 0.1 REQUIRED)
find_package(fovea 99 QUIET)
if(fovea_FOUND)
  message(FATAL_ERROR "fovea 99 is accepted")
endif()
find_package(fovea 0.1 REQUIRED)
add_executable(cmake_shared readme.c)
target_link_libraries(cmake_shared fovea::fovea)
add_executable(cmake_static readme.c)
target_link_libraries(cmake_static fovea::fovea_static)
END
  CC=$* cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH="$installed" >cmake.log 2>&1 || {
    cat cmake.log
    fail "find_package(fovea) does not work"
  }
  cmake --build cmake/build >cmake.log 2>&1 || {
    cat cmake.log
    fail "a CMake project does not build"
  }
  run cmake/build/cmake_shared
  run cmake/build/cmake_static
else
  echo "left out: CMake is not installed"
fi

# Setting a subproject up resolves the dependency by its name; building it would only build fovea once more.
if pkg-config --atleast-version=13.2 xsimd; then
  mkdir -p meson/subprojects
  ln -s "$source" meson/subprojects/fovea
  cp readme.c meson/
  cat >meson/meson.build <<'END'
project('consumer', 'c', 'cpp', default_options: ['cpp_std=c++20'])
executable('meson_shared', 'readme.c', dependencies: dependency('fovea', fallback: 'fovea'))
END
  PKG_CONFIG_PATH=${PKG_CONFIG_PATH#*:} meson setup meson/build meson --force-fallback-for=fovea >meson.log 2>&1 || {
    cat meson.log
    fail "fovea does not work as a Meson subproject"
  }
  echo "ok: Meson subproject"
else
  echo "left out: the Meson subproject, as pkg-config knows no xsimd 13.2"
fi

rm -rf "$scratch"
