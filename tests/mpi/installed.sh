#!/bin/sh
# Installs fovea with libfovea-mpi into a scratch folder and uses it from there through pkg-config and through CMake.
#
# usage: installed.sh SOURCE BUILD SCRATCH PREFIX LIBDIR MPIRUN MPICC
set -eu

source=$1
build=$2
scratch=$3
prefix=$4
libdir=$5
mpirun=$6
mpicc=$7

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch/cmake"
cd "$scratch"
DESTDIR=$scratch/root meson install -C "$build" --no-rebuild --quiet
installed=$scratch/root$prefix
export PKG_CONFIG_PATH="$installed/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

run() {
  LD_LIBRARY_PATH="$installed/$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$mpirun" -n 2 "$1" >printed.txt ||
    fail "$1 exits with $?"
  [ "$(sort printed.txt | tr '\n' ';')" = "rank 0 of 2;rank 1 of 2;" ] || fail "$1 prints $(cat printed.txt)"
  echo "ok: $1"
}

command -v "$mpicc" >/dev/null 2>&1 || fail "$mpicc is missing"
# shellcheck disable=SC2046 # several words
"$mpicc" -std=c99 -Wall -Wextra -pedantic-errors "$source/tests/mpi/installed.c" -o by_pkg_config \
  $(pkg-config --cflags --libs fovea-mpi) || fail "through pkg-config the program does not build"
run ./by_pkg_config

if command -v cmake >/dev/null 2>&1; then
  cp "$source/tests/mpi/installed.c" cmake/
  cat >cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(fovea 0.1 QUIET COMPONENTS telepathy)
if(fovea_FOUND)
  message(FATAL_ERROR "a component that there is not is found")
endif()
find_package(fovea 0.1 REQUIRED COMPONENTS mpi)
add_executable(by_cmake installed.c)
target_link_libraries(by_cmake fovea::fovea_mpi)
END
  cmake -S cmake -B cmake/build -DMPI_C_COMPILER="$(command -v "$mpicc")" -DCMAKE_PREFIX_PATH="$installed" >cmake.txt 2>&1 || {
    cat cmake.txt
    fail "CMake does not find fovea's component mpi"
  }
  cmake --build cmake/build >cmake.txt 2>&1 || {
    cat cmake.txt
    fail "through CMake the program does not build"
  }
  run cmake/build/by_cmake
else
  echo "skipped: cmake is missing"
fi
