// What the library is told of tiles, in programs that have tile_cpu.cpp in place of the library's runtime/cpu.cpp.
#pragma once

#include <cstddef>

namespace testing {

enum class TileAccess { granted, refused, absent };

void set_tile_access(TileAccess now);

// Makes tile instructions work in this process: natively, or by emulation. False: this machine can do neither. To be
// called in each test case, after the test framework has taken the signals it reports.
bool take_tiles();

// By a tile unit, so that nothing is counted.
bool tiles_are_native();

// How often the library has asked the system for tiles. Emulated ones are asked of an emulated system.
int tile_requests();

// Bytes of a signal stack that hold a signal's frame with tiles in it, as that system has it.
constexpr size_t kTileFrame = size_t{12} << 10;

// The emulated system is one from before there were tiles.
void forget_tiles();

}  // namespace testing
