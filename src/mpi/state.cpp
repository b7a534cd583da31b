// Attends blocks and merges what they give.
#include "mpi/state.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "mpi/empty_rows.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

fovea_tensor of_floats(float *data, std::initializer_list<int64_t> shape) {
  return fovea_tensor_contiguous(data, FOVEA_F32, static_cast<int32_t>(shape.size()), shape.begin());
}

bool multiply(int64_t *product, int64_t factor) { return !__builtin_mul_overflow(*product, factor, product); }

}  // namespace

Status State::prepare(Handle *handle, const Call &call, const Pattern &pattern, const Share &queries) {
  handle_ = handle;
  call_ = &call;
  pattern_ = &pattern;
  int64_t sums = 3, bytes = 0;
  if (!multiply(&sums, call.batch()) || !multiply(&sums, call.heads()) || !multiply(&sums, call.query_len()) ||
      (bytes = sums, !multiply(&bytes, (call.value_dim() + 1) * 4))) {
    return fail(FOVEA_SIZE_OVERFLOW, "query is too long: three states of it exceed the address space");
  }
  const bool has_pieces = pieces_.cut(queries);
  where_.reset(new (std::nothrow) Slot[static_cast<size_t>(pieces_.count() * call.batch())]);
  if (!has_pieces || where_ == nullptr || !handle->of(Use::state).reserve(static_cast<size_t>(bytes))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for the state of the queries");
  }
  out_ = reinterpret_cast<float *>(handle->of(Use::state).data());
  sums_ = out_ + sums * call.value_dim();
  std::fill_n(where_.get(), pieces_.count() * call.batch(), nowhere);
  for (int64_t b = 0; call.has_sinks && b < call.batch(); ++b) {
    for (int64_t p = 0; p < pieces_.count(); ++p) {
      put_sinks(b, pieces_[p]);
      where_[static_cast<size_t>(b * pieces_.count() + p)] = first;
    }
  }
  return FOVEA_OK;
}

fovea_tensor State::out_of(Slot slot, int64_t batch, const Run &piece) const {
  const Call &c = *call_;
  float *data = out_ + (slot * c.batch() + batch) * c.heads() * c.query_len() * c.value_dim();
  return part_of(of_floats(data, {c.heads(), c.query_len(), c.value_dim()}), 1, piece.at, piece.count);
}

fovea_tensor State::sums_of(Slot slot, int64_t batch, const Run &piece) const {
  const Call &c = *call_;
  float *data = sums_ + (slot * c.batch() + batch) * c.heads() * c.query_len();
  return part_of(of_floats(data, {c.heads(), c.query_len()}), 1, piece.at, piece.count);
}

// A state that has seen nothing: output 0, log-sum-exp -infinity or the sink.
void State::put_nothing(int64_t batch, const Run &piece) {
  const fovea_tensor out = out_of(first, batch, piece), sums = sums_of(first, batch, piece);
  for (int64_t h = 0; h < call_->heads(); ++h) {
    std::fill_n(static_cast<float *>(out.data) + h * out.strides[0], piece.count * call_->value_dim(), 0.0f);
    std::fill_n(static_cast<float *>(sums.data) + h * sums.strides[0], piece.count, -infinity);
  }
}

void State::put_sinks(int64_t batch, const Run &piece) {
  put_nothing(batch, piece);
  const fovea_tensor sums = sums_of(first, batch, piece);
  for (int64_t h = 0; h < call_->heads(); ++h) {
    const float sink = static_cast<const float *>(call_->sinks.data)[h * call_->sinks.strides[0]];
    std::fill_n(static_cast<float *>(sums.data) + h * sums.strides[0], piece.count, sink);
  }
}

Status State::attend(const Block &block, Progress progress, void *progress_data) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = FOVEA_OK;
  bool met = false;
  for (int64_t b = 0; b < call_->batch(); ++b) {
    for (int64_t p = 0; p < pieces_.count(); ++p) {
      const Run &piece = pieces_[p];
      Slot &where = state_of(b, piece);
      for (int run = 0; run < block.share.count && status == FOVEA_OK; ++run) {
        const Meeting meeting = pattern_->meet(b, piece, block.share.runs[run]);
        if (!meeting.any) continue;
        met = true;
        status = attend_run(piece, meeting, operands_of(b, piece, block, run), progress, progress_data);
        if (status == FOVEA_OK && where != nowhere) status = merge(b, piece);
        where = where == first ? second : first;
      }
    }
  }
  ++(met ? handle_->figures.blocks_attended : handle_->figures.blocks_passed_by);
  handle_->figures.seconds_computing += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status;
}

State::Operands State::operands_of(int64_t batch, const Run &piece, const Block &block, int run) const {
  const Slot slot = state_of(batch, piece) == nowhere ? first : result;
  const auto grouped = [&](const fovea_tensor &heads) { return by_kv_heads(*call_, heads); };
  return {grouped(part_of(entry_of(call_->query, batch), 1, piece.at, piece.count)),
          grouped(entry_of(block.key[run], batch)), grouped(entry_of(block.value[run], batch)),
          grouped(out_of(slot, batch, piece)), grouped(sums_of(slot, batch, piece))};
}

Status State::attend_run(const Run &piece, const Meeting &meeting, const Operands &all, Progress progress,
                         void *progress_data) {
  const int64_t kv_heads = call_->kv_heads(),
                at_once = heads_per_call(*handle_, *call_, piece.count, meeting.keys, 2.0);
  for (int64_t head = 0; head < kv_heads; head += at_once) {
    const int64_t heads = std::min(at_once, kv_heads - head);
    const auto some = [&](const fovea_tensor &tensor) { return part_of(tensor, 0, head, heads); };
    FOVEA_MPI_CHECK(
        attend_heads(head, meeting, {some(all.query), some(all.key), some(all.value), some(all.out), some(all.sums)}));
    progress(progress_data);
  }
  return FOVEA_OK;
}

Status State::attend_heads(int64_t head, const Meeting &meeting, const Operands &some) {
  HeadArguments arguments(*call_, meeting, head, some.query.shape[0]);
  arguments.options.log_sum_exp = &some.sums;
  return of_core(fovea_attention(handle_->context, arguments.score(), &some.query, &some.key, &some.value, &some.out,
                                 &arguments.options));
}

// The state and the new result lie apart by one slot, in either direction; what comes of them goes to the third.
Status State::merge(int64_t batch, const Run &piece) {
  const Call &c = *call_;
  const Slot from = state_of(batch, piece), to = from == first ? second : first;
  const int64_t rows = c.batch() * c.heads() * c.query_len(), direction = from == first ? 1 : -1;
  const fovea_tensor outs = with_front_axis(out_of(from, batch, piece), 2, direction * rows * c.value_dim());
  const fovea_tensor sums = with_front_axis(sums_of(from, batch, piece), 2, direction * rows);
  const fovea_tensor out = out_of(to, batch, piece), sum = sums_of(to, batch, piece);
  return of_core(fovea_merge_states(handle_->context, &outs, &sums, &out, &sum));
}

Status State::write() {
  for (int64_t b = 0; b < call_->batch(); ++b) {
    for (int64_t p = 0; p < pieces_.count(); ++p) FOVEA_MPI_CHECK(write_piece(b, pieces_[p]));
  }
  return FOVEA_OK;
}

// Merging one state alone leaves its bits, and rounds them to the type of out.
Status State::write_piece(int64_t batch, const Run &piece) {
  Slot &where = state_of(batch, piece);
  if (where == nowhere) put_nothing(batch, piece), where = first;
  const fovea_tensor outs = with_front_axis(out_of(where, batch, piece), 1, 0);
  const fovea_tensor sums = with_front_axis(sums_of(where, batch, piece), 1, 0);
  const fovea_tensor out = part_of(entry_of(call_->out, batch), 1, piece.at, piece.count);
  fovea_tensor sum;
  if (call_->wants_log_sum_exp) sum = part_of(entry_of(call_->log_sum_exp, batch), 1, piece.at, piece.count);
  FOVEA_MPI_CHECK(
      of_core(fovea_merge_states(handle_->context, &outs, &sums, &out, call_->wants_log_sum_exp ? &sum : nullptr)));
  if (call_->options.empty_rows == FOVEA_EMPTY_ROWS_NAN)
    mark_empty_rows(with_front_axis(entry_of(sums, 0), 1, 0), with_front_axis(out, 1, 0));
  return FOVEA_OK;
}

}  // namespace fovea::mpi
