// Goes back through attention to one block after another.
#include "mpi/gradient_state.hpp"

#include <algorithm>
#include <chrono>

#include "mpi/blocks.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Numbers of a tensor in float32; false past the address space.
bool add_floats_of(int64_t *sum, std::initializer_list<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return false;
  }
  return !__builtin_add_overflow(*sum, count, sum) && *sum <= INT64_MAX / 16;
}

// Contiguous, of the same sizes.
fovea_tensor terms_like(const fovea_tensor &sums, float *data) {
  return fovea_tensor_contiguous(data, FOVEA_F32, sums.rank, sums.shape);
}

}  // namespace

Status GradientState::prepare(const Pattern &pattern, const Share &queries, int64_t longest_run) {
  const Call &c = *call_;
  pattern_ = &pattern;
  const int64_t query_dim = wants(&fovea_attention_gradients::query) ? c.query.shape[3] : 0;
  const int64_t key_dim = wants(&fovea_attention_gradients::key) ? c.key.shape[3] : 0;
  const int64_t value_dim = wants(&fovea_attention_gradients::value) ? c.value_dim() : 0;
  const int64_t rows = std::min(c.query_len(), Pieces::most_queries);
  int64_t sums = 0;
  bool fits = add_floats_of(&sums, {c.batch(), c.heads(), c.query_len(), query_dim});
  int64_t after_query = sums;
  fits = fits && add_floats_of(&after_query, {c.heads(), rows, query_dim});
  int64_t after_key = after_query;
  fits = fits && add_floats_of(&after_key, {c.kv_heads(), longest_run, key_dim});
  int64_t all = after_key;
  fits = fits && add_floats_of(&all, {c.kv_heads(), longest_run, value_dim});
  if (!fits) return fail(FOVEA_SIZE_OVERFLOW, "query and key are too long: sums of gradients exceed the address space");
  if (!pieces_.cut(queries) || !handle_->of(Use::state).reserve(static_cast<size_t>(all) * sizeof(float))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for the gradients of the queries");
  }
  query_sums_ = reinterpret_cast<float *>(handle_->of(Use::state).data());
  query_terms_ = query_sums_ + sums;
  key_terms_ = query_sums_ + after_query;
  value_terms_ = query_sums_ + after_key;
  std::fill_n(query_sums_, sums, 0.0f);
  return FOVEA_OK;
}

fovea_tensor GradientState::query_sums() const {
  fovea_tensor sums = call_->query;
  if (!wants(&fovea_attention_gradients::query)) sums.shape[3] = 0;
  return terms_like(sums, query_sums_);
}

Status GradientState::attend(const Block &block, const Block &sums, Progress progress, void *progress_data) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = FOVEA_OK;
  bool met = false;
  for (int64_t b = 0; b < call_->batch(); ++b) {
    for (int64_t p = 0; p < pieces_.count(); ++p) {
      for (int run = 0; run < block.share.count && status == FOVEA_OK; ++run) {
        const Meeting meeting = pattern_->meet(b, pieces_[p], block.share.runs[run]);
        if (!meeting.any) continue;
        met = true;
        status = attend_run(pieces_[p], meeting, operands_of(b, pieces_[p], block, sums, run), progress, progress_data);
      }
    }
  }
  ++(met ? handle_->figures.blocks_attended : handle_->figures.blocks_passed_by);
  handle_->figures.seconds_computing += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status;
}

GradientState::Operands GradientState::operands_of(int64_t batch, const Run &piece, const Block &block,
                                                   const Block &sums, int run) const {
  const auto of_keys = [&](const fovea_tensor &all) { return by_kv_heads(*call_, entry_of(all, batch)); };
  const auto of_queries = [&](const fovea_tensor &all) {
    return by_kv_heads(*call_, part_of(entry_of(all, batch), 1, piece.at, piece.count));
  };
  Operands operands = {of_queries(call_->query),
                       of_keys(block.key[run]),
                       of_keys(block.value[run]),
                       of_queries(call_->out),
                       of_queries(call_->log_sum_exp),
                       of_queries(gradients_->out),
                       {},
                       of_queries(query_sums()),
                       of_keys(sums.key[run]),
                       of_keys(sums.value[run])};
  if (wants(&fovea_attention_gradients::log_sum_exp)) operands.grad_log_sum_exp = of_queries(gradients_->log_sum_exp);
  return operands;
}

Status GradientState::attend_run(const Run &piece, const Meeting &meeting, const Operands &all, Progress progress,
                                 void *progress_data) {
  // What a call gives of parameters is a sum over its heads: of one, so that threads do not choose its order.
  const int64_t kv_heads = call_->kv_heads();
  const int64_t at_once =
      gradients_->sums_parameters() ? 1 : heads_per_call(*handle_, *call_, piece.count, meeting.keys, 5.0);
  for (int64_t head = 0; head < kv_heads; head += at_once) {
    const int64_t heads = std::min(at_once, kv_heads - head);
    const auto some = [&](const fovea_tensor &tensor) { return part_of(tensor, 0, head, heads); };
    Operands operands = {some(all.query),
                         some(all.key),
                         some(all.value),
                         some(all.out),
                         some(all.log_sum_exp),
                         some(all.grad_out),
                         {},
                         some(all.query_sums),
                         some(all.key_sums),
                         some(all.value_sums)};
    if (wants(&fovea_attention_gradients::log_sum_exp)) operands.grad_log_sum_exp = some(all.grad_log_sum_exp);
    FOVEA_MPI_CHECK(attend_heads(head, meeting, operands));
    progress(progress_data);
  }
  return FOVEA_OK;
}

Status GradientState::attend_heads(int64_t head, const Meeting &meeting, const Operands &some) {
  const int64_t heads = some.query.shape[0];
  HeadArguments arguments(*call_, meeting, head, heads);
  arguments.options.log_sum_exp = &some.log_sum_exp;
  const fovea_tensor query = terms_like(some.query_sums, query_terms_), key = terms_like(some.key_sums, key_terms_),
                     value = terms_like(some.value_sums, value_terms_);
  fovea_attention_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  gradients.out = &some.grad_out;
  if (wants(&fovea_attention_gradients::log_sum_exp)) gradients.log_sum_exp = &some.grad_log_sum_exp;
  if (wants(&fovea_attention_gradients::query)) gradients.query = &query;
  if (wants(&fovea_attention_gradients::key)) gradients.key = &key;
  if (wants(&fovea_attention_gradients::value)) gradients.value = &value;
  parameters_->ask(head, heads, &gradients);
  FOVEA_MPI_CHECK(of_core(fovea_attention_backward(handle_->context, arguments.score(), &some.query, &some.key,
                                                   &some.value, &some.out, &arguments.options, &gradients)));
  add_floats(query, some.query_sums);
  add_floats(key, some.key_sums);
  add_floats(value, some.value_sums);
  parameters_->add();
  return FOVEA_OK;
}

Status GradientState::write() {
  if (!wants(&fovea_attention_gradients::query) || element_count(gradients_->query) == 0) return FOVEA_OK;
  return copy_rounded(*handle_, query_sums(), gradients_->query);
}

}  // namespace fovea::mpi
