#!/bin/sh
# java.sh LIBRARY SOURCE_ROOT WORK_DIRECTORY: builds the Java package with javac and jar, runs its tests and its example.
set -eu
library=$1
root=$2
work=$3

package=$root/capi/bindings/java
export FOVEA_LIB_DIR="${library%/*}" FOVEA_JAVA_BUILD="$work" FOVEA_EXAMPLE_DATA="$root/capi/examples/data"
mkdir -p "$work"
if ! "$package/build.sh" test 2>"$work/errors"; then
  cat "$work/errors" >&2
  ! grep -q '^no JDK' "$work/errors" || { sed 's/^/skipped: /' "$work/errors" && exit 77; }
  exit 1
fi
"$package/build.sh" heatmap

# README's program, beside the jar alone.
mkdir -p "$work/readme"
awk '/^```java$/ { on = 1; next } /^```$/ { on = 0 } on' "$package/README.md" >"$work/readme/Main.java"
said=$("$package/build.sh" program "$work/readme/Main.java")
case $said in
  "[30.0, 40.0, 38.30"*", 48.30"*) ;;
  *) echo "README's program said $said" && exit 1 ;;
esac

# Where the library is not, that is said.
if said=$(FOVEA_LIB_DIR="$work/readme" "$package/build.sh" program "$work/readme/Main.java" 2>&1); then
  echo "it ran without the library" && exit 1
fi
case $said in
  *"UnsatisfiedLinkError: libfovea.so.0 in $work/readme, which FOVEA_LIB_DIR names, cannot be loaded"*) ;;
  *) echo "without the library README's program said $said" && exit 1 ;;
esac

# The version that Maven would give it is the library's.
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
grep -q "^  <version>$version</version>" "$package/pom.xml" || { echo "pom.xml has another version than $version" && exit 1; }
