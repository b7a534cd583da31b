// Shape, stride, dtype and range checks. Sizes and strides are the caller's and may be anything: every product is
// checked.
#include "ops/tensors/check.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ops/tensors/overlap.hpp"

namespace fovea {
namespace {

bool count_fits(const fovea_tensor &tensor) {
  int64_t count = static_cast<int64_t>(dtype_size(static_cast<Dtype>(tensor.dtype)));
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] != 0 && !checked_multiply(count, tensor.shape[axis], &count)) return false;
  }
  return true;
}

bool address_range_fits(const fovea_tensor &tensor, const Extent &extent) {
  int64_t ignored = 0;
  const auto base = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data));
  return checked_add(base, extent.low, &ignored) && ignored >= 0 && checked_add(base, extent.high, &ignored);
}

// Elements of an output are distinct if, from the smallest stride up, each stride clears all that the axes before it
// span.
bool repeats_itself(const fovea_tensor &tensor) {
  int64_t span = 1;
  bool used[FOVEA_MAX_RANK] = {};
  for (;;) {
    int best = -1;
    for (int axis = 0; axis < tensor.rank; ++axis) {
      if (used[axis] || tensor.shape[axis] <= 1) continue;
      if (best < 0 || std::llabs(tensor.strides[axis]) < std::llabs(tensor.strides[best])) best = axis;
    }
    if (best < 0) return false;
    used[best] = true;
    const int64_t stride = std::llabs(tensor.strides[best]);
    if (stride < span) return true;
    span += (tensor.shape[best] - 1) * stride;  // cannot overflow: the extent fits
  }
}

Status check_strides(const fovea_tensor &tensor, const TensorRule &rule) {
  if (element_count(tensor) == 0) return FOVEA_OK;
  const int last = tensor.rank - 1;
  if (rule.contiguous_last && last >= 0 && tensor.shape[last] > 1 && tensor.strides[last] != 1) {
    return fail(FOVEA_BAD_STRIDE, "%s.strides[%d] is %" PRId64 ", expected 1: the last axis must be contiguous",
                rule.name, last, tensor.strides[last]);
  }
  if (rule.output && repeats_itself(tensor)) {
    return fail(FOVEA_BAD_STRIDE,
                "%s's strides let two of its elements share memory, expected an output without overlap", rule.name);
  }
  return FOVEA_OK;
}

Status check_memory(const fovea_tensor &tensor, const TensorRule &rule) {
  Extent extent;
  if (!count_fits(tensor) || !compute_extent(tensor, &extent)) {
    return fail(FOVEA_SIZE_OVERFLOW, "%s's shape and strides span more than 2^63 bytes", rule.name);
  }
  FOVEA_CHECK(check_strides(tensor, rule));
  if (!rule.needs_data || element_count(tensor) == 0) return FOVEA_OK;
  const char *member = rule.names_data ? "" : ".data";
  if (tensor.data == nullptr) {
    return fail(FOVEA_NULL_POINTER, "%s%s is NULL, expected %" PRId64 " elements", rule.name, member,
                element_count(tensor));
  }
  const size_t size = dtype_size(static_cast<Dtype>(tensor.dtype));
  if (reinterpret_cast<uintptr_t>(tensor.data) % size != 0) {
    return fail(FOVEA_BAD_VALUE, "%s%s is %p, expected a multiple of the element size %zu", rule.name, member,
                tensor.data, size);
  }
  if (!address_range_fits(tensor, extent)) {
    return fail(FOVEA_SIZE_OVERFLOW, "%s's shape and strides reach outside the address space", rule.name);
  }
  return FOVEA_OK;
}

Status overlap_of(const NamedTensor &output, const NamedTensor &other) {
  if (output.tensor == nullptr || other.tensor == nullptr || !share_memory(*output.tensor, *other.tensor)) {
    return FOVEA_OK;
  }
  return fail(FOVEA_OVERLAP, "%s (at %p) overlaps %s (at %p), expected memory of its own", output.name,
              output.tensor->data, other.name, other.tensor->data);
}

}  // namespace

int64_t element_count(const fovea_tensor &tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    count *= tensor.shape[axis];
  }
  return count;
}

bool same_memory(const fovea_tensor &a, const fovea_tensor &b) {
  if (a.data != b.data || a.rank != b.rank || a.dtype != b.dtype) return false;
  for (int axis = 0; axis < a.rank; ++axis) {
    if (a.shape[axis] != b.shape[axis]) return false;
    if (a.shape[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

Status expect_given(const void *pointer, const char *name, const char *expected) {
  if (pointer != nullptr) return FOVEA_OK;
  return fail(FOVEA_NULL_POINTER, "%s is NULL, expected %s", name, expected);
}

Status check_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_OPTION, "options.flags is 0x%" PRIx32 ", expected %s0x%" PRIx32, flags,
              known == 0 ? "" : "no bits but ", known);
}

Status check_reserved(int32_t reserved) {
  if (reserved == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", reserved);
}

Status check_tensor(const fovea_tensor *tensor, const TensorRule &rule) {
  FOVEA_CHECK(expect_given(tensor, rule.name, "a tensor"));
  if (tensor->rank < rule.min_rank || tensor->rank > rule.max_rank) {
    if (rule.min_rank == rule.max_rank) {
      return fail(FOVEA_BAD_RANK, "%s has rank %d, expected %d", rule.name, tensor->rank, rule.min_rank);
    }
    return fail(FOVEA_BAD_RANK, "%s has rank %d, expected %d to %d", rule.name, tensor->rank, rule.min_rank,
                rule.max_rank);
  }
  const auto expected = static_cast<int32_t>(rule.dtype);
  if (tensor->dtype != expected && !(rule.narrow && is_number(static_cast<Dtype>(tensor->dtype)))) {
    return fail(FOVEA_BAD_DTYPE, "%s has dtype %s, expected %s%s", rule.name, DtypeName(tensor->dtype).text,
                DtypeName(expected).text, rule.narrow ? or_16_bits : "");
  }
  for (int axis = 0; axis < tensor->rank; ++axis) {
    if (tensor->shape[axis] < 0) {
      return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is %" PRId64 ", expected 0 or more", rule.name, axis,
                  tensor->shape[axis]);
    }
  }
  return check_memory(*tensor, rule);
}

Status check_range(const char *where, const char *name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s%s is %" PRId64 ", expected %" PRId64 " to %" PRId64, where, name, value, least,
              most);
}

Status check_data(const fovea_tensor &tensor, const char *name, bool names_data) {
  return check_tensor(&tensor, {.name = name,
                                .dtype = static_cast<Dtype>(tensor.dtype),
                                .min_rank = 0,
                                .contiguous_last = false,
                                .names_data = names_data});
}

Status check_size(const fovea_tensor &tensor, const char *name, int axis, int64_t expected, const char *why) {
  if (tensor.shape[axis] == expected) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is %" PRId64 ", expected %" PRId64 " (%s)", name, axis, tensor.shape[axis],
              expected, why);
}

Status expect_sizes(std::initializer_list<ExpectedSize> sizes) {
  for (const ExpectedSize &s : sizes) {
    if (s.size == s.expected) continue;
    return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " %s, expected %" PRId64 " (%s)", s.name, s.size, s.what, s.expected,
                s.why);
  }
  return FOVEA_OK;
}

Status expect_size_in(const char *name, const char *what, int64_t size, int64_t least, int64_t most) {
  if (size >= least && size <= most) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " %s, expected %" PRId64 " to %" PRId64, name, size, what, least,
              most);
}

Status check_like_x(const fovea_tensor *tensor, const char *name, const fovea_tensor &x, bool output) {
  const TensorRule rule = {.name = name, .min_rank = x.rank, .max_rank = x.rank, .output = output, .narrow = true};
  FOVEA_CHECK(check_tensor(tensor, rule));
  for (int axis = 0; axis < x.rank; ++axis) {
    FOVEA_CHECK(check_size(*tensor, name, axis, x.shape[axis], "x's size"));
  }
  return FOVEA_OK;
}

Status check_overlaps(std::span<const NamedTensor> outputs, std::span<const NamedTensor> inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (const NamedTensor &input : inputs) {
      FOVEA_CHECK(overlap_of(*output, input));
    }
    for (auto other = output + 1; other != outputs.end(); ++other) {
      FOVEA_CHECK(overlap_of(*output, *other));
    }
  }
  return FOVEA_OK;
}

Status check_integer_tensor(const fovea_tensor &tensor, const char *name, int max_rank, bool needs_data) {
  if (tensor.dtype != FOVEA_I32 && tensor.dtype != FOVEA_I64) {
    return fail(FOVEA_BAD_DTYPE, "%s has dtype %s, expected FOVEA_I32 or FOVEA_I64", name,
                DtypeName(tensor.dtype).text);
  }
  return check_tensor(&tensor, {.name = name,
                                .dtype = static_cast<Dtype>(tensor.dtype),
                                .max_rank = max_rank,
                                .contiguous_last = false,
                                .needs_data = needs_data});
}

Status check_valid_lens_tensor(const fovea_tensor &lens, int64_t batch, int64_t query_len, bool needs_data) {
  FOVEA_CHECK(check_integer_tensor(lens, "valid_lens", 2, needs_data));
  FOVEA_CHECK(check_size(lens, "valid_lens", 0, batch, "the batch size"));
  if (lens.rank == 2) return check_size(lens, "valid_lens", 1, query_len, "the number of queries");
  return FOVEA_OK;
}

int64_t integer_at(const fovea_tensor &tensor, int64_t offset) {
  return read_integer(tensor.data, tensor.dtype == FOVEA_I64, offset);
}

Status check_integers(const fovea_tensor &tensor, const char *name, int64_t most, const char *unit, int64_t *largest,
                      int64_t least) {
  if (element_count(tensor) == 0) return FOVEA_OK;
  const auto distinct = [&](int axis) { return tensor.strides[axis] == 0 ? 1 : tensor.shape[axis]; };
  const int64_t rows = distinct(0);
  const int64_t columns = tensor.rank == 2 ? distinct(1) : 1;
  const int64_t column_stride = tensor.rank == 2 ? tensor.strides[1] : 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t value = integer_at(tensor, row * tensor.strides[0] + column * column_stride);
      if (largest != nullptr) *largest = std::max(*largest, value);
      if (value >= least && value <= most) continue;
      char index[48];
      const int length = std::snprintf(index, sizeof index, "%" PRId64, row);
      if (tensor.rank == 2) std::snprintf(index + length, sizeof index - length, ",%" PRId64, column);
      return fail(FOVEA_BAD_VALUE, "%s[%s] is %" PRId64 ", expected %" PRId64 " to %" PRId64 "%s", name, index, value,
                  least, most, unit);
    }
  }
  return FOVEA_OK;
}

Status check_dropout(float probability, uint64_t seed, Dropout *dropout) {
  if (!(probability >= 0.0f && probability < 1.0f)) {
    return fail(FOVEA_BAD_VALUE, "options.dropout is %g, expected 0 or more and less than 1",
                static_cast<double>(probability));
  }
  const double exact = probability;
  dropout->threshold = static_cast<uint32_t>(std::llround(exact * 0x1p32));
  dropout->scale = static_cast<float>(1.0 / (1.0 - exact));
  dropout->seed = seed;
  return FOVEA_OK;
}

}  // namespace fovea
