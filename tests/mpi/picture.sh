#!/bin/sh
# The ring example's picture: of the same numbers as without it, and a PNG that is not empty.
#
# usage: picture.sh MPIRUN RING PICTURE
set -eu

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -f "$3"
"$1" -n 3 "$2" --length 2001 --heads 4 --kv-heads 2 --picture "$3" || fail "the example ends with $?"
[ "$(head -c 8 "$3" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail "no PNG"
[ "$(wc -c <"$3")" -gt 4000 ] || fail "the picture is empty"
if "$1" -n 1 "$2" --length 100 --picture /nonexistent/ring.png; then fail "a picture that cannot be written is no failure"; fi
