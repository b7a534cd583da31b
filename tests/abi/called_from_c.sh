#!/bin/sh
# called_from_c.sh NM LIST PROGRAM...: the programs in C call every function of the list, so that each is known to work
# from C as the header declares it.
set -eu
nm=$1
list=$2
shift 2
called=$(for program in "$@"; do "$nm" -D -u "$program"; done | awk '{ sub(/@.*/, "", $2); print $2 }' | LC_ALL=C sort -u)
missing=$(grep -v '^#' "$list" | LC_ALL=C sort -u | while read -r name; do
  echo "$called" | grep -qxF "$name" || echo "$name"
done)
if [ -n "$missing" ]; then
  echo "no program in tests/capi calls"
  echo "$missing"
  exit 1
fi
echo "every function is called"
