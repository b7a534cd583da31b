#!/bin/sh
# The program runs, and needs nothing but the C and C++ runtimes.
#
# usage: caller_threads.sh PROGRAM ARGUMENT...
set -eu

"$@"
if ! command -v readelf >/dev/null 2>&1; then exit 0; fi
needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for library in $needed; do
  case $library in
    libc.so* | libm.so* | libgcc_s.so* | libstdc++.so* | libc++* | ld-linux* | libpthread.so* | libdl.so*) ;;
    lib*san.so*) ;; # a sanitizer's own
    *) echo "FAILED: it needs $library" && exit 1 ;;
  esac
done
