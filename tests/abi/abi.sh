#!/bin/sh
# The binary interface is that of capi/abi/fovea.abi, but for what may be added: functions, and members at the end of options
# structs. Exits with 77 where abidw and abidiff are missing (in Debian abigail-tools).
#
# usage: abi.sh SOURCE ABI_NUMBER [--write]     with the C compiler's command in CC; --write: renews capi/abi/fovea.abi
set -eu

source=$1
number=$2
described=$source/capi/abi/fovea.abi

for program in abidw abidiff python3; do
  if ! command -v $program >/dev/null 2>&1; then
    echo "skipped: no $program here (abidw and abidiff are in Debian's abigail-tools)"
    exit 77
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -B "$source/tests/abi/stubs.py" "$source/capi/bindings/interface.json" >"$work/stubs.c"
# shellcheck disable=SC2086 # CC may carry a wrapper
${CC:-cc} -std=c99 -g -O0 -fPIC -shared -w -I"$source/include" -Wl,-soname,"libfovea.so.$number" -o "$work/libfovea.so" "$work/stubs.c"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --out-file "$work/fovea.abi" "$work/libfovea.so"
sed -i "s|path='[^']*/stubs.c'|path='stubs.c'|" "$work/fovea.abi" # a folder of this run alone

if [ "${3:-}" = --write ]; then
  mkdir -p "$source/capi/abi"
  cp "$work/fovea.abi" "$described"
  echo "written: $described"
  exit 0
fi

renew="tests/abi/abi.sh . $number --write"
if ! grep -q "soname='libfovea.so.$number'" "$described"; then
  echo "FAILED: capi/abi/fovea.abi describes another abi_number than $number. If that is raised on purpose: $renew"
  exit 1
fi
result=0
abidiff --no-added-syms --no-show-locs --suppressions "$source/tests/abi/abidiff.suppressions" "$described" "$work/fovea.abi" ||
  result=$?
python3 -B "$source/tests/abi/members.py" "$described" "$work/fovea.abi" || result=$?
if [ "$result" -ne 0 ]; then
  echo "FAILED: an incompatible change. Where the soname stays, so has the interface; else raise abi_number in meson.build, then"
  echo "  $renew"
  exit 1
fi
echo "ok: what was released is as it was"
