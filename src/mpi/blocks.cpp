// Moves blocks of keys and values from rank to rank.
#include "mpi/blocks.hpp"

#include <algorithm>
#include <cstdint>

#include "mpi/check.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Float32 travels in fewer bits if it is asked to.
fovea_tensor as_sent(const fovea_tensor &tensor, fovea_dtype transport) {
  fovea_tensor sent = tensor;
  if (transport != 0 && tensor.dtype == FOVEA_F32) sent.dtype = transport;
  return sent;
}

}  // namespace

Blocks::Blocks(Handle *handle, const Call *call, const fovea_mpi_ring_options &options)
    : handle_(handle),
      call_(call),
      order_(options.order),
      layout_({as_sent(call->key, options.transport), as_sent(call->value, options.transport)}) {}

Status Blocks::read_lengths(const Statement &statement) {
  lengths_ = whole_lengths(*handle_, statement);
  return check_lengths(*handle_, lengths_, *call_, order_);
}

int Blocks::find_last_step(int owner, int run) const {
  const Share keys = keys_of(owner);
  if (run >= keys.count) return 0;
  for (int step = handle_->ranks - 1; step > 0; --step) {
    const Share queries = queries_of((owner + step) % handle_->ranks);
    for (int64_t b = 0; b < call_->batch(); ++b) {
      for (int of_queries = 0; of_queries < queries.count; ++of_queries) {
        if (pattern_.meet(b, queries.runs[of_queries], keys.runs[run]).any) return step;
      }
    }
  }
  return 0;
}

Status Blocks::prepare(const Messages &messages, int64_t *requests) {
  pattern_ = Pattern(*call_, lengths_);
  int64_t bytes = 0;
  for (int owner = 0; owner < handle_->ranks; ++owner) {
    longest_ = std::max(longest_, lengths_.key_begin[owner + 1] - lengths_.key_begin[owner]);
    for (int run = 0; run < 2; ++run) handle_->steps()[2 * owner + run] = find_last_step(owner, run);
  }
  // Local sizes are known to fit; the longest block's need not.
  if (!layout_.bytes_of(longest_, &bytes)) {
    return fail(FOVEA_SIZE_OVERFLOW, "key and value are too long: a block of them exceeds the address space");
  }
  const auto size = static_cast<size_t>(bytes);
  if (!handle_->of(Use::sent).reserve(size) || !handle_->of(Use::received).reserve(size)) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for two blocks of keys and values");
  }
  *requests = 2 * (messages.requests_of(bytes) + 4);
  return FOVEA_OK;
}

void Blocks::pack(Status *computed) const {
  const Block own = at(0);
  for (int run = 0; run < own.share.count; ++run) {
    const Run &place = own.share.runs[run];
    const auto put = [&](const fovea_tensor &from, const fovea_tensor &to) {
      if (*computed == FOVEA_OK) *computed = copy_rounded(*handle_, part_of(from, 2, place.at, place.count), to);
    };
    put(call_->key, own.key[run]);
    put(call_->value, own.value[run]);
  }
}

Status Blocks::exchange(int step, Messages *messages) const {
  const int next = (handle_->rank + 1) % handle_->ranks, before = owner_at(1);
  const auto for_each = [&](int which, auto start) -> Status {
    const Block block = at(which);
    for (int run = 0; run < block.share.count; ++run) {
      if (step + 1 > last_step(owner_at(which), run)) continue;
      FOVEA_MPI_CHECK(start(block.key[run]));
      FOVEA_MPI_CHECK(start(block.value[run]));
    }
    return FOVEA_OK;
  };
  FOVEA_MPI_CHECK(for_each(step + 1, [&](const fovea_tensor &to) { return messages->receive(to, before); }));
  return for_each(step, [&](const fovea_tensor &from) { return messages->send(from, next); });
}

Status copy_rounded(const Handle &handle, const fovea_tensor &from, const fovea_tensor &to) {
  if (from.dtype != to.dtype) return of_core(fovea_activation(handle.context, FOVEA_ACTIVATION_NONE, &from, &to));
  copy_elements(from, to);
  return FOVEA_OK;
}

}  // namespace fovea::mpi
