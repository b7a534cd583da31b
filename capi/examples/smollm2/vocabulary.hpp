// The bytes that each token stands for, from a file with a line of hexadecimal digits for each.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace smollm2 {

class Vocabulary {
 public:
  explicit Vocabulary(const std::string &path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be opened");
    for (std::string line; std::getline(file, line);) {
      std::string bytes;
      for (std::size_t n = 0; n + 1 < line.size(); n += 2) {
        bytes += static_cast<char>(std::stoi(line.substr(n, 2), nullptr, 16));
      }
      bytes_.push_back(bytes);
    }
  }

  const std::string &operator[](std::int32_t token) const { return bytes_.at(static_cast<std::size_t>(token)); }

 private:
  std::vector<std::string> bytes_;
};

}  // namespace smollm2
