#!/bin/sh
# What ./dev says while it works and when it cannot go on, without a terminal. Everything it calls is played by stubs: nothing
# is installed or built.
#
# usage: dev.sh SOURCE SCRATCH
set -eu

source=$1
scratch=$2

fail() {
  cat said
  echo "FAILED: $*"
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch/bin" "$scratch/root"
cd "$scratch"
cp -R "$source/dev" "$source/tools" "$source/meson_options.txt" root/
real_sleep=$(command -v sleep)

# stub NAME: a program, from standard input.
stub() {
  { echo '#!/bin/sh' && cat; } >"bin/$1"
  chmod +x "bin/$1"
}
echo 'printf installed' | stub dpkg-query
echo 'exit 0' | stub pkg-config
echo "exec $real_sleep 0.01" | stub sleep # time passes two hundred times as fast
echo 'echo version 1' | stub cc
# shellcheck disable=SC2016 # expanded by the stub
echo 'case $1 in -dumpversion) echo "${COMPILER_IS:-12}" ;; *) echo version 1 ;; esac' | stub c++
PATH=$scratch/bin:$PATH
unset CC CXX
export PATH

# A build that stands for minutes at one file, then at another: a line for each, no more.
stub meson <<'END'
case $1 in --version) echo 1.0 ;; setup) mkdir -p "$2" ;; esac
END
stub ninja <<END
case " \$* " in *" -t "*) exit 1 ;; *" -n "*) exit 0 ;; esac
for line in '[1/2] Compiling C++ object first.o' '[2/2] Compiling C++ object second.o'; do
  echo "\$line"
  for wait in 1 2 3 4 5 6 7 8 9 10; do
    $real_sleep 0.5
    if [ "\$wait" -gt 1 ] && grep -qF "\$line" $scratch/said; then break; fi
  done
done
END
root/dev build >said 2>&1 </dev/null || fail "./dev build fails"
[ "$(grep -c 'first.o' said)" = 1 ] || fail "the first line of progress is there $(grep -c 'first.o' said) times"
[ "$(grep -c 'second.o' said)" = 1 ] || fail "the second line of progress is there $(grep -c 'second.o' said) times"
echo "ok: progress is not repeated"

# A long build says how long before it begins, and how far it is by what its steps cost: one of two large ones is half, though it
# is one of five.
stub ninja <<END
case " \$* " in *" -t "*) exit 1 ;; esac
large='Compiling C++ object src/isa/libfovea_avx512.a.p/products.cpp.o'
case " \$* " in *" -n "*)
  printf '[%s/5] %s\n' 1 "\$large" 2 "\$large" 3 'Linking a' 4 'Linking b' 5 'Linking c'
  exit ;;
esac
echo "[1/5] \$large"
for wait in 1 2 3 4 5 6 7 8 9 10; do
  $real_sleep 0.5
  if grep -qF '[1/5]' $scratch/said; then break; fi
done
END
rm -rf root/build
root/dev build >said 2>&1 </dev/null || fail "./dev build fails"
grep -qE '^ *about [0-9]+ (s|min), once$' said || fail "it is not said how long the build takes"
grep -qE '^ *49 %, about [0-9]+ (s|min) left: \[1/5\]' said || fail "it is not said how far the build is"
echo "ok: how far a build is"

# The demo begins a release build with this processor's best set; what wants all sets widens it, and the demo never narrows it.
# This Meson, which notes how it is called and knows of no tests and targets, serves what follows, too.
stub meson <<END
case \$1 in --version) echo 1.0 ;; setup)
  echo "\$*" >>$scratch/configured
  [ "\$2" = --reconfigure ] && exit 0
  mkdir -p "\$2/meson-info"
  for list in tests targets; do echo '[]' >"\$2/meson-info/intro-\$list.json"; done ;;
test) echo "Ok: 1" ;; esac
END
stub ninja <<END
case " \$* " in *" -n "*) exit 0 ;; esac
for program in capi/examples/demo capi/examples/textbook bench/fovea_overview; do
  mkdir -p "$scratch/root/build/release/\${program%/*}"
  echo '#!/bin/sh' >"$scratch/root/build/release/\$program"
  chmod +x "$scratch/root/build/release/\$program"
done
END
# configures COUNT COMMAND...: how often Meson has been called for the release build when that command is through
configures() {
  count=$1
  shift
  root/dev "$@" >said 2>&1 </dev/null || fail "./dev $* fails"
  [ "$(wc -l <configured)" = "$count" ] || { cat configured && fail "after ./dev $* Meson was called other than $count times"; }
}
rm -rf root/build configured
configures 1 demo
grep -q -e '-Disa=' configured || fail "the demo compiles every instruction set"
configures 1 demo
configures 2 build
tail -n 1 configured | grep -q -e "setup --reconfigure .*-Disa=avx2,avx512,amx" || fail "./dev build does not ask for all sets"
configures 2 build
configures 2 demo
rm -rf root/build configured
configures 1 test fast
tail -n 1 configured | grep -q -e '-Disa=' || fail "./dev test fast compiles sets that this processor cannot run"
wider=2 # not where this processor runs all sets
if grep -q '^flags.* avx512vl ' /proc/cpuinfo 2>/dev/null; then wider=1; fi
configures $wider build
configures $wider test fast
rm -rf root/build configured
configures 1 build
! grep -q -e '-Disa=' configured || fail "./dev build leaves sets out"
echo "ok: a release build that the demo began is widened"

# A second command waits until the first has compiled. Were both to compile at once, their files would be of both.
if command -v flock >/dev/null 2>&1; then
  stub first <<END
for wait in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
  $real_sleep 0.25
  if grep -q 'waiting for it' said; then break; fi
done
echo first >>order
END
  flock root/build/lock first &
  : >said
  while flock -n root/build/lock true; do $real_sleep 0.05; done
  echo "case \" \$* \" in *\" -n \"*) exit ;; esac; echo second >>$scratch/order" | stub ninja
  root/dev build >said 2>&1 </dev/null || fail "./dev build fails beside another"
  wait
  echo "exec $real_sleep 1" | stub sleep # of the progress line, which outlives the step that it waits in
  rm -rf root/build
  root/dev build >said 2>&1 </dev/null || fail "./dev build fails"
  ! grep -q 'waiting for it' said || fail "./dev build waits for itself"
  echo "exec $real_sleep 0.01" | stub sleep
  [ "$(head -n 1 order)" = first ] || fail "a second command does not wait for the first"
  echo "ok: one compiles at a time"
else
  echo "SKIPPED: a second command that waits, there is no flock"
fi

# A warning is a failure with GCC 12 and Clang 14, but not with a compiler that may have learnt new ones.
# shellcheck disable=SC2016
echo 'case " $* " in *" -t "*) exit 1 ;; esac; echo "a.cpp:1:1: warning: odd"' | stub ninja
for compiler in 12 14.0.6 15; do
  result=0
  COMPILER_IS=$compiler root/dev test fast >said 2>&1 </dev/null || result=$?
  grep -q 'the build has warnings' said || fail "compiler $compiler: a warning is not told"
  case $compiler in 15) expected=0 ;; *) expected=1 ;; esac
  [ "$result" = "$expected" ] || fail "compiler $compiler: a build with a warning exits with $result, expected $expected"
done
echo "ok: warnings"

# What to install is one message: the command stands in the same stream as the sentence before it.
stub dpkg-query </dev/null
stub id <<'END'
echo 1000
END
echo 'exit 1' | stub pkg-config
if root/dev build >said 2>told </dev/null; then fail "./dev build goes on without packages"; fi
if ! command -v sudo >/dev/null 2>&1; then
  grep -q 'packages are missing' told || fail "it is not said that packages are missing"
  grep -q 'apt-get install' told || fail "the command is not where its sentence is"
fi
echo 'printf installed' | stub dpkg-query
echo 'exit 0' | stub pkg-config
rm bin/id
echo "ok: what to install"

# A compiler that the caller brings and that is not there.
if CXX='wrapper of-nothing' root/dev build >said 2>&1 </dev/null; then fail "./dev build goes on without a compiler"; fi
[ "$(tail -n 1 said)" = "dev: CXX is 'wrapper of-nothing', which does not run" ] || fail "the last line is not about CXX"
echo "ok: a compiler that does not run"

# What is missing stands last, whatever Meson prints around it.
stub meson <<'END'
case $1 in --version) echo 1.0 && exit ;; esac
echo '<urlopen error [Errno -2] Name or service not known>'
echo
echo 'meson.build:18:2: ERROR: Problem encountered: xsimd is missing. Install libxsimd-dev'
echo
echo 'A full log can be found at meson-log.txt'
exit 1
END
rm -rf root/build
if root/dev build >said 2>&1 </dev/null; then fail "./dev build goes on without xsimd"; fi
[ "$(tail -n 1 said)" = "dev: xsimd is missing. Install libxsimd-dev" ] || fail "the last line does not say what is missing"
echo "ok: what is missing stands last"

cd /
rm -rf "$scratch"
