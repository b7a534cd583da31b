// Attention by every score function: sizes, hidden units of all forms, masks, prepared keys; kernel regression.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/prepared_keys.hpp"

namespace testing {
namespace {

constexpr int32_t kOtherScores[] = {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT,
                                    FOVEA_SCORE_GAUSSIAN};

struct Option {
  const char *name;
  bool weights;
  std::function<void(AttentionProblem &, Numbers &)> set;
};

const std::vector<Option> &options() {
  static const std::vector<Option> list = {{"plain", false, [](auto &, auto &) {}},
                                           {"weights", true, [](auto &, auto &) {}},
                                           {"lens-nan-behind", true,
                                            [](auto &p, auto &) {
                                              std::vector<int64_t> lens(static_cast<size_t>(p.sizes.batch),
                                                                        p.sizes.key_len / 2 + 1);
                                              lens.back() = 0;
                                              p.set_valid_lens(lens);
                                              for (int64_t d = 0; d < p.sizes.value_dim; ++d)
                                                p.value(0, 0, p.sizes.key_len - 1, d) = kNan;
                                              for (int64_t d = 0; d < p.sizes.key_size(); ++d)
                                                p.key(0, 0, p.sizes.key_len - 1, d) = kNan;
                                            }},
                                           {"mask-dropout", false,
                                            [](auto &p, auto &n) {
                                              p.set_mask([&](auto, auto, auto, auto) { return !n.chance(3); });
                                              p.dropout = 0.2F;
                                              p.dropout_seed = 99;
                                            }},
                                           {"causal-bias", false,
                                            [](auto &p, auto &n) {
                                              p.flags = FOVEA_CAUSAL;
                                              p.bias.emplace(n.tensor({1, 1, p.sizes.query_len, p.sizes.key_len}));
                                              p.softcap = 5;
                                            }},
                                           {"scale-sinks-invariant", false, [](auto &p, auto &n) {
                                              p.flags = FOVEA_QUERY_INVARIANT;
                                              p.scale = 0.75F;
                                              p.sinks.emplace(n.tensor({p.sizes.heads}));
                                            }}};
  return list;
}

AttentionSizes score_sizes(int32_t kind, int64_t query_len, int64_t key_len) {
  return {.batch = 2,
          .heads = 2,
          .kv_heads = 1,
          .query_len = query_len,
          .key_len = key_len,
          .head_dim = 20,
          .value_dim = 12,
          .key_dim = takes_two_dims(kind) ? 13 : 0};
}

// More hidden units than are summed at once, and fewer than share a reciprocal; arguments of all sizes.
void add_units(BitsRows &rows) {
  for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
    for (const int64_t q : {1, 33}) {
      const std::string name = "scores." + score_name(kind) + (q == 1 ? ".one-query" : "");
      const AttentionSizes sizes = score_sizes(kind, q, 51);
      const Sweep units = {{1, 3, 4, 5}, {15, 16, 17}, {31, 32, 33}, {64}, {100}, {1030}, {4096}};
      add_sweep(
          name + ".units", units,
          [&](const std::string &full, int64_t hidden, BitsRows &some) {
            add_attention(full, {.sizes = sizes, .kind = kind, .hidden = hidden}, some);
          },
          rows);
      const auto add = [&](const std::string &what, int64_t hidden, float factor) {
        add_attention(name + ".reach." + what, {.sizes = sizes, .kind = kind, .hidden = hidden, .unit_factor = factor},
                      rows);
      };
      add("tiny", 40, 0x1p-9F);
      add("tangent", 40, 0x1p-4F);
      add("shared", 40, 2);
      add("single", 40, 8);
      add("direct", 40, 64);
      add("huge", 40, 0x1p60F);
      add("few-units", 20, 4);
    }
  }
}

void add_gaussian(BitsRows &rows) {
  const auto add = [&](const std::string &what, AttentionRow row) {
    row.kind = FOVEA_SCORE_GAUSSIAN;
    add_attention("scores.gaussian." + what, row, rows);
  };
  for (const int64_t q : {1, 33}) {
    const std::string name = q == 1 ? "scores.gaussian.one-query.features" : "scores.gaussian.features";
    add_sweep(
        name, {{1, 2}, {15, 16, 17}, {33}, {64}, {130}},
        [q](const std::string &full, int64_t d, BitsRows &some) {
          const AttentionSizes sizes = {.query_len = q, .key_len = 70, .head_dim = d, .value_dim = 8};
          add_attention(full, {.sizes = sizes, .kind = FOVEA_SCORE_GAUSSIAN}, some);
        },
        rows);
  }
  const AttentionSizes sizes = {
      .heads = 2, .kv_heads = 2, .query_len = 40, .key_len = 60, .head_dim = 24, .value_dim = 8};
  add("far-from-the-origin", {.sizes = sizes, .options = [](AttentionProblem &p, Numbers &n) {
                                p.query.fill([&] { return 1000 + n.next(); });
                                p.key.fill([&] { return 1000 + n.next(); });
                              }});
  add("some-near", {.sizes = sizes, .options = [](AttentionProblem &p, Numbers &n) {
                      p.key.fill([&] { return n.next(); });
                      for (int64_t j = 0; j < 60; j += 3) {
                        for (int64_t d = 0; d < 24; ++d) p.key(0, 0, j, d) = p.query(0, 0, j % 40, d);
                      }
                    }});
  add("sigmas", {.sizes = sizes, .options = [](AttentionProblem &p, Numbers &) {
                   p.score->sigma = 0;
                   p.score->sigmas.emplace(Shape{2}).assign({1.5F, 7});
                 }});
}

void add_score_edges(BitsRows &rows) {
  for (const int32_t kind : kOtherScores) {
    const std::string name = "scores." + score_name(kind) + ".";
    for (const Option &option : options()) {
      for (const int64_t q : {1, 3, 37}) {
        AttentionRow row = {.sizes = score_sizes(kind, q, 75), .options = option.set, .kind = kind, .hidden = 36};
        row.weights = option.weights && q != 1;
        add_attention(name + option.name + ".queries." + number(q), row, rows);
      }
    }
    add_sweep(
        name + "keys", {{0, 1}, {95, 96, 97}},
        [kind](const std::string &full, int64_t k, BitsRows &some) {
          add_attention(full, {.sizes = score_sizes(kind, 34, k), .kind = kind, .hidden = 36}, some);
        },
        rows);
    add_attention(name + "splits", {.sizes = score_sizes(kind, 1, 900), .kind = kind, .hidden = 36}, rows);
    add_attention(name + "heads-last", {.sizes = score_sizes(kind, 34, 40), .kind = kind, .layout = Layout::kHeadsLast},
                  rows);
    if (!takes_two_dims(kind)) continue;
    // Enough rows, features and units for projections by other kernels, where the set has them.
    AttentionSizes large = {.query_len = 40, .key_len = 45, .head_dim = 70, .value_dim = 16, .key_dim = 66};
    add_attention(name + "large", {.sizes = large, .kind = kind, .hidden = 72}, rows);
    std::swap(large.query_len, large.key_len);
    add_attention(name + "large-more-queries", {.sizes = large, .kind = kind, .hidden = 72}, rows);
  }
}

// Appended in two parts, forgotten in part and appended again; attended in one go and planned.
void add_prepared(BitsRows &rows) {
  for (const int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
    for (const int64_t q : {1, 34}) {
      const std::string name = "prepared." + score_name(kind) + ".queries." + number(q);
      const auto make = [name, kind, q] {
        Numbers numbers(name);
        const AttentionRow row = {.sizes = score_sizes(kind, q, 70), .kind = kind, .hidden = 37};
        const auto problem = std::make_shared<AttentionProblem>(make_problem(row, numbers));
        return [problem](const fovea_context *context, Digest &digest) {
          const Keys keys = make_keys(context, *problem, 80);
          append(context, keys, *problem, 0, 50);
          REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 41));
          append(context, keys, *problem, 41, 70);
          for (const bool weights : {false, true}) {
            const AttentionResult result = problem->make_result(weights);
            REQUIRE_OK(attend(context, *problem, keys, result));
            digest.add(result);
          }
          const AttentionResult result = problem->make_result(false);
          const AttentionArguments call(*problem, result);
          fovea_plan *plan = nullptr;
          REQUIRE_OK(fovea_attention_prepared_plan_create(context, &call.query, keys.get(), &call.value, &call.out,
                                                          &call.options, &plan));
          fovea_attention_buffers buffers{};
          buffers.struct_size = sizeof buffers;
          buffers.query = problem->query.data();
          buffers.value = problem->value.data();
          buffers.out = result.out.data();
          buffers.log_sum_exp = result.log_sum_exp->data();
          std::vector<char> workspace(fovea_plan_workspace_size(plan));
          const fovea_status status = fovea_attention_run(plan, &buffers, workspace.data(), workspace.size());
          fovea_plan_destroy(plan);
          REQUIRE_OK(status);
          digest.add(result);
        };
      };
      rows.push_back({name, make, true, has_hidden(kind)});
    }
  }
}

void add_regression(BitsRows &rows) {
  struct Case {
    const char *name;
    int64_t queries, inputs, features, targets;
    uint32_t flags;
    bool weights;
  };
  for (const Case &c : {Case{"plain", 50, 60, 3, 2, 0, false}, Case{"weights", 50, 60, 3, 2, 0, true},
                        Case{"leave-one-out", 60, 60, 20, 5, FOVEA_LEAVE_ONE_OUT, true},
                        Case{"one-query", 1, 500, 1, 1, 0, false}, Case{"no-inputs", 4, 0, 2, 3, 0, false}}) {
    const std::string name = std::string("kernel-regression.") + c.name;
    const auto make = [name, c] {
      Numbers numbers(name);
      const auto queries = std::make_shared<Tensor<float>>(numbers.tensor({c.queries, c.features}));
      const auto inputs = std::make_shared<Tensor<float>>(numbers.tensor({c.inputs, c.features}));
      const auto targets = std::make_shared<Tensor<float>>(numbers.tensor({c.inputs, c.targets}));
      return [=](const fovea_context *context, Digest &digest) {
        const Tensor<float> out(Shape{c.queries, c.targets}), weights(Shape{c.queries, c.inputs});
        const fovea_tensor q = queries->view(), x = inputs->view(), y = targets->view(), to = out.view();
        const fovea_tensor w = weights.view();
        fovea_kernel_regression_options options{};
        options.struct_size = sizeof options;
        options.flags = c.flags;
        options.sigma = 0.75F;
        options.weights = c.weights ? &w : nullptr;
        REQUIRE_OK(fovea_kernel_regression(context, &q, &x, &y, &to, &options));
        digest.add(out);
        if (c.weights) digest.add(weights);
      };
    };
    rows.push_back({name, make});
  }
}

}  // namespace

ScoreFunction make_score(const AttentionRow &row, Numbers &numbers) {
  const int64_t q = row.sizes.head_dim, k = row.sizes.key_size(), h = row.hidden;
  ScoreFunction score;
  score.kind = row.kind;
  switch (row.kind) {
    case FOVEA_SCORE_BILINEAR: score.weight.emplace(numbers.tensor({q, k}, weight_factor(q) * weight_factor(k))); break;
    case FOVEA_SCORE_ADDITIVE:
      score.query_weight.emplace(numbers.tensor({h, q}, row.unit_factor * weight_factor(q)));
      score.key_weight.emplace(numbers.tensor({h, k}, row.unit_factor * weight_factor(k)));
      score.score_vector.emplace(numbers.tensor({h}, weight_factor(h)));
      break;
    case FOVEA_SCORE_CONCAT:
      score.weight.emplace(numbers.tensor({h, q + k}, row.unit_factor * weight_factor(q + k)));
      score.bias.emplace(numbers.tensor({h}, row.unit_factor));
      score.score_vector.emplace(numbers.tensor({h}, weight_factor(h)));
      break;
    case FOVEA_SCORE_GAUSSIAN: score.sigma = 1 / weight_factor(q); break;
    default: break;
  }
  return score;
}

void add_score_rows(BitsRows &rows) {
  add_score_edges(rows);
  add_units(rows);
  add_gaussian(rows);
  add_prepared(rows);
  add_regression(rows);
}

}  // namespace testing
