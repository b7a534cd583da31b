// Views of tensors, and copies between them.
#include "mpi/views.hpp"

#include <cstring>

namespace fovea::mpi {
namespace {

char *moved(const fovea_tensor &tensor, int64_t elements) {
  if (tensor.data == nullptr) return nullptr;
  return static_cast<char *>(tensor.data) + elements * static_cast<int64_t>(element_size(tensor.dtype));
}

// Innermost axes whose elements are neighbours in both tensors are done at once: row(from, to, elements).
template <class Row>
class Rows {
 public:
  Rows(const fovea_tensor &from, const fovea_tensor &to, const Row &row)
      : from_(from), to_(to), row_(row), axes_(to.rank) {
    if (element_count(to) == 0) return;
    while (axes_ > 0) {
      const int32_t axis = axes_ - 1;
      const bool one = from.shape[axis] == 1;
      if (!one && (from.strides[axis] != neighbours_ || to.strides[axis] != neighbours_)) break;
      neighbours_ *= from.shape[axis];
      axes_ = axis;
    }
    visit(0, 0, 0);
  }

 private:
  void visit(int32_t axis, int64_t from_at, int64_t to_at) const {
    if (axis == axes_) return row_(moved(from_, from_at), moved(to_, to_at), neighbours_);
    for (int64_t i = 0; i < from_.shape[axis]; ++i) {
      visit(axis + 1, from_at + i * from_.strides[axis], to_at + i * to_.strides[axis]);
    }
  }

  const fovea_tensor &from_, &to_;
  const Row &row_;
  int32_t axes_;  // before the innermost
  int64_t neighbours_ = 1;
};

}  // namespace

size_t element_size(fovea_dtype dtype) {
  switch (dtype) {
    case FOVEA_F32:
    case FOVEA_I32: return 4;
    case FOVEA_F16:
    case FOVEA_BF16: return 2;
    case FOVEA_I64: return 8;
    case FOVEA_BOOL:
    case FOVEA_I8:
    case FOVEA_U8:
    case FOVEA_F8_E4M3:
    case FOVEA_F8_E5M2: return 1;
    default: return 0;
  }
}

const char *dtype_name(fovea_dtype dtype) {
  switch (dtype) {
    case FOVEA_F32: return "FOVEA_F32";
    case FOVEA_F16: return "FOVEA_F16";
    case FOVEA_BF16: return "FOVEA_BF16";
    case FOVEA_I32: return "FOVEA_I32";
    case FOVEA_I64: return "FOVEA_I64";
    case FOVEA_BOOL: return "FOVEA_BOOL";
    case FOVEA_I8: return "FOVEA_I8";
    case FOVEA_U8: return "FOVEA_U8";
    case FOVEA_F8_E4M3: return "FOVEA_F8_E4M3";
    case FOVEA_F8_E5M2: return "FOVEA_F8_E5M2";
    default: return "of no type";
  }
}

fovea_tensor lift(const fovea_tensor &tensor, int32_t rank) {
  const int32_t missing = rank - tensor.rank;
  if (missing <= 0) return tensor;
  const int32_t front = tensor.rank == rank - 1 ? 1 : 0;  // the batch axis, where there is one, stays in front
  fovea_tensor lifted = tensor;
  lifted.rank = rank;
  for (int32_t axis = 0; axis < rank; ++axis) {
    const int32_t source = axis < front ? axis : axis - missing;
    const bool is_new = axis >= front && axis < front + missing;
    lifted.shape[axis] = is_new ? 1 : tensor.shape[source];
    lifted.strides[axis] = is_new ? 0 : tensor.strides[source];
  }
  return lifted;
}

fovea_tensor part_of(const fovea_tensor &tensor, int32_t axis, int64_t first, int64_t count) {
  fovea_tensor part = tensor;
  part.shape[axis] = count;
  if (element_count(part) > 0) part.data = moved(tensor, first * tensor.strides[axis]);
  return part;
}

fovea_tensor entry_of(const fovea_tensor &tensor, int64_t index) {
  fovea_tensor entry = part_of(tensor, 0, index, 1);
  --entry.rank;
  for (int32_t axis = 0; axis < entry.rank; ++axis) {
    entry.shape[axis] = tensor.shape[axis + 1];
    entry.strides[axis] = tensor.strides[axis + 1];
  }
  return entry;
}

fovea_tensor split_axis(const fovea_tensor &tensor, int32_t axis, int64_t outer) {
  fovea_tensor split = tensor;
  ++split.rank;
  for (int32_t later = split.rank - 1; later > axis + 1; --later) {
    split.shape[later] = tensor.shape[later - 1];
    split.strides[later] = tensor.strides[later - 1];
  }
  const int64_t inner = outer == 0 ? 0 : tensor.shape[axis] / outer;
  split.shape[axis] = outer;
  split.shape[axis + 1] = inner;
  split.strides[axis + 1] = tensor.strides[axis];
  split.strides[axis] = inner * tensor.strides[axis];
  return split;
}

fovea_tensor with_front_axis(const fovea_tensor &tensor, int64_t size, int64_t stride) {
  fovea_tensor wider = tensor;
  ++wider.rank;
  for (int32_t axis = wider.rank - 1; axis > 0; --axis) {
    wider.shape[axis] = tensor.shape[axis - 1];
    wider.strides[axis] = tensor.strides[axis - 1];
  }
  wider.shape[0] = size;
  wider.strides[0] = stride;
  return wider;
}

int64_t element_count(const fovea_tensor &tensor) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
  }
  for (int32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

void copy_elements(const fovea_tensor &from, const fovea_tensor &to) {
  const size_t size = element_size(to.dtype);
  Rows(from, to, [&](const char *source, char *target, int64_t elements) {
    std::memcpy(target, source, static_cast<size_t>(elements) * size);
  });
}

void add_floats(const fovea_tensor &terms, const fovea_tensor &sums) {
  Rows(terms, sums, [](const char *source, char *target, int64_t elements) {
    const auto *const term = reinterpret_cast<const float *>(source);
    auto *const sum = reinterpret_cast<float *>(target);
    for (int64_t i = 0; i < elements; ++i) sum[i] += term[i];
  });
}

Span span_of(const fovea_tensor &tensor) {
  int64_t below = 0, above = 0;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    const int64_t reach = tensor.shape[axis] == 1 ? 0 : (tensor.shape[axis] - 1) * tensor.strides[axis];
    (reach < 0 ? below : above) += reach;
  }
  return {reinterpret_cast<uintptr_t>(moved(tensor, below)), reinterpret_cast<uintptr_t>(moved(tensor, above + 1))};
}

bool overlap(const fovea_tensor &a, const fovea_tensor &b) {
  if (element_count(a) == 0 || element_count(b) == 0) return false;
  const Span first = span_of(a), second = span_of(b);
  return first.begin < second.end && second.begin < first.end;
}

}  // namespace fovea::mpi
