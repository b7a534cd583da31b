// Every mask and option with every score function: each alone, each with each other, empty rows, groups of heads,
// ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 21, .key_len = 45, .head_dim = 12, .value_dim = 10};

AttentionProblem make_problem(int32_t kind, int64_t query_len = kSizes.query_len, int64_t key_len = kSizes.key_len) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  sizes.key_len = key_len;
  if (takes_two_dims(kind)) sizes.key_dim = 9;
  return make_scored(kind, sizes, 11, random);
}

struct Option {
  const char *name;
  std::function<void(AttentionProblem &, Random &)> set;
};

std::vector<Option> masks() {
  return {
      {"valid_lens [B]",
       [](AttentionProblem &p, Random &) {
         p.set_valid_lens({p.sizes.key_len * 2 / 3, p.sizes.key_len == 0 ? 0 : 1});
       }},
      {"valid_lens [B,Q]",
       [](AttentionProblem &p, Random &random) {
         std::vector<int64_t> lens(static_cast<size_t>(p.sizes.batch * p.sizes.query_len));
         for (int64_t &len : lens) len = random.integer(0, p.sizes.key_len);
         p.set_valid_lens(lens, true);
       }},
      {"mask",
       [](AttentionProblem &p, Random &random) {
         p.set_mask([&](int64_t, int64_t, int64_t, int64_t) { return random.chance(0.6); });
       }},
      {"bias",
       [](AttentionProblem &p, Random &random) {
         p.bias.emplace(p.shape_of(p.score_shape())).fill([&] {
           return random.chance(0.2) ? -kInfinity : random.normal();
         });
       }},
      {"short mask",
       [](AttentionProblem &p, Random &random) {
         p.mask.emplace(Shape{1, p.sizes.heads, 1, p.sizes.key_len * 3 / 4}).fill([&] {
           return static_cast<uint8_t>(random.chance(0.7));
         });
       }},
      {"short bias",
       [](AttentionProblem &p, Random &random) {
         p.bias.emplace(Shape{p.sizes.batch, 1, p.sizes.query_len, p.sizes.key_len * 2 / 3}).fill_normal(random);
       }},
      {"causal", [](AttentionProblem &p, Random &) { p.flags |= FOVEA_CAUSAL; }},
      {"window left",
       [](AttentionProblem &p, Random &) {
         p.flags |= FOVEA_WINDOW_LEFT;
         p.window_left = 7;
       }},
      {"window right",
       [](AttentionProblem &p, Random &) {
         p.flags |= FOVEA_WINDOW_RIGHT;
         p.window_right = 3;
       }},
      {"leave one out", [](AttentionProblem &p, Random &) { p.flags |= FOVEA_LEAVE_ONE_OUT; }},
  };
}

std::vector<Option> all_options() {
  std::vector<Option> options = masks();
  const std::vector<Option> others = {
      {"top left", [](AttentionProblem &p, Random &) { p.flags |= FOVEA_TOP_LEFT; }},
      {"query offset",
       [](AttentionProblem &p, Random &) {
         if ((p.flags & FOVEA_TOP_LEFT) != 0) return;  // not both
         p.flags |= FOVEA_QUERY_OFFSET;
         p.query_offset = 5;
       }},
      {"query offsets",
       [](AttentionProblem &p, Random &) {
         if ((p.flags & (FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET)) != 0) return;  // neither of them
         p.set_query_offsets({p.sizes.key_len - p.sizes.query_len, 4}, p.sizes.query_len % 2 != 0);
       }},
      {"scale", [](AttentionProblem &p, Random &) { p.scale = -0.7f; }},
      {"scale 0", [](AttentionProblem &p, Random &) { p.flags |= FOVEA_SCALE_GIVEN; }},
      {"softcap", [](AttentionProblem &p, Random &) { p.softcap = 1.5f; }},
      {"alibi",
       [](AttentionProblem &p, Random &random) {
         p.alibi_slopes.emplace(Shape{p.sizes.heads}).fill([&] { return random.uniform(0, 0.3f); });
       }},
      {"sinks", [](AttentionProblem &p, Random &random) { p.sinks.emplace(Shape{p.sizes.heads}).fill_normal(random); }},
      {"dropout",
       [](AttentionProblem &p, Random &) {
         p.dropout = 0.3f;
         p.dropout_seed = 9;
       }},
      {"average weights", [](AttentionProblem &p, Random &) { p.flags |= FOVEA_AVERAGE_WEIGHTS; }},
      {"sigmas", [](AttentionProblem &p, Random &random) {
         if (p.score->kind != FOVEA_SCORE_GAUSSIAN) return;
         p.score->sigma = 0;
         p.score->sigmas.emplace(Shape{p.sizes.heads}).fill([&] { return random.uniform(1, 5); });
       }}};
  options.insert(options.end(), others.begin(), others.end());
  return options;
}

template <typename Body>
void for_each_kind(Body body) {
  for (int32_t kind : kScoreKinds) body(kind);
}

}  // namespace

TEST_SUITE("scores masks") {
  TEST_CASE("each option alone, for many queries and for few") {
    for_each_kind([](int32_t kind) {
      for (const Option &option : all_options()) {
        CAPTURE(option.name);
        for (int64_t query_len : {1, 3, 21, 70}) {
          for (int64_t key_len : {10, 45, 130}) {
            AttentionProblem problem = make_problem(kind, query_len, key_len);
            Random random(base_seed());
            option.set(problem, random);
            check_attention(problem);
          }
        }
      }
    });
  }

  TEST_CASE("each pair of options") {
    const std::vector<Option> options = all_options();
    for_each_kind([&](int32_t kind) {
      for (size_t first = 0; first < options.size(); ++first) {
        for (size_t second = first + 1; second < options.size(); ++second) {
          CAPTURE(options[first].name);
          CAPTURE(options[second].name);
          AttentionProblem problem = make_problem(kind, 19, 23);
          Random random(base_seed() + first);
          options[first].set(problem, random);
          options[second].set(problem, random);
          check_attention(problem);
        }
      }
    });
  }

  TEST_CASE("rows with no key, by each policy") {
    for_each_kind([](int32_t kind) {
      for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
        for (int64_t query_len : {1, 3, 40}) {
          AttentionProblem problem = make_problem(kind, query_len);
          problem.empty_rows = policy;
          problem.set_valid_lens({0, 20});
          check_attention(problem);
          problem.set_valid_lens({0, 0});
          check_attention(problem);
          problem.valid_lens32.reset();
          problem.set_mask([](int64_t, int64_t h, int64_t i, int64_t j) { return (i + h) % 3 != 0 && j % 2 == 0; });
          check_attention(problem);
          problem.mask.reset();
          problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
          problem.query_offset = -2;
          check_attention(problem);
        }
      }
    });
  }

  TEST_CASE("groups of heads, and each rank") {
    for_each_kind([](int32_t kind) {
      for (int64_t kv_heads : {1, 2, 3, 6}) {
        for (int64_t query_len : {1, 5, 40}) {
          for (Layout layout : {Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}) {
            Random random(base_seed());
            check_attention(make_scored(kind,
                                        {.batch = 2,
                                         .heads = 6,
                                         .kv_heads = kv_heads,
                                         .query_len = query_len,
                                         .key_len = 33,
                                         .head_dim = 8,
                                         .value_dim = 5},
                                        10, random, layout));
          }
        }
      }
      for (int rank : {2, 3}) {
        for (int64_t query_len : {1, 40}) {
          Random random(base_seed());
          AttentionSizes sizes = {
              .batch = rank == 2 ? 1 : 3, .query_len = query_len, .key_len = 33, .head_dim = 8, .value_dim = 6};
          if (takes_two_dims(kind)) sizes.key_dim = 21;
          AttentionProblem problem = make_scored(kind, sizes, 10, random, Layout::kPadded, rank);
          check_attention(problem);
          problem.set_valid_lens(rank == 2 ? std::vector<int64_t>{20} : std::vector<int64_t>{0, 20, 33});
          problem.bias.emplace(problem.shape_of({1, 1, 1, 33})).fill_normal(random);
          problem.sinks.emplace(Shape{1}).assign({1.5f});
          check_attention(problem);
        }
      }
    });
  }

  TEST_CASE("sizes of zero") {
    for_each_kind([](int32_t kind) {
      for (int zero = 0; zero < 3; ++zero) {
        for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
          AttentionSizes sizes = kSizes;
          (zero == 0 ? sizes.batch : zero == 1 ? sizes.query_len : sizes.key_len) = 0;
          Random random(base_seed());
          AttentionProblem problem = make_scored(kind, sizes, 7, random);
          problem.empty_rows = policy;
          check_attention(problem);
          problem.sinks.emplace(Shape{4}).fill_normal(random);
          check_attention(problem);
        }
      }
    });
  }

  TEST_CASE("Gaussian: a sigma for each head, of any stride, and one for all") {
    for (int64_t query_len : {1, 5, 40}) {
      AttentionProblem problem = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
      problem.score->sigma = 0;
      problem.score->sigmas.emplace(Shape{4}).assign({0.5f, 1, 3, 20});
      check_attention(problem);
      problem.score->sigmas.emplace(Shape{4}, Shape{3}).assign({20, 4, 0.7f, 2});
      check_attention(problem);
      problem.score->sigmas.emplace(Shape{4}, Shape{-1}).assign({2, 4, 6, 8});
      check_attention(problem);

      AttentionProblem repeated = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
      repeated.score->sigma = 0;
      repeated.score->sigmas.emplace(Shape{4}, Shape{0}).fill([] { return 2.5f; });
      AttentionProblem one = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
      one.score->sigma = 2.5f;
      check_attention(repeated);
      check_attention(one);
    }
  }

  TEST_CASE("Gaussian: the window of a kernel smoother without itself") {
    // Queries are the keys: what leave-one-out keeps out is the distance of 0.
    AttentionProblem problem = make_problem(FOVEA_SCORE_GAUSSIAN, 45);
    for_each_index(problem.key.shape(), [&](const Shape &at) {
      for (int64_t h : {2 * at[1], 2 * at[1] + 1}) problem.query(at[0], h, at[2], at[3]) = problem.key.at(at);
    });
    problem.score->sigma = 0.8f;
    check_attention(problem);
    problem.flags = FOVEA_LEAVE_ONE_OUT;
    check_attention(problem);
  }
}
