// Messages on their way: sent and received in pieces, moved on between computations, waited for.
#pragma once

#include <memory>

#include "mpi/handle.hpp"

namespace fovea::mpi {

// What a message is of. Those of one tag are received in the order in which they were sent.
enum class Tag : int { block = 1, passing_sums, final_sums, parameters };

class Messages {
 public:
  explicit Messages(Handle *handle) : handle_(handle) {}

  // How many requests a message of so many bytes is.
  int64_t requests_of(int64_t bytes) const;
  // Room for so many at once. Nothing allocates after this.
  [[nodiscard]] Status prepare(int64_t requests);

  [[nodiscard]] Status send(const char *bytes, int64_t count, int to, Tag tag = Tag::block);
  [[nodiscard]] Status receive(char *bytes, int64_t count, int from, Tag tag = Tag::block);
  // The tensor is contiguous.
  [[nodiscard]] Status send(const fovea_tensor &tensor, int to, Tag tag = Tag::block);
  [[nodiscard]] Status receive(const fovea_tensor &tensor, int from, Tag tag = Tag::block);
  // Lets MPI work on what is under way. What fails shows when it is waited for.
  void move_on();
  [[nodiscard]] Status wait();

 private:
  [[nodiscard]] Status start(char *bytes, int64_t count, int other, Tag tag, bool sends);
  [[nodiscard]] Status all_came(int code, const char *function);

  Handle *handle_;
  std::unique_ptr<MPI_Request[]> requests_;
  std::unique_ptr<MPI_Status[]> statuses_;
  std::unique_ptr<int[]> expected_;  // bytes to be received; 0 where bytes are sent
  int count_ = 0;
  Status moved_ = FOVEA_OK;  // what move_on met
};

}  // namespace fovea::mpi
