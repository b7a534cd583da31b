#!/bin/sh
# What `meson setup` does by default: it builds the library and nothing else, and where xsimd or oneTBB is missing its error
# says what to install.
#
# usage: configure.sh SOURCE SCRATCH     with CC and CXX as the build had them
set -eu

source=$1
scratch=$2

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

# refuses OPTIONS WORD...: the setup fails, for a reason that holds every word.
refuses() {
  options=$1
  shift
  # shellcheck disable=SC2086 # a list of options
  if meson setup refused top $options >refused.log 2>&1; then fail "set up in spite of $options"; fi
  rm -rf refused
  for word in "$@"; do
    grep 'ERROR: ' refused.log | grep -qF -e "$word" || {
      cat refused.log
      fail "the error does not say $word"
    }
  done
  echo "ok: $options"
}

# What comes before the first folder is read, without what was downloaded before: Meson puts things there.
mkdir -p top/subprojects
cp "$source/meson.build" "$source/meson_options.txt" top/
cp -R "$source/subprojects/xsimd.wrap" "$source/subprojects/packagefiles" top/subprojects/

# As on a machine whose xsimd is too old, without a network.
refuses '--force-fallback-for=xsimd --wrap-mode=nodownload' 'xsimd 13.2' libxsimd-dev xsimd.wrap PKG_CONFIG_PATH

# As without oneTBB: pkg-config knows xsimd only, and there is no CMake that could find its package.
mkdir pkgconfig
printf 'Name: xsimd\nDescription: none\nVersion: 13.2.0\n' >pkgconfig/xsimd.pc
printf "[binaries]\ncmake = 'there-is-no-cmake-here'\n" >no-cmake.ini
(
  PKG_CONFIG_LIBDIR=$scratch/pkgconfig
  PKG_CONFIG_PATH=
  export PKG_CONFIG_LIBDIR PKG_CONFIG_PATH
  refuses '--native-file no-cmake.ini' 'oneTBB 2021.5' libtbb-dev -Dthreads=caller
  # Without its threads none is asked for: the setup gets as far as the folders, which are not here.
  if meson setup refused top --native-file no-cmake.ini -Dthreads=caller >caller.log 2>&1; then fail "set up without folders"; fi
  rm -rf refused
  grep 'ERROR: ' caller.log | grep -q 'include does not exist' || {
    cat caller.log
    fail "-Dthreads=caller asks for oneTBB"
  }
  echo "ok: -Dthreads=caller without oneTBB"
)

# The command that README.md shows, up to the build.
if ! pkg-config --atleast-version=13.2 xsimd && ! [ -d "$source/subprojects/xsimd-13.2.0" ]; then
  echo "left out: what a plain setup builds, as pkg-config knows no xsimd 13.2"
else
  meson setup plain "$source" --buildtype=release >plain.log 2>&1 || {
    cat plain.log
    fail "meson setup fails"
  }
  ninja -C plain -t targets all | sed -n 's/^\(.*\): c[p_]*_LINKER.*/\1/p' >linked
  [ "$(cat linked)" = capi/libfovea.so.0.1.0 ] || fail "it does not link the library alone: $(tr '\n' ' ' <linked)"
  echo "ok: the library alone"
fi

cd /
rm -rf "$scratch"
