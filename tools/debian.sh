# shellcheck shell=sh
# Debian's packages, for ./dev, which reads this file: installs what is missing, and unpacks below build/deps what the machine's
# own suite or architecture lacks. Elsewhere it says what to install. From ./dev it has say, warn, die, have, logged, $build
# and $machine.

deps=${build:?}/deps

# ---- packages --------------------------------------------------------------------------------------------------------

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# is_there KIND NAME: a program, a pkg-config module, a C++ header, a Python module.
is_there() {
  case $1 in
    program) have "$2" ;;
    module) have pkg-config && pkg-config --exists "$2" ;;
    header) [ -e "/usr/include/$2" ] || [ -e "/usr/local/include/$2" ] ;;
    python) have python3 && python3 -c "import $2" >/dev/null 2>&1 ;;
    package) false ;;
  esac
}

missing=
# want PACKAGE KIND NAME: notes a Debian package as missing unless it, or what we need of it, is there.
want() {
  if have dpkg-query && installed "$1"; then return 0; fi
  if is_there "$2" "$3"; then return 0; fi
  missing="$missing $1"
}

# What the library itself is compiled with, but Meson and Ninja. GCC unless the caller brings a compiler; Meson asks for both a
# C and a C++ one.
want_compilers() {
  if [ -z "${CC:-}" ]; then want gcc program cc; fi
  if [ -z "${CXX:-}" ]; then want g++ program c++; fi
  want libc6-dev header stdlib.h
  want pkgconf program pkg-config
  want libtbb-dev module tbb
}

want_python_headers() {
  want python3-dev python 'sysconfig; open(sysconfig.get_path("include") + "/Python.h")'
}

# Meson and Ninja come with the environment that builds it.
want_wheel_tools() {
  want_compilers
  want python3 program python3
  want python3-venv python ensurepip
  want_python_headers
}

want_build_tools() {
  want_compilers
  want meson program meson
  want ninja-build program ninja
  want doctest-dev header doctest/doctest.h
  want libbenchmark-dev module benchmark
  want libcairo2-dev module cairo-png
  want nlohmann-json3-dev module nlohmann_json
  want libutf8proc-dev module libutf8proc
}

want_mpi() {
  want libopenmpi-dev program mpicc
  want openmpi-bin program mpirun
}

# Another MPI beside it, with its headers and programs under names of their own.
want_mpich() {
  want libmpich-dev module mpich
  want mpich program mpirun.mpich
}

want_test_tools() {
  want_mpi
  want git program git # the tests of bench --against make a repository
  want python3-numpy python numpy
  want python3-mpi4py python mpi4py
  want python3-scipy python scipy
  want librandom123-dev header Random123/philox.h
  case ${machine:?} in x86_64) want qemu-user program qemu-x86_64 ;; esac
}

want_all_test_tools() {
  want cmake program cmake
  want cargo program cargo
  want golang-go program go
  want nodejs program node
  want libnode-dev header node/node_api.h
  want_python_headers
  want python3-pytest python pytest
  want python3-matplotlib python matplotlib
  want abigail-tools program abidw
  want valgrind program valgrind
  want_mpich
  want_arm_tools
}

# For 64-bit Arm, emulated.
want_arm_tools() {
  case $machine in
    x86_64)
      want g++-aarch64-linux-gnu program aarch64-linux-gnu-g++
      want qemu-user program qemu-aarch64
      ;;
  esac
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

apt_update() { as_root apt-get update; }
apt_install() {
  # shellcheck disable=SC2086 # a list of package names
  as_root apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $missing
}

# Installs what the want_* calls before it noted as missing.
install_missing() {
  if [ -z "$missing" ]; then return 0; fi
  if ! have apt-get; then
    die "please install what these Debian packages hold, then run this again:$missing"
  fi
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then
    warn "packages are missing, and this is neither root nor is there sudo. As root, run:"
    say "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  say "      installing:$missing"
  logged apt-update apt_update || warn "continuing with the package lists that are there"
  if ! logged apt-install apt_install; then
    warn "please install these by hand, as root, then run this again:"
    say "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  missing=
}

# ---- packages of another suite or architecture, without touching the machine's configuration --------------------------

# The entries for Debian's main archive in the machine's own configuration, as "URI keyring". apt parses its sources itself,
# so both formats, disabled entries and mirror lists are understood. It only knows what an entry is once its lists are
# there; where they are not (as in images made small), they are fetched aside.
debian_mirrors() {
  mirrors=$(list_mirrors)
  if [ -z "$mirrors" ]; then
    mkdir -p "$deps/apt-own/lists/partial" "$deps/apt-own/cache/archives/partial"
    set -- -o Dir::State::Lists="$deps/apt-own/lists" -o Dir::Cache="$deps/apt-own/cache" -o APT::Sandbox::User=root
    apt-get "$@" -o Acquire::Languages=none update </dev/null >&2 || true
    mirrors=$(list_mirrors "$@")
    rm -rf "$deps/apt-own"
  fi
  printf '%s\n' "$mirrors" | while read -r uri entry; do
    if [ -n "$uri" ]; then printf '%s %s\n' "$uri" "$(signing_key "$entry")"; fi
  done
}

list_mirrors() {
  # shellcheck disable=SC2016 # apt expands these
  apt-get "$@" indextargets --format '$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)|$(SOURCESENTRY)' \
    'Created-By: Packages' 2>/dev/null |
    awk -F '|' -v codename="$(os_release VERSION_CODENAME)" \
      '$1 == "Debian" && $2 == "Debian" && $3 == "main" && $4 == codename && !seen[$5]++ { print $5, $6 }'
}

os_release() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" /etc/os-release 2>/dev/null; }

# signing_key FILE:N: the keyring that entry N names (a line of a .list, a paragraph of a .sources), and Debian's own, as
# the entry's may hold nothing but the keys of the machine's release.
signing_key() {
  file=${1%:*}
  number=${1##*:}
  key=
  case $file in
    *.sources)
      key=$(awk -v RS= -v n="$number" 'NR == n' "$file" | sed -n 's/^[Ss]igned-[Bb]y: *\(\/[^ ,]*\).*/\1/p')
      ;;
    *.list) key=$(sed -n "${number}s/^[^]]*signed-by=\(\/[^] ,]*\).*/\1/p" "$file") ;;
  esac
  own=/usr/share/keyrings/debian-archive-keyring.gpg
  if [ -e "$own" ] && [ "$key" != "$own" ]; then key=${key:+$key,}$own; fi
  printf '%s' "$key"
}

# fetch_debs SUITE ARCHITECTURE TARGET PACKAGE...: unpacks packages below TARGET. Needs no root.
fetch_debs() {
  suite=$1
  architecture=$2
  target=$3
  shift 3
  work=$deps/apt-$suite-$architecture
  debian_mirrors | (
    while read -r uri key; do
      rm -rf "$work"
      mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
      say "deb [arch=$architecture${key:+ signed-by=$key}] $uri $suite main" >"$work/sources.list"
      cat >"$work/apt.conf" <<END
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons-small::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11-icons-hidpi::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
END
      if apt-get -c "$work/apt.conf" update </dev/null &&
        (cd "$work/debs" && apt-get -c "$work/apt.conf" download "$@" </dev/null); then
        rm -rf "$target.new"
        mkdir -p "$target.new"
        for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$target.new" || exit 1; done
        rm -rf "$target" "$work"
        mv "$target.new" "$target"
        exit 0
      fi
    done
    echo "no mirror of Debian's main archive in apt's configuration served $* from $suite"
    exit 1
  )
}

# ---- xsimd -----------------------------------------------------------------------------------------------------------

xsimd_minimum=13.2
xsimd_suite=trixie # Debian 13 (stable) holds 13.2.0; Debian 12 holds 8.1

# describe TREE FOLDER: into FOLDER, the pkg-config files of the packages unpacked there, which say that they lie in /usr.
describe() {
  mkdir -p "$2"
  find "$1/usr" -name '*.pc' | while read -r file; do
    sed "s|=/usr|=\${pcfiledir}/../${1##*/}/usr|" "$file" >"$2/${file##*/}"
  done
}

use_unpacked_xsimd() {
  [ -e "$deps/xsimd/usr/include/xsimd/xsimd.hpp" ] || return 1
  describe "$deps/xsimd" "$deps/pkgconfig"
  PKG_CONFIG_PATH=$deps/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_PATH
  pkg-config --atleast-version=$xsimd_minimum xsimd
}

# Where apt's own sources have a new enough package (Debian 13 and later), it is simply installed.
package_is_new_enough() {
  have apt-cache && have dpkg || return 1
  candidate=$(apt-cache policy libxsimd-dev 2>/dev/null | sed -n 's/^ *Candidate: //p')
  case $candidate in
    '' | '(none)') return 1 ;;
    *) dpkg --compare-versions "$candidate" ge "$xsimd_minimum" ;;
  esac
}

provide_xsimd() {
  if pkg-config --atleast-version=$xsimd_minimum xsimd; then return 0; fi
  if use_unpacked_xsimd; then return 0; fi
  if package_is_new_enough; then
    missing=libxsimd-dev
    install_missing
    return 0
  fi
  if have apt-get && have dpkg-deb; then
    if logged xsimd fetch_debs "$xsimd_suite" "$(dpkg --print-architecture)" "$deps/xsimd" libxsimd-dev; then
      if use_unpacked_xsimd; then return 0; fi
    fi
  fi
  warn "no xsimd $xsimd_minimum or newer here: Meson will fetch what subprojects/xsimd.wrap names"
}

# ---- 64-bit Arm ------------------------------------------------------------------------------------------------------

# Libraries of that architecture from the machine's own suite, unpacked, and described in build/deps/pkgconfig-arm64.
provide_arm64() {
  if [ ! -e "$deps/arm64/usr/include/utf8proc.h" ]; then
    logged arm64 fetch_debs "$(os_release VERSION_CODENAME)" arm64 "$deps/arm64" \
      libtbb-dev libtbb12 libtbbmalloc2 libutf8proc-dev libutf8proc2 || exit 1
  fi
  describe "$deps/arm64" "$deps/pkgconfig-arm64"
}
