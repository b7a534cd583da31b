#!/bin/sh
# Runs the Python package's tests as it lies in the build tree. Exits with 77, naming it, where something is missing.
#
# usage: run.sh PACKAGE INTERFACE TESTS [--with MODULE]... PYTHON...
#   PACKAGE    the folder that holds fovea/
#   INTERFACE  interface.json
#   TESTS      a file or folder of tests
#   PYTHON     interpreters, the first of which that has all is taken; MODULE: what it needs besides NumPy and pytest
set -eu

package=$1
interface=$2
tests=$3
modules="numpy pytest"
shift 3
while [ "${1:-}" = --with ]; do
  modules="$modules $2"
  shift 2
done

missing=
for python in "$@"; do
  if ! command -v "$python" >/dev/null 2>&1; then continue; fi
  lacking=
  for module in $modules; do
    if ! "$python" -c "import $module" >/dev/null 2>&1; then lacking="$lacking $module"; fi
  done
  if [ -z "$lacking" ]; then
    PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} FOVEA_INTERFACE=$interface PYTHONDONTWRITEBYTECODE=1 \
      exec "$python" -m pytest -q -p no:cacheprovider "$tests"
  fi
  missing="$missing; $python lacks$lacking"
done
echo "skipped${missing:-; no Python here}"
exit 77
