#!/bin/sh
# A library that was built without an element type computes with the others as ever, and refuses that type by name.
#
# usage: types.sh SOURCE SCRATCH     with CC and CXX as the build had them
set -eu

source=$1
scratch=$2

fail() {
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

cat >try.c <<'END'
#include <fovea/fovea.h>
#include <stdio.h>
#include <string.h>

/* The status of attention over four numbers of that type, whose bits are 0. */
static fovea_status attend(fovea_dtype dtype) {
  static char memory[4][16];
  const int64_t shape[2] = {2, 2};
  fovea_tensor t[4];
  for (int n = 0; n < 4; ++n) t[n] = fovea_tensor_contiguous(memory[n], dtype, 2, shape);
  return fovea_sdpa(NULL, &t[0], &t[1], &t[2], &t[3], NULL);
}

int main(int count, char **words) {
  const fovea_dtype types[] = {FOVEA_F16, FOVEA_BF16};
  const char *names[] = {"f16", "bf16"};
  if (attend(FOVEA_F32) != FOVEA_OK) return puts(fovea_last_error()), 1;
  for (int n = 0; n < 2; ++n) {
    int built = 0;
    for (int word = 1; word < count; ++word) built = built || strcmp(words[word], names[n]) == 0;
    const fovea_status status = attend(types[n]);
    if (status != (built ? FOVEA_OK : FOVEA_BAD_DTYPE)) return printf("%s gives %d\n", names[n], (int)status), 1;
    if (!built && strstr(fovea_last_error(), "built without") == NULL) return puts(fovea_last_error()), 1;
  }
  return 0;
}
END

# builds TYPE...: the library with these types and no others beside float32, and what it does with each.
builds() {
  types=$(echo "$*" | tr ' ' ',')
  option=-Dtypes=$types
  meson setup built "$source" --buildtype=release -Disa= "$option" >setup.log 2>&1 || {
    cat setup.log
    fail "meson setup $option"
  }
  ninja -C built library >build.log 2>&1 || {
    cat build.log
    fail "the build of $option"
  }
  # shellcheck disable=SC2086 # a compiler may come with a wrapper
  ${CC:-cc} -std=c11 -I"$source/include" try.c -o try -Lbuilt/capi -lfovea -Wl,-rpath,"$scratch/built/capi"
  ./try "$@" || fail "$option"
  rm -rf built
  echo "ok: $option"
}

builds
builds bf16

cd /
rm -rf "$scratch"
