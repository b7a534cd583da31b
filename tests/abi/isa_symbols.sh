#!/bin/sh
# isa_symbols.sh NM ARCHIVE: libfovea_<isa>.a defines the one global [projection_]kernels_<isa>, and nothing weak. Of several weak
# copies the linker keeps one, and it might keep the one compiled for AVX-512 for the use of the base set.
set -eu
isa=$(basename "$2" .a)
isa=${isa#libfovea_}
symbols=$("$1" --defined-only "$2" | awk 'NF == 3 { print $2, $3 }')
if [ -z "$symbols" ]; then
  echo "nm found no symbols in $2"
  exit 1
fi
# Capital letters are global; V, v, W, w weak; u unique. DW.ref.* and .L* are the compiler's and hidden.
bad=$(echo "$symbols" | awk '$1 ~ /^[A-ZVvWwu]$/ { print }' | grep -v "^[RD] .*kernels_${isa}E$" || true)
if [ -n "$bad" ]; then
  echo "$2 defines symbols that other objects may see:"
  echo "$bad" | c++filt 2>/dev/null || echo "$bad"
  exit 1
fi
if ! echo "$symbols" | grep -q "kernels_${isa}E$"; then
  echo "$2 does not define kernels_${isa}"
  exit 1
fi
echo "only kernels_${isa}, nothing weak"
