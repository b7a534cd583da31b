// Rejections: handles, options, shares of positions.
#include "mpi/check.hpp"

#include <cinttypes>
#include <cstring>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr int64_t largest_message = int64_t{1} << 30;

// Each struct has had one size so far. A newer caller's extra bytes must be zero.
Status read_struct(const char *name, const void *given, void *read, size_t known) {
  constexpr size_t sane_size = 4096;
  std::memset(read, 0, known);
  std::memcpy(read, &known, sizeof known);
  if (given == nullptr) return FOVEA_OK;
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < known || size > sane_size || size % sizeof(int64_t) != 0) {
    return fail(FOVEA_BAD_OPTION, "%s.struct_size is %zu, expected the struct's sizeof, %zu", name, size, known);
  }
  for (size_t i = known; i < size; ++i) {
    if (static_cast<const unsigned char *>(given)[i] != 0) {
      return fail(FOVEA_BAD_OPTION, "%s sets byte %zu of %zu, but this library knows only %zu", name, i, size, known);
    }
  }
  std::memcpy(read, given, known);
  std::memcpy(read, &known, sizeof known);
  return FOVEA_OK;
}

// Distinct if, from the smallest stride up, each clears all that the axes before it span.
Status check_distinct(const char *name, const fovea_tensor &tensor) {
  bool taken[FOVEA_MAX_RANK] = {};
  int64_t span = 1;
  for (int32_t step = 0; step < tensor.rank; ++step) {
    int32_t best = -1;
    const auto size_of = [&](int32_t axis) {
      return tensor.strides[axis] < 0 ? -tensor.strides[axis] : tensor.strides[axis];
    };
    for (int32_t axis = 0; axis < tensor.rank; ++axis) {
      if (!taken[axis] && tensor.shape[axis] > 1 && (best < 0 || size_of(axis) < size_of(best))) best = axis;
    }
    if (best < 0) break;
    taken[best] = true;
    if (size_of(best) < span) return fail(FOVEA_BAD_STRIDE, "%s's strides let two of its elements share memory", name);
    span += (tensor.shape[best] - 1) * size_of(best);
  }
  return FOVEA_OK;
}

}  // namespace

Status check_view(const fovea_tensor *tensor, const char *name) {
  if (tensor == nullptr) return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a tensor", name);
  if (tensor->rank < 1 || tensor->rank > FOVEA_MAX_RANK) {
    return fail(FOVEA_BAD_RANK, "%s has rank %d, expected 1 to %d", name, tensor->rank, FOVEA_MAX_RANK);
  }
  const size_t size = element_size(tensor->dtype);
  if (size == 0) return fail(FOVEA_BAD_DTYPE, "%s has dtype %d, expected an element type", name, tensor->dtype);
  int64_t elements = 1, reach = 0;
  for (int32_t axis = 0; axis < tensor->rank; ++axis) {
    if (tensor->shape[axis] < 0) {
      return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is %" PRId64 ", expected 0 or more", name, axis, tensor->shape[axis]);
    }
    if (tensor->shape[axis] == 0) return FOVEA_OK;
  }
  for (int32_t axis = 0; axis < tensor->rank; ++axis) {
    int64_t step = 0;
    const int64_t stride = tensor->strides[axis];
    const bool too_much = __builtin_mul_overflow(elements, tensor->shape[axis], &elements) || stride == INT64_MIN ||
                          __builtin_mul_overflow(tensor->shape[axis] - 1, stride < 0 ? -stride : stride, &step) ||
                          __builtin_add_overflow(reach, step, &reach) || reach > INT64_MAX / 16;
    if (tensor->shape[axis] > 1 && too_much) {
      return fail(FOVEA_SIZE_OVERFLOW, "%s's shape and strides span more than the address space", name);
    }
  }
  if (tensor->data == nullptr) return fail(FOVEA_NULL_POINTER, "%s.data is NULL, expected elements", name);
  if (reinterpret_cast<uintptr_t>(tensor->data) % size != 0) {
    return fail(FOVEA_BAD_VALUE, "%s.data is not aligned to its elements of %zu bytes", name, size);
  }
  return FOVEA_OK;
}

Status of_mpi(Handle &handle, int code, const char *function) {
  if (code == MPI_SUCCESS) return FOVEA_OK;
  handle.broken = true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) text[0] = '\0';
  return fail(FOVEA_MPI_FAILED, "rank %d: %s: %s", handle.rank, function, text);
}

Status check_bytes(Handle &handle, int bytes, int expected, const char *function) {
  if (bytes == expected) return FOVEA_OK;
  handle.broken = true;
  return fail(FOVEA_MPI_FAILED, "rank %d: %s: a message has %d bytes, expected %d", handle.rank, function, bytes,
              expected);
}

Status check_communicator(MPI_Comm communicator, fovea_mpi **created) {
  if (created == nullptr) return fail(FOVEA_NULL_POINTER, "mpi is NULL, expected where to put the handle");
  int initialised = 0, finalised = 0;
  if (MPI_Initialized(&initialised) != MPI_SUCCESS || MPI_Finalized(&finalised) != MPI_SUCCESS || initialised == 0 ||
      finalised != 0) {
    return fail(FOVEA_BAD_VALUE, "communicator is given while MPI is not initialised, expected MPI_Init_thread before");
  }
  if (communicator == MPI_COMM_NULL)
    return fail(FOVEA_BAD_VALUE, "communicator is MPI_COMM_NULL, expected a communicator");
  return FOVEA_OK;
}

Status check_handle_options(const fovea_mpi_options *given, fovea_mpi_options *read) {
  FOVEA_MPI_CHECK(read_struct("options", given, read, sizeof *read));
  if (read->flags != 0) return fail(FOVEA_BAD_OPTION, "options.flags is 0x%x, expected 0", read->flags);
  if (read->reserved != 0) return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", read->reserved);
  if (read->message_bytes < 0 || read->message_bytes > largest_message) {
    return fail(FOVEA_BAD_VALUE, "options.message_bytes is %" PRId64 ", expected 0 to 2^30", read->message_bytes);
  }
  if (read->message_bytes == 0) read->message_bytes = largest_message;
  return FOVEA_OK;
}

Status check_handle(const Handle *handle) {
  if (handle == nullptr) return fail(FOVEA_NULL_POINTER, "mpi is NULL, expected a handle");
  if (handle->broken) return fail(FOVEA_MPI_FAILED, "mpi has failed before, expected nothing but fovea_mpi_destroy");
  return FOVEA_OK;
}

Status check_figures(const Handle *handle, const fovea_mpi_figures *figures) {
  if (handle == nullptr) return fail(FOVEA_NULL_POINTER, "mpi is NULL, expected a handle");
  if (figures == nullptr) return fail(FOVEA_NULL_POINTER, "figures is NULL, expected where to put them");
  if (figures->struct_size != sizeof *figures) {
    return fail(FOVEA_BAD_OPTION, "figures.struct_size is %zu, expected the struct's sizeof, %zu", figures->struct_size,
                sizeof *figures);
  }
  return FOVEA_OK;
}

Status check_ring_options(const fovea_mpi_ring_options *given, fovea_mpi_ring_options *read) {
  FOVEA_MPI_CHECK(read_struct("ring", given, read, sizeof *read));
  if (!is_order(read->order))
    return fail(FOVEA_BAD_VALUE, "ring.order is %d, expected FOVEA_MPI_CONTIGUOUS, _ZIGZAG or _STRIPED", read->order);
  if (read->transport != 0 && read->transport != FOVEA_F16 && read->transport != FOVEA_BF16) {
    return fail(FOVEA_BAD_VALUE, "ring.transport is %d, expected 0, FOVEA_F16 or FOVEA_BF16", read->transport);
  }
  return FOVEA_OK;
}

Status check_ulysses_options(const fovea_mpi_ulysses_options *given, fovea_mpi_ulysses_options *read) {
  FOVEA_MPI_CHECK(read_struct("ulysses", given, read, sizeof *read));
  if (!is_order(read->order)) {
    return fail(FOVEA_BAD_VALUE, "ulysses.order is %d, expected FOVEA_MPI_CONTIGUOUS, _ZIGZAG or _STRIPED",
                read->order);
  }
  if (read->reserved != 0) return fail(FOVEA_BAD_OPTION, "ulysses.reserved is %d, expected 0", read->reserved);
  return FOVEA_OK;
}

Status check_decode_options(const fovea_mpi_decode_options *given, fovea_mpi_decode_options *read) {
  FOVEA_MPI_CHECK(read_struct("decode", given, read, sizeof *read));
  if ((read->flags & ~static_cast<uint32_t>(FOVEA_MPI_QUERY_ON_RANK_0)) != 0) {
    return fail(FOVEA_BAD_OPTION, "decode.flags is 0x%x, expected FOVEA_MPI_QUERY_ON_RANK_0 or 0", read->flags);
  }
  if (read->reserved != 0) return fail(FOVEA_BAD_OPTION, "decode.reserved is %d, expected 0", read->reserved);
  return FOVEA_OK;
}

Status check_places(int32_t order, int64_t length, int32_t ranks, int32_t rank) {
  if (!is_order(order))
    return fail(FOVEA_BAD_VALUE, "order is %d, expected FOVEA_MPI_CONTIGUOUS, _ZIGZAG or _STRIPED", order);
  if (length < 0 || length > largest_length)
    return fail(FOVEA_BAD_VALUE, "length is %" PRId64 ", expected 0 to 2^30", length);
  if (ranks < 1) return fail(FOVEA_BAD_VALUE, "ranks is %d, expected 1 or more", ranks);
  if (rank < 0 || rank >= ranks) return fail(FOVEA_BAD_VALUE, "rank is %d, expected 0 to %d", rank, ranks - 1);
  return FOVEA_OK;
}

Status check_result(const int64_t *result, const char *name) {
  return result == nullptr ? fail(FOVEA_NULL_POINTER, "%s is NULL, expected where to put it", name) : FOVEA_OK;
}

Status check_copy(const fovea_tensor *whole, const fovea_tensor *share, int32_t axis) {
  FOVEA_MPI_CHECK(check_view(whole, "whole"));
  FOVEA_MPI_CHECK(check_view(share, "share"));
  if (share->rank != whole->rank)
    return fail(FOVEA_BAD_RANK, "share has rank %d, expected whole's %d", share->rank, whole->rank);
  if (share->dtype != whole->dtype) {
    return fail(FOVEA_BAD_DTYPE, "share has dtype %s, expected whole's %s", dtype_name(share->dtype),
                dtype_name(whole->dtype));
  }
  if (axis < 0 || axis >= whole->rank)
    return fail(FOVEA_BAD_VALUE, "axis is %d, expected 0 to %d", axis, whole->rank - 1);
  for (int32_t other = 0; other < whole->rank; ++other) {
    if (other != axis) FOVEA_MPI_CHECK(check_share_size(*whole, *share, other, whole->shape[other]));
  }
  return FOVEA_OK;
}

Status check_share_size(const fovea_tensor &whole, const fovea_tensor &share, int32_t axis, int64_t expected) {
  if (share.shape[axis] == expected) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "share.shape[%d] is %" PRId64 ", expected %" PRId64 " of whole's %" PRId64, axis,
              share.shape[axis], expected, whole.shape[axis]);
}

Status check_written(const char *name, const fovea_tensor &written, const fovea_tensor &read) {
  if (element_count(written) == 0) return FOVEA_OK;
  FOVEA_MPI_CHECK(check_distinct(name, written));
  if (overlap(written, read)) return fail(FOVEA_OVERLAP, "%s overlaps what it is copied from", name);
  return FOVEA_OK;
}

}  // namespace fovea::mpi
