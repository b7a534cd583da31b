// The parts of the example minilm, on a model made here: two layers of random weights, written to a file as models are
// published, against the formula in float64.
#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoder.hpp"
#include "model_file.hpp"
#include "wordpiece.hpp"

using namespace minilm;
using namespace model_files;
using testing::file_of;
using testing::ModelFile;
using testing::TemporaryFile;

namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

const EncoderSizes kSizes = {
    .vocabulary = 50, .positions = 20, .layers = 2, .hidden = 32, .heads = 4, .intermediate = 72, .epsilon = 1e-12f};

struct Model : ModelFile {
  void add_dense(const std::string &name, int64_t outputs, int64_t inputs, testing::Random &random) {
    add(name + ".weight", {outputs, inputs}, 1.5f / std::sqrt(static_cast<float>(inputs)), 0, random);
    add(name + ".bias", {outputs}, 0.5f, 0, random);
  }
  void add_norm(const std::string &name, testing::Random &random) {
    add(name + ".weight", {kSizes.hidden}, 0.2f, 1, random);
    add(name + ".bias", {kSizes.hidden}, 0.2f, 0, random);
  }
};

Model random_model() {
  testing::Random random(testing::base_seed());
  Model model;
  model.add("embeddings.word_embeddings.weight", {kSizes.vocabulary, kSizes.hidden}, 1, 0, random);
  model.add("embeddings.position_embeddings.weight", {kSizes.positions, kSizes.hidden}, 1, 0, random);
  model.add("embeddings.token_type_embeddings.weight", {2, kSizes.hidden}, 1, 0, random);
  model.add_norm("embeddings.LayerNorm", random);
  for (int64_t layer = 0; layer < kSizes.layers; ++layer) {
    const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
    for (const char *name :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"}) {
      model.add_dense(prefix + name, kSizes.hidden, kSizes.hidden, random);
    }
    model.add_norm(prefix + "attention.output.LayerNorm", random);
    model.add_dense(prefix + "intermediate.dense", kSizes.intermediate, kSizes.hidden, random);
    model.add_dense(prefix + "output.dense", kSizes.hidden, kSizes.intermediate, random);
    model.add_norm(prefix + "output.LayerNorm", random);
  }
  return model;
}

// The formula of encoder.hpp for one sentence, in float64.
struct Reference {
  const Model &model;

  Vector dense(const std::string &name, const Vector &x, int64_t outputs) const {
    Vector y;
    for (int64_t o = 0; o < outputs; ++o) {
      y.push_back(model.at(name + ".bias", o));
      for (size_t i = 0; i < x.size(); ++i) {
        y.back() += x[i] * model.at(name + ".weight", o * static_cast<int64_t>(x.size()) + static_cast<int64_t>(i));
      }
    }
    return y;
  }
  Vector norm(const std::string &name, const Vector &x, const Vector &residual) const {
    Vector y(x.size());
    double mean = 0, variance = 0;
    for (size_t i = 0; i < y.size(); ++i) mean += (y[i] = x[i] + residual[i]) / static_cast<double>(y.size());
    for (const double value : y) variance += (value - mean) * (value - mean) / static_cast<double>(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const auto n = static_cast<int64_t>(i);
      y[i] = (y[i] - mean) / std::sqrt(variance + 1e-12) * model.at(name + ".weight", n) + model.at(name + ".bias", n);
    }
    return y;
  }
  Matrix attend(const std::string &prefix, const Matrix &x) const {
    Matrix query, key, value, out(x.size(), Vector(static_cast<size_t>(kSizes.hidden)));
    for (const Vector &row : x) {
      query.push_back(dense(prefix + "self.query", row, kSizes.hidden));
      key.push_back(dense(prefix + "self.key", row, kSizes.hidden));
      value.push_back(dense(prefix + "self.value", row, kSizes.hidden));
    }
    const auto dim = static_cast<size_t>(kSizes.hidden / kSizes.heads);
    for (size_t q = 0; q < x.size(); ++q) {
      for (size_t first = 0; first < out[q].size(); first += dim) {
        Vector weights;
        double sum = 0;
        for (size_t k = 0; k < x.size(); ++k) {
          double score = 0;
          for (size_t i = first; i < first + dim; ++i) score += query[q][i] * key[k][i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weights.back();
        }
        for (size_t k = 0; k < x.size(); ++k) {
          for (size_t i = first; i < first + dim; ++i) out[q][i] += weights[k] / sum * value[k][i];
        }
      }
      out[q] = dense(prefix + "output.dense", out[q], kSizes.hidden);
    }
    return out;
  }
  Vector embed(const Tokens &tokens) const {
    Matrix x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      Vector word, rest;
      for (int64_t i = 0; i < kSizes.hidden; ++i) {
        word.push_back(model.at("embeddings.word_embeddings.weight", tokens[t] * kSizes.hidden + i));
        rest.push_back(model.at("embeddings.token_type_embeddings.weight", i) +
                       model.at("embeddings.position_embeddings.weight", static_cast<int64_t>(t) * kSizes.hidden + i));
      }
      x.push_back(norm("embeddings.LayerNorm", word, rest));
    }
    for (int64_t layer = 0; layer < kSizes.layers; ++layer) {
      const std::string prefix = "encoder.layer." + std::to_string(layer) + ".";
      const Matrix attended = attend(prefix + "attention.", x);
      for (size_t t = 0; t < x.size(); ++t) {
        x[t] = norm(prefix + "attention.output.LayerNorm", attended[t], x[t]);
        Vector hidden = dense(prefix + "intermediate.dense", x[t], kSizes.intermediate);
        for (double &value : hidden) value *= (1 + std::erf(value / std::sqrt(2.0))) / 2;
        x[t] = norm(prefix + "output.LayerNorm", dense(prefix + "output.dense", hidden, kSizes.hidden), x[t]);
      }
    }
    Vector mean(static_cast<size_t>(kSizes.hidden));
    double squares = 0;
    for (size_t i = 0; i < mean.size(); ++i) {
      for (const Vector &row : x) mean[i] += row[i];
      squares += mean[i] * mean[i];
    }
    for (double &value : mean) value /= std::sqrt(squares);
    return mean;
  }
};

// One sentence of each length, of any tokens.
std::vector<Tokens> all_lengths() {
  testing::Random random(testing::base_seed() + 1);
  std::vector<Tokens> sentences;
  for (int64_t length = 1; length <= kSizes.positions; ++length) {
    sentences.emplace_back();
    for (int64_t t = 0; t < length; ++t) {
      sentences.back().push_back(static_cast<int32_t>(random.integer(0, kSizes.vocabulary - 1)));
    }
  }
  return sentences;
}

// NaN is the largest.
double largest_difference(const Vector &truth, const float *embedding) {
  double largest = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double difference = std::abs(static_cast<double>(embedding[i]) - truth[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// The file is refused with a message that holds the words and the file's name.
void refuse(const std::string &content, const std::string &words, const std::function<void(Safetensors &)> &use) {
  const TemporaryFile file(content);
  try {
    Safetensors reader(file.path());
    use(reader);
  } catch (const std::runtime_error &error) {
    const std::string message = error.what();
    CAPTURE(message);
    CAPTURE(words);
    CHECK(message.find(words) != std::string::npos);
    CHECK(message.find(file.path()) == 0);
    return;
  }
  FAIL_CHECK("no exception: " << words);
}

}  // namespace

TEST_SUITE("minilm example") {
  TEST_CASE("the encoder against float64, sentences of all lengths in one batch") {
    const Model model = random_model();
    const TemporaryFile file(model.content());
    Safetensors reader(file.path());
    const std::vector<Tokens> sentences = all_lengths();
    std::vector<Vector> truths;
    for (const Tokens &sentence : sentences) truths.push_back(Reference{model}.embed(sentence));
    // Differences of unit vectors. In 16 bits each number is rounded some 20 times one after the other, and so are the
    // weights.
    const std::map<Type, double> limits = {{Type::f32, 2e-6}, {Type::f16, 2e-3}, {Type::bf16, 1.6e-2}};
    for (const auto &[type, limit] : limits) {
      const std::string name = name_of(type);
      CAPTURE(name);
      const Encoder encoder(reader, type, kSizes);
      const std::vector<float> embeddings = encoder.embed(sentences);
      REQUIRE_EQ(embeddings.size(), sentences.size() * static_cast<size_t>(kSizes.hidden));
      double largest = 0;
      for (size_t n = 0; n < sentences.size(); ++n) {
        const double difference = largest_difference(truths[n], embeddings.data() + n * truths[n].size());
        largest = std::isnan(largest) || largest > difference ? largest : difference;
      }
      CHECK(largest < limit);
      // One that computes in float32 all the same would be nearer than the roundings let it be.
      if (type != Type::f32) CHECK(largest > limit / 30);
      CHECK(encoder.embed({}).empty());
    }
  }

  TEST_CASE("types have names, and no others") {
    for (const Type type : {Type::f32, Type::f16, Type::bf16}) CHECK(type_of(name_of(type)) == type);
    for (const char *name : {"", "f", "f64", "bf160", "F32"}) CHECK_THROWS_AS(type_of(name), std::invalid_argument);
  }

  TEST_CASE("sentences that the encoder refuses") {
    const TemporaryFile file(random_model().content());
    Safetensors reader(file.path());
    const Encoder encoder(reader, Type::f32, kSizes);
    for (const Tokens &bad : {Tokens(), Tokens(21, 1), Tokens{1, 50}, Tokens{-1}}) {
      CHECK_THROWS_AS(encoder.embed({{1, 2}, bad}), std::invalid_argument);
    }
  }

  TEST_CASE("a file cut off anywhere, or altered") {
    const float values[] = {1, 2, 3, 4, 5, 6};
    const std::string data(reinterpret_cast<const char *>(values), sizeof values);
    const std::string header = R"( {"a" : {"dtype":"F32", "shape":[2,3], "data_offsets":[0,24]}, "i":)"
                               R"({"dtype":"I64","shape":[],"data_offsets":[0,8]} } )";
    const auto read = [](Safetensors &reader) { return reader.floats("a", {2, 3}); };
    {
      const TemporaryFile file(file_of(header, data));
      Safetensors reader(file.path());
      CHECK(read(reader) == std::vector<float>(values, values + 6));
    }
    const std::string whole = file_of(header, data);
    for (size_t size = 0; size < whole.size(); ++size) refuse(whole.substr(0, size), "", read);
    const auto replaced = [&](const std::string &what, const std::string &with) {
      std::string changed = header;
      return file_of(changed.replace(changed.find(what), what.size(), with), data);
    };
    refuse(whole, "no tensor 'b'", [](Safetensors &reader) { reader.floats("b", {2, 3}); });
    refuse(whole, "shape [2,3], expected [3,2]", [](Safetensors &reader) { reader.floats("a", {3, 2}); });
    refuse(whole, "'I64', expected 'F32'", [](Safetensors &reader) { reader.floats("i", {}); });
    refuse(replaced("[0,24]", "[0,20]"), "'a' lies at", read);
    refuse(replaced("[0,24]", "[4,28]"), "'a' lies at", read);
    refuse(replaced("[0,24]", "[24,0]"), "'a' lies at", read);
    refuse(replaced("[0,24]", "[]"), "'a' lies at", read);
    refuse(replaced("[0,24]", "[0,999999999999999999]"), "'a' lies at", read);
    for (const char *sizes : {"[0,9999999999999999999]", "[0,99999999999999999999]", "[-1,23]", "[0,24.0]", "24",
                              "[[0],24]", "[0,\"24\"]", "null"}) {
      refuse(replaced("[0,24]", sizes), "data_offsets", read);
    }
    refuse(replaced("\"a\"", "\"i\""), "two tensors 'i'", read);
    refuse(replaced("\"a\"", "\"\\n\""), "no tensor 'a'", read);
    refuse(replaced("dtype", "dtypo"), "dtype", read);
    refuse(replaced("\"F32\"", "32"), "must be string", read);
    refuse(file_of(header + "x", data), "parse error", read);
    refuse(file_of("{}", data), "no tensor", read);
    for (const char *other : {"[]", "[1]", "\"a\"", "null", "{\"a\":{}}", "{\"a\":1}"})
      refuse(file_of(other, data), "", read);
    refuse(file_of(std::string(1'000'000, '['), data), "parse error", read);  // must not be a level of the stack each
    refuse(std::string(7, '\xff') + "\x7f", "not a safetensors file", read);  // a size that no other may be added to
    CHECK_THROWS_AS(Safetensors("/nonexistent/model"), std::runtime_error);
  }

  TEST_CASE("pieces of words") {
    const TemporaryFile file(
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\naff\n,\ncafe\nstraße\nωα\n½\n你\n-\n##a\n");
    const WordPiece tokenize(file.path());
    const auto check = [&](const std::string &text, const Tokens &expected) {
      CAPTURE(text);
      Tokens all = {2};
      all.insert(all.end(), expected.begin(), expected.end());
      all.push_back(3);
      CHECK(tokenize(text) == all);
    };
    check("", {});
    check(" \t\n", {});
    check("unaffable, AFF", {4, 5, 6, 8, 7});
    check("unaffab unaff", {1, 4, 5});  // a word is known as a whole or not at all
    check("CAFÉ cafe\u0301 ca\u00adfe\u200b STRAßE ½", {9, 9, 9, 10, 12});
    check("un≠un", {4, 1, 4});  // "un", "=", "un"
    check("ΩΑ,你你un–un", {11, 8, 13, 13, 4, 1, 4});
    check("u\u200bn\u3000\uff55n Ｕn", {4, 1, 1});  // wide letters are letters of their own
    check("ΏΆ ÙNAFFÁBLE", {11, 4, 5, 6});
    check("un\xff\xc3(aff", {4, 1, 7});  // neither byte begins a character
    check(std::string(99, 'a'), {1});
    check("aff" + std::string(97, 'a'), [] {
      Tokens tokens = {7};
      tokens.resize(98, 15);
      return tokens;
    }());
    check("aff" + std::string(98, 'a'), {1});
    CHECK(tokenize("un un un un", 4) == Tokens{2, 4, 4, 3});
    CHECK(tokenize("unaffable", 4) == Tokens{2, 4, 5, 3});
    CHECK(tokenize("un", 2) == Tokens{2, 3});
    const TemporaryFile broken("[PAD]\n[UNK]\n");
    CHECK_THROWS_AS(WordPiece{broken.path()}, std::runtime_error);
    CHECK_THROWS_AS(WordPiece{"/nonexistent/vocabulary"}, std::runtime_error);
  }
}
