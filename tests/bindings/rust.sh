#!/bin/sh
# rust.sh LIBRARY SOURCE_ROOT WORK_DIRECTORY: the tests, documentation and examples of the crates, as Cargo runs them. Without
# a network: where the crates that features need are not at hand, those features are left out.
set -eu
library=$1
root=$2
work=$3
minimum=63 # of 1.63, Debian 12's

skip() {
  echo "skipped: $1"
  exit 77
}

command -v cargo >/dev/null 2>&1 || skip "no cargo here"
command -v rustc >/dev/null 2>&1 || skip "no rustc here"
version=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
[ "${version:-0}" -ge "$minimum" ] || skip "$(rustc --version) is older than 1.$minimum"

# A copy, as Cargo writes a lock file beside the sources. cp -p, so that what has not changed is not compiled again.
mkdir -p "$work"
rm -rf "$work/crates"
cp -Rp "$root/capi/bindings/rust" "$work/crates"
cd "$work/crates"
export FOVEA_LIB_DIR="${library%/*}" FOVEA_EXAMPLE_DATA="$root/capi/examples/data"
export LD_LIBRARY_PATH="${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CARGO_TARGET_DIR="$work/target" CARGO_NET_OFFLINE=true CARGO_PROFILE_DEV_DEBUG=0 RUSTFLAGS="-D warnings"

host=$(rustc -vV | sed -n 's/^host: //p')
if cargo metadata --format-version 1 --filter-platform "$host" >/dev/null 2>&1; then
  features=--all-features
else
  echo "half, ndarray and rayon are not at hand: their features are left out"
  features=
  sed -i '/^half\|^ndarray\|^rayon/d' fovea/Cargo.toml
  printf '\n[features]\nhalf = []\nndarray = []\nrayon = []\n' >>fovea/Cargo.toml
fi
cargo test $features
cargo run --quiet --example heatmap
cargo run --quiet --example learned_width
said=$(cargo run --quiet --example continuous_batching)
case $said in
  *"step 9: 27 free pages"*) ;;
  *) echo "the example of a server said $said" && exit 1 ;;
esac

# With a nightly toolchain and its Miri, where that is asked for: minutes. Miri cannot call C, so it runs what needs no library.
# Leaks are left out: a test has a panic carry what cannot be dropped.
if [ "${FOVEA_RUST_CHECKS:-0}" = 1 ]; then
  CARGO_TARGET_DIR="$work/asan" RUSTFLAGS="-D warnings -Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 \
    cargo +nightly test $features --tests --target "$host"
  export CARGO_TARGET_DIR="$work/miri" DOCS_RS=1 MIRIFLAGS=-Zmiri-disable-isolation
  cargo +nightly miri test $features --lib
  cargo +nightly miri test $features --test views_and_errors a_view_that_leaves
fi
