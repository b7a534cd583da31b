#!/bin/sh
# go.sh LIBRARY SOURCE_ROOT WORK_DIRECTORY: vets, tests and runs the example of the Go package against the build's library.
set -eu
library=$1
root=$2
work=$3
minimum=19 # of 1.19, Debian 12's

skip() {
  echo "skipped: $1"
  exit 77
}

command -v go >/dev/null 2>&1 || skip "no go here"
command -v pkg-config >/dev/null 2>&1 || skip "no pkg-config here"
export GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-trimpath GOWORK=off
version=$(go version | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
[ "${version:-0}" -ge "$minimum" ] || skip "$(go version) is older than go1.$minimum"
[ "$(go env CGO_ENABLED)" = 1 ] || skip "go has cgo turned off here, or finds no C compiler"

# The package asks pkg-config for the library: tell it of the one that was built, wherever the build's own packages lie.
build=$(dirname "${library%/*}")
mkdir -p "$work/pkgconfig" "$work/cache"
cat >"$work/pkgconfig/fovea.pc" <<END
Name: fovea
Description: as built in $build
Version: 0
Cflags: -I$root/include
Libs: -L${library%/*} -lfovea
END
export PKG_CONFIG_PATH="$work/pkgconfig" PKG_CONFIG_DISABLE_UNINSTALLED=1 GOCACHE="$work/cache"
export LD_LIBRARY_PATH="${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export FOVEA_EXAMPLE_DATA="$root/capi/examples/data"

cd "$root/capi/bindings/go"
go vet ./...
go test .
go run ./heatmap

# README's program, in a module of its own that the install line made.
rm -rf "$work/readme"
mkdir -p "$work/readme"
awk '/^```go$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/readme/main.go"
cd "$work/readme"
go mod init readme 2>/dev/null
"$root/capi/bindings/go/use.sh"
said=$(go run .)
[ "$said" = "[30.00 40.00 38.30 48.30]" ] || { echo "README's program said $said" && exit 1; }

# Without the library: what helps is named, by Go's own words too.
export PKG_CONFIG_LIBDIR="$work/none" PKG_CONFIG_PATH="$work/none"
if said=$("$root/capi/bindings/go/use.sh" 2>&1); then echo "use.sh missed no library" && exit 1; fi
case $said in
  *"meson install -C build/install"*"PKG_CONFIG_PATH=$root/build/release/meson-uninstalled"*) ;;
  *) echo "without the library use.sh said $said" && exit 1 ;;
esac
if said=$(go build . 2>&1); then echo "it was built without the library" && exit 1; fi
case $said in
  *"required by 'use.sh-says-what-helps'"*) ;;
  *) echo "without the library go build said $said" && exit 1 ;;
esac
