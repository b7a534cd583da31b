// The checks every operation shares. All of them run before anything is written; each failure names the argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "integers.hpp"
#include "kernels/random/dropout_problem.hpp"
#include "ops/tensors/dtype.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "read_options.hpp"
#include "status.hpp"
#include "types.hpp"

namespace fovea {

constexpr int64_t largest_head_dim = 1024;  // features of a query, key or value

// A pointer that has to be there: "plan is NULL, expected a plan".
[[nodiscard]] Status expect_given(const void *pointer, const char *name, const char *expected);

// options.flags has no bits but those in `known`.
[[nodiscard]] Status check_flags(uint32_t flags, uint32_t known);

// options.reserved is 0.
[[nodiscard]] Status check_reserved(int32_t reserved);

// What an argument must be.
struct TensorRule {
  const char *name;
  Dtype dtype = Dtype::f32;
  int min_rank = 1;
  int max_rank = FOVEA_MAX_RANK;
  bool output = false;          // must not repeat itself
  bool contiguous_last = true;  // stride 1 along the last axis
  bool needs_data = true;       // data may be NULL only when there are no elements
  bool names_data = false;      // the name is that of the data, not of a tensor
  bool narrow = false;          // where dtype is f32: f16 and bf16 will do
};

// Rank, dtype, shape, strides, address range, alignment and null data, of what a TensorArgument holds.
[[nodiscard]] Status check_tensor(const fovea_tensor *tensor, const TensorRule &rule);

// Data that must be there, aligned and inside the address space, of a tensor that has been checked without. names_data:
// the name is that of the data.
[[nodiscard]] Status check_data(const fovea_tensor &tensor, const char *name, bool names_data);

// tensor.shape[axis] == expected; `why` says where the expectation comes from ("query's head_dim").
[[nodiscard]] Status check_size(const fovea_tensor &tensor, const char *name, int axis, int64_t expected,
                                const char *why);

// A size as it is and as it must be. The first that differs is named: "key has 8 features, expected 6 (as query)".
struct ExpectedSize {
  const char *name, *what;
  int64_t size, expected;
  const char *why;
};
[[nodiscard]] Status expect_sizes(std::initializer_list<ExpectedSize> sizes);

// least <= size <= most: "key has 0 features, expected 1 to 1024".
[[nodiscard]] Status expect_size_in(const char *name, const char *what, int64_t size, int64_t least, int64_t most);

// tensor is float32, float16 or bfloat16 of x's shape.
[[nodiscard]] Status check_like_x(const fovea_tensor *tensor, const char *name, const fovea_tensor &x, bool output);

// Two operands of one call, by name.
struct NamedTensor {
  const char *name;
  const fovea_tensor *tensor;  // null: not given
};

// No output shares a byte with an input or with another output, as far as overlap.hpp can tell.
[[nodiscard]] Status check_overlaps(std::span<const NamedTensor> outputs, std::span<const NamedTensor> inputs);
[[nodiscard]] inline Status check_overlaps(std::initializer_list<NamedTensor> outputs,
                                           std::initializer_list<NamedTensor> inputs) {
  return check_overlaps(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()));
}

// The same memory, element by element: same data, element type, shape and strides.
[[nodiscard]] bool same_memory(const fovea_tensor &a, const fovea_tensor &b);

int64_t element_count(const fovea_tensor &tensor);

// The element of an I32 or I64 tensor that stands so many elements from its first.
int64_t integer_at(const fovea_tensor &tensor, int64_t offset);

// The same of one that was checked before: within [least, most] whatever another thread has written there meanwhile.
inline int64_t integer_within(const fovea_tensor &tensor, int64_t offset, int64_t least, int64_t most) {
  return clamp_to(integer_at(tensor, offset), least, most);
}

// I32 or I64, of rank 1 to max_rank, any strides.
[[nodiscard]] Status check_integer_tensor(const fovea_tensor &tensor, const char *name, int max_rank, bool needs_data);

// Every element of an I32 or I64 tensor of rank 1 or 2, already checked as a tensor, lies in [least, most]. What
// strides of 0 repeat is looked at once. `unit` ends the message: " keys", or nothing. largest, unless null, becomes
// the largest.
[[nodiscard]] Status check_integers(const fovea_tensor &tensor, const char *name, int64_t most, const char *unit,
                                    int64_t *largest, int64_t least = 0);

// The rules for valid_lens of an operation with these sizes: dtype, rank 1 or 2, shape [batch] or [batch, query_len].
[[nodiscard]] Status check_valid_lens_tensor(const fovea_tensor &lens, int64_t batch, int64_t query_len,
                                             bool needs_data);

// least <= value <= most. `where` stands before the name in the message: "sizes." or nothing.
[[nodiscard]] Status check_range(const char *where, const char *name, int64_t value, int64_t least, int64_t most);

// options.dropout and its seed.
[[nodiscard]] Status check_dropout(float probability, uint64_t seed, Dropout *dropout);

}  // namespace fovea
