# Tells how far a build is, by what its steps cost: a kernel's unit takes a minute, a small file a second. POSIX awk.
#
#   awk -v jobs=N -f ninja_progress.awk PLAN                        before it begins: "about 5 min, once", or nothing if
#                                                                   it takes less than a quarter of a minute
#   awk -v jobs=N -v elapsed=SECONDS -f ninja_progress.awk PLAN LOG "41 %, about 3 min left", or nothing
#
# PLAN is what `ninja -n` prints, LOG what ninja has printed so far: a line "[29/126] Compiling C++ object ..." for each step.

# Seconds of one core of AMD Zen 3, the processor's time of each compiler; other machines differ by a factor, which elapsed tells.
function cost(step) {
  if (step !~ /Compiling/) return 0.3
  if (step ~ /src\/isa\/.*(products|rowwise)/) return 40
  if (step ~ /src\/isa\//) return 13
  if (step ~ /test_support|bench|precompiled|\.hpp/) return 4
  if (step ~ /tests/) return 3
  return 0.8
}

/^\[[0-9]+\/[0-9]+\]/ {
  step = $0
  sub(/^\[[0-9]+\/[0-9]+\] */, "", step)
  if (FILENAME == ARGV[1]) {
    total += cost(step)
  } else {
    done += cost(step)
  }
}

# The number of minutes, or of seconds where there are few.
function duration(seconds) {
  return seconds < 50 ? sprintf("%d s", 10 * int(seconds / 10) + 10) : sprintf("%d min", int(seconds / 60 + 0.5))
}

END {
  if (jobs < 1) jobs = 1
  if (ARGC < 3) {
    if (total / jobs >= 15) print "about " duration(total / jobs) ", once"
    exit
  }
  if (total < 15 || done > total) exit
  speed = done > 60 && elapsed > 0 ? done / elapsed : jobs # of so many reference seconds in a second
  printf "%d %%, about %s left\n", 100 * done / total, duration((total - done) / speed)
}
