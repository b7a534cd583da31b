// Makes and ends handles.
#include "mpi/handle.hpp"

#include <new>
#include <utility>

#include "mpi/agreement.hpp"
#include "mpi/check.hpp"

namespace fovea::mpi {

bool Memory::reserve(size_t bytes) {
  constexpr size_t line = 64;
  if (bytes <= bytes_) return true;
  memory_.reset();
  aligned_ = nullptr;
  bytes_ = 0;
  memory_.reset(new (std::nothrow) char[bytes + line]);
  if (memory_ == nullptr) return false;
  bytes_ = bytes;
  aligned_ = memory_.get() + (line - reinterpret_cast<uintptr_t>(memory_.get()) % line) % line;
  return true;
}

Status create(MPI_Comm communicator, const fovea_context *context, const fovea_mpi_options *options,
              fovea_mpi **created) {
  FOVEA_MPI_CHECK(check_communicator(communicator, created));
  fovea_mpi_options read = {};
  const Status refused = check_handle_options(options, &read);
  Handle joined;  // lives here until all ranks have memory for one that stays
  FOVEA_MPI_CHECK(of_mpi(joined, MPI_Comm_dup(communicator, &joined.communicator), "MPI_Comm_dup"));
  FOVEA_MPI_CHECK(
      of_mpi(joined, MPI_Comm_set_errhandler(joined.communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  FOVEA_MPI_CHECK(of_mpi(joined, MPI_Comm_rank(joined.communicator, &joined.rank), "MPI_Comm_rank"));
  FOVEA_MPI_CHECK(of_mpi(joined, MPI_Comm_size(joined.communicator, &joined.ranks), "MPI_Comm_size"));
  std::unique_ptr<Handle> handle(new (std::nothrow) Handle);
  Status agreed = refused;
  if (agreed == FOVEA_OK && (handle == nullptr || !joined.of(Use::agreed).reserve(agreement_bytes(joined.ranks)) ||
                             !joined.of(Use::lengths).reserve(Handle::lengths_bytes(joined.ranks)))) {
    agreed = fail(FOVEA_OUT_OF_MEMORY, "no memory for the handle");
  }
  agreed = agree_status(joined, agreed);
  if (agreed == FOVEA_OK) {
    Statement statement(Operation::create, FOVEA_OK);
    statement.add("options.message_bytes", Kind::number, FOVEA_BAD_VALUE, read.message_bytes);
    agreed = agree(joined, statement);
  }
  if (agreed != FOVEA_OK) {
    if (!joined.broken) MPI_Comm_free(&joined.communicator);
    return agreed;
  }
  *handle = std::move(joined);
  handle->context = context;
  handle->message_bytes = read.message_bytes;
  handle->begin_call();
  *created = handle.release();
  return FOVEA_OK;
}

void destroy(Handle *handle) {
  if (handle == nullptr) return;
  if (handle->broken) {
    for (Memory &memory : handle->memory) memory.abandon();
  } else {
    MPI_Comm_free(&handle->communicator);
  }
  delete handle;
}

Status last_figures(const Handle *handle, fovea_mpi_figures *figures) {
  FOVEA_MPI_CHECK(check_figures(handle, figures));
  *figures = handle->figures;
  return FOVEA_OK;
}

}  // namespace fovea::mpi
