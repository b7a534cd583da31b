// Ring attention: while a block of keys and values goes on and the next one comes, the rank's queries attend it.
#include "mpi/ring.hpp"

#include "mpi/blocks.hpp"
#include "mpi/state.hpp"

namespace fovea::mpi {
namespace {

class Ring {
 public:
  Ring(Handle *handle, const Call *call, const fovea_mpi_ring_options &options)
      : handle_(handle), call_(call), blocks_(handle, call, options), messages_(handle) {}

  Status read_lengths(const Statement &statement) { return blocks_.read_lengths(statement); }
  // All memory that the call takes.
  Status prepare();
  // Every block, to the state. Of errors in computing the first is kept, and messages go on: other ranks wait for them.
  Status go_round(Status *computed);
  Status write() { return state_.write(); }

 private:
  Handle *handle_;
  const Call *call_;
  Blocks blocks_;
  State state_;
  Messages messages_;
};

Status Ring::prepare() {
  int64_t requests = 0;
  FOVEA_MPI_CHECK(blocks_.prepare(messages_, &requests));
  FOVEA_MPI_CHECK(messages_.prepare(requests));
  return state_.prepare(handle_, *call_, blocks_.pattern(), blocks_.queries_of(handle_->rank));
}

Status Ring::go_round(Status *computed) {
  blocks_.pack(computed);
  const auto progress = [](void *messages) { static_cast<Messages *>(messages)->move_on(); };
  for (int step = 0; step < handle_->ranks; ++step) {
    if (step + 1 < handle_->ranks) FOVEA_MPI_CHECK(blocks_.exchange(step, &messages_));
    if (*computed == FOVEA_OK) *computed = state_.attend(blocks_.at(step), progress, &messages_);
    FOVEA_MPI_CHECK(messages_.wait());
  }
  return FOVEA_OK;
}

}  // namespace

void state_ring(const Call &call, const fovea_mpi_ring_options &options, Statement *statement) {
  state_call(call, statement);
  state_lengths(call, statement);
  statement->add("ring.order", Kind::order, FOVEA_BAD_VALUE, options.order);
  statement->add("ring.transport", Kind::number, FOVEA_BAD_VALUE, options.transport);
}

Status ring_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_ring_options *given) {
  FOVEA_MPI_CHECK(check_handle(handle));
  handle->begin_call();
  Call call;
  fovea_mpi_ring_options options;
  Status status = check_ring_options(given, &options);
  if (status == FOVEA_OK) status = check_ring_call(*handle, arguments, options.order, &call);
  Statement statement(Operation::ring, status);
  if (status == FOVEA_OK) state_ring(call, options, &statement);
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
