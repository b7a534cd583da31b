// BERT's tokenizer (uncased): text is cleaned, put in lower case, freed of accents and split at spaces and punctuation;
// each word then becomes the longest pieces of the vocabulary from the left, or [UNK].
//
// The tokens are those of the `tokenizers` library (prepare.py compares), but for special tokens spelt out in the text
// and some hundred rare characters that are newer than that library's tables of Unicode.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minilm {

class WordPiece {
 public:
  // A vocabulary has one piece in a line; a line's number, from 0, is the piece's. Throws std::runtime_error.
  explicit WordPiece(const std::string &vocabulary_path);

  // [CLS], the text's first pieces, [SEP]: at most `most` tokens, 2 or more. Bytes that are not UTF-8 are left out.
  std::vector<std::int32_t> operator()(std::string_view text, std::size_t most = 256) const;

 private:
  std::int32_t piece(const std::string &name) const;
  void add_word(const std::string &word, std::vector<std::int32_t> &tokens) const;

  std::string path_;
  std::unordered_map<std::string, std::int32_t> pieces_;
  std::int32_t unknown_, begin_, end_;
};

}  // namespace minilm
