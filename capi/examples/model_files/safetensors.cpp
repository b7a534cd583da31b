// SPDX-License-Identifier: Apache-2.0
#include "safetensors.hpp"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace model_files {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::int64_t largest_header = 100'000'000;  // the format's own limit

// The library would keep the last of two members of one name.
nlohmann::json parsed(const std::string &header) {
  std::set<std::string> names;
  const auto check_name = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json &key) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key && !names.insert(key.get<std::string>()).second) {
      throw std::runtime_error("has two tensors '" + key.get<std::string>() + "'");
    }
    return true;
  };
  return nlohmann::json::parse(header, check_name);
}

// Whole numbers from 0 to the largest int64: get() alone would also take -1, 0.5 and 2^64 - 1.
std::vector<std::int64_t> sizes(const nlohmann::json &tensor, const char *member) {
  const nlohmann::json &list = tensor.at(member);
  const auto is_size = [](const nlohmann::json &value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
  };
  if (!list.is_array() || !std::ranges::all_of(list, is_size)) {
    throw std::runtime_error(std::string("has a ") + member + " that is no list of sizes");
  }
  return list.get<std::vector<std::int64_t>>();
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace

Safetensors::Safetensors(const std::string &path) : path_(path), file_(path, std::ios::binary) {
  if (!file_) fail("cannot be opened");
  file_.seekg(0, std::ios::end);
  const std::int64_t file_size = file_.tellg();
  file_.seekg(0);
  std::int64_t header_size = 0;
  if (!file_.read(reinterpret_cast<char *>(&header_size), sizeof header_size)) fail("is not a safetensors file");
  if (header_size < 2 || header_size > largest_header) fail("is not a safetensors file");
  data_begin_ = static_cast<std::int64_t>(sizeof header_size) + header_size;
  if (data_begin_ > file_size) fail("is not a safetensors file");
  data_size_ = file_size - data_begin_;
  std::string header(static_cast<std::size_t>(header_size), '\0');
  if (!file_.read(header.data(), header_size)) fail("cannot be read");
  try {
    parse(header);
  } catch (const std::exception &error) {
    fail(error.what());
  }
}

void Safetensors::fail(const std::string &what) const { throw std::runtime_error(path_ + ": " + what); }

void Safetensors::parse(const std::string &header) {
  const nlohmann::json tensors = parsed(header);
  for (const auto &[name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    entries_[name] = {tensor.at("dtype").get<std::string>(), sizes(tensor, "shape"), sizes(tensor, "data_offsets")};
  }
}

const Safetensors::Entry &Safetensors::entry(const std::string &name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no tensor '" + name + "'");
  return found->second;
}

std::vector<float> Safetensors::floats(const std::string &name, std::span<const std::int64_t> shape) {
  const Entry &entry = this->entry(name);
  if (entry.dtype != "F32") fail("'" + name + "' is of type '" + entry.dtype + "', expected 'F32'");
  if (!std::ranges::equal(entry.shape, shape)) {
    fail("'" + name + "' has shape " + text_of(entry.shape) + ", expected " + text_of(shape));
  }
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t size : shape) bytes *= size;
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1] || entry.offsets[1] > data_size_ ||
      entry.offsets[1] - entry.offsets[0] != bytes) {
    fail("'" + name + "' lies at " + text_of(entry.offsets) + " of " + std::to_string(data_size_) +
         " bytes, expected " + std::to_string(bytes) + " of them");
  }
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  file_.seekg(data_begin_ + entry.offsets[0]);
  if (!file_.read(reinterpret_cast<char *>(values.data()), bytes)) fail("'" + name + "' cannot be read");
  return values;
}

}  // namespace model_files
