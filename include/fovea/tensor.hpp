// Tensors and errors of the C++ interface: see fovea.hpp, which includes this.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_TENSOR_HPP
#define FOVEA_TENSOR_HPP

#include <fovea/fovea.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

// The library's own C++ lives in namespace fovea as well; an inline namespace gives these classes other linker names.
namespace fovea {
inline namespace face {

// ---- errors ---------------------------------------------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  Error(fovea_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
  fovea_status status() const noexcept { return status_; }
  const char *status_name() const noexcept { return fovea_status_name(status_); }

 private:
  fovea_status status_;
};

// Throws what the calling thread's last fovea call reported, unless that was FOVEA_OK.
inline void check(fovea_status status) {
  if (status != FOVEA_OK) throw Error(status, fovea_last_error());
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// Numbers of 16 bits as they lie in memory, where the compiler has no type of its own for them. From float to nearest,
// ties to even, past the largest number to infinity; subnormal numbers and NaN are kept. To float exactly.
struct Bfloat16 {
  std::uint16_t bits;

  static constexpr Bfloat16 from(float x) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(x);
    const bool is_nan = (word & 0x7fffffff) > 0x7f800000;
    const std::uint32_t rounded = is_nan ? word | 0x400000 : word + 0x7fff + (word >> 16 & 1);
    return {static_cast<std::uint16_t>(rounded >> 16)};
  }
  explicit constexpr operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

struct Float16 {
  std::uint16_t bits;

  static constexpr Float16 from(float x) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = word & 0x7fffffff;
    std::uint32_t half = 0x7c00;  // infinity
    if (magnitude > 0x7f800000) {
      half = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude < 0x38800000) {  // the sum with 1/2 has the subnormal number in its lowest bits
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    } else if (magnitude < 0x477ff000) {
      half = (magnitude - 0x37fff001 + (magnitude >> 13 & 1)) >> 13;
    }
    return {static_cast<std::uint16_t>((word >> 16 & 0x8000) | half)};
  }
  explicit constexpr operator float() const noexcept {
    const std::uint32_t sign = (std::uint32_t{bits} & 0x8000) << 16, magnitude = bits & 0x7fff;
    const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
    return std::bit_cast<float>(sign | (magnitude < 0x7c00 ? finite : 0x7f800000 | magnitude << 13));
  }
};

// 0 for what is no element.
template <typename T>
inline constexpr fovea_dtype dtype_of = 0;
template <>
inline constexpr fovea_dtype dtype_of<float> = FOVEA_F32;
template <>
inline constexpr fovea_dtype dtype_of<Float16> = FOVEA_F16;
template <>
inline constexpr fovea_dtype dtype_of<Bfloat16> = FOVEA_BF16;
// std::float16_t is _Float16. On 64-bit Arm g++ 12 tells how large it is without having it.
#if defined(__FLT16_MAX__) && (defined(__clang__) || defined(__x86_64__) || defined(__i386__) || __GNUC__ >= 13)
#define FOVEA_COMPILER_HAS_FLOAT16
template <>
inline constexpr fovea_dtype dtype_of<_Float16> = FOVEA_F16;
#endif
#if defined(__BFLT16_MAX__) || defined(__STDCPP_BFLOAT16_T__)  // std::bfloat16_t is __bf16
template <>
inline constexpr fovea_dtype dtype_of<__bf16> = FOVEA_BF16;
#endif
template <>
inline constexpr fovea_dtype dtype_of<std::int32_t> = FOVEA_I32;
template <>
inline constexpr fovea_dtype dtype_of<std::int64_t> = FOVEA_I64;
template <>
inline constexpr fovea_dtype dtype_of<std::int8_t> = FOVEA_I8;
template <>
inline constexpr fovea_dtype dtype_of<std::uint8_t> = FOVEA_BOOL;
template <>
inline constexpr fovea_dtype dtype_of<std::byte> = FOVEA_U8;
template <>
inline constexpr fovea_dtype dtype_of<bool> = FOVEA_BOOL;
static_assert(sizeof(bool) == 1);

template <typename T>
concept Element = (dtype_of<std::remove_const_t<T>> != 0);

// F32, F16 or BF16; or I8 or U8, which scales make floats of.
constexpr bool is_float(fovea_dtype dtype) noexcept {
  return (dtype >= FOVEA_F32 && dtype <= FOVEA_BF16) || dtype == FOVEA_I8 || dtype == FOVEA_U8;
}
template <typename T>
concept FloatElement = is_float(dtype_of<std::remove_const_t<T>>);

// The sizes, or the strides, of up to FOVEA_MAX_RANK axes: {2, 12, 25, 32}.
class Shape {
 public:
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<std::int32_t>(sizes.size())) {
    if (sizes.size() > FOVEA_MAX_RANK)
      throw Error(FOVEA_BAD_RANK, "a shape of " + std::to_string(sizes.size()) + " axes, expected at most " +
                                      std::to_string(FOVEA_MAX_RANK));
    std::copy(sizes.begin(), sizes.end(), sizes_);
  }
  std::int32_t rank() const noexcept { return rank_; }
  const std::int64_t *data() const noexcept { return sizes_; }

 private:
  std::int64_t sizes_[FOVEA_MAX_RANK] = {};
  std::int32_t rank_;
};

namespace detail {

inline void set_none(fovea_tensor &view) noexcept {
  view.data = nullptr;
  view.dtype = 0;
  view.rank = -1;
}

// What fovea_tensor_contiguous gives, without a call where products of sizes are far from overflow. Entries past rank,
// which nobody reads, are 0 and 1.
inline fovea_tensor contiguous_view(const void *data, fovea_dtype dtype, const Shape &shape) noexcept {
  fovea_tensor view;
  view.data = const_cast<void *>(data);
  view.dtype = dtype;
  view.rank = shape.rank();
  std::uint64_t stride = 1, large = 0;
  for (std::size_t axis = FOVEA_MAX_RANK; axis-- > 0;) {
    const std::int64_t size = shape.data()[axis];
    view.shape[axis] = size;
    view.strides[axis] = static_cast<std::int64_t>(stride);
    large |= stride | static_cast<std::uint64_t>(size);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
  }
  if (large >> 31 == 0) return view;
  return fovea_tensor_contiguous(data, dtype, shape.rank(), shape.data());
}

inline fovea_tensor strided_view(const void *data, fovea_dtype dtype, const Shape &shape, const Shape &strides) {
  if (strides.rank() != shape.rank())
    throw Error(FOVEA_BAD_RANK, "strides for " + std::to_string(strides.rank()) + " axes, the shape has " +
                                    std::to_string(shape.rank()));
  fovea_tensor view;
  view.data = const_cast<void *>(data);
  view.dtype = dtype;
  view.rank = shape.rank();
  std::copy_n(shape.data(), FOVEA_MAX_RANK, view.shape);
  std::copy_n(strides.data(), FOVEA_MAX_RANK, view.strides);
  return view;
}

// Goes from element to element without a product that could overflow. Sizes below 0 are left to the library.
inline void check_reach(const fovea_tensor &view, std::size_t count) {
  const std::span<const std::int64_t> shape(view.shape, static_cast<std::size_t>(view.rank));
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size <= 0; })) return;
  if (count == 0) throw Error(FOVEA_BAD_SHAPE, "an empty range under a tensor that has elements");
  std::uint64_t left = count - 1;  // elements after the last one reached so far
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const std::uint64_t steps = static_cast<std::uint64_t>(shape[axis]) - 1;
    const std::int64_t stride = view.strides[axis];
    if (steps == 0 || stride == 0) continue;
    if (stride < 0) {
      throw Error(FOVEA_BAD_STRIDE, "strides[" + std::to_string(axis) + "] is " + std::to_string(stride) +
                                        ", expected at least 0 over a range");
    }
    if (steps > left / static_cast<std::uint64_t>(stride)) {
      throw Error(FOVEA_BAD_SHAPE, "a range of " + std::to_string(count) + " elements ends within axis " +
                                       std::to_string(axis) + " of the tensor laid over it");
    }
    left -= steps * static_cast<std::uint64_t>(stride);
  }
}

// Throws unless all elements of the view are among the first `count`. What is in order, which most are, takes no
// division.
inline void check_covered(const fovea_tensor &view, std::size_t count) {
  std::uint64_t last = 0, large = 0;
  for (std::int32_t axis = 0; axis < view.rank; ++axis) {
    const std::uint64_t steps = static_cast<std::uint64_t>(view.shape[axis]) - 1,
                        stride = static_cast<std::uint64_t>(view.strides[axis]);
    large |= steps | stride;
    last += steps * stride;
  }
  if (large >> 30 != 0 || last >= count) check_reach(view, count);
}

// Over the beginning of a range.
template <typename T>
fovea_tensor covered_view(std::span<T> elements, fovea_dtype dtype, const Shape &shape) {
  const fovea_tensor view = contiguous_view(elements.data(), dtype, shape);
  check_covered(view, elements.size());
  return view;
}
template <typename T>
fovea_tensor covered_view(std::span<T> elements, fovea_dtype dtype, const Shape &shape, const Shape &strides) {
  const fovea_tensor view = strided_view(elements.data(), dtype, shape, strides);
  check_covered(view, elements.size());
  return view;
}

}  // namespace detail

// A view of elements that stay the caller's.
template <Element T>
class Tensor {
 public:
  // None.
  Tensor() noexcept { detail::set_none(tensor_); }

  // All of a range, rank 1.
  template <std::ranges::contiguous_range Range>
  requires std::constructible_from<std::span<T>, Range> Tensor(Range &&range)
      : Tensor(std::span<T>(std::forward<Range>(range))) {}
  Tensor(std::span<T> elements) : Tensor(elements, Shape{static_cast<std::int64_t>(elements.size())}) {}

  // Row-major over the beginning of a range. Throws FOVEA_BAD_SHAPE if the range has too few elements.
  Tensor(std::span<T> elements, const Shape &shape) : tensor_(detail::covered_view(elements, dtype, shape)) {}

  // Any strides, counted in elements from the first of the range. Throws FOVEA_BAD_STRIDE if one is negative.
  Tensor(std::span<T> elements, const Shape &shape, const Shape &strides)
      : tensor_(detail::covered_view(elements, dtype, shape, strides)) {}

  // Over memory whose extent only the caller knows, or over nullptr to plan for a layout. Not checked.
  static Tensor at(T *data, const Shape &shape) { return Tensor(detail::contiguous_view(data, dtype, shape)); }
  static Tensor at(T *data, const Shape &shape, const Shape &strides) {
    return Tensor(detail::strided_view(data, dtype, shape, strides));
  }

  // Over the memory of DLPack's DLTensor, which has to outlive it: see fovea_tensor_from_dlpack. Throws what that
  // reports, and FOVEA_BAD_DTYPE if the elements are of another type than T.
  static Tensor from_dlpack(const void *dl_tensor) {
    fovea_tensor tensor;
    check(fovea_tensor_from_dlpack(dl_tensor, &tensor));
    if (tensor.dtype != dtype)
      throw Error(FOVEA_BAD_DTYPE, "dl_tensor has elements of fovea_dtype " + std::to_string(tensor.dtype) +
                                       ", expected " + std::to_string(dtype));
    return Tensor(tensor);
  }

  // What may be written may be read.
  operator Tensor<const T>() const noexcept requires(!std::is_const_v<T>) {
    return *this ? Tensor<const T>(tensor_) : Tensor<const T>();
  }

  explicit operator bool() const noexcept { return tensor_.rank >= 0; }

  T *data() const noexcept { return static_cast<T *>(tensor_.data); }
  std::span<const std::int64_t> shape() const noexcept { return axes(tensor_.shape); }
  std::span<const std::int64_t> strides() const noexcept { return axes(tensor_.strides); }

  // For the C functions: the view, and NULL if there is none. Valid as long as this object.
  const fovea_tensor *get() const noexcept { return tensor_.rank >= 0 ? &tensor_ : nullptr; }

 private:
  template <Element>
  friend class Tensor;
  static constexpr fovea_dtype dtype = dtype_of<std::remove_const_t<T>>;

  explicit Tensor(const fovea_tensor &tensor) noexcept : tensor_(tensor) {}

  std::span<const std::int64_t> axes(const std::int64_t *values) const noexcept {
    return {values, static_cast<std::size_t>(std::max(tensor_.rank, 0))};
  }

  // Where there is no tensor, sizes and strides are not set: options hold a dozen of them, and filling those took a
  // tenth of a microsecond. A union may be copied all the same.
  union {
    fovea_tensor tensor_;
  };
};

template <std::ranges::contiguous_range Range>
Tensor(Range &&) -> Tensor<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;
template <std::ranges::contiguous_range Range>
Tensor(Range &&, const Shape &) -> Tensor<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;
template <std::ranges::contiguous_range Range>
Tensor(Range &&, const Shape &, const Shape &)
    -> Tensor<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

// A Tensor of float, of 16-bit floats or of numbers of 8 or 4 bits, as an argument; `writable`: an output. Made from
// whatever makes a Tensor.
template <bool writable>
class Floats {
  template <typename T>
  using Viewed = std::conditional_t<writable, T, const T>;
  template <typename Range>
  using ElementOf = Viewed<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;
  template <typename Range>
  static constexpr fovea_dtype dtype_in = dtype_of<std::remove_const_t<ElementOf<Range>>>;
  template <typename Range>
  static constexpr bool takes =
      FloatElement<ElementOf<Range>> &&std::constructible_from<std::span<ElementOf<Range>>, Range> &&
      (!writable || !std::is_const_v<ElementOf<Range>>);

 public:
  // None.
  Floats() noexcept { detail::set_none(tensor_); }

  template <FloatElement T>
  requires(!writable || !std::is_const_v<T>) Floats(const Tensor<T> &tensor)
  noexcept : Floats() {
    if (tensor) tensor_ = *tensor.get();
  }
  template <std::ranges::contiguous_range Range>
  requires(FloatElement<ElementOf<Range>> &&std::constructible_from<Tensor<ElementOf<Range>>, Range> &&
           (!writable || !std::is_const_v<ElementOf<Range>>)) Floats(Range &&range)
      : Floats(Tensor<ElementOf<Range>>(std::forward<Range>(range))) {}
  template <std::ranges::contiguous_range Range>
  requires(takes<Range>) Floats(Range &&range, const Shape &shape)
      : tensor_(detail::covered_view(std::span<ElementOf<Range>>(std::forward<Range>(range)), dtype_in<Range>, shape)) {
  }
  template <std::ranges::contiguous_range Range>
  requires(takes<Range>) Floats(Range &&range, const Shape &shape, const Shape &strides)
      : tensor_(detail::covered_view(std::span<ElementOf<Range>>(std::forward<Range>(range)), dtype_in<Range>, shape,
                                     strides)) {}

  // As Tensor's; nullptr is one of float.
  template <FloatElement T>
  static Floats at(T *data, const Shape &shape) {
    return Tensor<T>::at(data, shape);
  }
  template <FloatElement T>
  static Floats at(T *data, const Shape &shape, const Shape &strides) {
    return Tensor<T>::at(data, shape, strides);
  }
  static Floats at(std::nullptr_t, const Shape &shape) { return Tensor<Viewed<float>>::at(nullptr, shape); }
  static Floats at(std::nullptr_t, const Shape &shape, const Shape &strides) {
    return Tensor<Viewed<float>>::at(nullptr, shape, strides);
  }
  // Over the memory of DLPack's DLTensor, as Tensor's, whichever of these types it has.
  static Floats from_dlpack(const void *dl_tensor) {
    Floats floats;
    check(fovea_tensor_from_dlpack(dl_tensor, &floats.tensor_));
    if (!is_float(floats.tensor_.dtype))
      throw Error(FOVEA_BAD_DTYPE, "dl_tensor has elements of fovea_dtype " + std::to_string(floats.tensor_.dtype) +
                                       ", expected 1 to 3 or 8");
    return floats;
  }
  // A view as the C functions give it, of one of these types; of rank -1: none.
  static Floats of(const fovea_tensor &view) noexcept {
    Floats floats;
    if (view.rank >= 0) floats.tensor_ = view;
    return floats;
  }

  explicit operator bool() const noexcept { return tensor_.rank >= 0; }
  operator Floats<false>() const noexcept requires writable {
    Floats<false> input;
    if (*this) input.tensor_ = tensor_;
    return input;
  }

  fovea_dtype dtype() const noexcept { return tensor_.dtype; }
  std::conditional_t<writable, void, const void> *data() const noexcept { return tensor_.data; }
  std::span<const std::int64_t> shape() const noexcept { return axes(tensor_.shape); }
  std::span<const std::int64_t> strides() const noexcept { return axes(tensor_.strides); }

  // For the C functions: the view, and NULL if there is none. Valid as long as this object.
  const fovea_tensor *get() const noexcept { return tensor_.rank >= 0 ? &tensor_ : nullptr; }

 private:
  template <bool>
  friend class Floats;

  std::span<const std::int64_t> axes(const std::int64_t *values) const noexcept {
    return {values, static_cast<std::size_t>(std::max(tensor_.rank, 0))};
  }

  union {
    fovea_tensor tensor_;  // see Tensor's
  };
};

using Input = Floats<false>;
using Output = Floats<true>;
using Integers = std::variant<Tensor<const std::int32_t>, Tensor<const std::int64_t>>;  // lengths, positions; or none
using Mask = std::variant<Tensor<const bool>, Tensor<const std::uint8_t>>;              // true: attend; or none

}  // namespace face
}  // namespace fovea

#endif  // FOVEA_TENSOR_HPP
