#include "random_attention.hpp"

#include <algorithm>

namespace testing {
namespace {

int64_t random_size(Random &random, int64_t most) {
  switch (random.integer(0, 3)) {
    case 0: return random.integer(1, std::min<int64_t>(most, 4));
    case 1: return std::min(most, random.pick<int64_t>({15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}));
    default: return random.integer(1, most);
  }
}

AttentionSizes random_sizes(Random &random, int64_t most_len, int64_t most_dim) {
  AttentionSizes sizes;
  sizes.batch = random.integer(1, 3);
  sizes.kv_heads = random.integer(1, 3);
  sizes.heads = sizes.kv_heads * random.pick<int64_t>({1, 1, 2, 3, 4});
  sizes.query_len = random.chance(0.3) ? random.integer(1, 3) : random_size(random, most_len);
  sizes.key_len = random_size(random, most_len);
  sizes.head_dim = random_size(random, most_dim);
  sizes.value_dim = random.chance(0.5) ? sizes.head_dim : random_size(random, most_dim);
  if (random.chance(0.02)) sizes.batch = 0;
  if (random.chance(0.02)) sizes.query_len = 0;
  if (random.chance(0.02)) sizes.key_len = 0;
  return sizes;
}

// Each axis but the last is given whole, as size 1, or as stride 0.
template <typename T>
Tensor<T> random_broadcast(const AttentionProblem &problem, Random &random) {
  Shape shape = problem.shape_of(problem.score_shape());
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    if (random.chance(0.3)) shape[axis] = 1;
  }
  if (random.chance(0.2)) shape.back() = random.integer(0, shape.back());
  Shape strides = contiguous_strides(shape);
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    if (random.chance(0.2)) strides[axis] = 0;
  }
  return Tensor<T>(shape, strides);
}

void add_masks(AttentionProblem &problem, Random &random) {
  const AttentionSizes &s = problem.sizes;
  if (random.chance(0.4)) {
    const bool per_query = random.chance(0.4);
    std::vector<int64_t> lens(static_cast<size_t>(per_query ? s.batch * s.query_len : s.batch));
    for (int64_t &len : lens) len = random.integer(random.chance(0.2) ? 0 : s.key_len / 2, s.key_len);
    problem.set_valid_lens(lens, random.chance(0.5));
  }
  if (random.chance(0.3)) {
    const double density = random.pick({0.05, 0.5, 0.95});
    problem.mask = random_broadcast<uint8_t>(problem, random);
    problem.mask->fill([&] { return static_cast<uint8_t>(random.chance(density) ? random.integer(1, 255) : 0); });
  }
  if (random.chance(0.3)) {
    const double holes = random.pick({0.0, 0.1, 0.7});
    problem.bias = random_broadcast<float>(problem, random);
    problem.bias->fill([&] { return random.chance(holes) ? -kInfinity : random.normal(); });
  }
}

void add_flags(AttentionProblem &problem, Random &random) {
  const AttentionSizes &s = problem.sizes;
  if (random.chance(0.4)) problem.flags |= FOVEA_CAUSAL;
  if (random.chance(0.15)) {
    problem.flags |= FOVEA_TOP_LEFT;
  } else if (random.chance(0.2)) {
    problem.flags |= FOVEA_QUERY_OFFSET;
    problem.query_offset = random.integer(-s.query_len, s.key_len + 5);
  } else if (random.chance(0.2)) {
    std::vector<int64_t> offsets(static_cast<size_t>(s.batch));
    for (int64_t &offset : offsets) offset = random.integer(-s.query_len, s.key_len + 5);
    problem.set_query_offsets(offsets, random.chance(0.5));
  }
  if (random.chance(0.2)) problem.flags |= FOVEA_WINDOW_LEFT;
  if (random.chance(0.2)) problem.flags |= FOVEA_WINDOW_RIGHT;
  if (random.chance(0.15)) problem.flags |= FOVEA_LEAVE_ONE_OUT;
  problem.window_left = random.integer(0, s.key_len);
  problem.window_right = random.integer(0, s.key_len);
  problem.want_log_sum_exp = random.chance(0.5);
  if (random.chance(0.2)) problem.flags |= FOVEA_AVERAGE_WEIGHTS;
}

void add_scores(AttentionProblem &problem, Random &random) {
  const AttentionSizes &s = problem.sizes;
  if (random.chance(0.2)) problem.scale = random.pick({0.1f, 0.3f, -0.2f, 0.5f});
  if (random.chance(0.1)) problem.flags |= FOVEA_SCALE_GIVEN;
  if (random.chance(0.2)) problem.softcap = random.pick({1.0f, 5.0f, 50.0f});
  if (random.chance(0.2)) {
    problem.alibi_slopes.emplace(Shape{s.heads}).fill([&] { return random.uniform(0, 0.5f); });
  }
  if (random.chance(0.2)) problem.sinks.emplace(Shape{s.heads}).fill_normal(random);
  problem.empty_rows = static_cast<int32_t>(random.integer(0, 2));
  if (random.chance(0.3)) {
    problem.dropout = random.pick({0.1f, 0.5f, 0.9f});
    problem.dropout_seed = static_cast<uint64_t>(random.integer(INT64_MIN, INT64_MAX));
  }
}

// Parameters of any order in memory, with gaps.
void restride_parameters(ScoreFunction &score, Random &random) {
  for (const ScoreFunction::Parameter &parameter : score.parameters()) {
    Tensor<float> *tensor = parameter.tensor;
    const Shape shape = tensor->shape();
    const int64_t gap = random.integer(0, 3);
    const int64_t sign = random.pick({1, 1, -1});
    if (shape.size() == 1) *tensor = with_strides(*tensor, {sign * (1 + gap)});
    if (shape.size() == 2 && random.chance(0.5)) *tensor = with_strides(*tensor, {1, sign * (shape[0] + gap)});
    if (shape.size() == 2 && random.chance(0.5)) *tensor = with_strides(*tensor, {sign * (shape[1] + gap), 1});
  }
}

ScoreFunction random_score(int32_t kind, const AttentionSizes &sizes, int64_t hidden, Random &random) {
  ScoreFunction score = make_score(kind, sizes.head_dim, sizes.key_size(), hidden, random);
  if (kind == FOVEA_SCORE_CONCAT && random.chance(0.3)) score.bias.reset();
  if (kind == FOVEA_SCORE_GAUSSIAN && random.chance(0.5)) {
    score.sigma = 0;
    score.sigmas.emplace(Shape{sizes.heads}).fill([&] { return random.uniform(0.5f, 4); });
  }
  restride_parameters(score, random);
  return score;
}

}  // namespace

AttentionProblem random_problem(Random &random, int64_t most_len, int64_t most_dim, Scores scores) {
  AttentionSizes sizes = random_sizes(random, most_len, most_dim);
  const int32_t kind = scores == Scores::kAny ? kScoreKinds[random.integer(0, 4)] : FOVEA_SCORE_DOT;
  if (takes_two_dims(kind) && random.chance(0.7)) sizes.key_dim = random_size(random, most_dim);
  const int rank = random.pick({4, 4, 4, 3, 2});
  if (rank < 4) sizes.heads = sizes.kv_heads = 1;
  if (rank == 2) sizes.batch = 1;
  AttentionProblem problem =
      make_attention(sizes, random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}), rank);
  add_masks(problem, random);
  add_flags(problem, random);
  add_scores(problem, random);
  if (scores == Scores::kAny) problem.score = random_score(kind, sizes, random_size(random, most_dim), random);
  return problem;
}

}  // namespace testing
