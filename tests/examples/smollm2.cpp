// The parts of the example smollm2, on a model made here: two layers of random weights against the formula in float64,
// with prompts and single steps mixed, forks, and caches of every type.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "batch.hpp"
#include "model_file.hpp"

using namespace smollm2;
using testing::ModelFile;
using testing::TemporaryFile;

namespace {

using Vector = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

const ModelSizes kSizes = {.vocabulary = 50, .layers = 2, .hidden = 128, .heads = 4, .kv_heads = 2, .intermediate = 96};

ModelFile random_model() {
  testing::Random random(testing::base_seed());
  ModelFile model;
  const auto matrix = [&](const std::string &name, int64_t outputs, int64_t inputs) {
    model.add(name + ".weight", {outputs, inputs}, 1 / std::sqrt(static_cast<float>(inputs)), 0, random);
  };
  const auto norm = [&](const std::string &name) { model.add(name + ".weight", {kSizes.hidden}, 0.2f, 1, random); };
  model.add("token_embd.weight", {kSizes.vocabulary, kSizes.hidden}, 0.3f, 0, random);
  norm("output_norm");
  const int64_t e = kSizes.hidden, kv = kSizes.kv_heads * kSizes.head_dim();
  for (int64_t layer = 0; layer < kSizes.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    norm(prefix + "attn_norm");
    norm(prefix + "ffn_norm");
    matrix(prefix + "attn_q", e, e);
    matrix(prefix + "attn_k", kv, e);
    matrix(prefix + "attn_v", kv, e);
    matrix(prefix + "attn_output", e, e);
    matrix(prefix + "ffn_gate", kSizes.intermediate, e);
    matrix(prefix + "ffn_up", kSizes.intermediate, e);
    matrix(prefix + "ffn_down", e, kSizes.intermediate);
  }
  return model;
}

// The formula of model.hpp in float64: the logits behind the last of some tokens.
struct Reference {
  const ModelFile &model;

  Vector product(const std::string &name, const Vector &x, int64_t outputs) const {
    const float *weight = model.parameters.at(name + ".weight").values.data();
    Vector y;
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (const double value : x) sum += value * static_cast<double>(*weight++);
      y.push_back(sum);
    }
    return y;
  }
  Vector norm(const std::string &name, const Vector &x) const {
    double squares = 0;
    for (const double value : x) squares += value * value / static_cast<double>(x.size());
    Vector y;
    for (const double value : x) {
      y.push_back(value / std::sqrt(squares + static_cast<double>(kSizes.epsilon)) *
                  model.at(name + ".weight", std::ssize(y)));
    }
    return y;
  }
  // Neighbouring features are turned together.
  static void turn(Vector &heads, int64_t position) {
    const int64_t dim = kSizes.head_dim();
    for (size_t n = 0; n + 1 < heads.size(); n += 2) {
      const auto pair = static_cast<double>(static_cast<int64_t>(n) % dim);
      const double angle = static_cast<double>(position) *
                           std::pow(static_cast<double>(kSizes.rotary_base), -pair / static_cast<double>(dim));
      const double even = heads[n], odd = heads[n + 1];
      heads[n] = even * std::cos(angle) - odd * std::sin(angle);
      heads[n + 1] = even * std::sin(angle) + odd * std::cos(angle);
    }
  }
  static Vector attend(const Vector &query, const std::vector<Vector> &keys, const std::vector<Vector> &values) {
    const auto dim = static_cast<size_t>(kSizes.head_dim());
    const auto group = static_cast<size_t>(kSizes.heads / kSizes.kv_heads);
    Vector out(query.size());
    for (size_t head = 0; head < query.size() / dim; ++head) {
      Vector weights;
      double sum = 0;
      for (const Vector &key : keys) {
        double score = 0;
        for (size_t d = 0; d < dim; ++d) score += query[head * dim + d] * key[head / group * dim + d];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += weights.back();
      }
      for (size_t k = 0; k < keys.size(); ++k) {
        for (size_t d = 0; d < dim; ++d) out[head * dim + d] += weights[k] / sum * values[k][head / group * dim + d];
      }
    }
    return out;
  }
  Vector logits(const Tokens &tokens) const {
    const int64_t e = kSizes.hidden, kv = kSizes.kv_heads * kSizes.head_dim();
    std::vector<std::vector<Vector>> keys(static_cast<size_t>(kSizes.layers)), values(keys.size());
    Vector x;
    for (const std::int32_t token : tokens) {
      x.clear();
      for (int64_t i = 0; i < e; ++i) x.push_back(model.at("token_embd.weight", token * e + i));
      for (size_t layer = 0; layer < keys.size(); ++layer) {
        const std::string prefix = "blk." + std::to_string(layer) + ".";
        const Vector h = norm(prefix + "attn_norm", x);
        Vector query = product(prefix + "attn_q", h, e), key = product(prefix + "attn_k", h, kv);
        turn(query, std::ssize(keys[layer]));
        turn(key, std::ssize(keys[layer]));
        keys[layer].push_back(key);
        values[layer].push_back(product(prefix + "attn_v", h, kv));
        add(product(prefix + "attn_output", attend(query, keys[layer], values[layer]), e), x);
        const Vector f = norm(prefix + "ffn_norm", x);
        Vector gate = product(prefix + "ffn_gate", f, kSizes.intermediate);
        const Vector up = product(prefix + "ffn_up", f, kSizes.intermediate);
        for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
        add(product(prefix + "ffn_down", gate, e), x);
      }
    }
    return product("token_embd", norm("output_norm", x), kSizes.vocabulary);
  }
  static void add(const Vector &y, Vector &x) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
};

Tokens some_tokens(int64_t count, uint64_t seed) {
  testing::Random random(testing::base_seed() + seed);
  Tokens tokens;
  for (int64_t n = 0; n < count; ++n)
    tokens.push_back(static_cast<std::int32_t>(random.integer(0, kSizes.vocabulary - 1)));
  return tokens;
}

Tokens joined(Tokens first, const Tokens &last) {
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

std::int32_t likeliest(const Vector &logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

TEST_SUITE("smollm2 example") {
  TEST_CASE("prompts and single steps together, forks, every type of cache against float64") {
    const ModelFile file = random_model();
    const TemporaryFile stored(file.content());
    Safetensors reader(stored.path());
    const Reference reference{file};
    struct Way {
      Weights weights;
      fovea_dtype cache;
      double limit;  // of logits, which are about 3 in size
    };
    for (const Way &way : {Way{Weights::f32, FOVEA_F32, 2e-5},
                           {Weights::f32, FOVEA_F16, 1.5e-2},
                           {Weights::f32, FOVEA_BF16, 0.12},
                           {Weights::f32, FOVEA_I8, 0.25},
                           {Weights::f32, FOVEA_U8, 2.5},  // values in 4 bits: 17 times the steps of 8
                           {Weights::bf16, FOVEA_BF16, 0.3},
                           {Weights::bf16, FOVEA_I8, 0.4},
                           {Weights::i8, FOVEA_BF16, 0.6},
                           {Weights::i8, FOVEA_I8, 0.6}}) {
      CAPTURE(static_cast<int>(way.weights));
      CAPTURE(way.cache);
      const Model model(reader, way.weights, kSizes);
      Decoder decoder(model, {.sequences = 4, .tokens = 40, .positions = 1024}, way.cache);
      const fovea::Sequence first = decoder.open(), second = decoder.open();
      Tokens of_first = some_tokens(17, 1), of_second = some_tokens(1, 2);
      double largest = 0;
      const auto check = [&](std::span<const float> logits, size_t n, const Tokens &tokens) {
        const Vector truth = reference.logits(tokens);
        for (size_t i = 0; i < truth.size(); ++i) {
          const double difference = std::abs(static_cast<double>(logits[n * truth.size() + i]) - truth[i]);
          largest = std::isnan(difference) ? 1e9 : std::max(largest, difference);
        }
      };
      std::span<const float> logits = decoder.step({{&first, of_first}, {&second, of_second}});
      REQUIRE_EQ(logits.size(), static_cast<size_t>(2 * kSizes.vocabulary));
      check(logits, 0, of_first);
      check(logits, 1, of_second);
      const fovea::Sequence fork = first.fork(11);
      Tokens of_fork(of_first.begin(), of_first.begin() + 11);
      const Tokens a = some_tokens(1, 3), b = some_tokens(23, 4), c = some_tokens(5, 5);
      logits = decoder.step({{&first, a}, {&second, b}, {&fork, c}});
      check(logits, 0, of_first = joined(of_first, a));
      check(logits, 1, of_second = joined(of_second, b));
      check(logits, 2, of_fork = joined(of_fork, c));
      logits = decoder.step({{&fork, a}, {&first, a}});
      check(logits, 0, joined(of_fork, a));
      check(logits, 1, joined(of_first, a));
      CHECK(largest < way.limit);
      if (way.cache != FOVEA_F32) CHECK(largest > way.limit / 100);  // else nothing was rounded
    }
  }

  TEST_CASE("answers do not depend on who else is answered") {
    const ModelFile file = random_model();
    const TemporaryFile stored(file.content());
    Safetensors reader(stored.path());
    const Model model(reader, Weights::f32, kSizes);
    const Tokens common = some_tokens(9, 10);
    constexpr std::int32_t end = 3;
    const auto answers = [&](std::int64_t together, std::int64_t tokens, float temperature) {
      Decoder decoder(model, {.sequences = together + 1, .tokens = 64, .positions = 2048}, FOVEA_F32);
      Batch batch(decoder, together, tokens, end);
      batch.begin_with(common);
      std::vector<Tokens> made(5);
      for (size_t n = 0; n < made.size(); ++n) {
        batch.add({some_tokens(static_cast<int64_t>(1 + 6 * n), 20 + n), 12, {.temperature = temperature, .seed = n}});
      }
      while (batch.step([&](size_t request, std::int32_t token) { made[request].push_back(token); })) {
      }
      return made;
    };
    const std::vector<Tokens> alone = answers(1, 64, 0);
    CHECK(answers(5, 64, 0) == alone);
    CHECK(answers(3, 7, 0) == alone);  // prompts in pieces
    for (size_t n = 0; n < alone.size(); ++n) {
      REQUIRE(!alone[n].empty());
      Tokens tokens = joined(common, some_tokens(static_cast<int64_t>(1 + 6 * n), 20 + n));
      for (const std::int32_t token : alone[n]) {
        CHECK_EQ(token, likeliest(Reference{file}.logits(tokens)));
        tokens.push_back(token);
      }
      CHECK((alone[n].size() == 12 || alone[n].back() == end));
    }
    CHECK(answers(5, 64, 1.5f) == answers(2, 64, 1.5f));
    CHECK(answers(5, 64, 1.5f) != alone);
  }

  TEST_CASE("chance chooses among the likeliest") {
    const std::vector<float> logits = {0, 3, 1, 2.9f};
    CHECK_EQ(Sampler({})(logits), 1);
    CHECK_EQ(Sampler({.temperature = 1, .top_p = 0.1f})(logits), 1);
    Sampler often({.temperature = 1, .top_p = 0.8f, .seed = 5});
    std::map<std::int32_t, int> counts;
    for (int n = 0; n < 4000; ++n) ++counts[often(logits)];
    CHECK_EQ(counts.size(), 2);
    CHECK(counts[1] > 1950);  // 0.525 of 4000 are 2100, give or take 32
    CHECK(counts[1] < 2250);
  }
}
