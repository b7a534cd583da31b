#!/bin/sh
# The ring, decoding and attention by heads on a bad network give the bits that they give on one machine. The network is real
# TCP over a link that delays every packet by 20 ms and loses one in a hundred; the ranks are in two network namespaces.
#
# usage: network.sh TWO_MACHINES MPIRUN RANKS BITS BAD_LINK
set -eu

two_machines=$1
mpirun=$2
ranks=$3
bits=$4
bad_link=$5

fail() {
  echo "FAILED: $*"
  exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

status=0
"$two_machines" --seconds 150 --trouble "$bad_link" 20 1 "$mpirun" "$ranks" "$bits" >"$scratch/far" 2>"$scratch/said" || status=$?
if [ "$status" -eq 77 ]; then
  cat "$scratch/far"
  exit 77
fi
cat "$scratch/far" "$scratch/said"
[ "$status" -eq 0 ] || fail "on the bad network the job ends with $status"
timeout 60 "$mpirun" -n "$ranks" "$bits" >"$scratch/near" || fail "on one machine the job ends with $?"
[ "$(grep -c : "$scratch/near")" -eq 4 ] || fail "four results were expected"
cmp "$scratch/near" "$scratch/far" || fail "results differ from those of one machine, which are: $(cat "$scratch/near")"

# That there was a network, and that it was bad.
counts=$(sed -n 's/^link: \([0-9]*\) and \([0-9]*\) packets passed, \([0-9]*\) and \([0-9]*\) lost$/\1 \2 \3 \4/p' "$scratch/said")
# shellcheck disable=SC2086 # four numbers
set -- $counts
[ $# -eq 4 ] || fail "the link did not say what it passed"
for direction in "$1 $3" "$2 $4"; do
  passed=${direction% *}
  lost=${direction#* }
  [ "$passed" -gt 500 ] || fail "only $passed packets passed: the ranks did not speak over the link"
  [ "$lost" -gt 0 ] || fail "no packet was lost"
done
