#!/bin/sh
# Checks our own sources with linters, which must find nothing. `./dev lint` installs the tools and calls it.
#
#   lint.sh format        clang-format: nothing would be laid out differently
#   lint.sh tidy BUILD    clang-tidy over the library, with the flags of that build
#   lint.sh shell         shellcheck
#   lint.sh rewrite       lays the sources out
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)

# newest NAME: clang-format-14 where Debian's numbered program is there, else the plain name.
newest() { if command -v "$1-14" >/dev/null; then echo "$1-14"; else echo "$1"; fi; }

# NUL-separated. fovea.h, scores.h, serving.h, layers.h, training.h and mpi.h are laid out by hand: their tables are the manual. Bindings' generated files are left out.
own_sources() {
  find "$root/src" "$root/capi" "$root/tests" "$root/bench" "$root/include" -type f -not -name fovea.h -not -name scores.h -not -name serving.h -not -name layers.h -not -name training.h -not -name mpi.h \
    -not -path '*/bindings/*/generated*' \
    \( -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.hpp' \) -print0
}

check_format() { own_sources | xargs -0 "$(newest clang-format)" --dry-run -Werror; }
# What GCC has precompiled it reads as it lies. It counts on every file the warnings that it was told to leave out: those lines are dropped.
check_tidy() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  find "$root/src" "$root/capi" -name '*.cpp' -not -path '*/bindings/*' -not -path '*/examples/*' -print0 |
    xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)" sh -c '
      status=0
      said=$("$0" -p "$1" --quiet --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-ignored-optimization-argument --extra-arg="-I$2" "$3" 2>&1) || status=$?
      printf "%s\n" "$said" | grep -Ev "^([0-9]+ warnings? generated\.)?$"
      printf "checked %s\n" "$3"
      exit "$status"' "$(newest clang-tidy)" "$1" "$root/src/isa/pch"
}
check_shell() {
  (cd "$root" && shellcheck -x dev .ci/run && find tests capi bench tools -name '*.sh' -exec shellcheck {} +)
}

what=${1:-}
case $what in
  format) check_format ;;
  tidy) check_tidy "$2" ;;
  shell) check_shell ;;
  rewrite) own_sources | xargs -0 "$(newest clang-format)" -i ;;
  *) echo "usage: lint.sh format | tidy BUILD | shell | rewrite" >&2 && exit 2 ;;
esac
