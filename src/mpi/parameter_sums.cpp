// Adds up gradients of parameters: over calls, then over ranks.
#include "mpi/parameter_sums.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "mpi/blocks.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

using Member = const fovea_tensor *fovea_attention_gradients::*;

bool is_by_head(const Call &call, Member tensor) {
  if (tensor == &fovea_attention_gradients::sigmas) return call.score->sigmas != nullptr;
  return tensor == &fovea_attention_gradients::alibi_slopes || tensor == &fovea_attention_gradients::sinks;
}

}  // namespace

Status ParameterSums::prepare() {
  sum_count_ = 0;
  count_ = 0;
  for (const GradientMember &member : summed_gradients) {
    const fovea_tensor *to = gradients_->given.*member.tensor;
    if (to == nullptr) continue;
    const bool by_calls = member.tensor != &fovea_attention_gradients::sinks;
    const int64_t count = element_count(*to);  // as many as the score's own, which are in memory
    sums_[sum_count_++] = {member.tensor, *to, is_by_head(*call_, member.tensor), by_calls, count_, count, {}};
    count_ += count;
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count_, static_cast<int64_t>(2 * sizeof(double) + sizeof(float)), &bytes)) {
    return fail(FOVEA_SIZE_OVERFLOW, "gradients of parameters exceed the address space");
  }
  if (!handle_->of(Use::parameters).reserve(static_cast<size_t>(bytes))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for the gradients of parameters");
  }
  std::fill_n(totals(), count_, 0.0);
  return messages_.prepare(messages_.requests_of(count_ * static_cast<int64_t>(sizeof(double))));
}

void ParameterSums::ask(int64_t head, int64_t heads, fovea_attention_gradients *of_call) {
  const int64_t group = call_->group();
  for (Sum &sum : std::span(sums_, static_cast<size_t>(sum_count_))) {
    if (!sum.by_calls) continue;
    sum.part = fovea_tensor_contiguous(parts() + sum.first, FOVEA_F32, sum.to.rank, sum.to.shape);
    if (sum.by_head) sum.part = part_of(sum.part, 0, head * group, heads * group);
    of_call->*sum.tensor = &sum.part;
  }
}

void ParameterSums::add_part(const Sum &sum) {
  const auto *const part = static_cast<const float *>(sum.part.data);
  double *const total = totals() + (part - parts());
  const int64_t count = element_count(sum.part);
  for (int64_t i = 0; i < count; ++i) total[i] += static_cast<double>(part[i]);
}

void ParameterSums::add() {
  for (const Sum &sum : std::span(sums_, static_cast<size_t>(sum_count_))) {
    if (sum.by_calls) add_part(sum);
  }
}

// A call without keys: what a sink takes of a query's weights is in its log-sum-exp.
Status ParameterSums::add_sinks() {
  const Call &c = *call_;
  for (Sum &sum : std::span(sums_, static_cast<size_t>(sum_count_))) {
    if (sum.by_calls || sum.count == 0 || c.batch() == 0 || c.query_len() == 0) continue;
    const int64_t key_shape[] = {c.batch(), c.kv_heads(), 0, c.query.shape[3]};
    const int64_t value_shape[] = {c.batch(), c.kv_heads(), 0, c.value_dim()};
    const fovea_tensor key = fovea_tensor_contiguous(nullptr, FOVEA_F32, 4, key_shape);
    const fovea_tensor value = fovea_tensor_contiguous(nullptr, FOVEA_F32, 4, value_shape);
    fovea_attention_options options = {};
    options.struct_size = sizeof options;
    options.sinks = &c.sinks;
    options.log_sum_exp = &c.log_sum_exp;
    sum.part = fovea_tensor_contiguous(parts() + sum.first, FOVEA_F32, 1, sum.to.shape);
    fovea_attention_gradients gradients = {};
    gradients.struct_size = sizeof gradients;
    gradients.out = &gradients_->out;
    if (gradients_->given.log_sum_exp != nullptr) gradients.log_sum_exp = &gradients_->log_sum_exp;
    gradients.sinks = &sum.part;
    const auto begin = std::chrono::steady_clock::now();
    FOVEA_MPI_CHECK(of_core(
        fovea_attention_backward(handle_->context, nullptr, &c.query, &key, &value, &c.out, &options, &gradients)));
    add_part(sum);
    handle_->figures.seconds_computing +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return FOVEA_OK;
}

// From rank to rank, each adding its own; the last has the sum, and gives it to all.
Status ParameterSums::reduce() {
  if (count_ == 0) return FOVEA_OK;
  const int64_t bytes = count_ * static_cast<int64_t>(sizeof(double));
  const int last = handle_->ranks - 1;
  auto *const data = reinterpret_cast<char *>(totals());
  if (handle_->rank > 0) {
    FOVEA_MPI_CHECK(messages_.receive(reinterpret_cast<char *>(arrived()), bytes, handle_->rank - 1, Tag::parameters));
    FOVEA_MPI_CHECK(messages_.wait());
    for (int64_t i = 0; i < count_; ++i) totals()[i] = arrived()[i] + totals()[i];
  }
  if (handle_->rank < last) {
    FOVEA_MPI_CHECK(messages_.send(data, bytes, handle_->rank + 1, Tag::parameters));
    FOVEA_MPI_CHECK(messages_.wait());
  } else {
    handle_->figures.bytes_sent += bytes;
  }
  for (int64_t at = 0; at < bytes; at += handle_->message_bytes) {
    const int piece = static_cast<int>(std::min(handle_->message_bytes, bytes - at));
    FOVEA_MPI_CHECK(of_mpi(*handle_, MPI_Bcast(data + at, piece, MPI_BYTE, last, handle_->communicator), "MPI_Bcast"));
  }
  return FOVEA_OK;
}

Status ParameterSums::write() {
  for (int64_t i = 0; i < count_; ++i) parts()[i] = static_cast<float>(totals()[i]);
  for (const Sum &sum : std::span(sums_, static_cast<size_t>(sum_count_))) {
    if (sum.count == 0) continue;
    const fovea_tensor floats = fovea_tensor_contiguous(parts() + sum.first, FOVEA_F32, sum.to.rank, sum.to.shape);
    // The caller's strides are any, those of a rounding not.
    fovea_tensor rounded = floats;
    rounded.dtype = sum.to.dtype;
    if (rounded.dtype != FOVEA_F32) {
      rounded.data = arrived();
      FOVEA_MPI_CHECK(copy_rounded(*handle_, floats, rounded));
    }
    copy_elements(rounded, sum.to);
  }
  return FOVEA_OK;
}

}  // namespace fovea::mpi
