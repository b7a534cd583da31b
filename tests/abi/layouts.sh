#!/bin/sh
# layouts.sh LAYOUTS_IN_C python PRINTER EXAMPLE: an example's own declarations have the header's layout, by name,
# size and offsets. An options struct that has fallen behind still works, but cannot ask for what it lacks.
set -eu
in_c=$1
language=$2
printer=$3
example=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $language in
  python)
    if ! python3 -c 'import numpy' 2>/dev/null; then
      echo "skipped: no python3 with numpy here"
      exit 77
    fi
    PYTHONDONTWRITEBYTECODE=1 python3 "$printer" "$example" >"$work/found"
    ;;
esac
"$in_c" >"$work/expected"
diff "$work/expected" "$work/found"
