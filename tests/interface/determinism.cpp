// The same bits: for any number of threads, from run to run, for a batch entry wherever it stands, on the caller's own
// threads in any order.
#include <doctest/doctest.h>

#include "support/attention_problem.hpp"
#include "support/batch_entry.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

// Problems on every path: many queries, few queries with split keys, small, with masks that skip tiles.
std::vector<AttentionProblem> some_problems() {
  Random random(base_seed());
  std::vector<AttentionProblem> list;
  list.push_back(make_attention(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 130, .key_len = 200, .head_dim = 40, .value_dim = 24},
      random));
  list.push_back(make_attention(
      {.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = 5000, .head_dim = 16, .value_dim = 16}, random));
  list.push_back(make_attention(
      {.batch = 2, .heads = 6, .kv_heads = 2, .query_len = 4, .key_len = 2500, .head_dim = 16, .value_dim = 20},
      random));
  list.push_back(make_attention({.query_len = 5, .key_len = 7, .head_dim = 8, .value_dim = 8}, random));
  const size_t plain = list.size();
  for (size_t n = 0; n < plain; ++n) {
    AttentionProblem rich = make_attention(list[n].sizes, random, Layout::kHeadsLast);
    rich.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | (n % 2 == 0 ? int{FOVEA_AVERAGE_WEIGHTS} : 0);
    rich.window_left = rich.sizes.key_len * 2 / 3;
    rich.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(rich.sizes.batch), rich.sizes.key_len - 3));
    rich.sinks.emplace(Shape{rich.sizes.heads}).fill_normal(random);
    list.push_back(std::move(rich));
  }
  for (int32_t kind : kScoreKinds) {  // many queries, few with split keys, small
    AttentionSizes all_sizes[] = {
        {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 90, .key_len = 150, .head_dim = 20, .value_dim = 24},
        {.heads = 4, .kv_heads = 2, .query_len = 1, .key_len = 3000, .head_dim = 16, .value_dim = 16},
        {.query_len = 5, .key_len = 7, .head_dim = 8, .value_dim = 8}};
    for (AttentionSizes &sizes : all_sizes) {
      if (takes_two_dims(kind)) sizes.key_dim = 13;
      list.push_back(make_scored(kind, sizes, 18, random));
      list.push_back(make_scored(kind, sizes, 18, random));
      list.back().flags = FOVEA_CAUSAL;
      list.back().set_valid_lens(std::vector<int64_t>(static_cast<size_t>(sizes.batch), sizes.key_len - 3));
    }
  }
  return list;
}

AttentionResult run(const AttentionProblem &problem, const fovea_context *context, bool weights) {
  AttentionResult result = problem.make_result(weights);
  REQUIRE_OK(problem.run(context, result));
  return result;
}

// The last entry of a batch, alone and with all others, on one, two and eight threads.
void check_entry_alone(const AttentionSizes &sizes, int32_t kind, Random &random) {
  AttentionProblem many =
      kind == FOVEA_SCORE_DOT ? make_attention(sizes, random) : make_scored(kind, sizes, 18, random);
  const std::string what = many.describe();
  CAPTURE(what);
  const int64_t last = sizes.batch - 1;
  AttentionSizes one = sizes;
  one.batch = 1;
  AttentionProblem alone = make_attention(one, random);
  alone.query = batch_entry(many.query, last);
  alone.key = batch_entry(many.key, last);
  alone.value = batch_entry(many.value, last);
  std::vector<AttentionResult> expected;
  const auto for_each_context = [&](const auto &body) {
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      for (int threads : {1, 2, 8}) {
        CAPTURE(threads);
        body(shared_context(isa, threads));
      }
    }
  };
  alone.score = std::move(many.score);  // one score function, lent to one and then to the other
  for_each_context([&](const fovea_context *context) { expected.push_back(run(alone, context, false)); });
  many.score = std::move(alone.score);
  size_t n = 0;
  for_each_context([&](const fovea_context *context) {
    CHECK(same_bits(expected[n], expected[n / 3 * 3]));
    const AttentionResult together = run(many, context, false);
    CHECK(same_bits(batch_entry(together.out, last), expected[n].out));
    CHECK(same_bits(batch_entry(*together.log_sum_exp, last), *expected[n].log_sum_exp));
    ++n;
  });
}

}  // namespace

TEST_SUITE("determinism") {
  // Additive and Gaussian scores have several forms, chosen by magnitude; the choice was once made for a whole band of
  // rows.
  TEST_CASE("a row's bits do not depend on the other queries of its head") {
    for (int32_t kind : kScoreKinds) {
      AttentionSizes sizes = {
          .heads = 2, .kv_heads = 1, .query_len = 90, .key_len = 150, .head_dim = 20, .value_dim = 24};
      if (takes_two_dims(kind)) sizes.key_dim = 13;
      Random random(base_seed());
      AttentionProblem problem = make_scored(kind, sizes, 18, random);
      const std::vector<float> plain = problem.query.dense();
      for_each_isa([&](const fovea_context *context) {
        problem.query.assign(plain);
        const AttentionResult expected = run(problem, context, false);
        for (float factor : {0.0f, 8.0f, 100.0f, 1e6f, kInfinity, kNan}) {
          for (int64_t kept : {0, 7, 16, 63, 89}) {
            CAPTURE(kind);
            CAPTURE(factor);
            CAPTURE(kept);
            std::vector<float> changed = plain;
            for (size_t n = 0; n < changed.size(); ++n) {
              if (static_cast<int64_t>(n) / 20 % 90 != kept) changed[n] *= factor;
            }
            problem.query.assign(changed);
            const AttentionResult result = run(problem, context, false);
            for (int64_t d = 0; d < 24; ++d) CHECK(result.out(0, 1, kept, d) == expected.out(0, 1, kept, d));
          }
        }
      });
    }
  }

  TEST_CASE("thread caps 1 to 8, some of them again") {
    for (const AttentionProblem &problem : some_problems()) {
      const std::string what = problem.describe();
      CAPTURE(what);
      for (const std::string &isa : instruction_sets()) {
        for (bool weights : {false, true}) {
          CAPTURE(isa);
          CAPTURE(weights);
          const AttentionResult expected = run(problem, shared_context(isa, 1), weights);
          for (int threads : {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 2, 1, 0}) {
            CAPTURE(threads);
            CHECK(same_bits(run(problem, shared_context(isa, threads), weights), expected));
          }
        }
      }
    }
  }

  TEST_CASE("the caller's own threads, in any order") {
    const std::vector<AttentionProblem> problems = some_problems();
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      for (int threads : {1, 3, 8}) {
        for (int64_t scramble : {0, 1, 13}) {
          const PoolContext context(isa, threads, scramble);
          REQUIRE(context.get() != nullptr);
          for (const AttentionProblem &problem : problems) {
            const std::string what = problem.describe();
            CAPTURE(what);
            for (bool weights : {false, true}) {
              CHECK(same_bits(run(problem, context.get(), weights), run(problem, shared_context(isa, 1), weights)));
            }
          }
          CHECK((threads == 1 || context.pool().loops() > 0));
        }
      }
    }
  }

  // Later stages of a call wait for earlier ones: not for a worker that has yet to start. 300 workers are more than a
  // stage has ranges of tasks.
  TEST_CASE("one thread that is all workers in turn, the last one first") {
    const auto in_turn = [](void *, int64_t count, fovea_work work, void *work_data) {
      while (count > 0) work(work_data, --count);
    };
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      for (int threads : {3, 300}) {
        CAPTURE(threads);
        fovea_context_options options{};
        options.struct_size = sizeof options;
        options.max_isa = isa.c_str();
        options.max_threads = threads;
        options.parallel_for = in_turn;
        fovea_context *context = nullptr;
        REQUIRE_OK(fovea_context_create(&options, &context));
        for (const AttentionProblem &problem : some_problems()) {
          const std::string what = problem.describe();
          CAPTURE(what);
          for (bool weights : {false, true}) {
            CHECK(same_bits(run(problem, context, weights), run(problem, shared_context(isa, 1), weights)));
          }
        }
        fovea_context_destroy(context);
      }
    }
  }

  TEST_CASE("a batch entry has the same bits alone, at any index and beside any neighbours") {
    for (int64_t query_len : {1, 3, 50, 130}) {
      for (int64_t key_len : {20, 2100}) {
        if (query_len == 130 && key_len == 2100) continue;
        CAPTURE(query_len);
        CAPTURE(key_len);
        Random random(base_seed());
        const AttentionSizes sizes = {.batch = 4,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .query_len = query_len,
                                      .key_len = key_len,
                                      .head_dim = 16,
                                      .value_dim = 12};
        AttentionSizes one = sizes;
        one.batch = 1;
        AttentionProblem many = make_attention(sizes, random);
        many.set_valid_lens({key_len, key_len / 2, 3, key_len - 1});
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult together = run(many, context, false), with_weights = run(many, context, true);
          for (int64_t n = 0; n < 4; ++n) {
            AttentionProblem alone = make_attention(one, random);
            alone.query = batch_entry(many.query, n);
            alone.key = batch_entry(many.key, n);
            alone.value = batch_entry(many.value, n);
            alone.set_valid_lens({(*many.valid_lens32)(n)});
            const AttentionResult result = run(alone, context, false);
            CHECK(same_bits(batch_entry(together.out, n), result.out));
            CHECK(same_bits(batch_entry(*together.log_sum_exp, n), *result.log_sum_exp));
            const AttentionResult weighted = run(alone, context, true);
            CHECK(same_bits(batch_entry(with_weights.out, n), weighted.out));
            CHECK(same_bits(batch_entry(*with_weights.weights, n), *weighted.weights));
          }
        });
      }
    }
  }

  // Keys used to be split where all rows of a head made one task, and how many rows make a task depends on the batch
  // and on the threads.
  TEST_CASE("where keys are split depends on neither the batch nor the threads") {
    Random random(base_seed());
    for (int64_t query_len : {40, 70, 130, 250}) {
      for (int64_t kv_heads : {1, 4}) {
        check_entry_alone({.batch = 20,
                           .heads = kv_heads,
                           .kv_heads = kv_heads,
                           .query_len = query_len,
                           .key_len = 800,
                           .head_dim = 8,
                           .value_dim = 8},
                          FOVEA_SCORE_DOT, random);
      }
    }
  }

  TEST_CASE("random shapes: a batch entry alone on one thread, and among others on several") {
    Random random(base_seed());
    for (int n = 0; n < 16; ++n) {
      const int32_t kind = random.pick(
          {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN});
      AttentionSizes sizes = {.batch = random.integer(2, 20),
                              .kv_heads = random.integer(1, 3),
                              .query_len = random.integer(1, random.pick({4, 300})),
                              .key_len = random.integer(1, random.pick({100, 1500})),
                              .head_dim = random.integer(1, 24),
                              .value_dim = random.integer(1, 24)};
      sizes.heads = sizes.kv_heads * random.integer(1, 3);
      if (kind != FOVEA_SCORE_DOT && takes_two_dims(kind)) sizes.key_dim = random.integer(1, 24);
      check_entry_alone(sizes, kind, random);
    }
  }

  TEST_CASE("a batch entry has the same bits anywhere: each score function") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 3, 50}) {
        for (int64_t key_len : {20, 1100}) {
          if (query_len == 50 && key_len == 1100) continue;
          AttentionSizes sizes = {.batch = 3,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .query_len = query_len,
                                  .key_len = key_len,
                                  .head_dim = 16,
                                  .value_dim = 12};
          if (takes_two_dims(kind)) sizes.key_dim = 11;
          Random random(base_seed());
          AttentionProblem many = make_scored(kind, sizes, 18, random);
          many.set_valid_lens({key_len, key_len / 2, 3});
          const std::string what = many.describe();
          CAPTURE(what);
          AttentionSizes one = sizes;
          one.batch = 1;
          for_each_isa([&](const fovea_context *context) {
            for (bool weights : {false, true}) {
              const AttentionResult together = run(many, context, weights);
              for (int64_t n = 0; n < 3; ++n) {
                Random same(base_seed());
                AttentionProblem alone = make_attention(one, random);
                alone.score = std::move(make_scored(kind, sizes, 18, same).score);
                alone.query = batch_entry(many.query, n);
                alone.key = batch_entry(many.key, n);
                alone.value = batch_entry(many.value, n);
                alone.set_valid_lens({(*many.valid_lens32)(n)});
                const AttentionResult result = run(alone, context, weights);
                CHECK(same_bits(batch_entry(together.out, n), result.out));
                CHECK(same_bits(batch_entry(*together.log_sum_exp, n), *result.log_sum_exp));
                if (weights) CHECK(same_bits(batch_entry(*together.weights, n), *result.weights));
              }
            }
          });
        }
      }
    }
  }

  TEST_CASE("addresses do not change the bits") {
    const AttentionSizes sizes = {
        .heads = 2, .kv_heads = 1, .query_len = 21, .key_len = 90, .head_dim = 19, .value_dim = 21};
    for_each_isa([&](const fovea_context *context) {
      for (bool weights : {false, true}) {
        std::vector<AttentionResult> results;
        for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
          const WithPlacement here(placement);
          Random random(base_seed());
          results.push_back(run(make_attention(sizes, random), context, weights));
          CHECK(same_bits(results.front(), results.back()));
        }
      }
    });
  }

  TEST_CASE("matmul, masked softmax, exp and tanh on 1 to 8 threads") {
    Random random(base_seed());
    Tensor<float> a({3, 200, 150}), b({150, 170});
    a.fill_normal(random);
    b.fill_normal(random);
    Tensor<int32_t> lens({3});
    lens.assign({150, 3, 0});
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      std::vector<Tensor<float>> expected;
      for (int threads = 1; threads <= 8; ++threads) {
        CAPTURE(threads);
        const fovea_context *context = shared_context(isa, threads);
        std::vector<Tensor<float>> results;
        results.emplace_back(Shape{3, 200, 170});
        for (int n = 0; n < 3; ++n) results.emplace_back(Shape{3, 200, 150});
        const fovea_tensor x = a.view(), y = b.view(), lens_view = lens.view();
        fovea_tensor out = results[0].view();
        REQUIRE_OK(fovea_matmul(context, &x, &y, &out));
        out = results[1].view();
        REQUIRE_OK(fovea_masked_softmax(context, &x, &lens_view, &out, nullptr));
        out = results[2].view();
        REQUIRE_OK(fovea_exp(context, &x, &out));
        out = results[3].view();
        REQUIRE_OK(fovea_tanh(context, &x, &out));
        if (threads == 1) expected = std::move(results);
        for (size_t n = 0; threads > 1 && n < 4; ++n) CHECK(same_bits(results[n], expected[n]));
      }
    }
  }
}
