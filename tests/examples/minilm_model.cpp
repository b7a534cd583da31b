// The example minilm on the real model, where it was fetched: an embedding of 16 bits points where float32's does. The
// bug it guards against: one rounding too many in the stream that runs through all layers, which a small random model
// does not show.
//
//     minilm_model MODEL TEXT      with FOVEA_ISA; FOVEA_MINILM_MODEL in the environment goes before MODEL
//
// Exit code 77, which Meson counts as skipped, where the model or the instruction set is not there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoder.hpp"
#include "wordpiece.hpp"

using namespace minilm;
using namespace model_files;

namespace {

constexpr double smallest_cosine = 0.9999;
constexpr std::size_t most_texts = 40;

int skipped(const std::string &why) {
  std::printf("skipped: %s\n", why.c_str());
  return 77;
}

// The first paragraphs of a file.
std::vector<Tokens> read_texts(const WordPiece &tokenize, const std::string &path) {
  std::ifstream file(path);
  std::vector<Tokens> texts;
  std::string text;
  for (std::string line; texts.size() < most_texts && std::getline(file, line);) {
    if (!line.empty()) {
      text += line + " ";
    } else if (!text.empty()) {
      texts.push_back(tokenize(text));
      text.clear();
    }
  }
  if (texts.size() < most_texts) throw std::runtime_error(path + " has too few paragraphs");
  return texts;
}

// NaN is the smallest.
double smallest_of(const std::vector<float> &a, const std::vector<float> &b, std::size_t hidden) {
  double smallest = 1;
  for (std::size_t first = 0; first < a.size(); first += hidden) {
    double product = 0, square = 0, other_square = 0;
    for (std::size_t i = first; i < first + hidden; ++i) {
      const double x = a[i], y = b[i];
      product += x * y;
      square += x * x;
      other_square += y * y;
    }
    const double cosine = product / std::sqrt(square * other_square);
    if (std::isnan(cosine)) return cosine;
    smallest = std::min(smallest, cosine);
  }
  return smallest;
}

int run(const std::string &model, const std::string &text) {
  const char *isa = std::getenv("FOVEA_ISA");
  const auto available = fovea::isa_available();
  if (isa != nullptr && std::ranges::find(available, isa) == available.end()) {
    return skipped(std::string("this machine has no ") + isa);
  }
  for (const char *name : {"/model.safetensors", "/vocab.txt"}) {
    if (!std::filesystem::exists(model + name)) {
      return skipped("no " + model + name + "; ./dev example minilm fetches the model");
    }
  }
  const WordPiece tokenize(model + "/vocab.txt");
  Safetensors file(model + "/model.safetensors");
  const std::vector<Tokens> texts = read_texts(tokenize, text);
  const std::vector<float> exact = Encoder(file).embed(texts);
  bool alike = true;
  for (const Type type : {Type::f16, Type::bf16}) {
    const Encoder encoder(file, type);
    const auto hidden = static_cast<std::size_t>(encoder.sizes().hidden);
    const double cosine = smallest_of(encoder.embed(texts), exact, hidden);
    const bool enough = cosine >= smallest_cosine;
    std::printf("%s: %s on %s, %zu texts: the smallest cosine to float32's is %.7f, expected at least %.4f\n",
                enough ? "ok" : "FAILED", name_of(type), fovea_isa_name(nullptr), texts.size(), cosine,
                smallest_cosine);
    alike = alike && enough;
  }
  return alike ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  try {
    const char *model = std::getenv("FOVEA_MINILM_MODEL");
    return run(model == nullptr ? argv[1] : model, argv[2]);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "minilm_model: %s\n", error.what());
    return 1;
  }
}
