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
command=$("$package/build.sh")
said=$($command "$work/readme/Main.java") # as README has it
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

# With an older JDK alone, what is needed is said in one line, by Maven too where that and its plugins are at hand.
if said=$(env -u JAVA_HOME -u FOVEA_JAVA_HOME FOVEA_JVMS="$work/none" "$package/build.sh" 2>&1); then
  echo "left out: a JDK in PATH is new enough"
else
  case $said in
    "no JDK of 22 or newer, "*"; install one "*"FOVEA_JAVA_HOME") ;;
    *) echo "without a new JDK build.sh said $said" && exit 1 ;;
  esac
fi
old=/usr/lib/jvm/java-17-openjdk-amd64
if command -v mvn >/dev/null 2>&1 && [ -x "$old/bin/javac" ]; then
  said=$(JAVA_HOME=$old mvn -q -o -f "$package/pom.xml" validate 2>&1) && { echo "Maven took JDK 17" && exit 1; }
  case $said in
    *"fovea needs a JDK of 22 or newer"*) ;;
    *"offline mode"* | *"not been downloaded"*) echo "left out: Maven on JDK 17, whose plugins are not at hand" ;;
    *) echo "on JDK 17 Maven said $said" && exit 1 ;;
  esac
fi

# The version that Maven would give it is the library's.
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
grep -q "^  <version>$version</version>" "$package/pom.xml" || { echo "pom.xml has another version than $version" && exit 1; }
