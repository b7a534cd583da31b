#!/bin/sh
# exported_symbols.sh NM LIBRARY LIST: the library exports exactly the names of the list.
set -eu
found=$("$1" -D --defined-only "$2" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u)
expected=$(grep -v '^#' "$3" | LC_ALL=C sort -u)
if [ "$found" = "$expected" ]; then
  echo "$(echo "$found" | wc -l) symbols, as listed"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "$found" >"$work/exported"
echo "$expected" >"$work/listed"
diff "$work/listed" "$work/exported" || true
exit 1
