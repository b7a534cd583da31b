// Nonblocking messages in pieces that MPI's counts of 32 bits can hold.
//
// Between two ranks messages of one tag arrive in the order in which they were sent, so pieces need no numbers. MPI may work
// only while it is called, so who computes calls move_on() in between.
#include "mpi/messages.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

int64_t bytes_in(const fovea_tensor &tensor) {
  return element_count(tensor) * static_cast<int64_t>(element_size(tensor.dtype));
}

}  // namespace

int64_t Messages::requests_of(int64_t bytes) const { return bytes == 0 ? 0 : (bytes - 1) / handle_->message_bytes + 1; }

Status Messages::prepare(int64_t requests) {
  if (requests > std::numeric_limits<int>::max()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "keys and values make %lld messages of options.message_bytes, more than MPI counts",
                static_cast<long long>(requests));
  }
  requests_.reset(new (std::nothrow) MPI_Request[static_cast<size_t>(requests)]);
  if (requests_ == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "out of memory for messages under way");
  return FOVEA_OK;
}

Status Messages::start(char *bytes, int64_t count, int other, Tag tag, bool sends) {
  for (int64_t at = 0; at < count; at += handle_->message_bytes) {
    const int piece = static_cast<int>(std::min(handle_->message_bytes, count - at));
    MPI_Request *request = &requests_[static_cast<size_t>(count_)];
    const int code =
        sends ? MPI_Isend(bytes + at, piece, MPI_BYTE, other, static_cast<int>(tag), handle_->communicator, request)
              : MPI_Irecv(bytes + at, piece, MPI_BYTE, other, static_cast<int>(tag), handle_->communicator, request);
    FOVEA_MPI_CHECK(of_mpi(*handle_, code, sends ? "MPI_Isend" : "MPI_Irecv"));
    ++count_;
  }
  return FOVEA_OK;
}

Status Messages::send(const char *bytes, int64_t count, int to, Tag tag) {
  handle_->figures.bytes_sent += count;
  return start(const_cast<char *>(bytes), count, to, tag, true);  // only read: MPI's requests have one form for both
}

Status Messages::receive(char *bytes, int64_t count, int from, Tag tag) {
  return start(bytes, count, from, tag, false);
}

Status Messages::send(const fovea_tensor &tensor, int to, Tag tag) {
  return send(static_cast<const char *>(tensor.data), bytes_in(tensor), to, tag);
}

Status Messages::receive(const fovea_tensor &tensor, int from, Tag tag) {
  return receive(static_cast<char *>(tensor.data), bytes_in(tensor), from, tag);
}

void Messages::move_on() {
  int done = 0;
  // Requests that are done become MPI_REQUEST_NULL, which the wait passes over.
  if (count_ > 0 && MPI_Testall(count_, requests_.get(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
    handle_->broken = true;
}

Status Messages::wait() {
  const auto begin = std::chrono::steady_clock::now();
  const int code = count_ == 0 ? MPI_SUCCESS : MPI_Waitall(count_, requests_.get(), MPI_STATUSES_IGNORE);
  count_ = 0;
  handle_->figures.seconds_waiting += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (handle_->broken) return of_mpi(*handle_, code == MPI_SUCCESS ? MPI_ERR_OTHER : code, "MPI_Testall");
  return of_mpi(*handle_, code, "MPI_Waitall");
}

}  // namespace fovea::mpi
