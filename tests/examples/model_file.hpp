// A model of random weights in a file, as models are published, for the tests of examples.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/random.hpp"

namespace testing {

// A file that lasts as long as this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &content)
      : path_(std::filesystem::temp_directory_path() /
              ("fovea-" + std::to_string(getpid()) + "-" + std::to_string(count_++))) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

inline std::string file_of(const std::string &header, const std::string &data) {
  const auto size = static_cast<int64_t>(header.size());
  return std::string(reinterpret_cast<const char *>(&size), sizeof size) + header + data;
}

struct ModelFile {
  struct Parameter {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::map<std::string, Parameter> parameters;

  void add(const std::string &name, const std::vector<int64_t> &shape, float scale, float mean, Random &random) {
    Parameter &parameter = parameters[name];
    parameter.shape = shape;
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    for (int64_t i = 0; i < count; ++i) parameter.values.push_back(mean + scale * random.normal());
  }
  std::string content() const {
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
    for (const auto &[name, parameter] : parameters) {
      header += ",\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[";
      for (size_t axis = 0; axis < parameter.shape.size(); ++axis) {
        if (axis > 0) header += ',';
        header += std::to_string(parameter.shape[axis]);
      }
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char *>(parameter.values.data()), parameter.values.size() * sizeof(float));
      header += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
    }
    return file_of(header + "}  ", data);
  }

  double at(const std::string &name, int64_t n) const {
    return static_cast<double>(parameters.at(name).values.at(static_cast<size_t>(n)));
  }
};

}  // namespace testing
