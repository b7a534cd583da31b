// Nonblocking messages in pieces that MPI's counts of 32 bits can hold.
//
// A message that has fewer bytes than are waited for is a failure as any of MPI's: another build of the library sent
// it.
//
// Between two ranks messages of one tag arrive in the order in which they were sent, so pieces need no numbers. MPI may
// work only while it is called, so who computes calls move_on() in between.
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
  const auto count = static_cast<size_t>(requests);
  requests_.reset(new (std::nothrow) MPI_Request[count]);
  statuses_.reset(new (std::nothrow) MPI_Status[count]);
  expected_.reset(new (std::nothrow) int[count]);
  if (requests_ == nullptr || statuses_ == nullptr || expected_ == nullptr)
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for messages under way");
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
    expected_[static_cast<size_t>(count_++)] = sends ? 0 : piece;
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

// What MPI says of all requests. None is waited for after that: if one failed, the others may never end.
Status Messages::all_came(int code, const char *function) {
  const int count = count_;
  count_ = 0;
  for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; ++i) {
    const int of_one = statuses_[static_cast<size_t>(i)].MPI_ERROR;
    if (of_one != MPI_SUCCESS && of_one != MPI_ERR_PENDING) code = of_one;
  }
  FOVEA_MPI_CHECK(of_mpi(*handle_, code, function));
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    int bytes = 0;
    if (expected_[at] == 0) continue;
    FOVEA_MPI_CHECK(of_mpi(*handle_, MPI_Get_count(&statuses_[at], MPI_BYTE, &bytes), "MPI_Get_count"));
    FOVEA_MPI_CHECK(check_bytes(*handle_, bytes, expected_[at], function));
  }
  return FOVEA_OK;
}

void Messages::move_on() {
  if (count_ == 0) return;
  int done = 0;
  const int code = MPI_Testall(count_, requests_.get(), &done, statuses_.get());
  if (code != MPI_SUCCESS || done != 0) moved_ = all_came(code, "MPI_Testall");
}

Status Messages::wait() {
  const auto begin = std::chrono::steady_clock::now();
  const int code = count_ == 0 ? MPI_SUCCESS : MPI_Waitall(count_, requests_.get(), statuses_.get());
  handle_->figures.seconds_waiting += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  FOVEA_MPI_CHECK(moved_);
  return all_came(code, "MPI_Waitall");
}

}  // namespace fovea::mpi
