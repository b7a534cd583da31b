// Numbers of one of the types that fovea computes with, and views of them. What is float32 elsewhere is rounded when it
// comes in: to nearest, ties to even.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <fovea/fovea.hpp>
#include <string_view>
#include <variant>
#include <vector>

namespace model_files {

enum class Type { f32, f16, bf16 };

const char *name_of(Type type);

// Throws std::invalid_argument for any other name.
Type type_of(std::string_view name);

class Numbers {
 public:
  Numbers(Type type, std::size_t count);  // zeros
  Numbers(Type type, const std::vector<float> &values);

  std::size_t size() const;

  fovea::Output view(const fovea::Shape &shape);
  fovea::Input view(const fovea::Shape &shape) const;

  // Copies count numbers, of the same type or to float32.
  void assign(std::size_t at, const Numbers &from, std::size_t first, std::size_t count);

  // Adds count numbers from first on to as many sums.
  void add_to(float *sums, std::size_t first, std::size_t count) const;

 private:
  std::variant<std::vector<float>, std::vector<fovea::Float16>, std::vector<fovea::Bfloat16>> elements_;
};

}  // namespace model_files
