// SPDX-License-Identifier: Apache-2.0
#include "wordpiece.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace minilm {
namespace {

constexpr std::size_t longest_word = 100;  // characters; a longer one is unknown

// In the order of the `tokenizers` library: what is no text is left out, ideographs stand alone, characters are taken
// apart, accents left out, capitals made small.
bool is_no_text(utf8proc_int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const utf8proc_category_t kind = utf8proc_category(c);
  return c == 0xfffd || kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_space(utf8proc_int32_t c) {
  const utf8proc_category_t kind = utf8proc_category(c);
  return c == '\t' || c == '\n' || c == '\r' || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_punctuation(utf8proc_int32_t c) {
  const utf8proc_category_t kind = utf8proc_category(c);
  const bool ascii_sign = c < 0x80 && kind >= UTF8PROC_CATEGORY_SM && kind <= UTF8PROC_CATEGORY_SO;
  return ascii_sign || (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO);
}

// A character of Chinese, Japanese or Korean: by the ranges that BERT was trained with, which are no category of
// Unicode.
bool is_ideograph(utf8proc_int32_t c) {
  constexpr struct {
    utf8proc_int32_t first, last;
  } ranges[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return std::ranges::any_of(ranges, [c](const auto &range) { return range.first <= c && c <= range.last; });
}

// Takes the first character off; U+FFFD, which is no text, for a byte that begins none.
utf8proc_int32_t take_character(std::string_view &text) {
  utf8proc_int32_t c = 0;
  const auto *bytes = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
  const utf8proc_ssize_t size = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &c);
  text.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 1);
  return size > 0 ? c : 0xfffd;
}

// Words as they grow, character by character.
class Words {
 public:
  void end_word() {
    if (!words_.back().empty()) words_.emplace_back();
  }
  void add_alone(utf8proc_int32_t c) {
    end_word();
    add(c);
    end_word();
  }
  void add(utf8proc_int32_t c) {
    utf8proc_uint8_t bytes[4];
    words_.back().append(reinterpret_cast<const char *>(bytes),
                         static_cast<std::size_t>(utf8proc_encode_char(c, bytes)));
  }
  std::vector<std::string> take() {
    if (words_.back().empty()) words_.pop_back();
    return std::move(words_);
  }

 private:
  std::vector<std::string> words_ = std::vector<std::string>(1);
};

// A character without its accents, in lower case.
void add_folded(utf8proc_int32_t c, Words &words) {
  utf8proc_int32_t parts[8];  // the longest decomposition has four
  const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, std::ssize(parts), UTF8PROC_DECOMPOSE, nullptr);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const utf8proc_int32_t part = utf8proc_tolower(parts[i]);
    if (utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN) continue;
    if (is_punctuation(part)) {
      words.add_alone(part);
    } else {
      words.add(part);
    }
  }
}

// Runs of characters between spaces; punctuation marks and ideographs are words by themselves.
std::vector<std::string> words_of(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const utf8proc_int32_t c = take_character(text);
    if (is_no_text(c)) continue;
    const bool alone = is_ideograph(c);
    if (alone || is_space(c)) words.end_word();
    if (is_space(c)) continue;
    add_folded(c, words);
    if (alone) words.end_word();
  }
  return words.take();
}

std::size_t characters_in(const std::string &word) {
  return static_cast<std::size_t>(std::ranges::count_if(word, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

WordPiece::WordPiece(const std::string &vocabulary_path) : path_(vocabulary_path) {
  std::ifstream file(path_);
  if (!file) throw std::runtime_error(path_ + ": cannot be opened");
  std::int32_t number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    pieces_.emplace(std::move(line), number);
  }
  unknown_ = piece("[UNK]");
  begin_ = piece("[CLS]");
  end_ = piece("[SEP]");
}

std::int32_t WordPiece::piece(const std::string &name) const {
  const auto found = pieces_.find(name);
  if (found == pieces_.end()) throw std::runtime_error(path_ + ": has no piece " + name);
  return found->second;
}

void WordPiece::add_word(const std::string &word, std::vector<std::int32_t> &tokens) const {
  const std::size_t before = tokens.size();
  const auto give_up = [&] {
    tokens.resize(before);
    tokens.push_back(unknown_);
  };
  if (characters_in(word) > longest_word) return give_up();
  for (std::size_t begin = 0; begin < word.size();) {
    auto found = pieces_.end();
    std::size_t end = word.size();
    for (; end > begin; --end) {
      found = pieces_.find((begin == 0 ? "" : "##") + word.substr(begin, end - begin));
      if (found != pieces_.end()) break;
    }
    if (found == pieces_.end()) return give_up();
    tokens.push_back(found->second);
    begin = end;
  }
}

std::vector<std::int32_t> WordPiece::operator()(std::string_view text, std::size_t most) const {
  std::vector<std::int32_t> tokens = {begin_};
  for (const std::string &word : words_of(text)) {
    if (tokens.size() >= most) break;
    add_word(word, tokens);
  }
  tokens.resize(std::min(tokens.size(), most - 1));
  tokens.push_back(end_);
  return tokens;
}

}  // namespace minilm
