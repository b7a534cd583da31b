#!/bin/sh
# Installs fovea with DESTDIR and uses it from there in every documented way: through pkg-config (shared and static), through
# CMake and as a Meson subproject. The programs are those that README.md shows, so they are known to compile and run.
#
# usage: check.sh SOURCE BUILD SCRATCH PREFIX LIBDIR     with the compilers' commands in CC and CXX
set -eu

source=$1
build=$2
scratch=$3
prefix=$4
libdir=$5

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

for file in include/fovea/fovea.h include/fovea/scores.h include/fovea/layers.h include/fovea/serving.h include/fovea/training.h include/fovea/fovea.hpp include/fovea/layers.hpp include/fovea/serving.hpp include/fovea/tensor.hpp include/fovea/training.hpp "$libdir/libfovea.so" "$libdir/libfovea.so.0" "$libdir/libfovea.a"; do
  [ -e "$installed/$file" ] || fail "$file is not installed"
done

# block LANGUAGE: the README's first block of that kind, as it stands.
block() { awk -v fence="^\`\`\`$1\$" '$0 ~ fence { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md"; }
block c >readme.c
block cpp >readme.cpp
grep -q fovea_sdpa readme.c || fail "README.md shows no C program that calls fovea_sdpa"
grep -q fovea::sdpa readme.cpp || fail "README.md shows no C++ program that calls fovea::sdpa"

# loads PROGRAM: yes if it needs the shared library, else no.
loads() { if readelf -d "$1" | grep -q 'NEEDED.*libfovea'; then echo yes; else echo no; fi; }

# run PROGRAM SHARED: it must print the numbers that the README promises, and load libfovea.so or not.
block text >expected.txt
[ -s expected.txt ] || fail "README.md does not show what the program prints"
run() {
  if command -v readelf >/dev/null 2>&1; then
    [ "$(loads "$1")" = "$2" ] || fail "$1 loads the shared library: $(loads "$1"), expected $2"
  fi
  LD_LIBRARY_PATH="$library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$1" >printed.txt || fail "$1 exits with $?"
  cmp printed.txt expected.txt || fail "$1 prints something else than README.md says"
  echo "ok: $1"
}

# use_pkg_config NAME SHARED SOURCE "FLAGS OF PKG-CONFIG" COMPILER...: what it says comes escaped for the shell, hence the
# eval.
use_pkg_config() {
  name=$1
  shared=$2
  program=$3
  # shellcheck disable=SC2086 # several words
  flags=$(pkg-config --cflags --libs $4)
  shift 4
  eval "set -- \"\$@\" -Wall -Wextra -Wpedantic -Werror $program -o $name $flags"
  "$@" || fail "$name does not build"
  run "./$name" "$shared"
}

# The lines of README.md, with warnings. Optimised too, as compilers then see more to warn of.
# shellcheck disable=SC2016 # the text itself is looked for
for words in 'cc main.c $(pkg-config --cflags --libs fovea)' 'c++ -std=c++20 main.cpp $(pkg-config --cflags --libs fovea)' \
  'fovea-static'; do
  grep -qF -e "$words" "$source/README.md" || fail "README.md does not say $words"
done
# shellcheck disable=SC2086 # CC may carry a wrapper: "ccache gcc"
{
  use_pkg_config pkgconfig_shared yes readme.c fovea $CC -std=c99 -O2
  use_pkg_config pkgconfig_cpp yes readme.cpp fovea $CXX -std=c++20 -O2
  use_pkg_config pkgconfig_static no readme.c fovea-static $CC -std=c99
  use_pkg_config pkgconfig_cpp_static no readme.cpp fovea-static $CXX -std=c++20

  # As it lies in the build tree, not installed.
  PKG_CONFIG_PATH=$build/meson-uninstalled${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  use_pkg_config pkgconfig_uninstalled_static no readme.c fovea-static $CC -std=c99
  PKG_CONFIG_PATH=${PKG_CONFIG_PATH#*:}

  # shellcheck disable=SC2046 # several words
  $CC -std=c99 -I"$installed/include" readme.c -o by_hand "$library_path/libfovea.a" $(pkg-config --libs tbb) -lstdc++ -lm ||
    fail "the archive does not link by hand"
  run ./by_hand no

  # Where only the archive is installed, -lfovea finds that.
  mkdir aside
  mv "$library_path"/libfovea.so* aside/
  use_pkg_config pkgconfig_archive_only no readme.c "--static fovea" $CC -std=c99
  mv aside/libfovea.so* "$library_path/"
}

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
  cmake -S cmake -B cmake/build -DCMAKE_PREFIX_PATH="$installed" >cmake.log 2>&1 || {
    cat cmake.log
    fail "find_package(fovea) does not work"
  }
  cmake --build cmake/build >cmake.log 2>&1 || {
    cat cmake.log
    fail "a CMake project does not build"
  }
  run cmake/build/cmake_shared yes
  run cmake/build/cmake_static no
else
  echo "left out: CMake is not installed"
fi

# Setting a subproject up resolves the dependency by its name; building it would only build fovea once more.
if pkg-config --atleast-version=13.2 xsimd; then
  mkdir -p meson/subprojects
  cp readme.c meson/
  # By the wrap file of packaging/README.md, on the clone at hand; where that is none, by the folder itself.
  if git -C "$source" rev-parse HEAD >/dev/null 2>&1; then
    awk '/^```ini$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source/packaging/README.md" |
      sed -e "s|^url = .*|url = file://$source|" -e "s|^revision = .*|revision = $(git -C "$source" rev-parse HEAD)|" \
        >meson/subprojects/fovea.wrap
    grep -q '^url = file:' meson/subprojects/fovea.wrap || fail "packaging/README.md shows no wrap file"
  else
    echo "left out: the wrap file, as the sources are no git repository"
    ln -s "$source" meson/subprojects/fovea
  fi
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
