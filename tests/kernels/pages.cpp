// A layout of keys and values that the library does not know: pages of any number of positions, in any order, between
// bytes that are no numbers. Kernels are given it through HeadRows::places alone, and what they give is bit for bit
// what they give for the same rows evenly spaced.
#include <numeric>

#include "elements.hpp"

using namespace testing;

namespace {

// Rows of every head, evenly spaced and in pages.
struct Rows {
  int64_t heads, length, dim, stride;
  Elements even;  // [batch][head][position][dim]

  // `numbers` of them as elements of a type.
  Rows(int64_t batch, int64_t head_count, int64_t rows, int64_t features, const std::vector<float> &numbers,
       Dtype dtype)
      : heads(head_count), length(rows), dim(features), stride(features), even(numbers, dtype) {
    REQUIRE_EQ(static_cast<int64_t>(numbers.size()), batch * heads * length * dim);
  }
  fovea::HeadRows evenly_spaced() const {
    return {even.data(), {heads * length * dim, length * dim, dim}, even.dtype()};
  }
};

class Pages : public fovea::RowPlaces {
 public:
  Pages(const Rows &rows, int64_t batch, int64_t positions, Random &random)
      : fovea::RowPlaces{find_row},
        rows_(rows),
        positions_(positions),
        per_head_(fovea::ceil_div(rows.length, positions)),
        stride_(rows.dim + 2 * random.integer(0, 2)),
        page_(positions * stride_ + 8),
        place_(static_cast<size_t>(batch * rows.heads * per_head_)),
        memory_(static_cast<int64_t>(place_.size()) * page_, rows.even.dtype()) {
    std::memset(memory_.data(), 0xff, place_.size() * static_cast<size_t>(page_ * size()));  // NaN in every type
    std::iota(place_.begin(), place_.end(), int64_t{0});
    for (size_t n = place_.size(); n > 1; --n)
      std::swap(place_[n - 1], place_[static_cast<size_t>(random.integer(0, static_cast<int64_t>(n) - 1))]);
    for (int64_t head = 0; head < batch * rows.heads; ++head) {
      for (int64_t j = 0; j < rows.length; ++j) {
        std::memcpy(row(head, j), rows.even.at((head * rows.length + j) * rows.dim),
                    static_cast<size_t>(rows.dim * size()));
      }
    }
  }
  fovea::HeadRows head_rows() const { return {nullptr, {0, 0, stride_}, rows_.even.dtype(), this}; }

 private:
  int64_t size() const { return fovea::bytes_of(rows_.even.dtype()); }
  void *row(int64_t head, int64_t j) const {
    const int64_t place = place_[static_cast<size_t>(head * per_head_ + j / positions_)];
    return memory_.at(place * page_ + j % positions_ * stride_);
  }
  static const void *find_row(const fovea::RowPlaces &places, int64_t batch, int64_t head, int64_t first,
                              int64_t *count) {
    const auto &pages = static_cast<const Pages &>(places);
    REQUIRE_GE(first, 0);
    REQUIRE_LT(first, pages.rows_.length);
    REQUIRE_GE(*count, 1);
    *count = std::min(*count, pages.positions_ - first % pages.positions_);
    return pages.row(batch * pages.rows_.heads + head, first);
  }

  const Rows &rows_;
  int64_t positions_, per_head_, stride_, page_;
  std::vector<int64_t> place_;
  Elements memory_;
};

struct Case {
  fovea::ScoreKind kind = fovea::ScoreKind::dot;
  Dtype key_dtype = Dtype::f32, value_dtype = Dtype::f32;
  int64_t query_len = 1, key_len = 1, head_dim = 8, value_dim = 8;
  bool causal = false, masked = false, poisoned = false, dropped = false;
  int64_t valid_len = -1, window_left = -1;
  int64_t key_begin = 0;  // of the task
};

constexpr int64_t kBatch = 2, kHeads = 2;  // the task is of the last of each

// A call's operands and what one task of it gives.
struct Call {
  const fovea::Kernels &table;
  const fovea::AttentionKernels &kernels;
  Case its;
  int64_t units;  // of a row of queries or keys: features, or padded hidden units
  std::vector<float> vector, reach, key_numbers;
  Rows query, key, value;
  std::vector<uint8_t> mask;
  int32_t valid_len;
  fovea::AttentionProblem problem{};

  std::vector<float> make_units(int64_t rows, Random &random, std::vector<float> *facts) const {
    std::vector<float> numbers = normals(rows * units, random, 0.7F);
    // Some large, so that keys come in several forms.
    for (int64_t r = 0; r < rows; r += 7) numbers[static_cast<size_t>(r * units)] *= random.pick({1.0F, 12.0F, 50.0F});
    if (its.kind != fovea::ScoreKind::additive) return numbers;
    if (facts != nullptr) facts->resize(static_cast<size_t>(rows));
    table.attention_of(its.kind).finish_units(
        {numbers.data(), rows, 1, its.head_dim, nullptr, facts == nullptr ? nullptr : facts->data()});
    return numbers;
  }
  std::vector<float> make_values(Random &random) const {
    std::vector<float> numbers = normals(kBatch * kHeads * its.key_len * its.value_dim, random);
    if (its.poisoned)
      numbers[static_cast<size_t>(((kBatch * kHeads - 1) * its.key_len + its.key_len / 2) * its.value_dim)] = kNan;
    return numbers;
  }

  Call(const fovea::Kernels &t, const fovea::AttentionKernels &k, const Case &c, Random &random)
      : table(t),
        kernels(k),
        its(c),
        units(c.kind == fovea::ScoreKind::additive ? fovea::padded_units(c.head_dim) : c.head_dim),
        key_numbers(make_units(kBatch * kHeads * c.key_len, random, &reach)),
        query(kBatch, kHeads, c.query_len, units, make_units(kBatch * kHeads * c.query_len, random, nullptr),
              c.key_dtype),
        key(kBatch, kHeads, c.key_len, units, key_numbers, c.key_dtype),
        value(kBatch, kHeads, c.key_len, c.value_dim, make_values(random), c.value_dtype),
        valid_len(static_cast<int32_t>(c.valid_len)) {
    problem.sizes = {.batch = kBatch,
                     .heads = kHeads,
                     .kv_heads = kHeads,
                     .group = 1,
                     .query_len = c.query_len,
                     .key_len = c.key_len,
                     .head_dim = c.head_dim,
                     .key_dim = c.head_dim,
                     .value_dim = c.value_dim,
                     .compared_dim = c.head_dim};
    problem.query = query.evenly_spaced();
    problem.key = key.evenly_spaced();
    problem.value = value.evenly_spaced();
    problem.logits.scale = 0.3F;
    problem.score.kind = c.kind;
    if (c.kind == fovea::ScoreKind::additive || c.head_dim > fovea::most_differences) {
      problem.score.key_scalars_strides = {kHeads * c.key_len, c.key_len, 1};
    }
    if (c.kind == fovea::ScoreKind::additive) {
      vector = normals(units, random);
      std::fill(vector.begin() + c.head_dim, vector.end(), 0.0F);
      problem.score.vector = vector.data();
      problem.score.takes_tangents = true;
      problem.score.least_reach = c.head_dim >= fovea::least_shared_units ? 0.0F : fovea::largest_reach;
      problem.score.key_scalars = reach.data();
    }
    problem.pattern.key_limit = c.key_len;
    problem.pattern.has_window_right = c.causal;
    problem.pattern.position_offset = c.key_len - c.query_len;
    problem.pattern.has_window_left = c.window_left >= 0;
    problem.pattern.window_left = c.window_left;
    if (c.valid_len >= 0) problem.pattern.valid_lens = &valid_len;
    if (c.masked) {
      for (int64_t n = 0; n < c.query_len * c.key_len; ++n)
        mask.push_back(n % c.key_len != c.key_len / 2 && random.chance(0.8) ? 1 : 0);
      problem.pattern.mask = mask.data();
      problem.pattern.mask_strides = {0, 0, c.key_len};
    }
    if (c.dropped) problem.dropout = {.threshold = 0x40000000, .scale = 4.0F / 3, .seed = 5};
    problem.outputs.out_dtype = problem.outputs.weights_dtype = problem.outputs.scores_dtype = Dtype::f32;
    problem.outputs.out_strides = {kHeads * c.query_len * c.value_dim, c.query_len * c.value_dim, c.value_dim};
    problem.outputs.log_sum_exp_strides = {kHeads * c.query_len, c.query_len, 1};
    problem.outputs.weights_strides =
        problem.outputs.scores_strides = {kHeads * c.query_len * c.key_len, c.query_len * c.key_len, c.key_len};
  }

  // What the task gives: output, log-sum-exp, and by many rows weights and scores.
  std::vector<float> run(fovea::HeadRows keys, fovea::HeadRows values, bool tile) {
    const int64_t rows = kBatch * kHeads * its.query_len;
    const Floats out(rows * its.value_dim), log_sum_exp(rows), weights(rows * its.key_len), scores(rows * its.key_len),
        row_max(rows), row_scale(rows);
    std::vector<float> norms(static_cast<size_t>(kBatch * kHeads * its.key_len));
    problem.key = keys;
    problem.value = values;
    if (its.kind == fovea::ScoreKind::gaussian && its.head_dim > fovea::most_differences) {
      float *its_norms = norms.data() + (kBatch * kHeads - 1) * its.key_len;
      keys.for_each_run(kBatch - 1, kHeads - 1, 0, its.key_len, [&](const fovea::RowRun &run, int64_t first) {
        table.attention_of(its.kind).squared_norms(
            {run.first, keys.dtype, run.stride, run.count, its.head_dim, its_norms + first});
      });
      problem.score.key_scalars = norms.data();
    }
    problem.outputs.out = out.data();
    problem.outputs.log_sum_exp = log_sum_exp.data();
    problem.outputs.weights = weights.data();
    problem.outputs.scores = scores.data();
    problem.outputs.weights_wanted = tile && kernels.weights != nullptr;
    const bool copies = keys.are_copied() || values.are_copied();
    const WithPlacement aligned(Placement::kEnd);  // whole lines, as plans hand it out
    const Floats scratch(fovea::round_up(kernels.scratch_floats(its.head_dim, its.value_dim, copies), 16));
    fovea::AttentionTask task{};
    task.problem = &problem;
    task.batch = kBatch - 1;
    task.kv_head = kHeads - 1;
    task.row_count = its.query_len;
    task.key_begin = its.key_begin;
    task.key_end = its.key_len;
    task.first_split = true;
    task.row_max = row_max.data();
    task.row_scale = row_scale.data();
    task.scratch = scratch.data();
    (tile ? kernels.tile : kernels.rows)(task);
    if (problem.outputs.weights_wanted) {
      kernels.weights(task);
      kernels.scores(task);
    }
    std::vector<float> all;
    for (const Floats *part : {&out, &log_sum_exp, &weights, &scores}) {
      const std::vector<float> its_values = part->values();
      all.insert(all.end(), its_values.begin(), its_values.end());
    }
    return all;
  }
};

// NaNs are equal.
int64_t differences(const std::vector<float> &a, const std::vector<float> &b) {
  int64_t count = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    count += std::isnan(a[n]) ? !std::isnan(b[n]) : std::memcmp(&a[n], &b[n], sizeof(float)) != 0;
  }
  return count;
}

void check_case(const fovea::Kernels &table, const fovea::AttentionKernels &kernels, const Case &its, bool tile,
                Random &random) {
  CAPTURE(static_cast<int>(its.kind));
  CAPTURE(static_cast<int>(its.key_dtype));
  CAPTURE(static_cast<int>(its.value_dtype));
  CAPTURE(tile);
  CAPTURE(its.query_len);
  CAPTURE(its.key_len);
  CAPTURE(its.head_dim);
  CAPTURE(its.value_dim);
  CAPTURE(its.causal);
  CAPTURE(its.masked);
  CAPTURE(its.poisoned);
  CAPTURE(its.valid_len);
  CAPTURE(its.window_left);
  CAPTURE(its.key_begin);
  Call call(table, kernels, its, random);
  const std::vector<float> expected = call.run(call.key.evenly_spaced(), call.value.evenly_spaced(), tile);
  const int64_t tile_keys = tile ? kernels.tile_keys : kernels.few_rows_keys(its.query_len);
  for (const int64_t positions : {int64_t{1}, int64_t{3}, int64_t{16}, tile_keys - 1, tile_keys + 1}) {
    CAPTURE(positions);
    const Pages keys(call.key, kBatch, positions, random), values(call.value, kBatch, positions, random);
    CHECK_EQ(differences(expected, call.run(keys.head_rows(), values.head_rows(), tile)), 0);
    if (positions != 3) continue;  // one in pages and the other not: once will do
    CHECK_EQ(differences(expected, call.run(call.key.evenly_spaced(), values.head_rows(), tile)), 0);
  }
}

// Few rows and many.
void check_both(const fovea::Kernels &table, const fovea::AttentionKernels &kernels, Case its, Random &random) {
  if (kernels.rows != nullptr && its.query_len <= kernels.most_few_rows(its.head_dim)) {
    check_case(table, kernels, its, false, random);
  }
  check_case(table, kernels, its, true, random);
}

constexpr fovea::ScoreKind kKinds[] = {fovea::ScoreKind::dot, fovea::ScoreKind::additive, fovea::ScoreKind::gaussian};

// body(kernels, kind, type of queries and keys) for all that take rows as they lie.
template <typename Body>
void for_each_kernels(const fovea::Kernels &table, Body body) {
  for (const fovea::ScoreKind kind : kKinds) {
    for (const Dtype dtype : kTypes) {
      if (kind == fovea::ScoreKind::additive && dtype != Dtype::f32) continue;  // projected units are float32
      body(table.attention_of(kind), kind, dtype);
    }
    const fovea::AttentionKernels *pairs = pairs_of(table, kind);
    if (pairs != nullptr) body(*pairs, kind, Dtype::bf16);
  }
}

}  // namespace

TEST_SUITE("kernels pages") {
  TEST_CASE("every score function, path and type of keys and values") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for_each_kernels(table, [&](const fovea::AttentionKernels &kernels, fovea::ScoreKind kind, Dtype dtype) {
        const bool pairs = &kernels != &table.attention_of(kind);
        const auto check = [&](int64_t queries, int64_t keys, int64_t head_dim, int64_t value_dim) {
          if (pairs && queries < 4) return;  // fewer are widened
          Case its = {.kind = kind,
                      .key_dtype = dtype,
                      .value_dtype = dtype,
                      .query_len = queries,
                      .key_len = keys,
                      .head_dim = head_dim,
                      .value_dim = value_dim};
          check_both(table, kernels, its, random);
          its.value_dtype = dtype == Dtype::f32 ? Dtype::f16 : Dtype::f32;
          if (!pairs) check_both(table, kernels, its, random);
        };
        const int64_t few = kernels.rows == nullptr ? 4 : kernels.most_few_rows(40);
        for (const int64_t queries : {int64_t{1}, int64_t{2}, int64_t{3}, few, kernels.tile_rows + 1}) {
          check(queries, 19, 6, 5);
          check(queries, 197, 40, 70);
        }
        for (const int64_t keys : {1, 2, 95, 96, 97}) check(5, keys, 34, 9);
        check(1, 1700, 18, 12);
        check(1, 230, 18, 300);
        check(few, 420, 70, 17);
      });
    });
  }

  TEST_CASE("masks, lengths, windows, splits, dropout and NaN behind masks, at random") {
    for_each_table([](const fovea::Kernels &table) {
      for (int64_t n = 0; n < case_count(40); ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        CAPTURE(seed);
        for_each_kernels(table, [&](const fovea::AttentionKernels &kernels, fovea::ScoreKind kind, Dtype dtype) {
          Random random(seed);
          Case its = {.kind = kind, .key_dtype = dtype, .value_dtype = dtype};
          its.query_len = random.integer(4, random.chance(0.5) ? 12 : 70);
          its.key_len = random.integer(1, 260);
          its.head_dim = 2 * random.integer(1, 30);
          its.value_dim = random.integer(1, 80);
          its.causal = random.chance(0.4);
          its.masked = random.chance(0.5);
          its.poisoned = its.masked && random.chance(0.6);
          its.dropped = random.chance(0.2);
          if (random.chance(0.4)) its.valid_len = random.integer(0, its.key_len);
          if (random.chance(0.3)) its.window_left = random.integer(0, 100);
          if (its.key_len > 96 && random.chance(0.3)) its.key_begin = 96;
          check_both(table, kernels, its, random);
        });
      }
    });
  }

  // Packing takes AVX-512-BF16 and no tiles.
  TEST_CASE("keys and values packed for AMX's tiles") {
    const fovea::Kernels *table = fovea::kernels_of(fovea::Isa::avx512);
    if (table == nullptr || (fovea::cpu_features() & fovea::feature::bfloat16_pairs) == 0) {
      MESSAGE("this processor has no AVX-512-BF16: not tested");
      return;
    }
    for (const fovea::AttentionRow &row : fovea::attention_rows) {
      const fovea::AttentionKernels *kernels = row.kernels;
      if (kernels->pack == nullptr) continue;
      Random random(base_seed());
      const Dtype dtype = row.multiplied == fovea::Multiplied::bfloat16 ? Dtype::bf16 : Dtype::f16;
      const Case its = {.key_dtype = dtype, .value_dtype = dtype, .key_len = 300, .head_dim = 70, .value_dim = 45};
      Call call(*table, table->attention_of(its.kind), its, random);
      const auto packed = [&](const fovea::HeadRows &keys, const fovea::HeadRows &values) {
        call.problem.key = keys;
        call.problem.value = values;
        const int64_t bytes = kernels->packed_block_bytes(its.head_dim, its.value_dim);
        const WithPlacement aligned(Placement::kEnd);
        GuardedMemory memory(static_cast<size_t>(3 * bytes));
        std::memset(memory.data(), 0, memory.size());
        for (int64_t block = 0; block < 3; ++block) {
          const int64_t first = block * kernels->tile_keys, left = its.key_len - first;
          kernels->pack({&call.problem, kBatch - 1, kHeads - 1, first, std::min(left, kernels->tile_keys),
                         std::clamp<int64_t>(left - kernels->tile_keys, 0, kernels->tile_keys),
                         reinterpret_cast<char *>(memory.data()) + block * bytes});
        }
        return std::string(reinterpret_cast<const char *>(memory.data()), memory.size());
      };
      const std::string expected = packed(call.key.evenly_spaced(), call.value.evenly_spaced());
      for (const int64_t positions : {1, 3, 16, 127, 129}) {
        CAPTURE(positions);
        const Pages keys(call.key, kBatch, positions, random), values(call.value, kBatch, positions, random);
        CHECK(packed(keys.head_rows(), values.head_rows()) == expected);
      }
    }
  }
}
