// A block: what one rank has of keys and values, or sums of their sizes, as it lies in memory and travels.
#pragma once

#include "mpi/positions.hpp"

namespace fovea::mpi {

// Contiguous, in one or two runs.
struct Block {
  fovea_tensor key[2], value[2];  // [B,Hkv,count,D]
  Share share;
};

// The types of blocks, and their sizes but for positions.
struct BlockLayout {
  fovea_tensor key, value;  // [B,Hkv,any,D]; of no features if there is none

  // What a block of so many positions takes at most. False where that exceeds the address space.
  bool bytes_of(int64_t positions, int64_t *bytes) const;
  // Keys and values of a run follow each other, aligned, and so do the runs.
  Block in(char *memory, const Share &share) const;
};

}  // namespace fovea::mpi
