#!/bin/sh
# Runs the Python package's tests on the package as it lies in the build tree. Exits with 77, naming it, where something is
# missing.
#
# usage: run.sh PACKAGE INTERFACE TESTS PYTHON...      or: run.sh --without WHAT
#   PACKAGE    the folder that holds fovea/
#   INTERFACE  interface.json
#   PYTHON     interpreters, the first of which that has NumPy and pytest is taken; before them FOVEA_PYTHON from the
#              environment, for one that has PyTorch and transformers too
set -eu

if [ "$1" = --without ]; then
  echo "skipped: no $2 when this was built"
  exit 77
fi
package=$1
interface=$2
tests=$3
shift 3

missing=
for python in ${FOVEA_PYTHON:+"$FOVEA_PYTHON"} "$@"; do
  if ! command -v "$python" >/dev/null 2>&1; then continue; fi
  lacking=
  for module in numpy pytest; do
    if ! "$python" -c "import $module" >/dev/null 2>&1; then lacking="$lacking $module"; fi
  done
  if [ -z "$lacking" ]; then
    PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} FOVEA_INTERFACE=$interface PYTHONDONTWRITEBYTECODE=1 \
      exec "$python" -m pytest -q -rs -p no:cacheprovider "$tests"
  fi
  missing="$missing; $python lacks$lacking"
done
echo "skipped${missing:-; no Python here}"
exit 77
