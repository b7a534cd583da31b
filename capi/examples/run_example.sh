#!/bin/sh
# Runs an example as a test: it has to print what is expected.
#
#   run_example.sh PROGRAM EXPECTED_OUTPUT
set -eu

"$1" | diff "$2" -
