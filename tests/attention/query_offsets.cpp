// A position for each batch entry: sequences of different lengths under one padded K, on every path.
#include <doctest/doctest.h>

#include <cmath>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

constexpr int64_t kMost = int64_t{1} << 30;

AttentionProblem make_problem(int64_t query_len, int64_t key_len, int32_t kind = FOVEA_SCORE_DOT) {
  Random random(base_seed());
  AttentionSizes sizes = {.batch = 3,
                          .heads = 4,
                          .kv_heads = 2,
                          .query_len = query_len,
                          .key_len = key_len,
                          .head_dim = 12,
                          .value_dim = 10};
  return kind == FOVEA_SCORE_DOT ? make_attention(sizes, random) : make_scored(kind, sizes, 17, random);
}

// What goes by positions, each alone and together.
struct Rule {
  const char *name;
  void (*set)(AttentionProblem &);
};

void set_slopes(AttentionProblem &p) {
  p.alibi_slopes.emplace(Shape{p.sizes.heads}).fill([n = 0]() mutable { return 0.05F * static_cast<float>(++n); });
}

const Rule kRules[] = {{"causal", [](AttentionProblem &p) { p.flags = FOVEA_CAUSAL; }},
                       {"window",
                        [](AttentionProblem &p) {
                          p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
                          p.window_left = 11;
                          p.window_right = 2;
                        }},
                       {"ALiBi", set_slopes},
                       {"leave one out", [](AttentionProblem &p) { p.flags = FOVEA_LEAVE_ONE_OUT; }},
                       {"all", [](AttentionProblem &p) {
                          p.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | FOVEA_LEAVE_ONE_OUT | FOVEA_AVERAGE_WEIGHTS;
                          p.window_left = 40;
                          set_slopes(p);
                        }}};

// The call for entry b alone, into its part of the problem's outputs.
void keep_entry(AttentionArguments &call, int64_t b) {
  const auto cut = [b](fovea_tensor &tensor, int64_t size) {
    tensor.data = static_cast<char *>(tensor.data) + b * tensor.strides[0] * size;
    tensor.shape[0] = 1;
  };
  for (fovea_tensor *tensor : {&call.query, &call.key, &call.value, &call.out}) cut(*tensor, sizeof(float));
  for (fovea_tensor *tensor : {&call.log_sum_exp, &call.weights}) {
    if (tensor->data != nullptr) cut(*tensor, sizeof(float));
  }
  call.options.query_offsets = nullptr;
}

// Each entry has the bits of its own call with FOVEA_QUERY_OFFSET.
void check_entries(const AttentionProblem &problem, const std::vector<int64_t> &offsets, bool weights) {
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult all = problem.make_result(weights), alone = problem.make_result(weights);
    REQUIRE_OK(problem.run(context, all));
    for (int64_t b = 0; b < problem.sizes.batch; ++b) {
      AttentionArguments call(problem, alone);
      keep_entry(call, b);
      call.options.flags |= FOVEA_QUERY_OFFSET;
      call.options.query_offset = offsets[static_cast<size_t>(b)];
      REQUIRE_OK(call.run(context));
    }
    CHECK(same_bits(all, alone));
  });
}

// A call whose offsets are the ones given, with nothing else that could be wrong.
fovea_status run_with(const AttentionProblem &problem, const fovea_tensor &offsets, uint32_t flags, bool plan_only) {
  const AttentionResult result = problem.make_result(false);
  AttentionArguments arguments(problem, result);
  arguments.options.query_offsets = &offsets;
  arguments.options.flags = flags;
  fovea_plan *plan = nullptr;
  const fovea_status status = plan_only ? arguments.plan(nullptr, &plan) : arguments.run(nullptr);
  if (status != FOVEA_OK) CHECK(result.out.untouched());
  fovea_plan_destroy(plan);
  return status;
}

}  // namespace

TEST_SUITE("query offsets") {
  TEST_CASE("by hand: the newest queries of sequences of 3 and 5 keys, and a window of one key to the left") {
    for_each_isa([](const fovea_context *context) {
      const std::vector<float> zeros(10), values = {1, 2, 3, 0, 0, 10, 20, 30, 40, 50};
      std::vector<float> out(2);
      const int64_t query_shape[] = {2, 1, 1}, key_shape[] = {2, 5, 1}, batch[] = {2};
      const int64_t offsets[] = {2, 4};
      const fovea_tensor query = fovea_tensor_contiguous(zeros.data(), FOVEA_F32, 3, query_shape),
                         key = fovea_tensor_contiguous(zeros.data(), FOVEA_F32, 3, key_shape),
                         value = fovea_tensor_contiguous(values.data(), FOVEA_F32, 3, key_shape),
                         result = fovea_tensor_contiguous(out.data(), FOVEA_F32, 3, query_shape),
                         positions = fovea_tensor_contiguous(offsets, FOVEA_I64, 1, batch);
      fovea_attention_options options{};
      options.struct_size = sizeof options;
      options.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      options.window_left = 1;
      options.query_offsets = &positions;
      REQUIRE_OK(fovea_sdpa(context, &query, &key, &value, &result, &options));
      CHECK(out == std::vector<float>{2.5, 45});
    });
  }

  TEST_CASE("against the formula: few queries and many, few keys and split ones, int32 and int64") {
    for (const Rule &rule : kRules) {
      CAPTURE(rule.name);
      for (int64_t query_len : {1, 3, 40}) {
        for (int64_t key_len : {9, 90, 700}) {
          if (query_len > 3 && key_len > 90) continue;
          AttentionProblem problem = make_problem(query_len, key_len);
          rule.set(problem);
          problem.set_query_offsets({key_len - query_len, key_len / 3, -2}, query_len == 3);
          check_attention(problem);
          problem.set_query_offsets({0, key_len + 5, key_len / 2});
          problem.set_valid_lens({key_len, key_len / 2, key_len - 1});
          check_attention(problem);
        }
      }
    }
  }

  TEST_CASE("an entry has the bits of its own call with FOVEA_QUERY_OFFSET, on every path and of every score") {
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      for (const Rule &rule : kRules) {
        CAPTURE(rule.name);
        for (const auto &[query_len, key_len] : {std::pair<int64_t, int64_t>{1, 700}, {3, 90}, {33, 60}}) {
          AttentionProblem problem = make_problem(query_len, key_len, kind);
          rule.set(problem);
          const std::vector<int64_t> offsets = {key_len - query_len, 7, key_len / 2};
          problem.set_query_offsets(offsets);
          check_entries(problem, offsets, false);
          if (key_len == 60) check_entries(problem, offsets, true);
        }
      }
    }
  }

  TEST_CASE("padded sequences: each row is that of the sequence by itself, whatever lies behind") {
    for (int64_t query_len : {1, 4}) {
      const std::vector<int64_t> lengths = {30, 90, 61};
      std::vector<int64_t> offsets;
      for (int64_t length : lengths) offsets.push_back(length - query_len);
      AttentionProblem problem = make_problem(query_len, 90);
      problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      problem.window_left = 20;
      problem.set_query_offsets(offsets);
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t j = lengths[static_cast<size_t>(b)]; j < 90; ++j) {
          for (int64_t d = 0; d < 10; ++d) problem.key(b, 0, j, d) = problem.value(b, 1, j, d) = kNan;
        }
      }
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult padded = problem.make_result(false), alone = problem.make_result(false);
        REQUIRE_OK(problem.run(context, padded));
        for (int64_t b = 0; b < 3; ++b) {
          AttentionArguments call(problem, alone);
          keep_entry(call, b);
          call.key.shape[2] = call.value.shape[2] = lengths[static_cast<size_t>(b)];
          REQUIRE_OK(call.run(context));
        }
        const std::vector<float> rows = padded.out.dense(), expected = alone.out.dense();
        for (size_t n = 0; n < rows.size(); ++n) {
          if (!(std::abs(rows[n] - expected[n]) < 1e-5F)) FAIL_CHECK("element " << n);
        }
      });
    }
  }

  TEST_CASE("rows with nothing to attend, by each policy; returned weights; dropout") {
    for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
      for (int64_t query_len : {1, 40}) {
        AttentionProblem problem = make_problem(query_len, 50);
        problem.flags = FOVEA_CAUSAL;
        problem.empty_rows = policy;
        problem.set_query_offsets({-kMost, -20, kMost}, true);
        check_attention(problem);
        problem.flags = FOVEA_WINDOW_LEFT;
        problem.window_left = 0;
        check_attention(problem);
      }
    }
    AttentionProblem problem = make_problem(40, 70);
    problem.flags = FOVEA_CAUSAL;
    problem.dropout = 0.4F;
    problem.dropout_seed = 3;
    problem.set_query_offsets({30, 5, 60});
    check_attention(problem);
  }

  TEST_CASE("the same bits on 1 to 8 threads") {
    for (int64_t query_len : {1, 130}) {
      AttentionProblem problem = make_problem(query_len, 600);
      problem.flags = FOVEA_CAUSAL;
      problem.dropout = 0.2F;
      problem.set_query_offsets({599 - query_len, 0, 300});
      for (const std::string &isa : instruction_sets()) {
        const AttentionResult first = problem.make_result();
        REQUIRE_OK(problem.run(shared_context(isa, 1), first));
        for (int threads : {2, 3, 8}) {
          const AttentionResult again = problem.make_result();
          REQUIRE_OK(problem.run(shared_context(isa, threads), again));
          CHECK(same_bits(first, again));
        }
      }
    }
  }

  TEST_CASE("any stride") {
    AttentionProblem problem = make_problem(5, 45);
    problem.flags = FOVEA_CAUSAL;
    for (int64_t stride : {-3, 0, 2}) {
      problem.query_offsets32.emplace(Shape{3}, Shape{stride}).fill([n = 10]() mutable { return n += 9; });
      check_attention(problem);
      problem.query_offsets64.emplace(Shape{3}, Shape{stride}).fill([n = 10]() mutable { return n += 9; });
      check_attention(problem);
      problem.query_offsets64.reset();
    }
  }

  TEST_CASE("a plan's run brings its own offsets") {
    for_each_isa([](const fovea_context *context) {
      for (int64_t query_len : {1, 40}) {
        AttentionProblem problem = make_problem(query_len, 300);
        problem.flags = FOVEA_CAUSAL;
        problem.set_query_offsets({0, 0, 0});
        const AttentionPlan plan(context, problem, problem.make_result());
        for (int64_t step : {0, 17, 299}) {
          problem.set_query_offsets({step, 299 - step, step / 2});
          const AttentionResult once = problem.make_result(), planned = problem.make_result();
          REQUIRE_OK(problem.run(context, once));
          REQUIRE_OK(plan.run(problem, planned));
          CHECK(same_bits(once, planned));
        }
        problem.set_query_offsets({0, kMost + 1, 0});
        const AttentionResult refused = problem.make_result();
        check_refusal(plan.run(problem, refused), FOVEA_BAD_VALUE, {"buffers.query_offsets[1]", "1073741825"});
        CHECK(refused.out.untouched());
      }
    });
  }

  TEST_CASE("over prepared keys: the bits of the keys themselves") {
    for (int64_t query_len : {1, 40}) {
      AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_ADDITIVE, query_len, 130);
      problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
      problem.window_left = 50;
      problem.set_query_offsets({129 - query_len, 40});
      for_each_isa([&](const fovea_context *context) {
        const Keys keys = make_full(context, problem);
        const AttentionResult prepared = problem.make_result(), once = problem.make_result();
        REQUIRE_OK(attend(context, problem, keys, prepared));
        REQUIRE_OK(problem.run(context, once));
        CHECK(same_bits(prepared, once));
        const AttentionResult planned = problem.make_result();
        const AttentionPlan plan(context, problem, keys.get(), planned);
        fovea_attention_buffers buffers = buffers_of(AttentionArguments(problem, planned));
        buffers.key = buffers.query_weight = buffers.key_weight = buffers.score_vector = nullptr;
        REQUIRE_OK(plan.run(buffers));
        CHECK(same_bits(planned, once));
      });
    }
  }

  TEST_CASE("values out of range, named with their index; 2^30 and -2^30 are in it") {
    const AttentionProblem problem = make_problem(2, 5);
    const int64_t shape[] = {3};
    for (int64_t bad : {kMost + 1, -kMost - 1, INT64_MIN, INT64_MAX}) {
      for (size_t at : {size_t{0}, size_t{2}}) {
        std::vector<int64_t> wide(3, 1);
        wide[at] = bad;
        const fovea_tensor offsets = fovea_tensor_contiguous(wide.data(), FOVEA_I64, 1, shape);
        const std::string name = "query_offsets[" + std::to_string(at) + "] is " + std::to_string(bad);
        check_refusal(run_with(problem, offsets, FOVEA_CAUSAL, false), FOVEA_BAD_VALUE, {name});
        check_refusal(run_with(problem, offsets, 0, false), FOVEA_BAD_VALUE, {name});
        REQUIRE_OK(run_with(problem, offsets, 0, true));  // a plan looks at no data
        if (bad < INT32_MIN || bad > INT32_MAX) continue;
        std::vector<int32_t> narrow(wide.begin(), wide.end());
        const fovea_tensor small = fovea_tensor_contiguous(narrow.data(), FOVEA_I32, 1, shape);
        check_refusal(run_with(problem, small, FOVEA_CAUSAL, false), FOVEA_BAD_VALUE, {name});
      }
    }
    const std::vector<int64_t> limits = {kMost, -kMost, 0};
    const fovea_tensor offsets = fovea_tensor_contiguous(limits.data(), FOVEA_I64, 1, shape);
    REQUIRE_OK(run_with(problem, offsets, FOVEA_CAUSAL | FOVEA_LEAVE_ONE_OUT, false));
    for (uint32_t flag : {FOVEA_TOP_LEFT, FOVEA_QUERY_OFFSET}) {
      for (bool plan_only : {false, true}) {
        check_refusal(run_with(problem, offsets, flag, plan_only), FOVEA_BAD_VALUE,
                      {"query_offsets is given", "FOVEA_TOP_LEFT", "FOVEA_QUERY_OFFSET"});
      }
    }
  }
}
