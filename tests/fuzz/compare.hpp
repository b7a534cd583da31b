// Calls whose results the headers promise to be the same bits.
#pragma once

#include "execute.hpp"

namespace fuzz {

enum Comparison {
  with_other_threads,
  in_memory_apart,
  as_float32,
  eights_as_float32,
  fours_as_float32,
  entry_of_batch,
  without_plan,
  appended_eights,
  appended_fours,
  sequence_alone,
  kept_and_not,
  kept_gradients,
  pool_and_model,
  restored_and_saved,
  comparisons
};
inline constexpr const char *comparison_names[comparisons] = {"other threads and modes",
                                                              "in place and apart",
                                                              "16 bits and float32",
                                                              "8 bits and float32",
                                                              "4 bits and float32",
                                                              "an entry of the batch",
                                                              "planned and in one go",
                                                              "8 bits appended and quantised",
                                                              "4 bits appended and quantised",
                                                              "a sequence in a step and alone",
                                                              "with and without kept projections",
                                                              "gradients with and without them",
                                                              "a pool and a plain model",
                                                              "restored and saved"};

// Whether the call may be made again: it changes nothing but its outputs.
bool is_pure(const Frame &frame);

// Makes the call anew in every way that has to give the same bits.
void compare(Memory &memory, const Frame &frame, const Outcome &outcome, Choices &choices);

// The same of a call that was made with float32 in place of 16 bits.
void compare_widened(const Frame &frame, const Outcome &outcome, const Outcome &wide);

}  // namespace fuzz
