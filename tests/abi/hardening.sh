#!/bin/sh
# hardening.sh READELF NM LIBRARY: every symbol is bound when the library is loaded, and what was bound is read-only from
# then on; no page is writable and executable; the environment is not read by a program with raised privileges, where
# the C library can tell.
set -eu
readelf=$1
nm=$2
library=$3
complain() {
  echo "$library: $1"
  exit 1
}
dynamic=$("$readelf" -d "$library")
segments=$("$readelf" -l -W "$library")
echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || complain "symbols are bound at their first use (no -z now)"
echo "$segments" | grep -q GNU_RELRO || complain "what is relocated stays writable (no -z relro)"
if echo "$dynamic" | grep -q TEXTREL; then complain "code is relocated"; fi
if echo "$segments" | grep -Eq 'LOAD .*RWE|GNU_STACK .*E '; then complain "a page is writable and executable"; fi
used=$("$nm" -D -u "$library" | awk '{ sub(/@.*/, "", $2); print $2 }')
if echo "$used" | grep -qx getenv; then
  if "$nm" -D -u "$library" | grep -q GLIBC; then complain "calls getenv, expected secure_getenv"; fi
fi
echo "bound at once, read-only after"
