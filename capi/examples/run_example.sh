#!/bin/sh
# Runs an example as a test. Exit code 77 tells Meson that it was skipped.
#
#   run_example.sh c PROGRAM EXPECTED_OUTPUT
#   run_example.sh python SOURCE LIBRARY DATA_DIRECTORY
set -eu

skip() {
  echo "skipped: $1"
  exit 77
}

run_c() {
  "$1" | diff "$2" -
}

run_python() {
  command -v python3 >/dev/null 2>&1 || skip "no python3 here"
  python3 -c 'import numpy' 2>/dev/null || skip "python3 here has no numpy"
  PYTHONDONTWRITEBYTECODE=1 python3 "$@"
}

language=$1
shift
"run_$language" "$@"
