// SPDX-License-Identifier: Apache-2.0
#include "safetensors.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string_view>

namespace minilm {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::int64_t largest_header = 100'000'000;  // the format's own limit

// As much JSON as the header may hold: objects, arrays, strings without escapes, whole numbers.
class Json {
 public:
  explicit Json(std::string_view text) : text_(text) {}

  bool at(char c) {
    skip_spaces();
    return !text_.empty() && text_.front() == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) throw std::runtime_error(std::string("the header lacks a '") + c + "'");
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }

  std::string string() {
    expect('"');
    const std::size_t end = text_.find_first_of("\"\\");
    if (end == text_.npos) throw std::runtime_error("a string in the header does not end");
    if (text_[end] == '\\') throw std::runtime_error("a string in the header has an escape");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      if (digits == 18) throw std::runtime_error("a number in the header is too large");
      value = 10 * value + (text_[digits] - '0');
    }
    if (digits == 0) throw std::runtime_error("the header lacks a number");
    text_.remove_prefix(digits);
    return value;
  }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> values;
    expect('[');
    if (take(']')) return values;
    do values.push_back(number());
    while (take(','));
    expect(']');
    return values;
  }
  // Calls member(key) for each member of an object; it must take the value.
  template <typename Member>
  void object(const Member &member) {
    expect('{');
    if (take('}')) return;
    do {
      const std::string key = string();
      expect(':');
      member(key);
    } while (take(','));
    expect('}');
  }

 private:
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }
  std::string_view text_;
};

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
  data_begin_ = static_cast<std::int64_t>(sizeof header_size) + header_size;
  if (header_size < 2 || header_size > largest_header || data_begin_ > file_size) fail("is not a safetensors file");
  data_size_ = file_size - data_begin_;
  std::string header(static_cast<std::size_t>(header_size), '\0');
  if (!file_.read(header.data(), header_size)) fail("cannot be read");
  try {
    parse(header);
  } catch (const std::runtime_error &error) {
    fail(error.what());
  }
}

void Safetensors::fail(const std::string &what) const { throw std::runtime_error(path_ + ": " + what); }

void Safetensors::parse(const std::string &header) {
  Json json(header);
  json.object([&](const std::string &name) {
    if (name == "__metadata__") return json.object([&](const std::string &) { json.string(); });
    Entry entry;
    json.object([&](const std::string &key) {
      if (key == "dtype") {
        entry.dtype = json.string();
      } else if (key == "shape") {
        entry.shape = json.numbers();
      } else if (key == "data_offsets") {
        entry.offsets = json.numbers();
      } else {
        throw std::runtime_error("the header has an unknown member '" + key + "'");
      }
    });
    if (!entries_.emplace(name, std::move(entry)).second) throw std::runtime_error("has two tensors '" + name + "'");
  });
  if (!json.at_end()) throw std::runtime_error("the header goes on after its end");
}

std::vector<float> Safetensors::floats(const std::string &name, std::span<const std::int64_t> shape) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail("has no tensor '" + name + "'");
  const Entry &entry = found->second;
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

}  // namespace minilm
