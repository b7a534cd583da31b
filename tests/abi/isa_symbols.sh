#!/bin/sh
# isa_symbols.sh NM ARCHIVE: the globals of libfovea_<isa>.a are structs of kernels, fovea::<topic>_<isa>, and functions of the
# set's own namespace, fovea::<isa>, and nothing is weak.
# The linker keeps one of several weak copies. It might keep one that was compiled for AVX-512, and the base set would call that.
set -eu
isa=$(basename "$2" .a)
isa=${isa#libfovea_}
symbols=$("$1" --defined-only "$2" | awk 'NF == 3 { print $2, $3 }')
if [ -z "$symbols" ]; then
  echo "nm found no symbols in $2"
  exit 1
fi
# Capital letters are global; V, v, W, w weak; u unique. DW.ref.* and .L* are the compiler's and hidden.
bad=$(echo "$symbols" | awk '$1 ~ /^[A-ZVvWwu]$/ { print }' | grep -v -e "^[RD] _ZN5fovea[0-9]*[a-z_]*_${isa}E$" \
  -e "^T _ZN5fovea${#isa}${isa}[0-9]" || true)
if [ -n "$bad" ]; then
  echo "$2 defines symbols that other objects may see:"
  echo "$bad" | c++filt 2>/dev/null || echo "$bad"
  exit 1
fi
if ! echo "$symbols" | grep -q "_${isa}E$"; then
  echo "$2 defines no kernels"
  exit 1
fi
echo "only structs of kernels and the set's own functions, nothing weak"
