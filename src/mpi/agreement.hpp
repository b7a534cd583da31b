// How ranks agree. Every rank states what it was called with; all read all statements, in rank order, and so come to
// one status and one message.
#pragma once

#include <cstdint>

#include "mpi/handle.hpp"

namespace fovea::mpi {

enum class Operation : int64_t { create, ring, decode, ulysses, grid, ring_backward };

// How a number of a statement is shown.
enum class Kind {
  number,  // as it stands
  dtype,   // by its name
  real,    // a float, by its bits
  order,   // by its name
  tensor,  // a hash of values, 0 if there is no tensor: not shown
  own      // differs from rank to rank as it likes
};

struct Number {
  const char *name;  // of the argument; the same on all ranks, or of no interest where ranks differ earlier
  Kind kind;
  Status status;  // if it is not rank 0's
  int64_t value;
};

struct Statement {
  static constexpr int most = 56;
  Statement(Operation of, Status status_so_far) : operation(of), status(status_so_far) {}
  void add(const char *name, Kind kind, Status if_not, int64_t value) {
    numbers[count++] = {name, kind, if_not, value};
  }
  Operation operation;
  Status status;  // with the thread's last error as its message
  int count = 0;
  Number numbers[most];
};

// What agreeing takes of the handle's memory.
constexpr size_t agreement_bytes(int ranks) {
  return static_cast<size_t>(ranks) * (Statement::most + 2) * sizeof(int64_t);
}

// Collective. FOVEA_OK if all ranks state FOVEA_OK and the same numbers. Then stated(handle) holds those of every rank,
// [ranks][numbers], until the next agreement. Every rank states as many numbers in an operation. Allocates nothing.
[[nodiscard]] Status agree(Handle &handle, const Statement &statement);
inline const int64_t *stated(Handle &handle) {
  return reinterpret_cast<const int64_t *>(handle.of(Use::agreed).data());
}

// Collective, of a status alone: what the lowest rank with an error says, all say.
[[nodiscard]] Status agree_status(Handle &handle, Status status);

int64_t bits_of(float number);

}  // namespace fovea::mpi
