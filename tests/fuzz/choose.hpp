// What build.cpp asks first: which arguments there are, and which sizes.
#pragma once

#include "build.hpp"

namespace fuzz {

struct Maker {
  State &state;
  Choices &choices;
  bool plain;
  int depth;
  MakeHandle make;
};

// Makes the arguments' nodes, none of them filled in; binds the sizes that handles have. wanted: an option that is to
// be there, or null. Returns pairs of sizes that have to be equal.
std::vector<const int *> choose_arguments(const Maker &maker, Frame &frame, const Counted *wanted);

constexpr int huge_class = 5;

struct SizeChoice {
  int size_class = 0;       // huge_class: beyond any memory
  int form = 0;             // of attention's tensors: 1: without heads, 2: without batch and heads
  bool with_heads = false;  // the function's tensors have an axis of heads
  bool batches = false;     // "..." stands beside other axes: what is computed goes along those
};
SizeChoice choose_sizes(const Maker &maker, Frame &frame, const std::vector<const int *> &equal);

// Whether a shape's first two axes are these sizes.
inline bool begins(const Shape &shape, int first, int second) {
  return shape.count >= 2 && shape.axes[0].symbol == first && shape.axes[1].symbol == second;
}

// Whether a member may be an output: what the forward call gave beside out is none of a backward pass, which reads it or does
// not look at it.
bool is_written(const Frame &frame, const Struct *in);

int symbol_named(const char *name);
bool has_member(const KindRow &kind, int slot);

}  // namespace fuzz
