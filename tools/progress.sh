# shellcheck shell=sh
# Prints what ./dev, which reads this file, shows while it works: a line for each step, and each command's output into a
# log in $build/logs. From ./dev it has say, warn, jobs and $root.

logs=${build:?}/logs
watcher=

step_number=0
step_count=0
steps() {
  step_number=0
  step_count=$1
}
step() {
  step_number=$((step_number + 1))
  say "[$step_number/$step_count] $*"
}

# By a signal that cannot be caught: one that came while the watcher was being started could find this shell's own trap
# there, be lost with it, and leave us waiting.
stop_watcher() {
  if [ -n "$watcher" ]; then
    kill -KILL "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    watcher=
    if [ -t 1 ]; then printf '\r\033[K'; fi
  fi
}
trap stop_watcher EXIT
trap 'stop_watcher; trap - INT; kill -INT $$' INT
trap 'stop_watcher; trap - TERM; kill -TERM $$' TERM
trap 'stop_watcher; trap - HUP; kill -HUP $$' HUP

# progress PLAN [LOG SECONDS]: what ninja_progress.awk says of a build.
progress() {
  awk -v "jobs=$(jobs)" -v "elapsed=${3:-0}" -f "${root:?}/tools/ninja_progress.awk" "$1" ${2:+"$2"} 2>/dev/null || true
}

# Shows the last line of a growing log: in place on a terminal, otherwise every half minute, if it is another one. A build's
# log, which has its plan beside it, is shown with how far it is.
watch_log() {
  seconds=0
  shown=
  while sleep 2 >/dev/null 2>&1; do
    seconds=$((seconds + 2))
    last=$(tail -n 1 "$1" 2>/dev/null)
    if [ -s "$1.plan" ] && [ -n "$last" ]; then
      far=$(progress "$1.plan" "$1" "$seconds")
      last="${far:+$far: }$last"
    fi
    if [ -t 1 ]; then
      printf '\r\033[K      %.100s' "$last"
    elif [ $((seconds % 30)) -eq 0 ] && [ "$last" != "$shown" ]; then
      printf '      %.100s\n' "$last"
      shown=$last
    fi
  done
}

# The part of a log that tells why: from ninja's first FAILED on, else the end, without check_tidy's progress.
show_failure() {
  if grep -q '^FAILED: ' "$1"; then
    sed -n '/^FAILED: /,$p' "$1" | head -n 60
  else
    grep -v '^checked ' "$1" | tail -n 40
  fi >&2
}

# logged NAME COMMAND...: runs it with its output in build/logs/NAME.log; shows why if it fails.
logged() {
  log=$logs/$1.log
  shift
  mkdir -p "$logs"
  : >"$log"
  watch_log "$log" 9>&- & # without the lock of the build, which its sleep would hold on to
  watcher=$!
  status=0
  "$@" >"$log" 2>&1 || status=$?
  stop_watcher
  if [ "$status" -ne 0 ]; then
    show_failure "$log"
    warn "failed ($status): $*"
    warn "the whole output is in $log"
  fi
  return "$status"
}
