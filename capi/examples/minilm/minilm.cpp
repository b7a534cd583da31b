// minilm: a real sentence encoder, all-MiniLM-L6-v2, on fovea alone: how alike sentences are, how far the embeddings are
// from a float64 reference, tokens per second, and search in a text by meaning.
//
//     minilm MODEL TEXTS [QUESTION]
//
//   MODEL     a directory with model.safetensors and vocab.txt
//   TEXTS     a directory with sentences.txt, questions.txt and passages.txt, a text in each line; where prepare.py made a
//             reference, also NAME.tokens.txt (what the tokenizers library gives) and NAME.npy (embeddings in float64)
//   QUESTION  is asked instead of questions.txt
//
// `./dev example minilm` fetches the model, makes the texts from README.md and runs this. The exit code is 1 if tokens or
// embeddings are not those of the reference.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoder.hpp"
#include "wordpiece.hpp"

extern "C" {
#include "../npy.h"
}

namespace {

using namespace minilm;

constexpr double largest_difference = 1e-4;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Texts {
  std::vector<std::string> lines;
  std::vector<Tokens> tokens;
  std::vector<float> embeddings;  // [lines, hidden]
};

std::vector<std::string> read_lines(const std::string &path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Texts embed(const Encoder &encoder, const WordPiece &tokenize, std::vector<std::string> lines) {
  Texts texts;
  texts.lines = std::move(lines);
  for (const std::string &line : texts.lines) texts.tokens.push_back(tokenize(line));
  texts.embeddings = encoder.embed(texts.tokens);
  return texts;
}

// The cosine of the angle between unit vectors.
double similarity(const Texts &a, std::size_t i, const Texts &b, std::size_t j, std::size_t hidden) {
  const float *x = a.embeddings.data() + i * hidden, *y = b.embeddings.data() + j * hidden;
  return std::inner_product(x, x + hidden, y, 0.0);
}

void print_similarities(const Texts &texts, std::size_t hidden) {
  std::printf("\nsentences, and how alike they are\n");
  for (std::size_t i = 0; i < texts.lines.size(); ++i) {
    std::printf("  %zu ", i + 1);
    for (std::size_t j = 0; j <= i; ++j) std::printf(" %5.2f", similarity(texts, i, texts, j, hidden));
    std::printf("%*s  %s\n", static_cast<int>(6 * (texts.lines.size() - i - 1)), "", texts.lines[i].c_str());
  }
}

struct Comparison {
  std::size_t texts = 0, other_tokens = 0;
  double largest = 0;
};

// Adds what texts differ from their reference; false if there is none.
bool compare(const Texts &texts, const std::string &stem, std::size_t hidden, Comparison &comparison) {
  if (!std::filesystem::exists(stem + ".npy")) return false;
  const std::vector<std::string> lines = read_lines(stem + ".tokens.txt");
  npy_array truth;
  if (npy_load((stem + ".npy").c_str(), NPY_F64, 2, &truth) != 0) throw std::runtime_error(npy_error());
  const bool fits = truth.count == texts.embeddings.size() && truth.shape[1] == static_cast<std::int64_t>(hidden) &&
                    lines.size() == texts.lines.size();
  for (std::size_t n = 0; fits && n < texts.lines.size(); ++n) {
    std::istringstream numbers(lines[n]);
    Tokens expected;
    for (std::int32_t token; numbers >> token;) expected.push_back(token);
    if (expected == texts.tokens[n]) continue;
    ++comparison.other_tokens;
    std::printf("  other tokens than the reference: %s\n", texts.lines[n].c_str());
  }
  for (std::size_t n = 0; fits && n < truth.count; ++n) {
    const double difference = std::abs(texts.embeddings[n] - static_cast<const double *>(truth.data)[n]);
    if (!(difference <= comparison.largest)) comparison.largest = difference;  // NaN stays
  }
  npy_free(&truth);
  if (!fits) throw std::runtime_error(stem + ".npy is of other texts than " + stem + ".txt: remove it");
  comparison.texts += texts.lines.size();
  return true;
}

void print_speed(const Encoder &encoder, const Texts &texts) {
  std::size_t tokens = 0;
  for (const Tokens &sentence : texts.tokens) tokens += sentence.size();
  double best = 1e9;
  for (const double end = seconds() + 1.5; seconds() < end;) {
    const double start = seconds();
    encoder.embed(texts.tokens);
    best = std::min(best, seconds() - start);
  }
  std::printf("\nspeed: %zu passages, %zu tokens, in %.0f ms: %.0f tokens per second\n", texts.lines.size(), tokens,
              best * 1e3, static_cast<double>(tokens) / best);
}

// At most that many bytes, cut between words.
std::string beginning_of(const std::string &text, std::size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, text.rfind(' ', most)) + " ...";
}

void print_answers(const Texts &questions, const Texts &passages, std::size_t hidden) {
  for (std::size_t q = 0; q < questions.lines.size(); ++q) {
    std::printf("\n%s\n", questions.lines[q].c_str());
    std::vector<std::pair<double, std::size_t>> ranking;
    for (std::size_t p = 0; p < passages.lines.size(); ++p) {
      ranking.emplace_back(similarity(questions, q, passages, p, hidden), p);
    }
    const std::size_t best = std::min<std::size_t>(3, ranking.size());
    std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(best), ranking.end(),
                      std::greater());
    for (std::size_t n = 0; n < best; ++n) {
      std::printf("  %.2f  %s\n", ranking[n].first, beginning_of(passages.lines[ranking[n].second], 240).c_str());
    }
  }
}

int run(const std::string &model, const std::string &directory, const char *question) {
  const double start = seconds();
  const WordPiece tokenize(model + "/vocab.txt");
  Safetensors file(model + "/model.safetensors");
  const Encoder encoder(file);
  const auto hidden = static_cast<std::size_t>(encoder.sizes().hidden);
  std::printf("all-MiniLM-L6-v2, read and packed in %.0f ms; instruction set %s, threads %d\n",
              (seconds() - start) * 1e3, fovea_isa_name(nullptr), static_cast<int>(fovea_context_threads(nullptr)));

  const Texts sentences = embed(encoder, tokenize, read_lines(directory + "/sentences.txt"));
  const Texts questions = embed(encoder, tokenize, read_lines(directory + "/questions.txt"));
  const Texts passages = embed(encoder, tokenize, read_lines(directory + "/passages.txt"));
  print_similarities(sentences, hidden);

  Comparison comparison;
  const bool compared = compare(sentences, directory + "/sentences", hidden, comparison) &&
                        compare(questions, directory + "/questions", hidden, comparison) &&
                        compare(passages, directory + "/passages", hidden, comparison);
  if (compared) {
    std::printf(
        "\nreference: %zu texts, tokens other than the tokenizers library's in %zu; "
        "embeddings differ from float64 by at most %.1e (limit %.0e)\n",
        comparison.texts, comparison.other_tokens, comparison.largest, largest_difference);
  } else {
    std::printf("\nreference: none in %s, so nothing was compared\n", directory.c_str());
  }
  print_speed(encoder, passages);
  print_answers(question == nullptr ? questions : embed(encoder, tokenize, {question}), passages, hidden);
  return comparison.other_tokens == 0 && comparison.largest <= largest_difference ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: minilm MODEL TEXTS [QUESTION]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "minilm: %s\n", error.what());
    return 1;
  }
}
