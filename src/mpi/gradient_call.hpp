// A call of attention's backward pass as this library sees it, beside the arguments that it shares with the forward
// call.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

struct GradientMember {
  const char *name;
  const fovea_tensor *fovea_attention_gradients::*tensor;
};

// What reaches the results, what is wanted of positions, and what is a sum over all of them.
constexpr GradientMember reaching_gradients[] = {
    {"gradients.out", &fovea_attention_gradients::out},
    {"gradients.log_sum_exp", &fovea_attention_gradients::log_sum_exp},
};
constexpr GradientMember local_gradients[] = {
    {"gradients.query", &fovea_attention_gradients::query},
    {"gradients.key", &fovea_attention_gradients::key},
    {"gradients.value", &fovea_attention_gradients::value},
};
constexpr GradientMember summed_gradients[] = {
    {"gradients.alibi_slopes", &fovea_attention_gradients::alibi_slopes},
    {"gradients.sinks", &fovea_attention_gradients::sinks},
    {"gradients.query_weight", &fovea_attention_gradients::query_weight},
    {"gradients.key_weight", &fovea_attention_gradients::key_weight},
    {"gradients.weight", &fovea_attention_gradients::weight},
    {"gradients.score_bias", &fovea_attention_gradients::score_bias},
    {"gradients.score_vector", &fovea_attention_gradients::score_vector},
    {"gradients.sigmas", &fovea_attention_gradients::sigmas},
};

struct GradientCall {
  fovea_attention_gradients given = {};           // members that an older struct lacks are NULL
  fovea_tensor out = {}, log_sum_exp = {};        // lifted to [B,H,Q,Dv] and [B,H,Q]
  fovea_tensor query = {}, key = {}, value = {};  // lifted to [B,H,L,D]

  // Whether queries must meet keys: the gradient of sinks does without.
  bool needs_keys() const;
  bool sums_parameters() const;  // of scores; those of keys and slopes not among them
};

// As check_ring_call.
[[nodiscard]] Status check_gradient_call(const Handle &handle, const Arguments &arguments,
                                         const fovea_attention_gradients *given, int32_t order, Call *call,
                                         GradientCall *gradients);

// Which gradients are given and wanted, and their types.
void state_gradients(const GradientCall &gradients, Statement *statement);

}  // namespace fovea::mpi
