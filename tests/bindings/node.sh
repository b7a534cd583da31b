#!/bin/sh
# node.sh LIBRARY SOURCE_ROOT WORK_DIRECTORY: compiles the addon, runs the package's tests and its example.
set -eu
library=$1
root=$2
work=$3
minimum=18 # Debian 12's

skip() {
  echo "skipped: $1"
  exit 77
}

command -v node >/dev/null 2>&1 || skip "no node here"
version=$(node --version | sed -n 's/^v\([0-9]*\).*/\1/p')
[ "${version:-0}" -ge "$minimum" ] || skip "node $(node --version) is older than $minimum"
command -v "${CXX:-c++}" >/dev/null 2>&1 || [ -n "${CXX:-}" ] || skip "no C++ compiler here"
node -e '
  const fs = require("node:fs"), path = require("node:path");
  const beside = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
  const folders = [process.env.NODE_INCLUDE, path.join(beside, "include/node"), "/usr/include/node", "/usr/include/nodejs/src"];
  process.exit(folders.some((folder) => folder && fs.existsSync(path.join(folder, "node_api.h"))) ? 0 : 1);
' || skip "the headers of node are missing (in Debian: libnode-dev)"

package=$root/capi/bindings/node
export FOVEA_LIB_DIR="${library%/*}" FOVEA_ADDON="$work/fovea.node" FOVEA_EXAMPLE_DATA="$root/capi/examples/data"
CXXFLAGS="-Wall -Wextra -Werror" node "$package/build.js" "$FOVEA_ADDON"
cd "$package"
node --test test/*.test.js
node heatmap.js

# README's program, where the package is installed.
mkdir -p "$work/node_modules"
ln -sfn "$package" "$work/node_modules/fovea"
awk '/^```js$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/readme.js"
said=$(node "$work/readme.js" | tr -s ' \n' ' ')
case $said in
  "Float32Array(4) [ 30, 40, 38.30"*", 48.30"*) ;;
  *) echo "README's program said $said" && exit 1 ;;
esac

# Without the library: what helps is named, and nothing else.
helps="FOVEA_LIB_DIR=$root/build/release/capi npm install $package"
if said=$(env -u FOVEA_LIB_DIR PKG_CONFIG_LIBDIR="$work/none" PKG_CONFIG_PATH="$work/none" \
  node "$package/build.js" "$work/none.node" 2>&1); then
  echo "it was built without the library" && exit 1
fi
case $said in
  "fovea: pkg-config "*"meson install -C build/install"*"$helps"*) ;;
  *) echo "without the library build.js said $said" && exit 1 ;;
esac
[ "$(printf '%s\n' "$said" | wc -l)" -le 4 ] || { echo "build.js says more than helps: $said" && exit 1; }
if said=$(FOVEA_ADDON="$work/none.node" node "$work/readme.js" 2>&1); then echo "it ran without the addon" && exit 1; fi
case $said in
  *"Error: fovea: its addon, or the library under it, is not there"*"$helps"*) ;;
  *) echo "without the addon README's program said $said" && exit 1 ;;
esac
