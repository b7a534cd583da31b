// Pools of 8 bits, and of 4 for values, from end to end: what is appended to their pages is what fovea_quantize makes
// of it, and what is attended is that, whatever the pages, before and after it was saved, forked and written to.
#include <doctest/doctest.h>

#include <cstring>

#include "support/errors.hpp"
#include "support/kv_pool.hpp"
#include "support/ragged.hpp"
#include "support/scaled_numbers.hpp"

using namespace testing;

namespace {

constexpr int64_t kHeads = 6, kKvHeads = 2, kDim = 64;

// What a pool keeps keys and values as.
struct Kept {
  fovea_dtype key, value;
  int64_t value_dim;
  int64_t group;  // of a pool that is given one

  // Features that share a scale where a pool is given `scale_group`.
  int64_t group_of(int64_t dim, int64_t scale_group) const {
    if (scale_group != 0) return scale_group;
    return dim % 32 == 0 ? 32 : dim;
  }
};
constexpr Kept kKept[] = {{FOVEA_I8, FOVEA_I8, 48, 16},
                          {FOVEA_I8, FOVEA_I8, 64, 32},
                          {FOVEA_I8, FOVEA_U8, 64, 64},
                          {FOVEA_F32, FOVEA_U8, 96, 32},
                          {FOVEA_I8, FOVEA_F32, 33, 16}};

// New keys or values, [T,Hkv,dim], and as they are kept.
struct NewRows {
  Tensor<float> rows, kept;

  NewRows(int64_t tokens, int64_t dim, fovea_dtype type, int64_t group, Random &random)
      : rows({tokens, kKvHeads, dim}), kept({tokens, kKvHeads, dim}) {
    rows.fill_normal(random);
    if (type == FOVEA_F32) {
      kept.assign(rows.dense());
      return;
    }
    const int64_t paired = type == FOVEA_U8 ? 2 : 1;
    Tensor<int8_t> numbers({tokens, kKvHeads, dim / paired});
    Tensor<uint16_t> scales({tokens, kKvHeads, paired * (dim / group)});
    fovea_tensor its_scales = scales.view(), q = numbers.view();
    its_scales.dtype = FOVEA_F16;
    q.dtype = type;
    const fovea_tensor from = rows.view(), to = kept.view();
    REQUIRE_OK(fovea_quantize(nullptr, &from, &q, &its_scales));
    REQUIRE_OK(fovea_dequantize(nullptr, &q, &its_scales, &to));
  }
};

// Sequences that grow, and all that they were given.
struct Model {
  int64_t value_dim;
  std::vector<std::vector<float>> keys, values;  // of each, [position][head][dim]

  Model(int64_t sequences, int64_t dim)
      : value_dim(dim), keys(static_cast<size_t>(sequences)), values(static_cast<size_t>(sequences)) {}

  void append(size_t sequence, const NewRows &key, const NewRows &value, int64_t first, int64_t count) {
    const std::vector<float> k = key.kept.dense(), v = value.kept.dense();
    const auto take = [&](const std::vector<float> &from, int64_t row, std::vector<float> *to) {
      to->insert(to->end(), from.begin() + first * row, from.begin() + (first + count) * row);
    };
    take(k, kKvHeads * kDim, &keys[sequence]);
    take(v, kKvHeads * value_dim, &values[sequence]);
  }

  AttentionProblem problem(size_t sequence, const Tensor<float> &query, int64_t first, int64_t count) const {
    AttentionProblem p;
    const auto length = static_cast<int64_t>(keys[sequence].size()) / (kKvHeads * kDim);
    p.sizes = {1, kHeads, kKvHeads, count, length, kDim, value_dim};
    p.flags = FOVEA_CAUSAL;
    const auto lay = [&](const std::vector<float> &rows, int64_t dim) {
      Tensor<float> tensor({1, kKvHeads, length, dim});
      for_each_index(tensor.shape(), [&](const Shape &at) {
        tensor.at(at) = rows[static_cast<size_t>((at[2] * kKvHeads + at[1]) * dim + at[3])];
      });
      return tensor;
    };
    p.key = lay(keys[sequence], kDim);
    p.value = lay(values[sequence], value_dim);
    p.query = Tensor<float>({1, kHeads, count, kDim});
    for_each_index(p.query.shape(), [&](const Shape &at) { p.query.at(at) = query(first + at[2], at[1], at[3]); });
    return p;
  }
};

struct Serving {
  Kept kept;
  int64_t scale_group;
  KvPool pool;
  OwnSchedule schedule;

  Serving(const fovea_context *context, const Kept &types, int64_t page_size, int64_t group)
      : kept(types),
        scale_group(group),
        pool(make_pool({.layers = 2,
                        .kv_heads = kKvHeads,
                        .head_dim = kDim,
                        .value_dim = kept.value_dim,
                        .positions = 4000,
                        .page_size = page_size,
                        .key_dtype = kept.key,
                        .value_dtype = kept.value,
                        .scale_group = scale_group})) {
    const int64_t q_shape[] = {2000, kHeads, kDim}, o_shape[] = {2000, kHeads, kept.value_dim},
                  l_shape[] = {2000, kHeads};
    const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, q_shape),
                       out = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, o_shape),
                       lse = fovea_tensor_contiguous(nullptr, FOVEA_F32, 2, l_shape), keys = pages(0, false),
                       values = pages(0, true), key_scales = scales(0, false), value_scales = scales(0, true);
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.flags = FOVEA_CAUSAL;
    options.log_sum_exp = &lse;
    options.key_scales = given(key_scales);
    options.value_scales = given(value_scales);
    fovea_schedule_limits limits{};
    limits.struct_size = sizeof limits;
    limits.sequences = 8;
    fovea_schedule *made = nullptr;
    REQUIRE_OK(fovea_schedule_create(context, nullptr, &query, &keys, &values, &out, &options, &limits, &made));
    schedule.reset(made);
  }

  fovea_tensor pages(int64_t layer, bool values) const {
    return values ? fovea_kv_pool_values(pool.get(), layer) : fovea_kv_pool_keys(pool.get(), layer);
  }
  fovea_tensor scales(int64_t layer, bool values) const {
    return values ? fovea_kv_pool_value_scales(pool.get(), layer) : fovea_kv_pool_key_scales(pool.get(), layer);
  }
  static const fovea_tensor *given(const fovea_tensor &scales) { return scales.rank < 0 ? nullptr : &scales; }

  NewRows new_keys(int64_t tokens, Random &random) const {
    return NewRows(tokens, kDim, kept.key, kept.group_of(kDim, scale_group), random);
  }
  NewRows new_values(int64_t tokens, Random &random) const {
    return NewRows(tokens, kept.value_dim, kept.value, kept.group_of(kept.value_dim, scale_group), random);
  }

  void step(const std::vector<int64_t> &sequences, const std::vector<int64_t> &tokens) const {
    const fovea_tensor numbers = vector_of(sequences), counts = vector_of(tokens);
    fovea_step step{};
    step.struct_size = sizeof step;
    REQUIRE_OK(fovea_kv_pool_step(nullptr, pool.get(), &numbers, &counts, &step));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &step));
  }

  void append(int64_t layer, const fovea_tensor &key, const fovea_tensor &value,
              const fovea_rotary_options *rotary = nullptr) const {
    const fovea_tensor key_pages = pages(layer, false), value_pages = pages(layer, true),
                       key_scales = scales(layer, false), value_scales = scales(layer, true);
    fovea_append_options options{};
    options.struct_size = sizeof options;
    options.rotary = rotary;
    options.key_scales = given(key_scales);
    options.value_scales = given(value_scales);
    REQUIRE_OK(fovea_schedule_append(schedule.get(), &key, &value, &key_pages, &value_pages, &options));
  }

  // [T,H,Dv] and [T,H] behind each other.
  std::vector<float> run(int64_t layer, const Tensor<float> &query) const {
    const int64_t tokens = query.shape()[0];
    const Tensor<float> out({tokens, kHeads, kept.value_dim}), lse({tokens, kHeads});
    fovea_attention_buffers buffers{};
    buffers.struct_size = sizeof buffers;
    buffers.query = query.data();
    buffers.key = pages(layer, false).data;
    buffers.value = pages(layer, true).data;
    buffers.key_scales = scales(layer, false).data;
    buffers.value_scales = scales(layer, true).data;
    buffers.out = out.data();
    buffers.log_sum_exp = lse.data();
    REQUIRE_OK(fovea_schedule_run(schedule.get(), &buffers, nullptr, 0));
    std::vector<float> all = out.dense();
    const std::vector<float> sums = lse.dense();
    all.insert(all.end(), sums.begin(), sums.end());
    return all;
  }
};

std::string description(const OwnSchedule &schedule) {
  std::string text(fovea_schedule_describe(schedule.get(), nullptr, 0) + 1, '\0');
  fovea_schedule_describe(schedule.get(), text.data(), text.size());
  return text;
}

// bytes: of products of bytes.
void check_sequence(const AttentionProblem &problem, const std::vector<float> &all, int64_t tokens, int64_t first,
                    bool bytes) {
  const int64_t dim = problem.sizes.value_dim;
  const AttentionResult result = problem.make_result(false);
  for_each_index({kHeads, problem.sizes.query_len}, [&](const Shape &at) {
    const int64_t row = (first + at[1]) * kHeads + at[0];
    for (int64_t d = 0; d < dim; ++d) result.out(0, at[0], at[1], d) = all[static_cast<size_t>(row * dim + d)];
    (*result.log_sum_exp)(0, at[0], at[1]) = all[static_cast<size_t>(tokens * kHeads * dim + row)];
  });
  bytes ? check_near_formula(problem, result) : check_result(problem, result);
}

// Steps of prompts and single tokens: the formula of what was kept, and in any pages the same bits.
void check_steps(const Kept &kept) {
  CAPTURE(kept.key);
  CAPTURE(kept.value);
  for_each_isa([&](const fovea_context *context) {
    std::vector<std::vector<float>> results;
    for (const int64_t page : {16, 5, 300}) {
      CAPTURE(page);
      Random random(base_seed());
      const Serving serving(context, kept, page, kept.group);
      std::vector<int64_t> numbers(3);
      for (int64_t &number : numbers) number = open_sequence(serving.pool);
      Model model(3, kept.value_dim);
      std::vector<float> everything;
      for (const std::vector<int64_t> &counts : {std::vector<int64_t>{40, 3, 530}, {1, 1, 1}, {1, 0, 2}, {1, 60, 1}}) {
        const int64_t tokens = counts[0] + counts[1] + counts[2];
        serving.step(numbers, counts);
        const NewRows key = serving.new_keys(tokens, random), value = serving.new_values(tokens, random);
        const fovea_tensor k = key.rows.view(), v = value.rows.view();
        Tensor<float> query({tokens, kHeads, kDim});
        query.fill_normal(random);
        for (const int64_t layer : {0, 1}) serving.append(layer, k, v);
        const std::vector<float> all = serving.run(0, query), again = serving.run(1, query);
        CHECK(same_bits(all, again));
        everything.insert(everything.end(), all.begin(), all.end());
        const bool takes_bytes = by_bytes(description(serving.schedule));
        int64_t first = 0;
        for (size_t s = 0; s < 3; first += counts[s], ++s) {
          model.append(s, key, value, first, counts[s]);
          const bool bytes = takes_bytes && counts[s] * kHeads / kKvHeads <= 16;
          if (page == 16) check_sequence(model.problem(s, query, first, counts[s]), all, tokens, first, bytes);
        }
      }
      results.push_back(everything);
    }
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(results[0], results[2]));
  });
}

// A sequence that went elsewhere goes on with the bits that it would have had, and a fork's tokens are its own.
void check_saved(const Kept &kept) {
  CAPTURE(kept.key);
  CAPTURE(kept.value);
  const fovea_context *context = shared_context(instruction_sets().back());
  Random random(base_seed());
  const Serving serving(context, kept, 16, 0), other(context, kept, 7, 0);
  const int64_t a = open_sequence(serving.pool);
  serving.step({a}, {37});
  const NewRows key = serving.new_keys(37, random), value = serving.new_values(37, random);
  const fovea_tensor k = key.rows.view(), v = value.rows.view();
  for (const int64_t layer : {0, 1}) serving.append(layer, k, v);
  std::vector<unsigned char> bytes(fovea_kv_pool_saved_size(serving.pool.get(), a));
  REQUIRE_OK(fovea_kv_pool_save(serving.pool.get(), a, bytes.data(), bytes.size()));
  int64_t b = 0;
  REQUIRE_OK(fovea_kv_pool_restore(other.pool.get(), bytes.data(), bytes.size(), &b));
  const int64_t c = fork_sequence(serving.pool, a, 37);
  const NewRows one = serving.new_keys(1, random), its = serving.new_values(1, random),
                two = serving.new_keys(1, random);
  const fovea_tensor k1 = one.rows.view(), v1 = its.rows.view(), k2 = two.rows.view();
  Tensor<float> query({1, kHeads, kDim});
  query.fill_normal(random);
  serving.step({a}, {1});
  serving.append(1, k1, v1);
  const std::vector<float> first = serving.run(1, query);
  serving.step({c}, {1});
  serving.append(1, k2, v1);
  const std::vector<float> forked = serving.run(1, query);
  CHECK_FALSE(same_bits(first, forked));
  serving.step({a}, {0});
  other.step({b}, {1});
  other.append(1, k1, v1);
  CHECK(same_bits(other.run(1, query), first));
  bytes.back() ^= 1;
  check_refusal(fovea_kv_pool_restore(other.pool.get(), bytes.data(), bytes.size(), &b), FOVEA_BAD_VALUE, {"checksum"});
  const KvPool with_groups = make_pool({.layers = 2,
                                        .kv_heads = kKvHeads,
                                        .head_dim = kDim,
                                        .value_dim = kept.value_dim,
                                        .key_dtype = kept.key,
                                        .value_dtype = kept.value,
                                        .scale_group = kept.group});
  check_refusal(fovea_kv_pool_restore(with_groups.get(), bytes.data(), bytes.size(), &b), FOVEA_BAD_VALUE,
                {"scale_group 0", std::to_string(kept.group)});
}

}  // namespace

TEST_SUITE("ragged eight bits") {
  TEST_CASE("steps of prompts and single tokens over pages of 8 bits, in any pages the same bits") {
    for (const Kept &kept : kKept) check_steps(kept);
  }

  TEST_CASE("saved, restored and forked: the same bits, and a fork's tokens are its own") {
    for (const Kept &kept : kKept) check_saved(kept);
  }

  TEST_CASE("a sequence of values of 8 bits is none of 4") {
    const KvPool eight = make_pool({.head_dim = 64, .value_dim = 64, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_I8}),
                 four = make_pool({.head_dim = 64, .value_dim = 64, .key_dtype = FOVEA_I8, .value_dtype = FOVEA_U8});
    const int64_t number = open_sequence(eight);
    std::vector<unsigned char> bytes(fovea_kv_pool_saved_size(eight.get(), number));
    REQUIRE_OK(fovea_kv_pool_save(eight.get(), number, bytes.data(), bytes.size()));
    int64_t restored = 0;
    check_refusal(fovea_kv_pool_restore(four.get(), bytes.data(), bytes.size(), &restored), FOVEA_BAD_VALUE,
                  {"bytes have values of FOVEA_I8", "FOVEA_U8"});
  }

  TEST_CASE("turned on the way") {
    const fovea_context *context = shared_context(instruction_sets().back());
    Random random(base_seed());
    const Serving serving(context, kKept[1], 16, 0);
    const int64_t value_dim = serving.kept.value_dim;
    const int64_t a = open_sequence(serving.pool);
    Tensor<float> key({50, kKvHeads, kDim}), turned({50, kKvHeads, kDim}), value({50, kKvHeads, value_dim});
    key.fill_normal(random);
    value.fill_normal(random);
    fovea_rotary_options rotary{};
    rotary.struct_size = sizeof rotary;
    rotary.base = 500;
    const auto heads = [](const Tensor<float> &rows) {
      const fovea_tensor view = rows.view();
      return fovea_tensor{view.data, FOVEA_F32, 3, {kKvHeads, 50, kDim}, {kDim, kKvHeads * kDim, 1}};
    };
    const fovea_tensor from = heads(key), to = heads(turned);
    REQUIRE_OK(fovea_rotary(context, &from, &to, &rotary));
    const auto part = [](const Tensor<float> &rows, int64_t first, int64_t count) {
      fovea_tensor view = rows.view();
      view.data = rows.data() + first * view.strides[0];
      view.shape[0] = count;
      return view;
    };
    for (const auto &[first, count] : {std::pair<int64_t, int64_t>{0, 33}, {33, 17}}) {
      serving.step({a}, {count});
      serving.append(0, part(key, first, count), part(value, first, count), &rotary);
      serving.append(1, part(turned, first, count), part(value, first, count));
    }
    Tensor<float> query({17, kHeads, kDim});
    query.fill_normal(random);
    CHECK(same_bits(serving.run(0, query), serving.run(1, query)));
  }
}
