// Tensors in blocks of their own, for calls that the tables do not describe: where they lie, and what they hold.
#pragma once

#include <vector>

#include "choices.hpp"
#include "frame.hpp"
#include "memory.hpp"

namespace fuzz {

// Without data where there is none.
struct Placed {
  fovea_tensor view{};
  Block block;
};

class Placer {
 public:
  Placer(Memory &memory, Choices &choices)
      : memory_(memory), choices_(choices), noise_(choices.two_bytes()), at_end_(!choices.chance(64)) {}

  // Ordinary numbers, with the axes in this order and elements that nobody has between rows.
  Placed place(const std::vector<int64_t> &shape, fovea_dtype dtype, std::vector<size_t> order = {});
  Placed place_contiguous(const std::vector<int64_t> &shape);  // F32
  Block take(size_t size);

  Noise &noise() { return noise_; }

  // Whether the bytes around all blocks are as they were.
  bool marks_intact() const;

 private:
  Placed filled(fovea_tensor view, size_t size);

  Memory &memory_;
  Choices &choices_;
  Noise noise_;
  bool at_end_;
  std::vector<Block> blocks_;
};

// All that lies in a tensor's block is this byte; whether all but its elements still is.
constexpr uint8_t blank = 0x5A;
void make_blank(const Placed &placed);
bool is_blank_beside_elements(const Placed &placed);

// Its elements in row-major order.
std::vector<uint8_t> elements_of(const Placed &placed);

}  // namespace fuzz
