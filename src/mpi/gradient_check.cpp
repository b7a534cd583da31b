// Rejections of the backward pass: what one rank alone can judge of gradients.
#include <algorithm>
#include <cstring>

#include "mpi/call_check.hpp"
#include "mpi/gradient_call.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Members that a caller's older struct lacks stay NULL. The core judges the struct's size.
void read_gradients(const fovea_attention_gradients *given, fovea_attention_gradients *read) {
  if (given != nullptr && given->struct_size >= sizeof given->struct_size) {
    std::memcpy(read, given, std::min(given->struct_size, sizeof *read));
  }
  read->struct_size = sizeof *read;
}

// In a struct that is newer than ours, what we do not know must be 0. A newer core may know it.
Status check_newer(const fovea_attention_gradients &given) {
  for (size_t i = sizeof given; i < given.struct_size; ++i) {
    if (reinterpret_cast<const unsigned char *>(&given)[i] != 0) {
      return fail(FOVEA_BAD_OPTION, "gradients sets byte %zu of %zu, but this library knows only %zu", i,
                  given.struct_size, sizeof given);
    }
  }
  return FOVEA_OK;
}

Status check_backward_by_core(const Handle &handle, const Arguments &a, const fovea_attention_gradients *gradients) {
  fovea_plan *plan = nullptr;
  const Status status = fovea_attention_backward_plan_create(handle.context, a.score, a.query, a.key, a.value, a.out,
                                                             a.options, gradients, &plan);
  fovea_plan_destroy(plan);
  return of_core(status);
}

Status check_gradient_memory(const Arguments &a, const fovea_attention_options &options,
                             const fovea_attention_gradients &gradients) {
  constexpr size_t forward = std::tuple_size_v<decltype(inputs_of(a, options))>;
  Named inputs[forward + 4], outputs[std::size(local_gradients) + std::size(summed_gradients)];
  std::ranges::copy(inputs_of(a, options), inputs);
  Named *next = inputs + forward;
  *next++ = {"out", a.out};
  *next++ = {"options.log_sum_exp", options.log_sum_exp};
  const auto add = [&](std::span<const GradientMember> members) {
    for (const GradientMember &member : members) *next++ = {member.name, gradients.*member.tensor};
  };
  add(reaching_gradients);
  next = outputs;
  add(local_gradients);
  add(summed_gradients);
  return check_memory(inputs, outputs);
}

void lift_if_given(const fovea_tensor *given, int32_t rank, fovea_tensor *lifted) {
  if (given != nullptr) *lifted = lift(*given, rank);
}

}  // namespace

bool GradientCall::needs_keys() const {
  const auto wants = [&](const GradientMember &member) { return given.*member.tensor != nullptr; };
  return std::ranges::any_of(local_gradients, wants) || given.alibi_slopes != nullptr || sums_parameters();
}

bool GradientCall::sums_parameters() const {
  return std::ranges::any_of(summed_gradients, [&](const GradientMember &member) {
    return given.*member.tensor != nullptr && member.tensor != &fovea_attention_gradients::alibi_slopes &&
           member.tensor != &fovea_attention_gradients::sinks;
  });
}

Status check_gradient_call(const Handle &handle, const Arguments &a, const fovea_attention_gradients *given,
                           int32_t order, Call *call, GradientCall *gradients) {
  fovea_attention_options options;
  read_options(a.options, &options);
  FOVEA_MPI_CHECK(check_travelling(options));
  fovea_attention_gradients *read = &gradients->given;
  read_gradients(given, read);
  if (read->weights != nullptr) {
    return fail(FOVEA_BAD_VALUE, "gradients.weights is given, expected NULL: it cannot be shared out");
  }
  FOVEA_MPI_CHECK(check_backward_by_core(handle, a, given));
  FOVEA_MPI_CHECK(check_newer(*given));
  FOVEA_MPI_CHECK(check_places_of_keys(options, order));
  FOVEA_MPI_CHECK(check_gradient_memory(a, options, *read));
  lift_call(a, options, call);
  lift_if_given(read->out, 4, &gradients->out);
  lift_if_given(read->log_sum_exp, 3, &gradients->log_sum_exp);
  lift_if_given(read->query, 4, &gradients->query);
  lift_if_given(read->key, 4, &gradients->key);
  lift_if_given(read->value, 4, &gradients->value);
  return FOVEA_OK;
}

void state_gradients(const GradientCall &gradients, Statement *statement) {
  const auto add = [&](std::span<const GradientMember> members) {
    for (const GradientMember &member : members) {
      const fovea_tensor *tensor = gradients.given.*member.tensor;
      statement->add(member.name, Kind::tensor, FOVEA_BAD_VALUE, tensor == nullptr ? 0 : int64_t{1} + tensor->dtype);
    }
  };
  add(reaching_gradients);
  add(local_gradients);
  add(summed_gradients);
}

}  // namespace fovea::mpi
