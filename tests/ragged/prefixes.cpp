// Sequences that begin with the same pages: read once, and not a bit moves. And what query-invariant schedules promise
// beyond a split of keys.
#include <doctest/doctest.h>

#include "support/ragged.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {.heads = 6, .kv_heads = 2, .head_dim = 24, .value_dim = 16};

struct Wanted {
  int64_t query_len, key_len, shared;  // positions that are those of the first sequence
};

std::vector<AttentionProblem> make_sequences(const std::vector<Wanted> &wanted, bool sinks = false) {
  Random random(base_seed());
  std::vector<AttentionProblem> sequences;
  for (const Wanted &its : wanted) {
    AttentionSizes sizes = kSizes;
    sizes.query_len = its.query_len;
    sizes.key_len = its.key_len;
    sequences.push_back(make_attention(sizes, random));
    AttentionProblem &problem = sequences.back();
    problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    if (sinks) {
      Random same(3);
      problem.sinks.emplace(Shape{kSizes.heads}).fill_normal(same);
    }
    for (const auto member : {&AttentionProblem::key, &AttentionProblem::value}) {
      const Tensor<float> &from = sequences.front().*member;
      for_each_index({2, its.shared, (problem.*member).shape()[3]}, [&](const Shape &at) {
        (problem.*member)(0, at[0], at[1], at[2]) = from(0, at[0], at[1], at[2]);
      });
    }
  }
  return sequences;
}

// The step in which whole pages of what is shared are the first sequence's.
std::string run_shared(const fovea_context *context, const std::vector<Wanted> &wanted, const Ragged &ragged,
                       int64_t page) {
  std::vector<int64_t> ids, starts = {0};
  for (size_t s = 0; s < wanted.size(); ++s) {
    std::vector<int64_t> its = ragged.pages()[s];
    for (int64_t n = 0; n < wanted[s].shared / page; ++n)
      its[static_cast<size_t>(n)] = ragged.pages()[0][static_cast<size_t>(n)];
    ids.insert(ids.end(), its.begin(), its.end());
    starts.push_back(static_cast<int64_t>(ids.size()));
  }
  const Integers page_ids({static_cast<int64_t>(ids.size())}, ids, false);
  const Integers page_starts({static_cast<int64_t>(starts.size())}, starts, false);
  fovea_step step = ragged.step();
  step.page_ids = page_ids.view();
  step.page_starts = page_starts.view();
  OwnSchedule schedule;
  REQUIRE_OK(ragged.create(context, &schedule));
  REQUIRE_OK(fovea_schedule_set(schedule.get(), &step));
  ragged.run(schedule.get());
  std::string text(fovea_schedule_describe(schedule.get(), nullptr, 0) + 1, '\0');
  fovea_schedule_describe(schedule.get(), text.data(), text.size());
  return text;
}

void check_shared(const std::vector<Wanted> &wanted, int64_t page, const std::string &prefixes, bool sinks = false) {
  CAPTURE(page);
  const std::vector<AttentionProblem> sequences = make_sequences(wanted, sinks);
  for_each_isa([&](const fovea_context *context) {
    for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_BF16}) {
      CAPTURE(dtype);
      const RaggedLayout layout = {.page_size = page, .query = dtype, .key = dtype, .value = dtype};
      const Ragged apart(sequences, layout), shared(sequences, layout);
      apart.run(context);
      const std::string text = run_shared(context, wanted, shared, page);
      CHECK_NE(text.find("prefixes=" + prefixes + " "), std::string::npos);
      CHECK(same_bits(apart.out(), shared.out()));
      CHECK(same_bits(apart.log_sum_exp(), shared.log_sum_exp()));
      for (size_t s = 0; dtype == FOVEA_F32 && s < sequences.size(); ++s) check_result(sequences[s], shared.result(s));
    }
  });
}

}  // namespace

TEST_SUITE("ragged prefixes") {
  TEST_CASE("decoders of one prompt") {
    for (const int64_t page : {16, 48, 576, 700}) {
      check_shared({{1, 1300, 1300}, {1, 1301, 1290}, {2, 1400, 1290}, {1, 1290, 1280}}, page, "1");
    }
    check_shared({{1, 1300, 1300}, {1, 1301, 1290}, {2, 1400, 1290}}, 64, "1", true);
  }

  TEST_CASE("two prompts, neighbours that share nothing, a prompt of many rows, what has no tokens") {
    check_shared({{1, 700, 700}, {1, 700, 640}, {1, 1300, 0}, {1, 1400, 0}}, 64, "1");
    check_shared({{1, 700, 700}, {1, 800, 640}, {40, 800, 640}, {1, 700, 640}, {0, 700, 640}, {1, 700, 640}}, 64, "1");
  }

  TEST_CASE("too little is shared: less than a split, or keys that not all queries have before them") {
    check_shared({{1, 700, 700}, {1, 700, 512}}, 64, "0");
    check_shared({{4, 578, 578}, {1, 700, 576}}, 64, "0");
    check_shared({{1, 577, 577}, {1, 577, 576}}, 64, "1");
  }

  TEST_CASE("more rows than a tile, of many sequences") {
    std::vector<Wanted> wanted = {{3, 1250, 1250}};
    for (int64_t n = 0; n < 30; ++n) wanted.push_back({1 + n % 3, 1250 + n, 1200});
    check_shared(wanted, 32, "1");
  }

  TEST_CASE("a prompt of several splits gives the same bits however it is cut") {
    Random random(base_seed());
    constexpr int64_t kLength = 1400;
    AttentionSizes sizes = kSizes;
    sizes.query_len = sizes.key_len = kLength;
    AttentionProblem prompt = make_attention(sizes, random);
    prompt.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    for_each_isa([&](const fovea_context *context) {
      const Ragged whole(std::span(&prompt, 1), {.page_size = 64});
      whole.run(context);
      check_result(prompt, whole.result(0));
      const AttentionResult expected = whole.result(0);
      int64_t done = 0;
      for (const int64_t chunk : {700, 1, 1, 100, 3, 595}) {
        CAPTURE(done);
        AttentionProblem part;
        part.sizes = sizes;
        part.flags = prompt.flags;
        part.sizes.query_len = chunk;
        part.sizes.key_len = done + chunk;
        const auto cut = [&](const Tensor<float> &rows, int64_t first, int64_t count) {
          Tensor<float> some({1, rows.shape()[1], count, rows.shape()[3]});
          for_each_index(some.shape(), [&](const Shape &at) { some.at(at) = rows(0, at[1], first + at[2], at[3]); });
          return some;
        };
        part.query = cut(prompt.query, done, chunk);
        part.key = cut(prompt.key, 0, done + chunk);
        part.value = cut(prompt.value, 0, done + chunk);
        const Ragged ragged(std::span(&part, 1), {.page_size = 16});
        ragged.run(context);
        const AttentionResult some = ragged.result(0);
        for_each_index({kSizes.heads, chunk, kSizes.value_dim}, [&](const Shape &at) {
          const float a = some.out(0, at[0], at[1], at[2]), b = expected.out(0, at[0], done + at[1], at[2]);
          REQUIRE_EQ(std::memcmp(&a, &b, sizeof a), 0);
        });
        done += chunk;
      }
    });
  }
}
