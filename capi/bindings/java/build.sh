#!/bin/sh
# Builds the package with javac and jar alone, into build/fovea.jar, and prints the command that runs programs with it, by the
# JDK it was built with.
#
#   build.sh            the jar; $(build.sh) Main.java runs a program
#   build.sh test       and runs the tests
#   build.sh heatmap    and runs the example: where the words of a real sentence look
#   build.sh overhead   and measures a small planned call beside the C function
#
# FOVEA_JAVA_HOME or JAVA_HOME names the JDK, else it is the newest of /usr/lib/jvm (or the folder FOVEA_JVMS) or the one on
# the path; FOVEA_LIB_DIR the folder of libfovea.so, where it is not installed; FOVEA_JAVA_BUILD where to build. Exit code 77:
# no JDK of 22 or newer.
set -eu
folder=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=${FOVEA_JAVA_BUILD:-$folder/build}

# The version of a JDK, 0 of what is none.
version() {
  [ -x "$1/bin/javac" ] && "$1/bin/javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' | grep . || echo 0
}

java_home=
newest=0
for home in "${FOVEA_JAVA_HOME:-}" "${JAVA_HOME:-}"; do
  if [ -n "$home" ] && [ "$(version "$home")" -ge 22 ]; then
    java_home=$home
    newest=$(version "$home")
    break
  fi
done
if [ -z "$java_home" ]; then
  on_path=$(command -v javac || true)
  [ -z "$on_path" ] || on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
  for home in "$on_path" "${FOVEA_JVMS:-/usr/lib/jvm}"/*; do
    if [ -n "$home" ] && [ "$(version "$home")" -gt "$newest" ]; then
      java_home=$home
      newest=$(version "$home")
    fi
  done
fi
if [ "$newest" -lt 22 ]; then
  [ "$newest" = 0 ] && found="none is here" || found="the newest here is $newest"
  echo "no JDK of 22 or newer, whose java.lang.foreign is final: $found; install one (https://adoptium.net) or name it in FOVEA_JAVA_HOME" >&2
  exit 77
fi

mkdir -p "$build"
# Unless it is there and newer than all it is made of.
if [ ! -e "$build/fovea.jar" ] || [ -n "$(find "$folder/src/main" "$folder/src/generated/main" "$0" -newer "$build/fovea.jar")" ]; then
  rm -rf "$build/classes"
  # shellcheck disable=SC2046 # names of ours, without spaces
  (cd "$folder" && "$java_home/bin/javac" --release 22 -Xlint:all -Werror -d "$build/classes" $(find src/main src/generated/main -name '*.java'))
  "$java_home/bin/jar" --create --file "$build/fovea.jar" --date=2020-01-01T00:00:00Z -C "$build/classes" .
fi
java="$java_home/bin/java --enable-native-access=ALL-UNNAMED -cp $build/fovea.jar"
case ${1:-jar} in
  jar) echo "$java" ;;
  test) # as part of the module, so that tests see what the package keeps to itself
    rm -rf "$build/test"
    # shellcheck disable=SC2046
    (cd "$folder" && "$java_home/bin/javac" --release 22 -Xlint:all -Werror -d "$build/test" -p "$build/fovea.jar" \
      --patch-module fovea=src/test/java:src/generated/test/java $(find src/test src/generated/test -name '*.java'))
    "$java_home/bin/java" --enable-native-access=fovea -p "$build/fovea.jar" --patch-module fovea="$build/test" \
      -m fovea/fovea.Tests
    ;;
  heatmap) FOVEA_EXAMPLE_DATA=${FOVEA_EXAMPLE_DATA:-$folder/../../examples/data} $java "$folder/examples/Heatmap.java" ;;
  overhead) $java "$folder/examples/Overhead.java" "$folder" ;;
  program) $java "$2" ;; # any other, as the tests do with README's
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
