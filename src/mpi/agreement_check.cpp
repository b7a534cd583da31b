// Compares what the ranks state, and gives all of them the message of the first that differs.
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "mpi/agreement.hpp"
#include "mpi/positions.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

const char *function_name(int64_t operation) {
  switch (static_cast<Operation>(operation)) {
    case Operation::create: return "fovea_mpi_create";
    case Operation::ring: return "fovea_mpi_ring_attention";
    case Operation::decode: return "fovea_mpi_decode_attention";
    case Operation::ulysses: return "fovea_mpi_ulysses_attention";
    case Operation::grid: return "fovea_mpi_grid_attention";
    case Operation::ring_backward: return "fovea_mpi_ring_attention_backward";
  }
  return "another function";
}

struct Shown {
  char text[48];
};

Shown shown(Kind kind, int64_t value) {
  Shown shown;
  float real = 0;
  const auto bits = static_cast<uint32_t>(value);
  switch (kind) {
    case Kind::dtype:
      std::snprintf(shown.text, sizeof shown.text, "%s", dtype_name(static_cast<fovea_dtype>(value)));
      break;
    case Kind::order:
      std::snprintf(shown.text, sizeof shown.text, "%s", order_name(static_cast<int32_t>(value)));
      break;
    case Kind::real:
      std::memcpy(&real, &bits, sizeof real);
      std::snprintf(shown.text, sizeof shown.text, "%.9g", static_cast<double>(real));
      break;
    default: std::snprintf(shown.text, sizeof shown.text, "%" PRId64, value);
  }
  return shown;
}

Status differs(int rank, const Number &number, int64_t given, int64_t expected) {
  if (number.kind == Kind::tensor) {
    if (given == 0)
      return fail(number.status, "rank %d: %s is NULL, expected a tensor as on rank 0", rank, number.name);
    if (expected == 0)
      return fail(number.status, "rank %d: %s is given, expected NULL as on rank 0", rank, number.name);
    return fail(number.status, "rank %d: %s has another shape, type or values than rank 0's", rank, number.name);
  }
  return fail(number.status, "rank %d: %s is %s, expected %s (rank 0's)", rank, number.name,
              shown(number.kind, given).text, shown(number.kind, expected).text);
}

}  // namespace

int64_t bits_of(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

Status agree_status(Handle &handle, Status status) {
  // The lowest rank that has an error, and MPI's largest number where none has.
  int mine = status == FOVEA_OK ? handle.ranks : handle.rank, first = 0;
  FOVEA_MPI_CHECK(
      of_mpi(handle, MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, handle.communicator), "MPI_Allreduce"));
  if (first == handle.ranks) return FOVEA_OK;
  struct {
    int32_t status;
    char message[max_message];
  } said = {status, ""};
  if (first == handle.rank) std::memcpy(said.message, last_error(), std::strlen(last_error()) + 1);
  FOVEA_MPI_CHECK(of_mpi(handle, MPI_Bcast(&said, sizeof said, MPI_BYTE, first, handle.communicator), "MPI_Bcast"));
  said.message[max_message - 16] = '\0';
  return fail(said.status, "rank %d: %s", first, said.message);
}

// How many numbers a statement has depends on the operation, so that is agreed on first, together with the statuses.
Status agree(Handle &handle, const Statement &statement) {
  auto *gathered = reinterpret_cast<int64_t *>(handle.of(Use::agreed).data());
  const int64_t head[] = {static_cast<int64_t>(statement.operation), statement.status};
  FOVEA_MPI_CHECK(of_mpi(handle, MPI_Allgather(head, 2, MPI_INT64_T, gathered, 2, MPI_INT64_T, handle.communicator),
                         "MPI_Allgather"));
  bool refused = statement.status != FOVEA_OK;
  for (int rank = 1; rank < handle.ranks; ++rank) {
    refused = refused || gathered[2 * rank + 1] != FOVEA_OK;
    if (gathered[2 * rank] == gathered[0]) continue;
    return fail(FOVEA_BAD_VALUE, "rank %d: calls %s, expected %s as rank 0 does", rank,
                function_name(gathered[2 * rank]), function_name(gathered[0]));
  }
  if (refused || gathered[1] != FOVEA_OK) return agree_status(handle, statement.status);
  int64_t numbers[Statement::most];
  const int count = statement.count;
  for (int i = 0; i < count; ++i) numbers[i] = statement.numbers[i].value;
  FOVEA_MPI_CHECK(of_mpi(handle,
                         MPI_Allgather(numbers, count, MPI_INT64_T, gathered, count, MPI_INT64_T, handle.communicator),
                         "MPI_Allgather"));
  for (int rank = 1; rank < handle.ranks; ++rank) {
    for (int i = 0; i < count; ++i) {
      const Number &number = statement.numbers[i];
      const int64_t given = gathered[rank * count + i];
      if (number.kind == Kind::own || given == gathered[i]) continue;
      return differs(rank, number, given, gathered[i]);
    }
  }
  return FOVEA_OK;
}

}  // namespace fovea::mpi
