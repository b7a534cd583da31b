// Ring attention. At step t a rank has the block of the rank t before it: it sends it on, receives the next one into a second
// buffer, and computes with it meanwhile.
//
// A run of a block goes on while a rank further round attends any of it. All ranks find out the same from what they agreed on,
// so no message says how long the next one is.
#include "mpi/ring.hpp"

#include <algorithm>
#include <cstdint>

#include "mpi/messages.hpp"
#include "mpi/state.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr int64_t alignment = 64;  // of keys and values in a buffer

// Float32 travels in fewer bits if it is asked to.
fovea_tensor as_sent(const fovea_tensor &tensor, fovea_dtype transport) {
  fovea_tensor sent = tensor;
  if (transport != 0 && tensor.dtype == FOVEA_F32) sent.dtype = transport;
  return sent;
}

// Of one position in all entries and heads. False past 2^62 bytes.
bool row_bytes(const fovea_tensor &tensor, int64_t *bytes) {
  *bytes = static_cast<int64_t>(element_size(tensor.dtype)) * tensor.shape[3];
  return !__builtin_mul_overflow(*bytes, tensor.shape[1], bytes) &&
         !__builtin_mul_overflow(*bytes, tensor.shape[0], bytes) && *bytes <= INT64_MAX / 2;
}

class Ring {
 public:
  Ring(Handle *handle, const Call *call, const fovea_mpi_ring_options &options)
      : handle_(handle),
        call_(call),
        order_(options.order),
        key_(as_sent(call->key, options.transport)),
        value_(as_sent(call->value, options.transport)),
        messages_(handle) {}

  // All ranks' lengths, of which each has stated its own. All ranks come to the same errors.
  Status read_lengths(const Statement &statement);
  // All memory that the call takes.
  Status prepare();
  // Every block, to the state. Of errors in computing the first is kept, and messages go on: other ranks wait for them.
  Status go_round(Status *computed);
  Status write() { return state_.write(); }

 private:
  Share share_of_rank(const int64_t *begin, int rank) const;
  int last_step(int owner, int run) const;
  Share keys_of(int owner) const { return share_of_rank(lengths_.key_begin, owner); }
  Block block_in(char *buffer, const Share &share) const;
  void pack(const fovea_tensor &from, const fovea_tensor &to, Status *computed);
  Status exchange(int step);

  int owner_at(int step) const { return (handle_->rank - step + handle_->ranks) % handle_->ranks; }
  int steps_of(int owner, int run) const { return handle_->steps()[2 * owner + run]; }
  char *buffer(int step) const { return handle_->of(step % 2 == 0 ? Use::sent : Use::received).data(); }

  Handle *handle_;
  const Call *call_;
  int32_t order_;
  fovea_tensor key_, value_;  // local ones, in the type that they travel in
  WholeLengths lengths_;
  Pattern pattern_;
  State state_;
  Messages messages_;
};

Status Ring::read_lengths(const Statement &statement) {
  lengths_ = whole_lengths(*handle_, statement);
  return check_lengths(*handle_, lengths_, *call_, order_);
}

Share Ring::share_of_rank(const int64_t *begin, int rank) const {
  return share_in(order_, begin, handle_->ranks, rank);
}

// The last rank that attends any of a run, counted from its owner. Every rank that has it before passes it on.
int Ring::last_step(int owner, int run) const {
  const Share keys = keys_of(owner);
  if (run >= keys.count) return 0;
  for (int step = handle_->ranks - 1; step > 0; --step) {
    const Share queries = share_of_rank(lengths_.query_begin, (owner + step) % handle_->ranks);
    for (int64_t b = 0; b < call_->batch(); ++b) {
      for (int of_queries = 0; of_queries < queries.count; ++of_queries) {
        if (pattern_.meet(b, queries.runs[of_queries], keys.runs[run]).any) return step;
      }
    }
  }
  return 0;
}

Status Ring::prepare() {
  pattern_ = Pattern(*call_, lengths_);
  int64_t longest = 0, bytes = 0, key_row = 0, value_row = 0;
  for (int owner = 0; owner < handle_->ranks; ++owner) {
    longest = std::max(longest, lengths_.key_begin[owner + 1] - lengths_.key_begin[owner]);
    for (int run = 0; run < 2; ++run) handle_->steps()[2 * owner + run] = last_step(owner, run);
  }
  // Local sizes are known to fit; the longest block's need not.
  if (!row_bytes(key_, &key_row) || !row_bytes(value_, &value_row) ||
      __builtin_mul_overflow(key_row + value_row, longest, &bytes) || bytes > INT64_MAX / 4) {
    return fail(FOVEA_SIZE_OVERFLOW, "key and value are too long: a block of them exceeds the address space");
  }
  const auto size = static_cast<size_t>(bytes + 4 * alignment);
  if (!handle_->of(Use::sent).reserve(size) || !handle_->of(Use::received).reserve(size)) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for two blocks of keys and values");
  }
  FOVEA_MPI_CHECK(messages_.prepare(2 * (messages_.requests_of(bytes) + 4)));
  return state_.prepare(handle_, *call_, pattern_, share_of_rank(lengths_.query_begin, handle_->rank));
}

// Keys and values of a run follow each other, aligned, and so do the runs.
Block Ring::block_in(char *buffer, const Share &share) const {
  Block block = {};
  block.share = share;
  for (int run = 0; run < share.count; ++run) {
    for (const fovea_tensor *from : {&key_, &value_}) {
      const int64_t shape[] = {from->shape[0], from->shape[1], share.runs[run].count, from->shape[3]};
      (from == &key_ ? block.key : block.value)[run] = fovea_tensor_contiguous(buffer, from->dtype, 4, shape);
      const int64_t bytes = shape[0] * shape[1] * shape[2] * shape[3] * static_cast<int64_t>(element_size(from->dtype));
      buffer += (bytes + alignment - 1) / alignment * alignment;
    }
  }
  return block;
}

// Starts the messages of a step: the block of this step goes on, that of the next one comes.
Status Ring::exchange(int step) {
  const int next = (handle_->rank + 1) % handle_->ranks, before = owner_at(1);
  const auto for_each = [&](int which, auto start) -> Status {
    const Share share = keys_of(owner_at(which));
    const Block block = block_in(buffer(which), share);
    for (int run = 0; run < share.count; ++run) {
      if (step + 1 > steps_of(owner_at(which), run)) continue;
      for (const fovea_tensor *tensor : {&block.key[run], &block.value[run]}) {
        FOVEA_MPI_CHECK(start(static_cast<char *>(tensor->data),
                              element_count(*tensor) * static_cast<int64_t>(element_size(tensor->dtype))));
      }
    }
    return FOVEA_OK;
  };
  FOVEA_MPI_CHECK(
      for_each(step + 1, [&](char *bytes, int64_t count) { return messages_.receive(bytes, count, before); }));
  return for_each(step, [&](const char *bytes, int64_t count) { return messages_.send(bytes, count, next); });
}

// Copies, or rounds by the activation that changes nothing.
void Ring::pack(const fovea_tensor &from, const fovea_tensor &to, Status *computed) {
  if (from.dtype == to.dtype) {
    copy_elements(from, to);
  } else if (*computed == FOVEA_OK) {
    *computed = of_core(fovea_activation(handle_->context, FOVEA_ACTIVATION_NONE, &from, &to));
  }
}

Status Ring::go_round(Status *computed) {
  const Block own = block_in(buffer(0), keys_of(handle_->rank));
  for (int run = 0; run < own.share.count; ++run) {
    const Run &place = own.share.runs[run];
    pack(part_of(call_->key, 2, place.at, place.count), own.key[run], computed);
    pack(part_of(call_->value, 2, place.at, place.count), own.value[run], computed);
  }
  for (int step = 0; step < handle_->ranks; ++step) {
    if (step + 1 < handle_->ranks) FOVEA_MPI_CHECK(exchange(step));
    const auto progress = [](void *messages) { static_cast<Messages *>(messages)->move_on(); };
    if (*computed == FOVEA_OK)
      *computed = state_.attend(block_in(buffer(step), keys_of(owner_at(step))), progress, &messages_);
    FOVEA_MPI_CHECK(messages_.wait());
  }
  return FOVEA_OK;
}

}  // namespace

Status ring_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_ring_options *given) {
  FOVEA_MPI_CHECK(check_handle(handle));
  handle->begin_call();
  Call call;
  fovea_mpi_ring_options options;
  Status status = check_ring_options(given, &options);
  if (status == FOVEA_OK) status = check_ring_call(*handle, arguments, options.order, &call);
  Statement statement(Operation::ring, status);
  if (status == FOVEA_OK) {
    state_call(call, &statement);
    state_lengths(call, &statement);
    statement.add("ring.order", Kind::order, FOVEA_BAD_VALUE, options.order);
    statement.add("ring.transport", Kind::number, FOVEA_BAD_VALUE, options.transport);
  }
  FOVEA_MPI_CHECK(agree(*handle, statement));
  Ring ring(handle, &call, options);
  FOVEA_MPI_CHECK(ring.read_lengths(statement));
  if (handle->ranks == 1) return attend_at_once(*handle, arguments);
  FOVEA_MPI_CHECK(agree_status(*handle, ring.prepare()));
  Status computed = FOVEA_OK;
  FOVEA_MPI_CHECK(ring.go_round(&computed));
  FOVEA_MPI_CHECK(agree_status(*handle, computed));
  return ring.write();
}

}  // namespace fovea::mpi
