// AMX's instructions on processors that lack them, so that the code that ships is what is tested: where there is no
// tile unit, each of them raises SIGILL, and the handler decodes it, does what Intel's Software Developer's Manual says
// (volume 2: LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS, TDPFP16PS), and goes on
// behind it. Tiles belong to threads, as on a processor. Whatever a processor would refuse (tiles that are not
// configured, shapes that do not fit each other) ends the program with a message.
//
// It counts what it does, which is what can be said of speed without the unit.
#pragma once

#include <cstdint>

namespace testing {

// Whether this machine can stand in for one with tiles: 64-bit x86 Linux with AVX-512.
bool can_emulate_tiles();

// From now on, for all threads. Again after something else has taken the signal.
void emulate_tiles();

struct TileCounts {
  int64_t configured, released, loads, stores, products;
  int64_t holders;  // threads that have tiles now
};

// The counts of all threads since the program began.
TileCounts tile_counts();

// Whether the calling thread has tiles that nobody released: those of the processor, too.
bool has_tiles();

}  // namespace testing
