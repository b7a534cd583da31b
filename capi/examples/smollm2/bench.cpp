// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace smollm2 {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <typename Body>
double best_of(int times, const Body &body) {
  double best = 1e9;
  for (int n = 0; n < times; ++n) {
    const double start = seconds();
    body();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// Bytes per second that all threads together read from memory.
double read_rate() {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency()), count = 96u << 20 >> 3;
  std::vector<std::uint64_t> memory(threads * count, 1);
  std::atomic<std::uint64_t> total = 0;
  const double time = best_of(3, [&] {
    std::vector<std::jthread> all;
    for (std::size_t t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        total += std::accumulate(memory.begin() + static_cast<std::ptrdiff_t>(t * count),
                                 memory.begin() + static_cast<std::ptrdiff_t>((t + 1) * count), std::uint64_t{0});
      });
    }
  });
  return static_cast<double>(memory.size() * 8) / time;
}

// Operations per second of a large product of the model's types.
double product_rate(const Model &model) {
  constexpr std::int64_t size = 1536;
  const Numbers weight(model.type(), size * size), x(model.type(), size * size);
  Numbers out(Type::f32, size * size);
  const fovea::PackedMatrix packed =
      fovea::linear_pack(weight.view({size, size}), fovea::WeightLayout::out_in, {}, model.precision());
  const double time = best_of(5, [&] { fovea::linear(x.view({size, size}), packed, out.view({size, size})); });
  return 2.0 * size * size * size / time;
}

// Where a step's time went, in parts of 1.
struct Shares {
  double attention, products, rest;

  Shares(const Times &before, const Times &after)
      : attention(after.attention - before.attention),
        products(after.products - before.products),
        rest(after.rest - before.rest) {
    const double all = attention + products + rest;
    for (double *part : {&attention, &products, &rest}) *part /= all;
  }
};

// Tokens per second, how many there may be, and what takes the time.
struct Figures {
  double rate, bound;
  Shares shares;
  double cache_bytes = 0, held_bytes = 0;
};

// How often a case is repeated, of which the best counts.
struct Repeats {
  int prompts, decodes;
};

class Bench {
 public:
  Bench(const Model &model, fovea_dtype cache, Repeats repeats)
      : model_(model), cache_(cache), repeats_(repeats), reads_(read_rate()), operations_(product_rate(model)) {}

  void print_head() const {
    std::printf(
        "weights %.0f MB, as much is read for a token; memory is read at %.1f GB/s, products reach %.0f GFLOP/s\n\n",
        static_cast<double>(model_.weight_bytes()) / 1e6, reads_ / 1e9, operations_ / 1e9);
    std::printf("%-38s %9s %9s  %s\n", "", "tokens/s", "bound", "attention, products, the rest");
  }

  Figures prompt(std::int64_t length) const {
    Decoder decoder(model_, {.sequences = 1, .tokens = length, .positions = length + 64}, cache_);
    const std::vector<std::int32_t> tokens = some_tokens(length);
    const auto run = [&] {
      const fovea::Sequence sequence = decoder.open();
      decoder.step({{&sequence, tokens}});
    };
    run();
    const Times before = decoder.times();
    const double time = best_of(repeats_.prompts, run);
    const ModelSizes &s = model_.sizes();
    const double products = 2.0 * static_cast<double>(length) * static_cast<double>(matrix_elements()) +
                            2.0 * static_cast<double>(s.vocabulary * s.hidden);
    const double attention = 2.0 * static_cast<double>(length * length * s.layers * s.hidden);  // half of all pairs
    const auto count = static_cast<double>(length);
    return {count / time, count * operations_ / (products + attention), Shares(before, decoder.times())};
  }

  // One new token for each sequence in every step.
  Figures decode(std::int64_t sequences, std::int64_t depth) const {
    constexpr int steps = 32;
    Decoder decoder(model_, {.sequences = sequences, .tokens = 512, .positions = sequences * (depth + 512)}, cache_);
    std::vector<fovea::Sequence> open;
    const std::vector<std::int32_t> tokens = some_tokens(512);
    for (std::int64_t n = 0; n < sequences; ++n) {
      open.push_back(decoder.open());
      for (std::int64_t at = 0; at < depth; at += 512) decoder.step({{&open.back(), tokens}});
    }
    std::vector<Continuation> one;
    for (const fovea::Sequence &sequence : open) one.push_back({&sequence, std::span(tokens).first(1)});
    decoder.step(one);
    const Times before = decoder.times();
    const double time = best_of(repeats_.decodes, [&] {
      for (int n = 0; n < steps; ++n) decoder.step(one);
    });
    const auto count = static_cast<double>(sequences);
    const double cache = count * decoder.cache_bytes(depth);
    const double bytes = static_cast<double>(model_.weight_bytes()) + cache;
    const double work = 2.0 * count * static_cast<double>(matrix_elements());
    return {count * steps / time, count / std::max(bytes / reads_, work / operations_), Shares(before, decoder.times()),
            cache, static_cast<double>(decoder.pool_bytes())};
  }

 private:
  std::vector<std::int32_t> some_tokens(std::int64_t count) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      tokens[n] = static_cast<std::int32_t>((1000 + 37 * n) % static_cast<std::size_t>(model_.sizes().vocabulary));
    }
    return tokens;
  }

  std::int64_t matrix_elements() const {
    const ModelSizes &s = model_.sizes();
    return s.layers * (s.hidden * (s.columns() + s.hidden) + 3 * s.hidden * s.intermediate);
  }

  const Model &model_;
  fovea_dtype cache_;
  Repeats repeats_;
  double reads_, operations_;
};

void print(const std::string &what, const Figures &of) {
  std::printf("%-38s %9.1f %9.1f  %2.0f %%, %2.0f %%, %2.0f %%", what.c_str(), of.rate, of.bound,
              100 * of.shares.attention, 100 * of.shares.products, 100 * of.shares.rest);
}

void print_decoding(const Bench &run, std::int64_t sequences, std::int64_t depth) {
  const Figures of = run.decode(sequences, depth);
  print(
      std::to_string(sequences) + (sequences == 1 ? " sequence" : " sequences") + " at depth " + std::to_string(depth),
      of);
  std::printf("  cache %.1f MB of %.1f MB held\n", of.cache_bytes / 1e6, of.held_bytes / 1e6);
}

}  // namespace

void bench(const Model &model, fovea_dtype cache) {
  const Bench run(model, cache, {.prompts = 7, .decodes = 5});
  run.print_head();
  const Figures prompt = run.prompt(512);
  print("prompt of 512", prompt);
  std::printf("  first token after %.0f ms\n", 512e3 / prompt.rate);
  print_decoding(run, 1, 512);
  print_decoding(run, 8, 512);
  print_decoding(run, 1, 4096);
}

// Fewer than alone, as rounds ask again; peer_engines.py does as many.
void measure(const Model &model, fovea_dtype cache) {
  const Bench run(model, cache, {.prompts = 4, .decodes = 3});
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    std::int64_t sequences = 0, depth = 0;
    words >> what >> sequences >> depth;
    const bool prompt = what == "prompt" && sequences == 1;
    if ((!prompt && what != "decode") || sequences < 1 || sequences > 64 || depth < 1 || depth > 8192) {
      throw std::invalid_argument("case '" + line + "', expected 'prompt 1 LENGTH' or 'decode SEQUENCES DEPTH'");
    }
    const Figures of = prompt ? run.prompt(depth) : run.decode(sequences, depth);
    std::printf("%.1f\t%.1f\t%.3f\t%.3f\t%.3f\n", of.rate, of.bound, of.shares.attention, of.shares.products,
                of.shares.rest);
    std::fflush(stdout);
  }
}

}  // namespace smollm2
