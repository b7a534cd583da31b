// Messages on their way: sent and received in pieces, moved on between computations, waited for.
#pragma once

#include <memory>

#include "mpi/handle.hpp"

namespace fovea::mpi {

class Messages {
 public:
  explicit Messages(Handle *handle) : handle_(handle) {}

  // How many requests a message of so many bytes is.
  int64_t requests_of(int64_t bytes) const;
  // Room for so many at once. Nothing allocates after this.
  [[nodiscard]] Status prepare(int64_t requests);

  [[nodiscard]] Status send(const char *bytes, int64_t count, int to);
  [[nodiscard]] Status receive(char *bytes, int64_t count, int from);
  // Lets MPI work on what is under way. What fails shows when it is waited for.
  void move_on();
  [[nodiscard]] Status wait();

 private:
  [[nodiscard]] Status start(char *bytes, int64_t count, int other, bool sends);
  [[nodiscard]] Status all_came(int code, const char *function);

  Handle *handle_;
  std::unique_ptr<MPI_Request[]> requests_;
  std::unique_ptr<MPI_Status[]> statuses_;
  std::unique_ptr<int[]> expected_;  // bytes to be received; 0 where bytes are sent
  int count_ = 0;
  Status moved_ = FOVEA_OK;  // what move_on met
};

}  // namespace fovea::mpi
