#!/bin/sh
# Makes the wheel as ./dev wheel does: its tag is manylinux, and it attends in a fresh environment. Exits with 77 where the
# package index cannot be reached.
#
# usage: wheel.sh SOURCE SCRATCH
set -eu

script=$1/capi/bindings/python/wheel.sh
scratch=$2

mkdir -p "$scratch"
if ! "$script" tools "$scratch" >"$scratch/tools.log" 2>&1; then
  echo "skipped: no environment with meson-python and auditwheel could be made"
  tail -n 3 "$scratch/tools.log"
  exit 77
fi
for part in build tag try; do
  "$script" "$part" "$scratch" >"$scratch/$part.log" 2>&1 || {
    tail -n 40 "$scratch/$part.log"
    echo "FAILED: $part"
    exit 1
  }
done
grep -q 'consistent with the following platform tag: "manylinux' "$scratch/tag.log" ||
  grep -q 'manylinux_' "$scratch/tag.log" || {
  cat "$scratch/tag.log"
  echo "FAILED: auditwheel names no manylinux"
  exit 1
}
tail -n 1 "$scratch/try.log"
