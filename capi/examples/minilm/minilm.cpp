// minilm: a real sentence encoder, all-MiniLM-L6-v2, on fovea alone: how alike sentences are, how far the embeddings
// are from a float64 reference, tokens per second, and search in a text by meaning.
//
//     minilm [--type f32|f16|bf16] MODEL TEXTS [QUESTION]
//
//   --type    what the encoder computes in; one of 16 bits is held beside float32's
//   MODEL     a directory with model.safetensors and vocab.txt
//   TEXTS     a directory with sentences.txt, questions.txt and passages.txt, a text in each line; where prepare.py made a
//             reference, also NAME.tokens.txt (what the tokenizers library gives) and NAME.npy (embeddings in float64)
//   QUESTION  is asked instead of questions.txt
//
// `./dev example minilm` fetches the model, makes the texts from README.md and runs this. The exit code is 1 if tokens
// or embeddings are not those of the reference, or if an embedding of 16 bits points elsewhere than float32's.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
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
using namespace model_files;

// The least cosine between an embedding in 16 bits and that in float32, which limits how far the unit vectors may be
// apart.
constexpr double smallest_cosine = 0.9999;

double largest_difference(Type type) { return type == Type::f32 ? 1e-4 : std::sqrt(2 * (1 - smallest_cosine)); }

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The greater of two; NaN if either is.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

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
    comparison.largest = worse(comparison.largest, difference);
  }
  npy_free(&truth);
  if (!fits) throw std::runtime_error(stem + ".npy is of other texts than " + stem + ".txt: remove it");
  comparison.texts += texts.lines.size();
  return true;
}

// What the cosine between an embedding of the texts and float32's lacks to 1, at most.
double compare_types(const Texts &texts, const Encoder &exact) {
  const std::vector<float> embeddings = exact.embed(texts.tokens);
  const auto hidden = static_cast<std::size_t>(exact.sizes().hidden);
  double largest = 0;
  for (std::size_t n = 0; n < embeddings.size(); n += hidden) {
    const float *x = embeddings.data() + n;
    largest = worse(largest, 1 - std::inner_product(x, x + hidden, texts.embeddings.data() + n, 0.0));
  }
  return largest;
}

// Encoders take turns, so that what else the machine does meets all alike; of each the best run counts.
void print_speed(const std::vector<const Encoder *> &encoders, const Texts &texts) {
  std::size_t tokens = 0;
  for (const Tokens &sentence : texts.tokens) tokens += sentence.size();
  std::vector<double> best(encoders.size(), 1e9);
  for (const double end = seconds() + 1.5 * static_cast<double>(encoders.size()); seconds() < end;) {
    for (std::size_t n = 0; n < encoders.size(); ++n) {
      const double start = seconds();
      encoders[n]->embed(texts.tokens);
      best[n] = std::min(best[n], seconds() - start);
    }
  }
  std::printf("\nspeed: %zu passages, %zu tokens\n", texts.lines.size(), tokens);
  for (std::size_t n = 0; n < encoders.size(); ++n) {
    std::printf("  %-4s  %.0f ms: %.0f tokens per second", name_of(encoders[n]->type()), best[n] * 1e3,
                static_cast<double>(tokens) / best[n]);
    std::printf(n == 0 ? "\n" : ", %.2f times as long\n", best[n] / best[0]);
  }
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

struct Arguments {
  Type type = Type::f32;
  std::string model, texts;
  const char *question = nullptr;
};

// Tokens and embeddings beside the reference; false if they are not alike enough.
bool check_reference(const Arguments &arguments, const std::vector<std::pair<const char *, const Texts *>> &all,
                     std::size_t hidden) {
  Comparison comparison;
  const bool compared = std::ranges::all_of(all, [&](const auto &named) {
    return compare(*named.second, arguments.texts + "/" + named.first, hidden, comparison);
  });
  if (!compared) {
    std::printf("\nreference: none in %s, so nothing was compared\n", arguments.texts.c_str());
    return true;
  }
  const double limit = largest_difference(arguments.type);
  std::printf(
      "\nreference: %zu texts, tokens other than the tokenizers library's in %zu; "
      "embeddings differ from float64 by at most %.1e (limit %.0e)\n",
      comparison.texts, comparison.other_tokens, comparison.largest, limit);
  return comparison.other_tokens == 0 && comparison.largest <= limit;
}

bool check_types(const Encoder &encoder, const Encoder &exact,
                 const std::vector<std::pair<const char *, const Texts *>> &all) {
  double lacking = 0;
  for (const auto &[name, texts] : all) lacking = worse(lacking, compare_types(*texts, exact));
  std::printf("\n%s: the smallest cosine of an embedding to float32's is %.6f (limit %.4f)\n", name_of(encoder.type()),
              1 - lacking, smallest_cosine);
  return 1 - lacking >= smallest_cosine;
}

int run(const Arguments &arguments) {
  const double start = seconds();
  const WordPiece tokenize(arguments.model + "/vocab.txt");
  Safetensors file(arguments.model + "/model.safetensors");
  const Encoder encoder(file, arguments.type);
  const auto hidden = static_cast<std::size_t>(encoder.sizes().hidden);
  std::printf("all-MiniLM-L6-v2 in %s, read and packed in %.0f ms; instruction set %s, threads %d\n",
              name_of(arguments.type), (seconds() - start) * 1e3, fovea_isa_name(nullptr),
              static_cast<int>(fovea_context_threads(nullptr)));

  const auto texts_of = [&](const char *name) {
    return embed(encoder, tokenize, read_lines(arguments.texts + "/" + name + ".txt"));
  };
  const Texts sentences = texts_of("sentences"), questions = texts_of("questions"), passages = texts_of("passages");
  print_similarities(sentences, hidden);

  const std::vector<std::pair<const char *, const Texts *>> all = {
      {"sentences", &sentences}, {"questions", &questions}, {"passages", &passages}};
  bool alike = check_reference(arguments, all, hidden);
  std::optional<Encoder> exact;
  std::vector<const Encoder *> encoders = {&encoder};
  if (arguments.type != Type::f32) {
    encoders.push_back(&exact.emplace(file));
    alike = check_types(encoder, *exact, all) && alike;
  }
  print_speed(encoders, passages);
  print_answers(arguments.question == nullptr ? questions : embed(encoder, tokenize, {arguments.question}), passages,
                hidden);
  return alike ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    Arguments arguments;
    std::vector<const char *> rest(argv + 1, argv + argc);
    if (rest.size() >= 2 && std::string(rest[0]) == "--type") {
      arguments.type = type_of(rest[1]);
      rest.erase(rest.begin(), rest.begin() + 2);
    }
    if (rest.size() != 2 && rest.size() != 3) {
      std::fprintf(stderr, "usage: minilm [--type f32|f16|bf16] MODEL TEXTS [QUESTION]\n");
      return 2;
    }
    arguments.model = rest[0];
    arguments.texts = rest[1];
    if (rest.size() == 3) arguments.question = rest[2];
    return run(arguments);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "minilm: %s\n", error.what());
    return 1;
  }
}
