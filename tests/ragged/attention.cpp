// Attention over sequences of different lengths: what each of them gets is its formula's, to the bits that it gets
// alone, wherever its keys lie and whatever else is in the step.
#include <doctest/doctest.h>

#include <thread>

#include "support/ragged.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

struct Lengths {
  int64_t query_len, key_len;
};

// Steps, prompts, a sequence that has just begun, one without tokens, one without keys, more keys than a split has.
const std::vector<Lengths> kMixed = {{1, 1},   {1, 40}, {17, 17},  {0, 9},     {5, 600},
                                     {70, 95}, {3, 0},  {1, 1300}, {130, 130}, {2, 577}};

std::vector<AttentionProblem> make_sequences(const std::vector<Lengths> &lengths, AttentionSizes sizes, int32_t kind,
                                             Random &random) {
  std::vector<AttentionProblem> sequences;
  for (const Lengths &length : lengths) {
    sizes.query_len = length.query_len;
    sizes.key_len = length.key_len;
    sequences.push_back(make_attention(sizes, random));
    Random same(5);
    if (kind != FOVEA_SCORE_DOT) {
      sequences.back().score = make_score(kind, sizes.head_dim, sizes.key_size(), 21, same);
    }
  }
  return sequences;
}

void check_each(const std::vector<AttentionProblem> &sequences, const Ragged &ragged) {
  for (size_t s = 0; s < sequences.size(); ++s) {
    CAPTURE(s);
    check_result(sequences[s], ragged.result(s));
  }
}

using Change = void (*)(AttentionProblem &, Random &);

const struct {
  const char *name;
  Change change;
} kOptions[] = {
    {"none", [](AttentionProblem &, Random &) {}},
    {"causal", [](AttentionProblem &p, Random &) { p.flags = FOVEA_CAUSAL; }},
    {"window",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
       p.window_left = 30;
     }},
    {"window on both sides",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT | FOVEA_TOP_LEFT;
       p.window_left = 9;
       p.window_right = 3;
     }},
    {"offset",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
       p.query_offset = 5;
     }},
    {"leave one out", [](AttentionProblem &p, Random &) { p.flags = FOVEA_LEAVE_ONE_OUT; }},
    {"soft-cap and scale",
     [](AttentionProblem &p, Random &) {
       p.softcap = 3;
       p.scale = 0.4F;
     }},
    {"ALiBi and sinks",
     [](AttentionProblem &p, Random &random) {
       p.flags = FOVEA_CAUSAL;
       p.alibi_slopes.emplace(Shape{p.sizes.heads}).fill([] { return 0.03F; });
       Random same(7);
       p.sinks.emplace(Shape{p.sizes.heads}).fill_normal(same);
       (void)random;
     }},
    {"a window and sinks",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
       p.window_left = 20;
       Random same(9);
       p.sinks.emplace(Shape{p.sizes.heads}).fill_normal(same);
     }},
    {"empty rows as uniform",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
       p.query_offset = -2;
       p.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
     }},
    {"empty rows as NaN",
     [](AttentionProblem &p, Random &) {
       p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
       p.query_offset = -2;
       p.empty_rows = FOVEA_EMPTY_ROWS_NAN;
     }},
    {"query-invariant", [](AttentionProblem &p, Random &) { p.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT; }},
};

constexpr AttentionSizes kSizes = {.heads = 6, .kv_heads = 2, .head_dim = 24, .value_dim = 20};

// What the sequence gives alone, in pages of another size.
AttentionResult alone(const fovea_context *context, const AttentionProblem &sequence, RaggedLayout layout) {
  const Ragged ragged(std::span(&sequence, 1), layout);
  ragged.run(context);
  return ragged.result(0);
}

}  // namespace

TEST_SUITE("ragged") {
  TEST_CASE("packed: every score function, every option") {
    for (const int32_t kind : kScoreKinds) {
      for (const auto &option : kOptions) {
        CAPTURE(score_name(kind));
        CAPTURE(option.name);
        Random random(base_seed());
        std::vector<AttentionProblem> sequences = make_sequences(kMixed, kSizes, kind, random);
        for (AttentionProblem &sequence : sequences) option.change(sequence, random);
        for_each_isa([&](const fovea_context *context) {
          const Ragged ragged(sequences, {});
          ragged.run(context);
          check_each(sequences, ragged);
        });
      }
    }
  }

  TEST_CASE("in pages: every option; bits are those of packed keys") {
    for (const auto &option : kOptions) {
      CAPTURE(option.name);
      Random random(base_seed());
      std::vector<AttentionProblem> sequences = make_sequences(kMixed, kSizes, FOVEA_SCORE_DOT, random);
      for (AttentionProblem &sequence : sequences) option.change(sequence, random);
      for_each_isa([&](const fovea_context *context) {
        const Ragged packed(sequences, {});
        packed.run(context);
        for (const int64_t size : {1, 7, 16, 128, 2000}) {
          CAPTURE(size);
          const Ragged paged(sequences,
                             {.page_size = size,
                              .page_axes = size % 2 == 0 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 2, 1, 3},
                              .gap = size % 3,
                              .wide = size == 7,
                              .starts = size == 16 || size == 7,
                              .spare = size % 5});
          paged.run(context);
          CHECK(same_bits(packed.out(), paged.out()));
          CHECK(same_bits(packed.log_sum_exp(), paged.log_sum_exp()));
        }
        check_each(sequences, packed);
      });
    }
  }

  TEST_CASE("a sequence has the bits that it has alone, on any number of threads") {
    for (const int32_t kind : kScoreKinds) {
      CAPTURE(score_name(kind));
      Random random(base_seed());
      std::vector<AttentionProblem> sequences = make_sequences(kMixed, kSizes, kind, random);
      for (AttentionProblem &sequence : sequences) sequence.flags = FOVEA_CAUSAL;
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const Ragged together(sequences, {});
        together.run(shared_context(isa, 1));
        const Ragged shared(sequences, {});
        shared.run(shared_context(isa, 5));
        CHECK(same_bits(together.out(), shared.out()));
        CHECK(same_bits(together.log_sum_exp(), shared.log_sum_exp()));
        for (size_t s = 0; s < sequences.size(); ++s) {
          CAPTURE(s);
          const int64_t page = kind == FOVEA_SCORE_DOT && s % 2 == 1 ? 33 : 0;
          CHECK(same_bits(together.result(s), alone(shared_context(isa, 2), sequences[s], {.page_size = page})));
        }
      }
    }
  }

  TEST_CASE("query-invariant: the bits of a call of fovea_attention, however a prompt is cut") {
    Random random(base_seed());
    const AttentionSizes whole = {
        .heads = 4, .kv_heads = 2, .query_len = 150, .key_len = 150, .head_dim = 32, .value_dim = 32};
    AttentionProblem prompt = make_attention(whole, random);
    prompt.flags = FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult expected = prompt.make_result(false);
      REQUIRE_OK(prompt.run(context, expected));
      int64_t done = 0;
      for (const int64_t chunk : {1, 60, 2, 17, 70}) {
        CAPTURE(done);
        AttentionProblem part;
        part.sizes = whole;
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
        const AttentionResult some = alone(context, part, {.page_size = 16});
        for_each_index({4, chunk, 32}, [&](const Shape &at) {
          const float a = some.out(0, at[0], at[1], at[2]), b = expected.out(0, at[0], done + at[1], at[2]);
          REQUIRE_EQ(std::memcmp(&a, &b, sizeof a), 0);
        });
        done += chunk;
      }
    });
  }

  TEST_CASE("16 bits: in pages and packed the same, near float32's") {
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (const fovea_dtype query : {fovea_dtype{FOVEA_F32}, dtype}) {
        CAPTURE(dtype);
        CAPTURE(query);
        for (const int64_t dim : {24, 37, 64}) {
          CAPTURE(dim);
          Random random(base_seed());
          AttentionSizes sizes = kSizes;
          sizes.head_dim = dim;
          std::vector<AttentionProblem> sequences = make_sequences(kMixed, sizes, FOVEA_SCORE_DOT, random);
          for (AttentionProblem &sequence : sequences) {
            sequence.flags = FOVEA_CAUSAL;
            for (Tensor<float> *rows : {&sequence.key, &sequence.value}) {
              for_each_index(rows->shape(), [&](const Shape &at) { rows->at(at) = rounded_to(rows->at(at), dtype); });
            }
            for_each_index(sequence.query.shape(),
                           [&](const Shape &at) { sequence.query.at(at) = rounded_to(sequence.query.at(at), query); });
          }
          for_each_isa([&](const fovea_context *context) {
            const Ragged packed(sequences, {.query = query, .key = dtype, .value = dtype});
            packed.run(context);
            for (const int64_t size : {5, 16, 96}) {
              CAPTURE(size);
              const Ragged paged(sequences,
                                 {.page_size = size, .gap = size % 2, .query = query, .key = dtype, .value = dtype});
              paged.run(context);
              // A row stride that is odd leaves pairs to float32.
              if (size % 2 == 0 || !has_products_of(dtype, context)) {
                CHECK(same_bits(packed.out(), paged.out()));
                CHECK(same_bits(packed.log_sum_exp(), paged.log_sum_exp()));
              }
              const Ragged exact(sequences, {});
              exact.run(context);
              const std::vector<float> some = paged.out(), all = exact.out();
              for (size_t n = 0; n < all.size(); ++n) REQUIRE_LT(std::abs(some[n] - all[n]), 0.03F);
            }
          });
        }
      }
    }
  }

  TEST_CASE("run by shares on the caller's own threads: the same bits") {
    Random random(base_seed());
    std::vector<AttentionProblem> sequences = make_sequences(kMixed, kSizes, FOVEA_SCORE_DOT, random);
    for (AttentionProblem &sequence : sequences) sequence.flags = FOVEA_CAUSAL;
    constexpr int kThreads = 3;
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const fovea_context *context = shared_context(isa, kThreads);
      const Ragged whole(sequences, {.page_size = 16, .workers = kThreads}), shared(sequences, {.page_size = 16});
      OwnSchedule schedule;
      REQUIRE_OK(whole.create(context, &schedule));
      REQUIRE_OK(fovea_schedule_set(schedule.get(), &whole.step()));
      whole.run(schedule.get());
      const GuardedMemory workspace(fovea_schedule_workspace_size(schedule.get()));
      const fovea_attention_buffers buffers = shared.buffers();
      for (int64_t phase = 0; phase < fovea_schedule_phases(schedule.get()); ++phase) {
        const int64_t tasks = fovea_schedule_tasks(schedule.get(), phase);
        std::vector<fovea_status> statuses(kThreads, FOVEA_INTERNAL_ERROR);
        std::vector<std::thread> threads;
        for (int worker = 0; worker < kThreads; ++worker) {
          threads.emplace_back([&, worker] {
            const int64_t begin = tasks * worker / kThreads, end = tasks * (worker + 1) / kThreads;
            statuses[static_cast<size_t>(worker)] = fovea_schedule_run_tasks(
                schedule.get(), &buffers, workspace.data(), workspace.size(), phase, begin, end, worker);
          });
        }
        for (std::thread &thread : threads) thread.join();
        for (const fovea_status status : statuses) REQUIRE_EQ(status, FOVEA_OK);
      }
      CHECK(same_bits(whole.out(), shared.out()));
      CHECK(same_bits(whole.log_sum_exp(), shared.log_sum_exp()));
    }
  }

  TEST_CASE("a schedule goes from step to step; an empty step and none do nothing") {
    Random random(base_seed());
    std::vector<AttentionProblem> sequences = make_sequences(kMixed, kSizes, FOVEA_SCORE_DOT, random);
    std::vector<AttentionProblem> others = make_sequences({{4, 4}, {1, 900}}, kSizes, FOVEA_SCORE_DOT, random);
    for_each_isa([&](const fovea_context *context) {
      const Ragged all(sequences, {.spare = 2000}), few(others, {}), before(sequences, {}), expected(others, {});
      OwnSchedule schedule;
      REQUIRE_OK(all.create(context, &schedule));
      const fovea_attention_buffers buffers = before.buffers();
      REQUIRE_OK(fovea_schedule_run(schedule.get(), &buffers, nullptr, 0));
      CHECK(before.untouched());
      REQUIRE_OK(fovea_schedule_set(schedule.get(), &all.step()));
      all.run(schedule.get());
      check_each(sequences, all);
      REQUIRE_OK(fovea_schedule_set(schedule.get(), &few.step()));
      few.run(schedule.get());
      expected.run(context);
      CHECK(same_bits(few.out(), expected.out()));
      const Integers none({1}, {0}, false);
      fovea_step empty{};
      empty.struct_size = sizeof empty;
      empty.query_starts = empty.key_starts = none.view();
      REQUIRE_OK(fovea_schedule_set(schedule.get(), &empty));
      REQUIRE_OK(fovea_schedule_run(schedule.get(), &buffers, nullptr, 0));
      CHECK(before.untouched());
    });
  }
}
