#!/bin/sh
# Measures how large the shared library is, stripped, by the instruction sets and element types it is built for: writes
# docs/sizes.md. `./dev sizes` calls it. One build folder grows from the base set to all, so that each object is
# compiled once, but for the last rows, which leave types out.
#
# usage: sizes.sh ROOT BUILD, where BUILD is that folder, set up by Meson without sets
set -eu

root=$1
folder=$2
page=$root/docs/sizes.md

# measure SETS WHAT [TYPES]: the library with these sets and types, as a row of the table.
measure() {
  option=-Disa=$1${3+ -Dtypes=$3}
  meson setup --reconfigure "$folder" "$root" "-Disa=$1" "-Dtypes=${3-f16,bf16}" >&2
  ninja -C "$folder" library >&2
  strip -o "$folder/stripped" "$folder/capi/libfovea.so"
  bytes=$(wc -c <"$folder/stripped")
  awk -v option="\`$option\`" -v bytes="$bytes" -v runs="$2" \
    'BEGIN { printf "| %s | %s | %.2f MB | %d |\n", option, runs, bytes / 1e6, bytes }'
}

{
  cat <<END
# How large the library is

\`libfovea.so\` of a release build, stripped, by the instruction sets and element types it is built for. A processor runs the
best set that it has and that was built; the base set and float32 are always there. \`./dev sizes\` measures this and writes
this page.

| option | kernels | size | bytes |
|---|---|---|---|
END
  measure '' 'base (SSE2) alone'
  measure avx2 'base, AVX2'
  measure avx512 'base, AVX-512'
  measure avx2,avx512 'base, AVX2, AVX-512'
  measure avx2,avx512,amx 'base, AVX2, AVX-512, AMX: the default'
  measure avx2 'base, AVX2, float32 and bfloat16' bf16
  measure avx2 'base, AVX2, float32 alone' ''
  cat <<END

Measured with $(${CXX:-c++} --version | sed -n '1s/ (.*) / /p') and \`--buildtype=release\`, for $(uname -m).
END
} >"$folder/sizes.md"
mv "$folder/sizes.md" "$page"
