// Attention to a split cache: each rank attends its own keys, all gather the partial results and merge them in rank
// order, so that all come to the same bits.
#include "mpi/decode.hpp"

#include <chrono>
#include <climits>

#include "mpi/empty_rows.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A row as one element of MPI's, so that counts are of rows.
class RowType {
 public:
  ~RowType() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  Status make(Handle &handle, int64_t elements, MPI_Datatype of) {
    FOVEA_MPI_CHECK(of_mpi(handle, MPI_Type_contiguous(static_cast<int>(elements), of, &type_), "MPI_Type_contiguous"));
    return of_mpi(handle, MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Partial results: of the sinks, if there are any, then of each rank, then room for the merged log-sum-exp.
class Decode {
 public:
  Decode(Handle *handle, const Call *call, const Arguments &arguments, bool from_first_rank)
      : handle_(handle), call_(call), arguments_(arguments), from_first_rank_(from_first_rank) {}

  Status prepare();
  Status share_query();
  Status attend();
  Status gather();
  Status merge();

 private:
  int64_t parts() const { return handle_->ranks + (call_->has_sinks ? 1 : 0); }
  int64_t part_of_rank() const { return handle_->rank + (call_->has_sinks ? 1 : 0); }
  float *out_of(int64_t part) const { return outs_ + part * rows_ * call_->value_dim(); }
  float *sums_of(int64_t part) const { return sums_ + part * rows_; }
  void put_sinks();

  Handle *handle_;
  const Call *call_;
  Arguments arguments_;
  bool from_first_rank_;
  int64_t rows_ = 0;
  float *outs_ = nullptr;    // [parts][B,H,Q,Dv]
  float *sums_ = nullptr;    // [parts + 1][B,H,Q]
  fovea_tensor query_ = {};  // contiguous, where rank 0 gives it
};

Status Decode::prepare() {
  int64_t floats = call_->value_dim() + 1, bytes = 0;
  rows_ = call_->batch();
  if (__builtin_mul_overflow(rows_, call_->heads(), &rows_) ||
      __builtin_mul_overflow(rows_, call_->query_len(), &rows_) || rows_ > INT_MAX ||
      __builtin_mul_overflow(floats, rows_, &floats) ||
      __builtin_mul_overflow(floats, int64_t{4} * (parts() + 1), &bytes)) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "query has more rows than MPI counts, or all ranks' results exceed the address space");
  }
  const fovea_tensor &query = *arguments_.query;
  const auto query_bytes = static_cast<size_t>(element_count(query)) * element_size(query.dtype);
  if (!handle_->of(Use::state).reserve(static_cast<size_t>(bytes)) ||
      (from_first_rank_ && !handle_->of(Use::sent).reserve(query_bytes))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for the results of all ranks");
  }
  outs_ = reinterpret_cast<float *>(handle_->of(Use::state).data());
  sums_ = outs_ + parts() * rows_ * call_->value_dim();
  query_ = from_first_rank_
               ? fovea_tensor_contiguous(handle_->of(Use::sent).data(), query.dtype, query.rank, query.shape)
               : query;
  return FOVEA_OK;
}

Status Decode::share_query() {
  if (!from_first_rank_ || rows_ == 0) return FOVEA_OK;
  const auto begin = Clock::now();
  const int64_t row_bytes = call_->query.shape[3] * static_cast<int64_t>(element_size(query_.dtype));
  if (handle_->rank == 0) {
    copy_elements(*arguments_.query, query_);
    handle_->figures.bytes_sent += row_bytes * rows_;
  }
  RowType row;
  FOVEA_MPI_CHECK(row.make(*handle_, row_bytes, MPI_BYTE));
  const int code = MPI_Bcast(query_.data, static_cast<int>(rows_), row.get(), 0, handle_->communicator);
  handle_->figures.seconds_waiting += seconds_since(begin);
  return of_mpi(*handle_, code, "MPI_Bcast");
}

void Decode::put_sinks() {
  if (!call_->has_sinks) return;
  for (int64_t i = 0; i < rows_ * call_->value_dim(); ++i) out_of(0)[i] = 0.0f;
  for (int64_t row = 0; row < rows_; ++row) {
    const int64_t head = row / call_->query_len() % call_->heads();
    sums_of(0)[row] = static_cast<const float *>(call_->sinks.data)[head * call_->sinks.strides[0]];
  }
}

Status Decode::attend() {
  const auto begin = Clock::now();
  if (rows_ > 0) put_sinks();
  const fovea_tensor &out = *arguments_.out;
  const fovea_tensor part = fovea_tensor_contiguous(out_of(part_of_rank()), FOVEA_F32, out.rank, out.shape);
  const fovea_tensor sums = fovea_tensor_contiguous(sums_of(part_of_rank()), FOVEA_F32, out.rank - 1, out.shape);
  fovea_attention_options options = call_->options;
  options.empty_rows = FOVEA_EMPTY_ROWS_ZERO;
  options.sinks = nullptr;
  options.log_sum_exp = &sums;
  const Status status = of_core(
      fovea_attention(handle_->context, arguments_.score, &query_, arguments_.key, arguments_.value, &part, &options));
  ++(call_->key_len() > 0 ? handle_->figures.blocks_attended : handle_->figures.blocks_passed_by);
  handle_->figures.seconds_computing += seconds_since(begin);
  return status;
}

Status Decode::gather() {
  if (rows_ == 0) return FOVEA_OK;
  const auto begin = Clock::now();
  const int rows = static_cast<int>(rows_), first = call_->has_sinks ? 1 : 0;
  RowType row;
  FOVEA_MPI_CHECK(row.make(*handle_, call_->value_dim(), MPI_FLOAT));
  FOVEA_MPI_CHECK(
      of_mpi(*handle_,
             MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out_of(first), rows, row.get(), handle_->communicator),
             "MPI_Allgather"));
  FOVEA_MPI_CHECK(
      of_mpi(*handle_,
             MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, sums_of(first), rows, MPI_FLOAT, handle_->communicator),
             "MPI_Allgather"));
  handle_->figures.bytes_sent += rows_ * (call_->value_dim() + 1) * static_cast<int64_t>(sizeof(float));
  handle_->figures.seconds_waiting += seconds_since(begin);
  return FOVEA_OK;
}

Status Decode::merge() {
  const Call &c = *call_;
  const int64_t shape[] = {parts(), c.batch(), c.heads(), c.query_len(), c.value_dim()};
  const fovea_tensor outs = fovea_tensor_contiguous(outs_, FOVEA_F32, 5, shape);
  const fovea_tensor sums = fovea_tensor_contiguous(sums_, FOVEA_F32, 4, shape);
  const fovea_tensor merged = fovea_tensor_contiguous(sums_of(parts()), FOVEA_F32, 3, shape + 1);
  FOVEA_MPI_CHECK(of_core(fovea_merge_states(handle_->context, &outs, &sums, &c.out, &merged)));
  if (c.wants_log_sum_exp) copy_elements(merged, c.log_sum_exp);
  if (c.options.empty_rows == FOVEA_EMPTY_ROWS_NAN) mark_empty_rows(merged, c.out);
  return FOVEA_OK;
}

}  // namespace

Status decode_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_decode_options *given) {
  FOVEA_MPI_CHECK(check_handle(handle));
  handle->begin_call();
  Call call;
  fovea_mpi_decode_options options;
  Status status = check_decode_options(given, &options);
  const bool from_first_rank = status == FOVEA_OK && (options.flags & FOVEA_MPI_QUERY_ON_RANK_0) != 0;
  if (status == FOVEA_OK) status = check_decode_call(*handle, arguments, from_first_rank, &call);
  Statement statement(Operation::decode, status);
  if (status == FOVEA_OK) {
    statement.add("decode.flags", Kind::number, FOVEA_BAD_VALUE, options.flags);
    statement.add(query_positions_name(call.rank), Kind::number, FOVEA_BAD_SHAPE, call.query_len());
    state_call(call, &statement);
  }
  FOVEA_MPI_CHECK(agree(*handle, statement));
  if (handle->ranks == 1) return attend_at_once(*handle, arguments);
  Decode decode(handle, &call, arguments, from_first_rank);
  FOVEA_MPI_CHECK(agree_status(*handle, decode.prepare()));
  FOVEA_MPI_CHECK(decode.share_query());
  FOVEA_MPI_CHECK(agree_status(*handle, decode.attend()));
  FOVEA_MPI_CHECK(decode.gather());
  return decode.merge();
}

}  // namespace fovea::mpi
