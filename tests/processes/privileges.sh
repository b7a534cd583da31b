#!/bin/sh
# privileges.sh PROBE: a program that was started with raised privileges does not read FOVEA_ISA. PROBE is isa_probe with
# the library inside it. Only root can start one here: a copy that belongs to another user and sets its user on execution.
set -eu
skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "not root"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cp "$1" "$folder/probe"
chown nobody "$folder/probe" 2>/dev/null || skip "no user nobody"
chmod 4755 "$folder/probe"
# Where set-user-ID bits mean nothing the name still counts: that it does without them says nothing then.
FOVEA_ISA=nonsense "$1" none >/dev/null
FOVEA_ISA=nonsense "$folder/probe" best || {
  mount_options=$(findmnt -no OPTIONS -T "$folder" 2>/dev/null || echo nosuid)
  case $mount_options in *nosuid*) skip "$folder is mounted without set-user-ID" ;; esac
  grep -q 'NoNewPrivs:[[:space:]]*1' /proc/self/status && skip "this process may gain no privileges"
  exit 1
}
