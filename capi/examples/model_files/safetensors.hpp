// Reads the float32 tensors of a safetensors file, the format in which models are published:
//
//     8 bytes        size of the header, little-endian
//     the header     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {...}}
//     the rest       the tensors, little-endian, row-major; offsets count from here
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace model_files {

class Safetensors {
 public:
  // Reads the header. Throws std::runtime_error, whose text names the file and what is wrong, as floats() does.
  explicit Safetensors(const std::string &path);

  // The tensor of that name; it must be there.
  const std::vector<std::int64_t> &shape(const std::string &name) const { return entry(name).shape; }

  // Its numbers; it must have that shape.
  std::vector<float> floats(const std::string &name, std::span<const std::int64_t> shape);
  std::vector<float> floats(const std::string &name, std::initializer_list<std::int64_t> shape) {
    return floats(name, std::span(shape.begin(), shape.size()));
  }

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> offsets;
  };

  [[noreturn]] void fail(const std::string &what) const;
  const Entry &entry(const std::string &name) const;
  void parse(const std::string &header);

  std::string path_;
  std::ifstream file_;
  std::int64_t data_begin_ = 0, data_size_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace model_files
