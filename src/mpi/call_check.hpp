// Parts of checking a call that operations share.
#pragma once

#include <array>
#include <span>

#include "mpi/check.hpp"

namespace fovea::mpi {

// Members that a caller's older struct lacks stay 0. The core judges the struct's size.
void read_options(const fovea_attention_options *given, fovea_attention_options *read);
// In a struct that is newer than ours, what we do not know must be 0.
[[nodiscard]] Status check_newer_options(const fovea_attention_options &given);
[[nodiscard]] Status refuse(const char *member, const fovea_tensor *tensor);
// Outputs beside log-sum-exp, and dropout: no operation has them.
[[nodiscard]] Status check_supported(const fovea_attention_options &options);
// Refuses what a ring's keys cannot take with them.
[[nodiscard]] Status check_travelling(const fovea_attention_options &options);
// The core's checks, which a plan makes without a look at data.
[[nodiscard]] Status check_by_core(const Handle &handle, const Arguments &arguments);
// Data that is there, aligned, and no output over anything else. Tensors may be NULL.
struct Named {
  const char *name;
  const fovea_tensor *tensor;
};
[[nodiscard]] Status check_memory(std::span<const Named> inputs, std::span<const Named> outputs);
std::array<Named, 17> inputs_of(const Arguments &arguments, const fovea_attention_options &options);
[[nodiscard]] Status check_memory(const Arguments &arguments, const fovea_attention_options &options);
// A ring takes lengths of batch entries alone, and distances of neighbours.
[[nodiscard]] Status check_places_of_keys(const fovea_attention_options &options, int32_t order);
void lift_call(const Arguments &arguments, const fovea_attention_options &options, Call *call);
// All ranks' positions: at most 2^30, and of orders that the library chooses each rank's lengths a share.
[[nodiscard]] Status check_shares(const Handle &handle, const WholeLengths &lengths, int32_t rank_of_tensors,
                                  int32_t order);

}  // namespace fovea::mpi
