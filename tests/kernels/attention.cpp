// The kernels of attention by the dot product, that of pairs of bfloat16 too, and by distances: one task each, with
// every number of rows and keys. What additive scores are given, projected and prepared units, is made by other
// kernels, so those are tested through the interface.
#include "elements.hpp"
#include "reference.hpp"

using namespace testing;

namespace {

struct Problem {
  fovea::ScoreKind score = fovea::ScoreKind::dot;
  int64_t heads = 1, query_len = 1, key_len = 1, head_dim = 1, value_dim = 1;  // heads share one key/value head
  bool causal = false, masked = false;
  int64_t valid_len = -1;  // -1: all
  bool pairs = false;      // queries, keys and values of bfloat16, by products of pairs
  float centre = 0;        // around which queries and keys lie

  Dtype dtype() const { return pairs ? Dtype::bf16 : Dtype::f32; }
  const fovea::AttentionKernels &kernels(const fovea::Kernels &table) const {
    return pairs ? *pairs_of(table, score) : table.attention_of(score);
  }
  int64_t rows() const { return heads * query_len; }
};

// Operands and outputs of a problem, contiguous.
struct Task {
  Problem given;
  reference::AttentionInputs inputs;
  Elements query, key, value;
  Floats out, log_sum_exp, weights, row_max, row_scale, norms;
  GuardedMemory mask;
  int32_t valid_len;
  fovea::AttentionProblem problem{};

  static reference::AttentionInputs make_inputs(const Problem &p, Random &random) {
    reference::AttentionInputs in;
    in.heads = p.heads;
    in.query_len = p.query_len;
    in.key_len = p.key_len;
    in.query_dim = in.key_dim = p.head_dim;
    in.value_dim = p.value_dim;
    in.query = normals(p.rows() * p.head_dim, random);
    in.key = normals(p.key_len * p.head_dim, random);
    for (std::vector<float> *points : {&in.query, &in.key}) {
      for (float &number : *points) number += p.centre;
    }
    in.value = normals(p.key_len * p.value_dim, random);
    for (std::vector<float> *operand : {&in.query, &in.key, &in.value}) {
      for (float &number : *operand) number = rounded_to(number, static_cast<fovea_dtype>(p.dtype()));
    }
    in.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    if (p.score == fovea::ScoreKind::gaussian) {
      in.score.kind = reference::ScoreKind::kGaussian;
      in.score.sigmas.assign(static_cast<size_t>(p.heads), 1.0F);
    }
    in.causal = in.top_left = p.causal;
    if (p.valid_len >= 0) in.valid_lens.emplace(static_cast<size_t>(p.query_len), p.valid_len);
    if (p.masked) in.mask.emplace();
    for (int64_t n = 0; p.masked && n < p.rows() * p.key_len; ++n) in.mask->push_back(random.chance(0.6) ? 1 : 0);
    return in;
  }

  Task(const Problem &p, Random &random)
      : given(p),
        inputs(make_inputs(p, random)),
        query(inputs.query, p.dtype()),
        key(inputs.key, p.dtype()),
        value(inputs.value, p.dtype()),
        out(p.rows() * p.value_dim),
        log_sum_exp(p.rows()),
        weights(p.rows() * p.key_len),
        row_max(p.rows()),
        row_scale(p.rows()),
        norms(p.key_len),
        mask(p.masked ? inputs.mask->size() : 0),
        valid_len(static_cast<int32_t>(p.valid_len)) {
    const auto strides = [](int64_t length, int64_t dim) { return fovea::HeadStrides{0, length * dim, dim}; };
    if (p.masked) std::memcpy(mask.data(), inputs.mask->data(), mask.size());
    problem.sizes.batch = 1;
    problem.sizes.heads = problem.sizes.group = p.heads;
    problem.sizes.kv_heads = 1;
    problem.sizes.query_len = p.query_len;
    problem.sizes.key_len = p.key_len;
    problem.sizes.head_dim = problem.sizes.key_dim = problem.sizes.compared_dim = p.head_dim;
    problem.sizes.value_dim = p.value_dim;
    problem.query.data = query.data();
    problem.key.data = key.data();
    problem.value.data = value.data();
    problem.query.dtype = problem.key.dtype = problem.value.dtype = p.dtype();
    problem.outputs.out_dtype = problem.outputs.weights_dtype = Dtype::f32;
    problem.outputs.out = out.data();
    problem.query.strides = strides(p.query_len, p.head_dim);
    problem.key.strides = strides(p.key_len, p.head_dim);
    problem.value.strides = strides(p.key_len, p.value_dim);
    problem.outputs.out_strides = strides(p.query_len, p.value_dim);
    problem.score.kind = p.score;
    problem.logits.scale = inputs.scale;
    problem.pattern.has_window_right = p.causal;
    problem.empty_rows = fovea::EmptyRows::zero;
    problem.pattern.key_limit = p.key_len;
    if (p.valid_len >= 0) problem.pattern.valid_lens = &valid_len;
    if (p.masked) problem.pattern.mask = reinterpret_cast<const uint8_t *>(mask.data());
    problem.pattern.mask_strides = strides(p.query_len, p.key_len);
    problem.outputs.log_sum_exp = log_sum_exp.data();
    problem.outputs.log_sum_exp_strides = strides(p.query_len, 1);
    problem.outputs.weights = weights.data();
    problem.outputs.weights_strides = strides(p.query_len, p.key_len);
  }

  void run(const fovea::Kernels &table, void (*kernel)(const fovea::AttentionTask &), bool with_weights) {
    problem.outputs.weights_wanted = with_weights;
    if (given.score == fovea::ScoreKind::gaussian && given.head_dim > fovea::most_differences) {
      table.attention_of(given.score)
          .squared_norms(
              {problem.key.data, given.dtype(), given.head_dim, given.key_len, given.head_dim, norms.data()});
      problem.score.key_scalars = norms.data();
    }
    const int64_t floats = given.kernels(table).scratch_floats(given.head_dim, given.value_dim, given.pairs);
    const WithPlacement aligned(Placement::kEnd);  // whole lines, as plans hand it out
    const Floats scratch(fovea::round_up(floats, 16));
    fovea::AttentionTask task{};
    task.problem = &problem;
    task.row_count = given.rows();
    task.key_end = given.key_len;
    task.first_split = true;
    task.row_max = row_max.data();
    task.row_scale = row_scale.data();
    task.scratch = scratch.data();
    kernel(task);
    if (with_weights) given.kernels(table).weights(task);
  }

  // By how much the largest score may be off: a sum of head_dim terms, and the roundings of differences and scale.
  double score_error() const {
    double most = 0;
    for (int64_t r = 0; r < given.rows(); ++r) {
      for (int64_t j = 0; j < given.key_len; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < given.head_dim; ++d) {
          const double q = inputs.query[r * given.head_dim + d], k = inputs.key[j * given.head_dim + d];
          sum += given.score == fovea::ScoreKind::dot ? std::abs(q * k) : (q - k) * (q - k) / 2;
        }
        most = std::max(most, sum);
      }
    }
    return kEpsilon * static_cast<double>(given.head_dim + 6) * most * inputs.scale;
  }

  void check(bool with_weights) const {
    const auto truth = reference::attention<double>(inputs);
    const double score = 2 * score_error();
    const auto bounds = [&](const std::vector<double> &sizes, double rounding) {
      const double relative = score + kEpsilon * 8 * static_cast<double>(1 + given.key_len) + rounding;
      std::vector<double> list;
      for (const double size : sizes) list.push_back(relative * std::abs(size) + 0x1p-120);
      return list;
    };
    const double weight_rounding = given.pairs ? 0x1p-8 : 0;  // before they meet the values
    std::vector<double> lse_bounds;
    for (const double value : truth.log_sum_exp) lse_bounds.push_back(score + kEpsilon * (8 + 4 * std::abs(value)));
    CHECK_WITHIN(out.values(), truth.out, bounds(truth.weighted_magnitude, weight_rounding));
    CHECK_WITHIN(log_sum_exp.values(), truth.log_sum_exp, lse_bounds);
    if (with_weights) CHECK_WITHIN(weights.values(), truth.weights, bounds(truth.weights, 0));
  }
};

void check_problem(const fovea::Kernels &table, const Problem &problem, bool tile, Random &random) {
  CAPTURE(tile);
  CAPTURE(problem.heads);
  CAPTURE(problem.query_len);
  CAPTURE(problem.key_len);
  CAPTURE(problem.head_dim);
  CAPTURE(problem.value_dim);
  CAPTURE(problem.causal);
  CAPTURE(problem.masked);
  CAPTURE(problem.valid_len);
  Task task(problem, random);
  const fovea::AttentionKernels &kernels = problem.kernels(table);
  task.run(table, tile ? kernels.tile : kernels.rows, tile);
  task.check(tile);
}

void check_pairs(const fovea::Kernels &table, Problem problem, Random &random) {
  problem.pairs = true;
  constexpr int64_t least = 4;  // fewer are widened
  const fovea::AttentionKernels &kernels = problem.kernels(table);
  const bool few =
      kernels.rows != nullptr && problem.rows() >= least && problem.rows() <= kernels.most_few_rows(problem.head_dim);
  if (few) check_problem(table, problem, false, random);
  check_problem(table, problem, true, random);
}

// body(kernels) for those that have them.
template <typename Body>
void for_each_table_with_pairs(Body body) {
  if ((fovea::cpu_features() & fovea::feature::bfloat16_pairs) == 0) {
    MESSAGE("this processor has no products of bfloat16: not tested");
    return;
  }
  for_each_table([&](const fovea::Kernels &table) {
    if (pairs_of(table, fovea::ScoreKind::dot) != nullptr) body(table);
  });
}

constexpr fovea::ScoreKind kKinds[] = {fovea::ScoreKind::dot, fovea::ScoreKind::gaussian};

}  // namespace

TEST_SUITE("kernels attention") {
  TEST_CASE("many rows: every number of them, of keys and of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const fovea::ScoreKind kind : kKinds) {
        const fovea::AttentionKernels &kernels = table.attention_of(kind);
        const int64_t rows = kernels.tile_rows, keys = kernels.tile_keys;
        const int64_t most = rows * kernels.tile_bands(5, 6);
        for (int64_t q = 1; q <= rows + 1; ++q) check_problem(table, {kind, 1, q, 7, 5, 6}, true, random);
        for (const int64_t q : {2 * rows - 1, most - 1, most}) {
          check_problem(table, {kind, 1, q, 7, 5, 6}, true, random);
        }
        for (int64_t k = 1; k <= 15; ++k)
          check_problem(table, {kind, 1, table.rowwise->lanes + 1, k, 5, 6}, true, random);
        for (const int64_t k : {keys - 1, keys, keys + 1, 2 * keys, 2 * keys + 1}) {
          check_problem(table, {kind, 2, 5, k, 5, 6}, true, random);
        }
        for (int64_t d = 1; d <= 2 * table.rowwise->lanes + 1; ++d) {
          check_problem(table, {kind, 1, 3, 9, d, 2 * table.rowwise->lanes + 2 - d}, true, random);
        }
      }
    });
  }

  TEST_CASE("few rows: every number of them, of keys and of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const fovea::ScoreKind kind : kKinds) {
        for (int64_t q = 1; q <= table.attention_of(kind).most_few_rows(64); ++q) {
          const int64_t keys = table.attention_of(kind).few_rows_keys(q);
          for (const int64_t k : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
            check_problem(table, {kind, 1, q, k, 5, 6}, false, random);
          }
          for (const int64_t k : {keys - 1, keys, keys + 1}) check_problem(table, {kind, 1, q, k, 5, 6}, false, random);
          for (int64_t d = 1; d <= 4 * table.rowwise->lanes + 1; ++d) {
            check_problem(table, {kind, 1, q, 9, d, 4 * table.rowwise->lanes + 2 - d}, false, random);
          }
        }
        for (const int64_t d : {100, 256, 1024}) check_problem(table, {kind, 1, 1, 9, d, d}, false, random);
      }
    });
  }

  TEST_CASE("pairs of bfloat16: every number of few rows, of keys and of features") {
    for_each_table_with_pairs([](const fovea::Kernels &table) {
      Random random(base_seed());
      const fovea::AttentionKernels &kernels = *pairs_of(table, fovea::ScoreKind::dot);
      const int64_t rows = kernels.tile_rows;
      for (int64_t q = 1; q <= kernels.most_few_rows(64); ++q) {
        const int64_t keys = kernels.few_rows_keys(q);
        for (int64_t k = 1; k <= 26; ++k)
          check_pairs(table, {.query_len = q, .key_len = k, .head_dim = 6, .value_dim = 5}, random);
        for (const int64_t k : {keys - 1, keys, keys + 1, keys + 13}) {
          check_pairs(table, {.query_len = q, .key_len = k, .head_dim = 10, .value_dim = 40}, random);
        }
        for (int64_t d = 2; d <= 72; d += 2) {
          check_pairs(table, {.query_len = q, .key_len = 9, .head_dim = d, .value_dim = 73 - d}, random);
        }
        check_pairs(table, {.query_len = q, .key_len = 31, .head_dim = 600, .value_dim = 600}, random);
      }
      for (const int64_t q : {rows / 2, rows / 2 + 1, rows - 1, rows + 1}) {
        check_pairs(table, {.query_len = q, .key_len = 100, .head_dim = 34, .value_dim = 35}, random);
      }
    });
  }

  TEST_CASE("pairs of bfloat16, Gaussian: every number of rows, of keys and of features, near and far") {
    for_each_table_with_pairs([](const fovea::Kernels &table) {
      Random random(base_seed());
      constexpr fovea::ScoreKind kind = fovea::ScoreKind::gaussian;
      const int64_t rows = pairs_of(table, kind)->tile_rows, keys = pairs_of(table, kind)->tile_keys;
      for (const float centre : {0.0F, 2.0F, 40.0F}) {
        const auto check = [&](int64_t q, int64_t k, int64_t d, int64_t v) {
          check_pairs(table,
                      {.score = kind, .query_len = q, .key_len = k, .head_dim = d, .value_dim = v, .centre = centre},
                      random);
        };
        for (int64_t q = 1; q <= rows + 1; ++q) check(q, 7, 18, 5);
        for (const int64_t q : {2 * rows - 1, 4 * rows}) check(q, 7, 18, 5);
        for (int64_t k = 1; k <= 26; ++k) check(17, k, 20, 6);
        for (const int64_t k : {keys - 1, keys, keys + 1, 2 * keys + 1}) check(50, k, 20, 6);
        for (int64_t d = 2; d <= 72; d += 2) check(33, 9, d, 73 - d);
        for (const int64_t d : {126, 128, 130, 600}) check(33, 31, d, d);
      }
    });
  }

  TEST_CASE("pairs of bfloat16: masks, lengths and causal, at random") {
    for_each_table_with_pairs([](const fovea::Kernels &table) {
      for (int64_t n = 0; n < case_count(80); ++n) {
        const uint64_t seed = base_seed() + 1000 + static_cast<uint64_t>(n);
        CAPTURE(seed);
        Random random(seed);
        Problem p;
        p.query_len = random.integer(1, 20);
        p.key_len = random.integer(1, 130);
        p.head_dim = 2 * random.integer(1, 40);
        p.value_dim = random.integer(1, 80);
        p.causal = random.chance(0.4);
        p.masked = random.chance(0.4);
        if (random.chance(0.5)) p.valid_len = random.integer(0, p.key_len);
        check_pairs(table, p, random);
        p.score = fovea::ScoreKind::gaussian;
        p.query_len = random.integer(1, 100);
        p.centre = random.pick({0.0F, 3.0F});
        check_pairs(table, p, random);
      }
    });
  }

  TEST_CASE("masks, lengths and causal, at random") {
    for_each_table([](const fovea::Kernels &table) {
      for (int64_t n = 0; n < case_count(80); ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        CAPTURE(seed);
        Random random(seed);
        const bool tile = random.chance(0.6);
        Problem p;
        p.score = random.pick({kKinds[0], kKinds[1]});
        p.heads = tile ? random.integer(1, 3) : 1;
        p.query_len = random.integer(
            1, tile ? table.attention_of(p.score).tile_rows / 3 : table.attention_of(p.score).most_few_rows(64));
        p.key_len = random.integer(1, 130);
        p.head_dim = random.integer(1, 40);
        p.value_dim = random.integer(1, 40);
        p.centre = random.pick({0.0F, 3.0F});
        p.causal = random.chance(0.4);
        p.masked = random.chance(0.4);
        if (random.chance(0.5)) p.valid_len = random.integer(0, p.key_len);
        check_problem(table, p, tile, random);
      }
    });
  }
}
