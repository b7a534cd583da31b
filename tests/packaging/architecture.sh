#!/bin/sh
# No folder includes one above it; docs/architecture.svg is the picture of the sources as they are, and docs/files.md their list.
# What finds that out is itself tried, on a copy that breaks each rule.
#
# usage: architecture.sh SOURCE SCRATCH
set -eu

source=$1
scratch=$2

fail() {
  echo "FAILED: $*"
  exit 1
}

check() { PYTHONDONTWRITEBYTECODE=1 python3 "$source/tools/architecture.py" check "$1"; }

check "$source" || fail "see docs/architecture.md"
listed() { PYTHONDONTWRITEBYTECODE=1 python3 "$source/tools/files.py" check "$1"; }
listed "$source" || fail "see docs/files.md"

copy() {
  rm -rf "$scratch"
  mkdir -p "$scratch"
  for folder in capi docs include src; do cp -R "$source/$folder" "$scratch/"; done
}

# refused WORDS: the copy is, for a reason that holds the words.
refused() {
  if check "$scratch" >"$scratch/said"; then fail "not noticed: $1"; fi
  grep -qF -e "$1" "$scratch/said" || {
    cat "$scratch/said"
    fail "the reason does not say $1"
  }
  echo "ok, noticed: $1"
}

copy
check "$scratch" >/dev/null || fail "a copy is judged otherwise"

# The lowest folder includes the highest.
(cd "$scratch/capi" && find . -maxdepth 1 -name '*.hpp') | head -n 1 | sed 's|^\./\(.*\)|#include "../../capi/\1"|' \
  >>"$scratch/include/fovea/fovea.h"
refused 'include/fovea/fovea.h includes ../../capi/'

if listed "$scratch" >/dev/null; then fail "not noticed: a copy without tests has the same list of files"; fi
echo "ok, noticed: files that are gone"

copy
mkdir "$scratch/src/unheard_of"
echo '#include "fovea/fovea.h"' >"$scratch/src/unheard_of/topic.hpp"
refused 'is not of these sources'

copy
sed 's|<title>capi</title>|<title>!</title>|; s|<title>include/fovea</title>|<title>capi</title>|
  s|<title>!</title>|<title>include/fovea</title>|' "$source/docs/architecture.svg" >"$scratch/docs/architecture.svg"
refused 'points upward'

rm -rf "$scratch"
