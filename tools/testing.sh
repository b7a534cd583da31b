# shellcheck shell=sh
# The test commands of ./dev, which reads this file: the builds that are tested, what their tests counted, the command
# itself.

passed=0
failed=0
skipped=0

# Adds what Meson's summary counted; without a summary the run itself broke, which is one failure.
count_results() {
  counts=$(awk '
    /^(Ok|Expected Fail): +[0-9]+ *$/ { ok += $NF; seen = 1 }
    /^(Fail|Unexpected Pass|Timeout): +[0-9]+ *$/ { bad += $NF; seen = 1 }
    /^Skipped: +[0-9]+ *$/ { skip += $NF; seen = 1 }
    END { if (!seen) bad = 1; print ok + 0, bad + 0, skip + 0 }' "$1")
  # shellcheck disable=SC2086 # three numbers
  set -- $counts
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
}

# run_tests NAME ARGUMENT...: Meson's tests of build/NAME, seen as they finish, then counted.
run_tests() {
  name=$1
  shift
  log=${logs:?}/test-$name.log
  { meson test -C "${build:?}/$name" --no-rebuild --print-errorlogs --num-processes "$(jobs)" "$@" 2>&1 || true; } |
    tee "$log"
  count_results "$log"
}

# No build may have warnings. With other compilers than those promised to give none, that is told and no more.
check_warnings() {
  if grep -q 'warning: ' "$logs/compile-$1.log"; then
    warn "the build has warnings, see $logs/compile-$1.log"
    # shellcheck disable=SC2086 # CXX may carry a wrapper
    case $(${CXX:-c++} -dumpversion) in 12 | 14.0.*) failed=$((failed + 1)) ;; esac # GCC 12, Clang 14
  fi
}

command_test() {
  extent=${1:-default}
  if [ $# -gt 1 ]; then bad_usage "test takes at most one argument"; fi
  case $extent in
    fast) steps 4 ;;
    default) steps 6 ;;
    all) if [ "${machine:?}" = x86_64 ]; then steps 10; else steps 8; fi ;;
    *) bad_usage "test takes fast or all, not '$extent'" ;;
  esac
  want_build_tools
  want_test_tools
  if [ "$extent" = all ]; then want_all_test_tools; fi
  prepare

  step "build"
  if [ "$extent" = fast ]; then
    configure_release "$(sets_here)"
    targets=$(python3 -B "${root:?}/tools/suite_targets.py" "$build/release" default) || exit 1
    # shellcheck disable=SC2086 # a list of targets
    compile release $targets
  else
    configure_release
    compile release
  fi
  check_warnings release
  step "tests"
  case $extent in
    fast)
      only_best_set
      run_tests release --suite default
      ;;
    default) run_tests release --no-suite long ;;
    all) run_tests release ;;
  esac

  if [ "$extent" != fast ]; then
    step "build with the address and undefined-behaviour sanitizers"
    if [ "$extent" = all ]; then configure_sanitize "$(sets_here)"; else configure_sanitize "$(best_set_here)"; fi
    compile sanitize
    check_warnings sanitize
    step "tests with the sanitizers"
    run_sanitized
  fi
  if [ "$extent" = all ]; then
    step "build over MPICH"
    configure_mpich
    # shellcheck disable=SC2046 # a list of targets
    compile mpich $(mpi_test_targets)
    check_warnings mpich
    step "tests over MPICH"
    run_tests mpich --suite mpi --no-suite installed --timeout-multiplier 3 # its ranks wait without yielding
  fi
  if [ "$extent" = all ] && [ "$machine" = x86_64 ]; then
    step "build for 64-bit Arm"
    configure_arm
    compile arm
    check_warnings arm
    step "tests on 64-bit Arm, emulated"
    run_tests arm --no-suite long --timeout-multiplier 5 # emulated
  fi

  say "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}

# The library over another MPI than the release build's, for the set that this processor runs best.
configure_mpich() {
  configure mpich "-Disa=$(best_set_here)" --buildtype=release -Dtests=enabled -Dbench=disabled -Dexamples=disabled \
    -Dmpi=enabled -Dmpi_package=mpich
}

mpi_test_targets() {
  for name in fovea_mpi_tests mpi_bits mpi_failing mpi_killed bad_link; do say "tests/mpi/$name"; done
}

sanitizer_options() {
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:malloc_context_size=8:abort_on_error=1:allocator_may_return_null=1
  UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
  export ASAN_OPTIONS UBSAN_OPTIONS
}

only_best_set() {
  if [ -z "$(best_set_here)" ]; then return 0; fi
  FOVEA_TEST_ISA=$(best_set_here | sed 's/.*,//')
  export FOVEA_TEST_ISA
  say "      for the set $FOVEA_TEST_ISA alone"
}

# Every set is tested without sanitizers, whose tests take several times as long: these run the one that the processor runs
# best, and "all" every one.
run_sanitized() {
  sanitizer_options
  if [ "${extent:?}" != all ]; then only_best_set; fi
  run_tests sanitize --no-suite long --no-suite qemu --timeout-multiplier 4 # qemu cannot hold the shadow memory
  unset ASAN_OPTIONS UBSAN_OPTIONS FOVEA_TEST_ISA
}

# Clang, unless the caller brings one: libFuzzer is its.
configure_fuzz() {
  case ${CXX:-} in
    *clang*) ;;
    *)
      CC=clang-14
      CXX=clang++-14
      export CC CXX
      ;;
  esac
  configure fuzz --buildtype=debug -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Db_ndebug=false \
    -Dc_args=-fsanitize=fuzzer-no-link -Dcpp_args=-fsanitize=fuzzer-no-link -Dtests=enabled -Dbench=disabled \
    -Dexamples=disabled
}

command_fuzz() {
  seconds=${1:-}
  case $seconds in '' | *[!0-9]* | 0) bad_usage "fuzz takes a number of seconds, at least 1, not '$seconds'" ;; esac
  [ $# -eq 1 ] || bad_usage "fuzz takes one argument"
  steps 4
  want_build_tools
  case ${CXX:-} in
    *clang*) ;;
    *)
      want clang-14 program clang++-14
      want libclang-rt-14-dev package -
      ;;
  esac
  prepare
  step "build with the address and undefined-behaviour sanitizers"
  configure_fuzz
  compile fuzz tests/fuzz/fovea_fuzz tests/fuzz/fovea_libfuzzer
  step "fuzz"
  sanitizer_options
  mkdir -p "$build/fuzz-corpus" "$build/fuzz-found"
  logged fuzz-seeds "$build/fuzz/tests/fuzz/fovea_fuzz" --corpus "$build/fuzz-corpus" || exit 1
  if "$build/fuzz/tests/fuzz/fovea_libfuzzer" -fork="$(jobs)" -max_total_time="$seconds" -max_len=512 -timeout=120 \
    -rss_limit_mb=4096 -malloc_limit_mb=1000000000 -artifact_prefix="$build/fuzz-found/" "$build/fuzz-corpus"; then
    say "no call broke a promise; $(find "$build/fuzz-corpus" -type f | wc -l) inputs are kept in $build/fuzz-corpus"
  else
    warn "to see the calls: $build/fuzz/tests/fuzz/fovea_fuzz --file $build/fuzz-found/NAME"
    return 1
  fi
}

# Without precompiled headers: a unit that lacks an include is noticed here.
configure_arm() {
  provide_arm64
  configure arm --cross-file "${root:?}/cross/aarch64-linux-gnu.ini" --cross-file "$root/cross/qemu-aarch64.ini" \
    -Dpkg_config_path="${deps:?}/pkgconfig-arm64,$deps/pkgconfig" --buildtype=release \
    -Db_pch=false -Dtests=enabled -Dbench=disabled -Dexamples=disabled
}
