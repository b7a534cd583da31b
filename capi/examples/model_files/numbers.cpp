// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace model_files {
namespace {

constexpr Type types[] = {Type::f32, Type::f16, Type::bf16};

template <typename T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return T::from(x);
  }
}

// Calls make(element) with an element of that type.
template <typename Make>
auto with_element(Type type, const Make &make) {
  switch (type) {
    case Type::f16: return make(fovea::Float16{});
    case Type::bf16: return make(fovea::Bfloat16{});
    case Type::f32: break;
  }
  return make(0.0f);
}

}  // namespace

const char *name_of(Type type) {
  switch (type) {
    case Type::f16: return "f16";
    case Type::bf16: return "bf16";
    case Type::f32: break;
  }
  return "f32";
}

Type type_of(std::string_view name) {
  for (const Type type : types) {
    if (name == name_of(type)) return type;
  }
  throw std::invalid_argument("type '" + std::string(name) + "', expected f32, f16 or bf16");
}

Numbers::Numbers(Type type, std::size_t count)
    : elements_(with_element(type, [&](auto zero) { return decltype(elements_)(std::vector(count, zero)); })) {}

Numbers::Numbers(Type type, const std::vector<float> &values) : Numbers(type, values.size()) {
  std::visit(
      [&](auto &elements) {
        using Element = typename std::remove_reference_t<decltype(elements)>::value_type;
        std::ranges::transform(values, elements.begin(), rounded<Element>);
      },
      elements_);
}

std::size_t Numbers::size() const {
  return std::visit([](const auto &elements) { return elements.size(); }, elements_);
}

fovea::Output Numbers::view(const fovea::Shape &shape) {
  return std::visit([&](auto &elements) { return fovea::Output(elements, shape); }, elements_);
}

fovea::Input Numbers::view(const fovea::Shape &shape) const {
  return std::visit([&](const auto &elements) { return fovea::Input(elements, shape); }, elements_);
}

void Numbers::assign(std::size_t at, const Numbers &from, std::size_t first, std::size_t count) {
  std::visit(
      [&](auto &elements, const auto &source) {
        using Element = typename std::remove_reference_t<decltype(elements)>::value_type;
        using Source = typename std::remove_cvref_t<decltype(source)>::value_type;
        if constexpr (std::is_same_v<Element, Source>) {
          std::copy_n(source.data() + first, count, elements.data() + at);
        } else if constexpr (std::is_same_v<Element, float>) {
          for (std::size_t n = 0; n < count; ++n) elements[at + n] = static_cast<float>(source[first + n]);
        } else {
          throw std::invalid_argument("numbers of another type");
        }
      },
      elements_, from.elements_);
}

void Numbers::add_to(float *sums, std::size_t first, std::size_t count) const {
  std::visit(
      [&](const auto &elements) {
        for (std::size_t n = 0; n < count; ++n) sums[n] += static_cast<float>(elements[first + n]);
      },
      elements_);
}

}  // namespace model_files
