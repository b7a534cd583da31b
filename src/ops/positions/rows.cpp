// Rows by position: how the axes become entries and positions, how large blocks are.
#include "ops/positions/rows.hpp"

#include <cmath>
#include <cstdlib>

#include "ops/tensors/check.hpp"

namespace fovea {
namespace {

constexpr int64_t small_table_floats = 2048;  // 8 kB: stays in its L1
constexpr int64_t near_bytes = 1 << 20;
constexpr int64_t cached_bytes = 16 << 20;
constexpr int64_t cached_bytes_each = 8 << 20;  // for each worker: one alone is faster when it treats more as memory
constexpr int64_t far_bytes = 32 << 20;         // of x and out together: more comes from memory
constexpr int64_t blocks_per_worker = 8;        // so that no worker waits long for another
constexpr double cycles_per_element = 0.5;      // from a cache
constexpr int64_t streamed_bytes = 32 << 20;

}  // namespace

PositionRows::PositionRows(const fovea_tensor &x, const fovea_tensor &out, bool grouped)
    : length_(x.shape[x.rank - 2]),
      x_stride_(x.strides[x.rank - 2]),
      out_stride_(out.strides[x.rank - 2]),
      dim_(x.shape[x.rank - 1]),
      element_bytes_(
          static_cast<int64_t>(dtype_size(static_cast<Dtype>(x.dtype)) + dtype_size(static_cast<Dtype>(out.dtype)))) {
  int axis = 0;
  if (grouped && x.rank > 2) {
    groups_ = x.shape[0];
    x_group_stride_ = x.strides[0];
    out_group_stride_ = out.strides[0];
    axis = 1;
  }
  for (; axis + 2 < x.rank; ++axis) {
    const int64_t size = x.shape[axis];
    if (size == 1) continue;
    const int last = entries_.axes - 1;
    const bool follows = last >= 0 && entries_.x_strides[last] == size * x.strides[axis] &&
                         entries_.out_strides[last] == size * out.strides[axis];
    if (follows) {
      entries_.shape[last] *= size;
      entries_.x_strides[last] = x.strides[axis];
      entries_.out_strides[last] = out.strides[axis];
      entries_.count *= size;
    } else {
      entries_.add_axis(size, x.strides[axis], out.strides[axis]);
    }
  }
  const int inner = entries_.axes - 1;
  along_entries_ = inner >= 0 && (length_ == 1 || std::llabs(entries_.x_strides[inner]) < std::llabs(x_stride_));
}

int PositionRows::workers(const Context &context) const {
  return workers_for(context, cycles_per_element * static_cast<double>(elements()));
}

Distance PositionRows::distance(int workers) const {
  const auto fits = [&](int64_t bytes) { return elements() <= bytes / element_bytes_; };
  if (fits(near_bytes)) return Distance::near;
  if (fits(std::min(cached_bytes, workers * cached_bytes_each))) return Distance::cached;
  return fits(far_bytes) ? Distance::far : Distance::memory;
}

// Rows from memory want long runs, rows from a cache a table that is nearer than they are.
int64_t PositionRows::block_length(int64_t table_floats, int workers) const {
  const int64_t most_floats = distance(workers) >= Distance::far ? block_table_floats : small_table_floats;
  const int64_t table = std::max<int64_t>(table_floats, 1);  // none where nothing is turned
  const int64_t near = std::clamp<int64_t>(most_floats / table, 1, most_positions_per_block);
  const int64_t fair = workers == 1 ? length_ : ceil_div(length_ * groups_, blocks_per_worker * workers);
  return std::min({near, fair, length_});
}

// The table is made anew for every part, so that there are only so many as it takes to keep all workers busy.
int64_t PositionRows::entry_parts(int64_t blocks, int workers) const {
  if (workers == 1) return 1;
  return std::clamp<int64_t>(blocks_per_worker * workers / (blocks * groups_), 1, entries_.count);
}

PositionScratch::PositionScratch(const Context &context, int64_t pairs, int64_t table_floats, int workers)
    : frequencies_(layout_.add<double>(round_up(pairs, context.kernels->rowwise->lanes))),
      tables_(layout_.add_copies<float>(workers, table_floats)),
      workspace_(context, layout_) {}

// A power is a product of two, so that most of them cost a multiplication: one query of a decoder is done in
// microseconds.
void fill_frequencies(double base, int64_t dim, int64_t pairs, int64_t lanes, double *frequencies) {
  constexpr int64_t run = 8;
  const auto power = [&](int64_t j) {
    return std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
  };
  double steps[run];
  for (int64_t k = 0; k < run; ++k) steps[k] = power(k);
  for (int64_t j = 0; j < pairs; j += run) {
    const double first = quarter_turns_per_radian * power(j);
    for (int64_t k = 0; k < std::min(run, pairs - j); ++k) frequencies[j + k] = first * steps[k];
  }
  std::fill(frequencies + pairs, frequencies + round_up(pairs, lanes), 0.0);
}

bool large_output(const fovea_tensor &x, const fovea_tensor &out) {
  return x.data != out.data &&
         element_count(out) * static_cast<int64_t>(dtype_size(static_cast<Dtype>(out.dtype))) >= streamed_bytes;
}

}  // namespace fovea
