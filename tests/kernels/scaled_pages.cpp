// Keys and values of 8 bits, and values of 4, in pages that the library does not know, numbers and scales each between
// bytes that may not be touched: bit for bit what the same rows give evenly spaced.
#include <memory>

#include "elements.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

constexpr int64_t kBatch = 2, kHeads = 2;  // the task is of the last of each

struct Sizes {
  int64_t query_len, key_len, dim, group;
};

// [batch][head][position]
struct ScaledRows {
  fovea::Dtype dtype;  // i8, or u8: two features a number, two scales a group
  int64_t length, group;
  int64_t dim, count;  // numbers and scales of a row
  GuardedMemory numbers, scales;

  ScaledRows(fovea::Dtype type, const Sizes &sizes, Random &random)
      : dtype(type),
        length(sizes.key_len),
        group(sizes.group),
        dim(type == fovea::Dtype::u8 ? sizes.dim / 2 : sizes.dim),
        count(sizes.dim / sizes.group * (type == fovea::Dtype::u8 ? 2 : 1)),
        numbers(static_cast<size_t>(kBatch * kHeads * length * dim)),
        scales(static_cast<size_t>(kBatch * kHeads * length * count) * 2, 2) {
    for (size_t n = 0; n < numbers.size(); ++n) numbers.data()[n] = static_cast<std::byte>(random.integer(0, 255));
    for (size_t n = 0; n < scales.size() / 2; ++n) {
      reinterpret_cast<uint16_t *>(scales.data())[n] = narrowed(random.uniform(0.001F, 0.02F), FOVEA_F16);
    }
  }
  fovea::HeadRows evenly_spaced() const {
    return {numbers.data(),
            {kHeads * length * dim, length * dim, dim},
            dtype,
            nullptr,
            {reinterpret_cast<const fovea::Float16 *>(scales.data()),
             {kHeads * length * count, length * count, count},
             group}};
  }
};

// Each page in memory of its own.
class ScaledPages : public fovea::RowPlaces {
 public:
  ScaledPages(const ScaledRows &rows, int64_t positions)
      : fovea::RowPlaces{find_row, find_row_scales},
        rows_(rows),
        positions_(positions),
        per_head_(fovea::ceil_div(rows.length, positions)) {
    for (int64_t page = 0; page < kBatch * kHeads * per_head_; ++page) {
      const int64_t first = page % per_head_ * positions;
      const int64_t row = page / per_head_ * rows.length + first, count = std::min(positions, rows.length - first);
      numbers_.push_back(copy(rows.numbers, row * rows.dim, count * rows.dim, 1));
      scales_.push_back(copy(rows.scales, row * rows.count * 2, count * rows.count * 2, 2));
    }
  }
  fovea::HeadRows head_rows() const {
    return {nullptr, {0, 0, rows_.dim}, rows_.dtype, this, {nullptr, {0, 0, rows_.count}, rows_.group}};
  }

 private:
  static GuardedMemory copy(const GuardedMemory &from, int64_t begin, int64_t size, size_t element) {
    GuardedMemory page(static_cast<size_t>(size), element);
    std::memcpy(page.data(), from.data() + begin, static_cast<size_t>(size));
    return page;
  }
  size_t page_of(int64_t batch, int64_t head, int64_t first) const {
    return static_cast<size_t>((batch * kHeads + head) * per_head_ + first / positions_);
  }
  static const void *find_row(const fovea::RowPlaces &places, int64_t batch, int64_t head, int64_t first,
                              int64_t *count) {
    const auto &pages = static_cast<const ScaledPages &>(places);
    REQUIRE_LT(first, pages.rows_.length);
    const int64_t at = first % pages.positions_;
    *count = std::min(*count, pages.positions_ - at);
    return pages.numbers_[pages.page_of(batch, head, first)].data() + at * pages.rows_.dim;
  }
  static const fovea::Float16 *find_row_scales(const fovea::RowPlaces &places, int64_t batch, int64_t head,
                                               int64_t first) {
    const auto &pages = static_cast<const ScaledPages &>(places);
    const int64_t at = first % pages.positions_ * pages.rows_.count;
    const std::byte *scales = pages.scales_[pages.page_of(batch, head, first)].data();
    return reinterpret_cast<const fovea::Float16 *>(scales) + at;
  }

  const ScaledRows &rows_;
  int64_t positions_, per_head_;
  std::vector<GuardedMemory> numbers_, scales_;
};

std::vector<float> run(const fovea::AttentionKernels &kernels, const Sizes &sizes, const Elements &query,
                       const fovea::HeadRows &keys, const fovea::HeadRows &values, bool tile) {
  fovea::AttentionProblem problem{};
  problem.sizes = {.batch = kBatch,
                   .heads = kHeads,
                   .kv_heads = kHeads,
                   .group = 1,
                   .query_len = sizes.query_len,
                   .key_len = sizes.key_len,
                   .head_dim = sizes.dim,
                   .key_dim = sizes.dim,
                   .value_dim = sizes.dim,
                   .compared_dim = sizes.dim};
  const fovea::HeadStrides strides = {kHeads * sizes.query_len * sizes.dim, sizes.query_len * sizes.dim, sizes.dim};
  problem.query = {query.data(), strides, query.dtype()};
  problem.key = keys;
  problem.value = values;
  problem.logits.scale = 0.3F;
  problem.pattern.key_limit = sizes.key_len;
  problem.pattern.has_window_right = true;
  problem.pattern.position_offset = sizes.key_len - sizes.query_len;
  problem.outputs.out_dtype = fovea::Dtype::f32;
  problem.outputs.out_strides = strides;
  const Floats out(kBatch * kHeads * sizes.query_len * sizes.dim);
  problem.outputs.out = out.data();
  const WithPlacement aligned(Placement::kEnd);  // whole lines, as plans hand it out
  const Floats scratch(fovea::round_up(kernels.scratch_floats(sizes.dim, sizes.dim, true), 16));
  fovea::AttentionTask task{};
  task.problem = &problem;
  task.batch = kBatch - 1;
  task.kv_head = kHeads - 1;
  task.row_count = sizes.query_len;
  task.key_end = sizes.key_len;
  task.first_split = true;
  task.scratch = scratch.data();
  (tile ? kernels.tile : kernels.rows)(task);
  return out.values();
}

void check_pages(const fovea::AttentionKernels &kernels, const Sizes &sizes, fovea::Dtype value_type, bool tile,
                 Random &random) {
  CAPTURE(static_cast<int>(value_type));
  CAPTURE(kernels.set);
  CAPTURE(tile);
  CAPTURE(sizes.query_len);
  CAPTURE(sizes.key_len);
  CAPTURE(sizes.dim);
  CAPTURE(sizes.group);
  const Elements query(normals(kBatch * kHeads * sizes.query_len * sizes.dim, random),
                       kernels.reads_pairs ? fovea::Dtype::bf16 : fovea::Dtype::f32);
  const ScaledRows keys(fovea::Dtype::i8, sizes, random), values(value_type, sizes, random);
  const auto expected = run(kernels, sizes, query, keys.evenly_spaced(), values.evenly_spaced(), tile);
  for (const int64_t positions : {1, 3, 16, 95, 193}) {
    CAPTURE(positions);
    const ScaledPages key_pages(keys, positions), value_pages(values, positions);
    const auto paged = run(kernels, sizes, query, key_pages.head_rows(), value_pages.head_rows(), tile);
    CHECK(std::memcmp(expected.data(), paged.data(), expected.size() * sizeof(float)) == 0);
    const auto mixed = run(kernels, sizes, query, keys.evenly_spaced(), value_pages.head_rows(), tile);
    CHECK(std::memcmp(expected.data(), mixed.data(), expected.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_SUITE("kernels pages") {
  TEST_CASE("8 and 4 bits in pages, whatever their size: the bits of evenly spaced rows") {
    Random random(base_seed());
    for_each_table([&](const fovea::Kernels &table) {
      for (const fovea::AttentionRow &row : fovea::attention_rows) {
        const bool here = (row.needs & ~(table.allowed & fovea::cpu_features())) == 0;
        if (!here || row.score != fovea::ScoreKind::dot || row.kernels->pack != nullptr) continue;
        const bool tile = row.path == fovea::AttentionPath::many_rows;
        for (const int64_t query_len : {int64_t{1}, int64_t{4}, int64_t{tile ? 70 : 16}}) {
          if (!tile && query_len > row.kernels->most_few_rows(128)) continue;
          const int64_t dim = random.pick({64, 128}), group = random.pick({16, 32}),
                        key_len = random.pick({5, 97, 330});
          check_pages(*row.kernels, {query_len, key_len, dim, dim == 64 ? 16 : group}, fovea::Dtype::i8, tile, random);
          if (row.multiplied == fovea::Multiplied::bytes) continue;
          check_pages(*row.kernels, {query_len, key_len, dim, dim / 2}, fovea::Dtype::u8, tile, random);
        }
      }
    });
  }
}
