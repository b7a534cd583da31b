#!/bin/sh
# Runs a program of OpenMPI's on two make-believe machines: two network namespaces with host names of their own, joined by one
# link, so that MPI has nothing but TCP between them. Processes, namespaces and links end with this script, however that ends.
#
# usage: two_machines.sh [--rate RATE] [--trouble PROGRAM MILLISECONDS PERCENT] [--seconds N] MPIRUN RANKS PROGRAM [ARG...]
#   --rate     what the link carries in each direction, as tc writes it: 1gbit
#   --trouble  a link that delays every packet and loses some, by tests/mpi/bad_link.c; its counts go to standard error
#   --seconds  after that many the job is ended, and has failed (default: 300)
#   RANKS      of both machines together: the first half of them is on one, the others are on the other
# Ends with 77, and says why, where this machine does not let it. Root is not needed where users may make namespaces.
set -eu

skip() {
  echo "skipped: $*"
  exit 77
}

if [ "${FOVEA_TWO_MACHINES:-}" != inside ]; then
  for program in unshare nsenter ip tc timeout hostname; do
    command -v "$program" >/dev/null 2>&1 || skip "$program is missing"
  done
  set -- --net --uts --mount --pid --fork --kill-child --mount-proc env FOVEA_TWO_MACHINES=inside "$0" "$@"
  if [ "$(id -u)" -ne 0 ]; then set -- --user --map-root-user "$@"; fi
  reason=$(unshare --net --uts --mount --pid --fork --kill-child --mount-proc true 2>&1) ||
    reason=$(unshare --user --map-root-user --net --uts --mount --pid --fork --kill-child --mount-proc true 2>&1) ||
    skip "namespaces are not permitted here: $reason"
  exec unshare "$@"
fi

rate=
trouble=
seconds=300
while :; do
  case ${1:-} in
    --rate) rate=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --trouble)
      trouble=$2
      milliseconds=$3
      percent=$4
      shift 4
      ;;
    *) break ;;
  esac
done
mpirun=$1
ranks=$2
shift 2
case $("$mpirun" --version 2>&1) in
  *'Open MPI'* | *OpenRTE*) ;;
  *) skip "$mpirun is not OpenMPI's, whose launcher and network this script knows" ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# ---- machines: this shell's namespaces are one, a sleeper's are the other ------------------------------------------------

hostname near
ip link set lo up
unshare --net --uts sh -c 'hostname far && ip link set lo up && exec sleep 100000' &
far=$!
in_far() { nsenter --target "$far" --net --uts "$@"; }
tries=0
until [ "$(in_far hostname 2>/dev/null)" = far ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || skip "a second machine cannot be made"
  sleep 0.05
done

# ---- the link between them ----------------------------------------------------------------------------------------------

link=
if [ -n "$trouble" ]; then
  if [ ! -r /dev/net/tun ] || [ ! -w /dev/net/tun ]; then
    skip "/dev/net/tun cannot be opened, which takes the packets to lose"
  fi
  "$trouble" "$milliseconds" "$percent" "/proc/$far/ns/net" &
  link=$!
  tries=0
  until ip link show wire >/dev/null 2>&1 && in_far ip link show wire >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -ge 100 ] || ! kill -0 "$link" 2>/dev/null; then skip "no link that loses packets can be made"; fi
    sleep 0.05
  done
else
  ip link add wire type veth peer name wire netns "$far" || skip "no pair of network devices can be made"
fi
ip address add 10.77.0.1/24 dev wire
ip link set wire up
in_far ip address add 10.77.0.2/24 dev wire
in_far ip link set wire up
if [ -n "$rate" ]; then
  set_rate() { "$@" tc qdisc add dev wire root tbf rate "$rate" burst 1m latency 20ms; }
  reason=$(set_rate env 2>&1 && set_rate nsenter --target "$far" --net 2>&1) || skip "tc cannot set a rate: $reason"
fi

# ---- the job: launchers reach the other machine by a program of ours instead of ssh -----------------------------------------

cat >"$scratch/agent" <<END
#!/bin/sh
until [ "\$1" = 10.77.0.2 ]; do shift; done
shift
exec nsenter --target $far --net --uts sh -c "\$*"
END
chmod +x "$scratch/agent"
half=$(((ranks + 1) / 2))
set -- --host "10.77.0.1:$half,10.77.0.2:$((ranks - half))" --mca plm_rsh_agent "$scratch/agent" --mca pml ob1 \
  --mca btl self,vader,tcp --mca btl_tcp_if_include wire --mca oob_tcp_if_include wire "$@"
status=0
timeout --kill-after=5 "$seconds" "$mpirun" -n "$ranks" "$@" || status=$?
[ "$status" -ne 124 ] || echo "not done after $seconds seconds" >&2
if [ -n "$link" ]; then
  kill "$link"
  wait "$link" || true
fi
exit "$status"
