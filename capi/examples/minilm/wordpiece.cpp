// SPDX-License-Identifier: Apache-2.0
#include "wordpiece.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace minilm {
namespace {

constexpr std::size_t longest_word = 100;  // characters; a longer one is unknown

struct Range {
  char32_t first, last;
};

template <std::size_t count>
bool any_holds(const Range (&ranges)[count], char32_t c) {
  return std::any_of(ranges, ranges + count, [c](const Range &range) { return range.first <= c && c <= range.last; });
}

// White space and what joins, marks or controls, of which nothing is left: combining accents, soft hyphens, marks of
// direction, byte order.
constexpr Range spaces[] = {{0x20, 0x20},     {0x9, 0xa},       {0xd, 0xd},       {0xa0, 0xa0},     {0x1680, 0x1680},
                            {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
constexpr Range removed[] = {{0, 8},           {0xb, 0xc},       {0xe, 0x1f},      {0x7f, 0x9f},
                             {0xad, 0xad},     {0x300, 0x36f},   {0x200b, 0x200f}, {0x202a, 0x202e},
                             {0x2060, 0x206f}, {0x20d0, 0x20dc}, {0x20e1, 0x20e1}, {0x20e5, 0x20f0},
                             {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xfffd, 0xfffd}};
// All of ASCII but letters and digits, and Unicode's category P below U+4000.
constexpr Range punctuation[] = {
    {0x21, 0x2f},     {0x3a, 0x40},     {0x5b, 0x60},     {0x7b, 0x7e},     {0xa1, 0xa1},     {0xa7, 0xa7},
    {0xab, 0xab},     {0xb6, 0xb7},     {0xbb, 0xbb},     {0xbf, 0xbf},     {0x37e, 0x37e},   {0x387, 0x387},
    {0x2010, 0x2027}, {0x2030, 0x2043}, {0x2045, 0x2051}, {0x2053, 0x205e}, {0x207d, 0x207e}, {0x208d, 0x208e},
    {0x2308, 0x230b}, {0x2329, 0x232a}, {0x2768, 0x2775}, {0x27c5, 0x27c6}, {0x27e6, 0x27ef}, {0x2983, 0x2998},
    {0x29d8, 0x29db}, {0x29fc, 0x29fd}, {0x2cf9, 0x2cfc}, {0x2cfe, 0x2cff}, {0x2e00, 0x2e2e}, {0x2e30, 0x2e4f},
    {0x2e52, 0x2e5d}, {0x3001, 0x3003}, {0x3008, 0x3011}, {0x3014, 0x301f}, {0x3030, 0x3030}, {0x303d, 0x303d}};
constexpr Range ideographs[] = {{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2fa1f}};

// U+00C0 to U+017F in lower case without accents; '.' where it is the character's own affair.
constexpr std::string_view latin =
    "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
    "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll....nnnnnn...oooooo..rrrrrrssssssss"
    "tttt..uuuuuuuuuuuuwwyyyzzzzzz.";

// Signs of formulas whose stroke counts as an accent, and letters that are signs: what is left of them.
constexpr struct {
  char32_t sign, rest;
} signs[] = {{0x2126, 0x3c9},  {0x212a, 0x6b},   {0x212b, 0x61},   {0x219a, 0x2190}, {0x219b, 0x2192}, {0x21ae, 0x2194},
             {0x21cd, 0x21d0}, {0x21ce, 0x21d4}, {0x21cf, 0x21d2}, {0x2204, 0x2203}, {0x2209, 0x2208}, {0x220c, 0x220b},
             {0x2224, 0x2223}, {0x2226, 0x2225}, {0x2241, 0x223c}, {0x2244, 0x2243}, {0x2247, 0x2245}, {0x2249, 0x2248},
             {0x2260, 0x3d},   {0x2262, 0x2261}, {0x226d, 0x224d}, {0x226e, 0x3c},   {0x226f, 0x3e},   {0x2270, 0x2264},
             {0x2271, 0x2265}, {0x2274, 0x2272}, {0x2275, 0x2273}, {0x2278, 0x2276}, {0x2279, 0x2277}, {0x2280, 0x227a},
             {0x2281, 0x227b}, {0x2284, 0x2282}, {0x2285, 0x2283}, {0x2288, 0x2286}, {0x2289, 0x2287}, {0x22ac, 0x22a2},
             {0x22ad, 0x22a8}, {0x22ae, 0x22a9}, {0x22af, 0x22ab}, {0x22e0, 0x227c}, {0x22e1, 0x227d}, {0x22e2, 0x2291},
             {0x22e3, 0x2292}, {0x22ea, 0x22b2}, {0x22eb, 0x22b3}, {0x22ec, 0x22b4}, {0x22ed, 0x22b5}, {0x2329, 0x3008},
             {0x232a, 0x3009}, {0x2adc, 0x2add}};

char32_t folded(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 0x20;
  if (c >= 0xc0 && c - 0xc0 < latin.size() && latin[c - 0xc0] != '.') return static_cast<char32_t>(latin[c - 0xc0]);
  if (c == 0xc6 || c == 0xd0 || c == 0xd8 || c == 0xde) return c + 0x20;
  switch (c) {  // pairs of capital and small letter without an accent
    case 0x110:
    case 0x126:
    case 0x132:
    case 0x13f:
    case 0x141:
    case 0x14a:
    case 0x152:
    case 0x166: return c + 1;
    default: break;
  }
  if (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) return c + 0x20;
  const auto *sign = std::find_if(std::begin(signs), std::end(signs), [c](const auto &pair) { return pair.sign == c; });
  return sign == std::end(signs) ? c : sign->rest;
}

// Takes the first character off; U+FFFD for a byte that begins none.
char32_t take_character(std::string_view &text) {
  const auto first = static_cast<unsigned char>(text.front());
  const auto ones = static_cast<std::size_t>(std::countl_one(first));
  const std::size_t size = std::max<std::size_t>(ones, 1);
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // for a size; a longer form of less is not allowed
  char32_t c = first & (ones == 0 ? 0x7fu : 0x7fu >> ones);
  bool valid = ones != 1 && ones <= 4 && size <= text.size();
  for (std::size_t i = 1; valid && i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    valid = next >> 6 == 2;
    c = c << 6 | (next & 0x3f);
  }
  valid = valid && c >= least[size] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
  text.remove_prefix(valid ? size : 1);
  return valid ? c : 0xfffd;
}

void append_utf8(std::string &text, char32_t c) {
  const auto byte = [&](char32_t value) { text += static_cast<char>(value); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      byte(0xe0 | c >> 12);
    } else {
      byte(0xf0 | c >> 18);
      byte(0x80 | (c >> 12 & 0x3f));
    }
    byte(0x80 | (c >> 6 & 0x3f));
  }
  byte(0x80 | (c & 0x3f));
}

// Runs of characters between spaces; punctuation marks and ideographs are words by themselves.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  while (!text.empty()) {
    const char32_t c = folded(take_character(text));
    if (any_holds(removed, c)) continue;
    const bool alone = any_holds(punctuation, c) || any_holds(ideographs, c);
    if ((alone || any_holds(spaces, c)) && !words.back().empty()) words.emplace_back();
    if (any_holds(spaces, c)) continue;
    append_utf8(words.back(), c);
    if (alone) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
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
