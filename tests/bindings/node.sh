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
