// Decides whether two tensors overlap. A byte lies at first + sum_n x_n step_n + byte, 0 <= x_n < shape_n, 0 <= byte <
// the element's size; steps are above 0 once axes of negative strides are walked the other way. Tensors share a byte if
//
//   first_a + sum_n x_n step_n + byte_a = first_b + sum_m y_m step_m + byte_b
//
// has a solution. With b walked from its last byte down this is one sum of terms from 0 up that has to be a given
// number:
//
//   sum_n x_n step_n + sum_m y'_m step_m + byte_a + byte'_b = last_b - first_a
//
// Terms that continue each other become one: a contiguous axis continues its elements' bytes, rows without gaps
// continue that axis. What is left is searched from the largest step down. In layouts of nested axes a step is larger
// than all that the smaller ones reach, but for a few, so that each leaves one choice or two; the smaller steps' common
// divisor ends the search where two lattices never meet.
#include "ops/tensors/overlap.hpp"

#include <algorithm>
#include <numeric>

#include "ops/tensors/check.hpp"
#include "ops/tensors/dtype.hpp"
#include "types.hpp"

namespace fovea {
namespace {

constexpr int most_search_steps = 1 << 16;  // a quarter of a millisecond

int64_t size_of(const fovea_tensor &tensor) {
  return static_cast<int64_t>(dtype_size(static_cast<Dtype>(tensor.dtype)));
}

// x * step for 0 <= x <= most.
struct Term {
  uint64_t step, most;
};

class Terms {
 public:
  Terms(const fovea_tensor &a, const fovea_tensor &b) {
    all_[count_++] = {1, static_cast<uint64_t>(size_of(a) + size_of(b) - 2)};  // the bytes of two elements
    for (const fovea_tensor *tensor : {&a, &b}) add_axes(*tensor);
    std::sort(all_ + 1, all_ + count_, [](const Term &one, const Term &other) { return one.step < other.step; });
    join();
    for (int n = 0; n < count_; ++n) {
      reach_[n] = all_[n].most * all_[n].step + (n == 0 ? 0 : reach_[n - 1]);
      divisor_[n] = n == 0 ? 0 : std::gcd(divisor_[n - 1], all_[n].step);
    }
  }

  bool add_up_to(uint64_t target) { return search(count_ - 1, target); }

 private:
  void add_axes(const fovea_tensor &tensor) {
    for (int axis = 0; axis < tensor.rank; ++axis) {
      const int64_t step = tensor.strides[axis] * size_of(tensor);
      if (tensor.shape[axis] <= 1 || step == 0) continue;
      const uint64_t distance = step < 0 ? uint64_t{0} - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
      all_[count_++] = {distance, static_cast<uint64_t>(tensor.shape[axis] - 1)};
    }
  }

  void join() {
    int last = 0;
    for (int n = 1; n < count_; ++n) {
      const uint64_t times = all_[n].step / all_[last].step;
      if (all_[n].step % all_[last].step == 0 && times <= all_[last].most + 1) {
        all_[last].most += times * all_[n].most;
      } else {
        all_[++last] = all_[n];
      }
    }
    count_ = last + 1;
  }

  // Whether terms 0 to n add up to `target`. Term 0 can be every number up to its most, so the others have to come
  // as near as that from below.
  bool search(int n, uint64_t target) {
    if (target > reach_[n]) return false;
    if (n == 0) return true;
    if (target % divisor_[n] > all_[0].most) return false;
    const uint64_t beyond = target > reach_[n - 1] ? target - reach_[n - 1] : 0;  // what term n has to bring
    const uint64_t least = beyond == 0 ? 0 : (beyond - 1) / all_[n].step + 1;
    for (uint64_t x = std::min(all_[n].most, target / all_[n].step) + 1; x-- > least;) {
      if (steps_left_-- == 0) return true;
      if (search(n - 1, target - x * all_[n].step)) return true;
      if (steps_left_ < 0) return true;
    }
    return false;
  }

  Term all_[2 * FOVEA_MAX_RANK + 1] = {};  // steps ascend; the first is 1
  uint64_t reach_[2 * FOVEA_MAX_RANK + 1] = {};
  uint64_t divisor_[2 * FOVEA_MAX_RANK + 1] = {};  // of the steps from term 1 to this one
  int count_ = 0;
  int steps_left_ = most_search_steps;
};

}  // namespace

bool compute_extent(const fovea_tensor &tensor, Extent *extent) {
  const int64_t size = size_of(tensor);
  int64_t low = 0;
  int64_t high = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return true;
    int64_t reach = 0;
    if (!checked_multiply(tensor.shape[axis] - 1, tensor.strides[axis], &reach)) return false;
    if (!checked_multiply(reach, size, &reach)) return false;
    if (!checked_add(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) return false;
  }
  if (!checked_add(high, size, &high)) return false;
  *extent = {low, high};
  return true;
}

bool share_memory(const fovea_tensor &a, const fovea_tensor &b) {
  if (element_count(a) == 0 || element_count(b) == 0) return false;
  Extent extent_a;
  Extent extent_b;
  if (!compute_extent(a, &extent_a) || !compute_extent(b, &extent_b)) return true;
  const auto first_a = static_cast<int64_t>(reinterpret_cast<uintptr_t>(a.data)) + extent_a.low;
  const auto first_b = static_cast<int64_t>(reinterpret_cast<uintptr_t>(b.data)) + extent_b.low;
  const int64_t end_a = first_a + (extent_a.high - extent_a.low), end_b = first_b + (extent_b.high - extent_b.low);
  if (end_a <= first_b || end_b <= first_a) return false;
  return Terms(a, b).add_up_to(static_cast<uint64_t>(end_b - 1 - first_a));
}

}  // namespace fovea
