#!/bin/sh
# layouts.sh LAYOUTS_IN_C python|rust PRINTER EXAMPLE: an example's own declarations have the header's layout, by name,
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
  rust)
    if ! command -v rustc >/dev/null 2>&1; then
      echo "skipped: no rustc here"
      exit 77
    fi
    # Nothing is called, but the example's functions are there to be linked.
    FOVEA_EXAMPLE=$example rustc --edition 2021 -C link-arg=-Wl,--unresolved-symbols=ignore-all -o "$work/layouts" "$printer"
    "$work/layouts" >"$work/found"
    ;;
esac
"$in_c" >"$work/expected"
diff "$work/expected" "$work/found"
