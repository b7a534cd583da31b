// Scaled dot-product attention: sizes around the edges of tiles and registers, options, layouts.
#include "bits.hpp"

#include "support/contexts.hpp"

namespace testing {
namespace {

// What the values behind a mask are replaced by: they must not be read into the result.
void spoil(AttentionProblem &problem, const std::function<bool(int64_t b, int64_t g, int64_t j)> &masked, float value) {
  const AttentionSizes &s = problem.sizes;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t g = 0; g < s.kv_heads; ++g) {
      for (int64_t j = 0; j < s.key_len; ++j) {
        if (!masked(b, g, j)) continue;
        for (int64_t d = 0; d < s.key_size(); ++d) problem.key(b, g, j, d) = value;
        for (int64_t d = 0; d < s.value_dim; ++d) problem.value(b, g, j, d) = value;
      }
    }
  }
}

std::vector<int64_t> some_lens(const AttentionProblem &problem, Numbers &numbers, bool per_query) {
  const AttentionSizes &s = problem.sizes;
  std::vector<int64_t> lens;
  const int64_t count = per_query ? s.batch * s.query_len : s.batch;
  for (int64_t n = 0; n < count; ++n) lens.push_back(numbers.integer(0, s.key_len));
  lens.front() = s.key_len - 3;
  if (count > 2) lens[1] = 0;
  return lens;
}

void set_random_mask(AttentionProblem &problem, Numbers &numbers) {
  problem.set_mask(
      [&](int64_t, int64_t, int64_t i, int64_t j) { return i % 9 != 5 && (j == 2 || !numbers.chance(3)); });
}

void set_bias(AttentionProblem &problem, Numbers &numbers, const Shape &shape) {
  problem.bias.emplace(numbers.tensor(shape));
}

void set_slopes(AttentionProblem &problem) {
  float slope = 0.5F;
  problem.alibi_slopes.emplace(Shape{problem.sizes.heads}).fill([&] { return slope *= 0.75F; });
}

struct Option {
  const char *name;
  std::function<void(AttentionProblem &, Numbers &)> set;
};

std::vector<Option> masks() {
  return {
      {"lens", [](auto &p, auto &n) { p.set_valid_lens(some_lens(p, n, false)); }},
      {"lens64", [](auto &p, auto &n) { p.set_valid_lens(some_lens(p, n, false), true); }},
      {"lens-each-query",
       [](auto &p, auto &n) {
         p.valid_lens32.emplace(Shape{p.sizes.batch, p.sizes.query_len});
         const std::vector<int64_t> lens = some_lens(p, n, true);
         p.valid_lens32->assign(std::vector<int32_t>(lens.begin(), lens.end()));
       }},
      {"mask", set_random_mask},
      {"mask-broadcast",
       [](auto &p, auto &n) {
         p.mask.emplace(Shape{1, 1, p.sizes.query_len, p.sizes.key_len}).fill([&] { return uint8_t{!n.chance(4)}; });
       }},
      {"mask-whole-tiles",
       [](auto &p, auto &) { p.set_mask([](auto, auto, auto, int64_t j) { return j / 50 == 2; }); }},
      {"causal", [](auto &p, auto &) { p.flags = FOVEA_CAUSAL; }},
      {"causal-top-left", [](auto &p, auto &) { p.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT; }},
      {"causal-offset",
       [](auto &p, auto &) {
         p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
         p.query_offset = 21;
       }},
      {"window-left",
       [](auto &p, auto &) {
         p.flags = FOVEA_WINDOW_LEFT;
         p.window_left = 17;
       }},
      {"window-right",
       [](auto &p, auto &) {
         p.flags = FOVEA_WINDOW_RIGHT | FOVEA_QUERY_OFFSET;
         p.window_right = 40;
         p.query_offset = -5;
       }},
      {"window-both",
       [](auto &p, auto &) {
         p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
         p.window_left = 60;
         p.window_right = 7;
       }},
      {"leave-one-out", [](auto &p, auto &) { p.flags = FOVEA_LEAVE_ONE_OUT; }},
      {"lens-uniform",
       [](auto &p, auto &n) {
         p.set_valid_lens(some_lens(p, n, false));
         p.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
         p.valid_lens32->at(Shape{p.sizes.batch - 1}) = 0;
       }},
      {"lens-nan",
       [](auto &p, auto &n) {
         p.set_valid_lens(some_lens(p, n, false));
         p.empty_rows = FOVEA_EMPTY_ROWS_NAN;
         p.valid_lens32->at(Shape{p.sizes.batch - 1}) = 0;
       }},
      {"lens-nan-behind",
       [](auto &p, auto &) {
         p.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(p.sizes.batch), p.sizes.key_len / 2 + 3));
         spoil(
             p, [&](auto, auto, int64_t j) { return j >= p.sizes.key_len / 2 + 3; }, kNan);
       }},
      {"mask-nan-behind",
       [](auto &p, auto &) {
         p.set_mask([](auto, auto, int64_t i, int64_t j) { return j % 5 != 1 || i % 3 == 1; });
         spoil(
             p, [](auto, auto, int64_t j) { return j % 5 == 1; }, kNan);
       }},
      {"mask-infinity-behind",
       [](auto &p, auto &) {
         p.set_mask([](auto, auto, auto, int64_t j) { return j % 7 != 3; });
         spoil(
             p, [](auto, auto, int64_t j) { return j % 7 == 3; }, kInfinity);
       }},
      {"causal-nan-behind",
       [](auto &p, auto &) {
         p.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
         p.query_offset = p.sizes.key_len - p.sizes.query_len - 2;
         spoil(
             p, [&](auto, auto, int64_t j) { return j + 2 >= p.sizes.key_len; }, kNan);
       }},
  };
}

// Positions of each batch entry; masks that end before the keys do.
std::vector<Option> uneven_batches() {
  const auto set_offsets = [](AttentionProblem &p, bool wide) {
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b < p.sizes.batch; ++b) offsets.push_back(p.sizes.key_len - p.sizes.query_len - 19 * b);
    p.set_query_offsets(offsets, wide);
  };
  return {
      {"offsets-causal",
       [=](auto &p, auto &) {
         p.flags = FOVEA_CAUSAL;
         set_offsets(p, false);
       }},
      {"offsets64-window",
       [=](auto &p, auto &) {
         p.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
         p.window_left = 30;
         p.window_right = 4;
         set_offsets(p, true);
       }},
      {"offsets-alibi",
       [=](auto &p, auto &) {
         p.flags = FOVEA_LEAVE_ONE_OUT;
         set_slopes(p);
         set_offsets(p, false);
       }},
      {"offsets-empty",
       [](auto &p, auto &) {
         p.flags = FOVEA_CAUSAL;
         std::vector<int64_t> offsets(static_cast<size_t>(p.sizes.batch), 50);
         offsets.back() = -p.sizes.query_len;
         p.set_query_offsets(offsets);
       }},
      {"mask-short",
       [](auto &p, auto &n) {
         p.mask.emplace(Shape{1, p.sizes.heads, p.sizes.query_len, p.sizes.key_len - 41}).fill([&] {
           return uint8_t{!n.chance(4)};
         });
       }},
      {"bias-short",
       [](auto &p, auto &n) {
         set_bias(p, n, {1, 1, p.sizes.query_len, p.sizes.key_len / 2});
       }},
      {"mask-short-nan-behind",
       [](auto &p, auto &) {
         p.mask.emplace(Shape{p.sizes.batch, 1, 1, p.sizes.key_len - 23}).fill([] { return uint8_t{1}; });
         spoil(
             p, [&](auto, auto, int64_t j) { return j >= p.sizes.key_len - 23; }, kNan);
       }},
  };
}

std::vector<Option> scores_and_weights() {
  return {
      {"alibi", [](auto &p, auto &) { set_slopes(p); }},
      {"bias", [](auto &p, auto &n) { set_bias(p, n, p.score_shape()); }},
      {"bias-broadcast",
       [](auto &p, auto &n) {
         set_bias(p, n, {1, p.sizes.heads, 1, p.sizes.key_len});
       }},
      {"bias-infinity",
       [](auto &p, auto &n) {
         set_bias(p, n, {1, 1, p.sizes.query_len, p.sizes.key_len});
         p.bias->fill([&] { return n.chance(4) ? -kInfinity : n.next(); });
       }},
      {"softcap", [](auto &p, auto &) { p.softcap = 3; }},
      {"sinks", [](auto &p, auto &n) { p.sinks.emplace(n.tensor({p.sizes.heads})); }},
      {"sinks-empty",
       [](auto &p, auto &n) {
         p.sinks.emplace(n.tensor({p.sizes.heads}));
         p.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(p.sizes.batch), 0));
       }},
      {"dropout",
       [](auto &p, auto &) {
         p.dropout = 0.25F;
         p.dropout_seed = 0x123456789abcdef;
       }},
      {"scale", [](auto &p, auto &) { p.scale = 0.375F; }},
      {"scale-negative", [](auto &p, auto &) { p.scale = -0.375F; }},
      {"scale-tiny", [](auto &p, auto &) { p.scale = 0x1p-80F; }},
      {"scale-large", [](auto &p, auto &) { p.scale = 300; }},
      {"average-weights", [](auto &p, auto &) { p.flags = FOVEA_AVERAGE_WEIGHTS; }},
      {"query-invariant", [](auto &p, auto &) { p.flags = FOVEA_QUERY_INVARIANT; }},
      {"nan-attended",
       [](auto &p, auto &) {
         p.key(0, 0, 11, 3) = kNan;
         p.value(1, 0, 11, 5) = kNan;
       }},
      {"infinite-value",
       [](auto &p, auto &) {
         p.value(0, 0, 13, 1) = kInfinity;
         p.value(0, 0, 12, 0) = -kInfinity;
       }},
      {"denormal-values", [](auto &p, auto &n) { p.value.fill([&] { return n.next() * 0x1p-127F; }); }},
      {"equal-scores", [](auto &p, auto &) { p.query.fill([] { return 0.0F; }); }},
      {"everything",
       [](auto &p, auto &n) {
         p.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT | FOVEA_AVERAGE_WEIGHTS;
         p.window_left = p.sizes.key_len - 5;
         p.softcap = 20;
         p.dropout = 0.1F;
         p.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(p.sizes.batch), p.sizes.key_len - 3));
         set_random_mask(p, n);
         set_bias(p, n, {1, 1, p.sizes.query_len, p.sizes.key_len});
         set_slopes(p);
         p.sinks.emplace(n.tensor({p.sizes.heads}));
       }},
  };
}

}  // namespace

void add_sweep(const std::string &name, const Sweep &sweep, const AddOfSize &add, BitsRows &rows) {
  for (const std::vector<int64_t> &sizes : sweep) {
    BitsRows parts;
    for (const int64_t size : sizes) add(name + "." + number(size), size, parts);
    BitsRow row = parts.front();
    row.name = name + "." + number(sizes.front()) + (sizes.size() > 1 ? "-" + number(sizes.back()) : "");
    row.make = [parts] {
      std::vector<BitsCall> calls;
      for (const BitsRow &part : parts) calls.push_back(part.make());
      return [calls](const fovea_context *context, Digest &digest) {
        for (const BitsCall &call : calls) call(context, digest);
      };
    };
    rows.push_back(std::move(row));
  }
}

BitsRows all_bits_rows() {
  BitsRows rows;
  add_size_rows(rows);
  add_option_rows(rows);
  add_score_rows(rows);
  add_product_rows(rows);
  add_row_wise_rows(rows);
  add_position_rows(rows);
  add_multi_head_rows(rows);
  add_ragged_rows(rows);
  add_scaled_rows(rows);
  add_gradient_rows(rows);
  return rows;
}

AttentionProblem make_problem(const AttentionRow &row, Numbers &numbers) {
  AttentionProblem problem;
  const AttentionSizes &s = problem.sizes = row.sizes;
  problem.rank = row.rank;
  problem.out_layout = row.layout;
  problem.query = numbers.fill(problem.make_tensor({s.batch, s.heads, s.query_len, s.head_dim}, row.layout));
  problem.key = numbers.fill(problem.make_tensor({s.batch, s.kv_heads, s.key_len, s.key_size()}, row.layout));
  problem.value = numbers.fill(problem.make_tensor({s.batch, s.kv_heads, s.key_len, s.value_dim}, row.layout));
  if (row.kind != FOVEA_SCORE_DOT) problem.score = make_score(row, numbers);
  if (row.options) row.options(problem, numbers);
  return problem;
}

void add_attention(const std::string &name, const AttentionRow &row, BitsRows &rows) {
  const auto make = [name, row] {
    Numbers numbers(name);
    const auto problem = std::make_shared<AttentionProblem>(make_problem(row, numbers));
    return [problem, weights = row.weights](const fovea_context *context, Digest &digest) {
      const AttentionResult result = problem->make_result(weights);
      REQUIRE_OK(problem->run(context, result));
      digest.add(result);
      const AttentionResult planned = problem->make_result(weights);
      const AttentionArguments arguments(*problem, planned);
      fovea_plan *plan = nullptr;
      REQUIRE_OK(arguments.plan(context, &plan));
      std::vector<char> workspace(fovea_plan_workspace_size(plan));
      const fovea_attention_buffers buffers = buffers_of(arguments);
      const fovea_status status = fovea_attention_run(plan, &buffers, workspace.data(), workspace.size());
      fovea_plan_destroy(plan);
      REQUIRE_OK(status);
      Digest in_one_go, by_plan;
      in_one_go.add(result);
      by_plan.add(planned);
      CHECK_MESSAGE(in_one_go.value() == by_plan.value(), "a planned run gives other bits than the call");
    };
  };
  rows.push_back({name, make, projects_scores(row.kind), has_hidden(row.kind)});
}

void add_size_rows(BitsRows &rows) {
  // `one` size and others that go by it.
  const auto sweep = [&](const std::string &name, const Sweep &sizes,
                         const std::function<AttentionSizes(int64_t one)> &sizes_of, bool weights = false) {
    const auto add = [&](const std::string &full, int64_t one, BitsRows &some) {
      add_attention(full, {.sizes = sizes_of(one), .weights = weights}, some);
    };
    add_sweep("sdpa." + name, sizes, add, rows);
  };
  const Sweep queries = {{2, 3}, {4, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {63, 64, 65}, {127, 129}, {255, 257}};
  sweep("queries", queries,
        [](int64_t q) { return AttentionSizes{.query_len = q, .key_len = 100, .head_dim = 24, .value_dim = 20}; });
  // With features enough for more rows than half a register to be few.
  sweep("queries-wide", {{8, 9}, {12, 13}},
        [](int64_t q) { return AttentionSizes{.query_len = q, .key_len = 150, .head_dim = 64, .value_dim = 64}; });
  const Sweep keys = {{0},          {1, 2, 3},    {4, 5, 6, 7, 8}, {11, 12, 13},
                      {47, 48, 49}, {95, 96, 97}, {191, 192, 193}, {289}};
  sweep("keys", keys,
        [](int64_t k) { return AttentionSizes{.query_len = 35, .key_len = k, .head_dim = 12, .value_dim = 9}; });
  const Sweep many_keys = {{0},        {1, 2}, {15, 16, 17}, {47, 48, 49}, {96, 97}, {191, 192, 193}, {383, 384, 385},
                           {767, 769}, {5000}};
  sweep("one-query.keys", many_keys,
        [](int64_t k) { return AttentionSizes{.query_len = 1, .key_len = k, .head_dim = 12, .value_dim = 9}; });
  sweep("one-query.heads.keys", {{1535, 1536, 1537}, {3073}}, [](int64_t k) {
    return AttentionSizes{.heads = 16, .kv_heads = 16, .query_len = 1, .key_len = k, .head_dim = 12, .value_dim = 9};
  });
  const Sweep features = {{1, 2, 3},    {4, 5},       {7, 8, 9}, {15, 16, 17}, {31, 32, 33},
                          {47, 48, 49}, {63, 64, 65}, {100},     {257},        {1024}};
  for (const int64_t q : {1, 37}) {
    sweep(q == 1 ? "one-query.features" : "features", features, [q](int64_t d) {
      const int64_t other = d < 100 ? 66 - d + d % 3 : d;
      return AttentionSizes{.query_len = q, .key_len = 53, .head_dim = d, .value_dim = other};
    });
  }
  const auto weighed = [](int64_t q) {
    return AttentionSizes{.query_len = q, .key_len = 101, .head_dim = 20, .value_dim = 12};
  };
  sweep("weights", {{1}, {5}, {33}, {65}, {130}}, weighed, true);
}

namespace {

void add_heads_and_layouts(BitsRows &rows) {
  const auto add = [&](const std::string &name, AttentionRow row) { add_attention("sdpa." + name, row, rows); };
  // Split keys: few blocks of rows, many keys.
  for (const int64_t q : {1, 2, 4, 40, 130}) {
    add("splits." + number(q),
        {.sizes = {.heads = 2, .kv_heads = 1, .query_len = q, .key_len = 1500, .head_dim = 16, .value_dim = 20}});
  }
  add("splits.masked",
      {.sizes = {.batch = 2, .heads = 3, .kv_heads = 3, .query_len = 1, .key_len = 1200, .head_dim = 8, .value_dim = 8},
       .options = [](AttentionProblem &p, Numbers &) {
         p.set_valid_lens({1100, 300});
         p.sinks.emplace(Shape{3}).fill([] { return 0.5F; });
       }});
  add("splits.query-invariant", {.sizes = {.query_len = 2, .key_len = 1000, .head_dim = 16, .value_dim = 16},
                                 .options = [](AttentionProblem &p, Numbers &) { p.flags = FOVEA_QUERY_INVARIANT; }});
  for (const int64_t group : {1, 2, 3, 8}) {
    add("grouped." + number(group), {.sizes = {.batch = 2,
                                               .heads = 2 * group,
                                               .kv_heads = 2,
                                               .query_len = 5,
                                               .key_len = 70,
                                               .head_dim = 16,
                                               .value_dim = 16},
                                     .options = [](AttentionProblem &p, Numbers &) { p.flags = FOVEA_CAUSAL; },
                                     .weights = true});
  }
  const AttentionSizes sizes = {
      .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 33, .key_len = 50, .head_dim = 19, .value_dim = 18};
  add("heads-last", {.sizes = sizes, .weights = true, .layout = Layout::kHeadsLast});
  add("padded", {.sizes = sizes, .layout = Layout::kPadded});
  AttentionSizes one_head = sizes;
  one_head.heads = one_head.kv_heads = 1;
  add("rank-3", {.sizes = one_head, .rank = 3});
  one_head.batch = 1;
  add("rank-2", {.sizes = one_head, .weights = true, .rank = 2});
  add("repeated-keys", {.sizes = sizes, .options = [](AttentionProblem &p, Numbers &numbers) {
                          p.key = numbers.tensor(p.key.shape(), {0, 0, 19, 1});
                          p.value = numbers.tensor(p.value.shape(), {0, 0, -20, 1});
                        }});
}

}  // namespace

void add_option_rows(BitsRows &rows) {
  std::vector<Option> options = masks();
  for (Option &option : scores_and_weights()) options.push_back(std::move(option));
  for (Option &option : uneven_batches()) options.push_back(std::move(option));
  // Many rows, one, and few of grouped heads; more queries than keys.
  const AttentionSizes many = {
      .batch = 3, .heads = 2, .kv_heads = 1, .query_len = 37, .key_len = 150, .head_dim = 16, .value_dim = 17};
  AttentionSizes one = many, few = many, long_queries = many;
  one.heads = 1;
  one.query_len = 1;
  few.query_len = 2;
  long_queries.query_len = 151;
  long_queries.key_len = 70;
  long_queries.batch = 1;
  for (const Option &option : options) {
    const std::string name = std::string("sdpa.option.") + option.name;
    add_attention(name + ".many", {.sizes = many, .options = option.set, .weights = true}, rows);
    add_attention(name + ".few", {.sizes = few, .options = option.set}, rows);
    add_attention(name + ".one", {.sizes = one, .options = option.set}, rows);
  }
  for (const size_t n : {3, 6, 9, 12}) {
    add_attention(std::string("sdpa.option.") + options[n].name + ".long-queries",
                  {.sizes = long_queries, .options = options[n].set}, rows);
  }
  add_heads_and_layouts(rows);
}

}  // namespace testing
