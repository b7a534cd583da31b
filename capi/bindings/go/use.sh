#!/bin/sh
# Adds the package to the Go module of the current folder. What it needs and is not there is named first, with what helps.
#
#   cd MODULE && PATH_TO_CLONE/capi/bindings/go/use.sh
#
# SPDX-License-Identifier: Apache-2.0
set -eu
folder=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
clone=$(CDPATH='' cd -- "$folder/../../.." && pwd)

missing() {
  printf '%s\n' "$@" >&2
  exit 1
}

command -v go >/dev/null 2>&1 || missing "go is not in PATH: https://go.dev/dl, or apt-get install golang"
command -v pkg-config >/dev/null 2>&1 || missing "pkg-config is missing, which Go asks for the library: apt-get install pkg-config"
[ "$(go env CGO_ENABLED)" = 1 ] || missing "cgo is turned off: it needs a C compiler, and CGO_ENABLED must not be 0"
pkg-config --exists fovea || missing "the library fovea is not where pkg-config looks. Either of these lines helps:" \
  "  (cd $clone && meson setup build/install && meson install -C build/install)    # installs it, as root" \
  "  export PKG_CONFIG_PATH=$clone/build/release/meson-uninstalled LD_LIBRARY_PATH=$clone/build/release/capi    # after ./dev build"
[ -e go.mod ] || missing "this folder has no go.mod: first \`go mod init NAME\`"
go mod edit -require fovea@v0.0.0 -replace fovea="$folder"
