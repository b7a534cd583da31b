// fovea_bench --serve: times cases for another program, which keeps two builds beside each other and asks them in turns
// (bench/compare). It reads lines and answers each with one, "ok ..." or "error <why>":
//
//   (at the start)                 ok fovea_bench serves 1
//   prepare NAME [ISA [THREADS]]   ok <instruction set> <threads>     allocates, fills, runs once; "-" is the default
//   time SECONDS                   ok <seconds per run> <runs>        as many runs as fill that time
//   runs COUNT [BLOCKS]            ok <seconds per run> ...           of each of so many blocks of so many runs, after
//                                                                     one more run unless it is a single one
//   free                           ok
//
// NAME is a case's (see --cases), without instruction set and threads. The end of the input ends it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

namespace fovea_bench {

void serve(std::istream &in, std::ostream &out);

}  // namespace fovea_bench
