#!/bin/sh
# run.sh CPU SETS PROGRAM [ARGUMENT...]: runs a test program on an emulated processor that has exactly those sets.
set -eu
cpu=$1
sets=$2
shift 2
if ! command -v qemu-x86_64 >/dev/null 2>&1; then
  echo "skipped: qemu-x86_64 is not installed (Debian: qemu-user)"
  exit 77
fi
FOVEA_TEST_EXPECT_ISA=$sets exec qemu-x86_64 -cpu "$cpu" "$@"
