#!/bin/sh
# node_types.sh LIBRARY SOURCE_ROOT WORK_DIRECTORY: the Node package's types by the TypeScript compiler that package.json names, from
# the package's node_modules, from where an earlier test put it, or else from npm's registry. The program that is compiled uses
# every export, and runs.
set -eu
library=$1
root=$2
work=$3

skip() {
  echo "skipped: $1"
  exit 77
}

package=$root/capi/bindings/node
types=$package/test/types
version=$(sed -n 's/.*"typescript": "\([0-9.]*\)".*/\1/p' "$package/package.json")
[ -n "$version" ] || { echo "package.json pins no TypeScript" && exit 1; }
mkdir -p "$work"

# Every type that a program may name is named there.
# shellcheck disable=SC2013 # words are what is wanted
for name in $(sed -n 's/^export \(type\|interface\) \([A-Za-z0-9]*\).*/\2/p' "$package/index.d.ts" "$package/generated/options.d.ts"); do
  grep -qw "$name" "$types/every_export.ts" || { echo "every_export.ts does not use $name" && exit 1; }
done

command -v node >/dev/null 2>&1 || skip "no node here"
compiler=
for folder in "$package/node_modules" "$work/compiler/node_modules"; do
  if grep -qs "\"version\": \"$version\"" "$folder/typescript/package.json"; then compiler=$folder/typescript/lib/tsc.js; fi
done
if [ -z "$compiler" ]; then
  command -v npm >/dev/null 2>&1 || skip "no TypeScript $version, and no npm here"
  npm install --prefix "$work/compiler" --no-save --no-audit --no-fund --fetch-retries=0 --fetch-timeout=30000 \
    "typescript@$version" >"$work/npm.log" 2>&1 || skip "no TypeScript $version, and npm's registry does not give it: see $work/npm.log"
  compiler=$work/compiler/node_modules/typescript/lib/tsc.js
fi

rm -rf "$work/compiled"
node "$compiler" --project "$types" --outDir "$work/compiled"
node "$compiler" --project "$types/float16.json"
echo "ok: TypeScript $version takes the types"

# What was compiled, on the package as it is.
if [ ! -e "$work/../node/fovea.node" ]; then
  echo "left out: running it, as the test node has built no addon"
  exit 0
fi
mkdir -p "$work/compiled/node_modules"
ln -sfn "$package" "$work/compiled/node_modules/fovea"
FOVEA_LIB_DIR="${library%/*}" FOVEA_ADDON="$work/../node/fovea.node" node "$work/compiled/every_export.js"
echo "ok: it runs"
