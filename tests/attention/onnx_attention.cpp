// ONNX's operator Attention, opsets 23 to 25, as ordinary calls: for each kind of case that its node tests have, the call that does
// the same, in float32, float16 and bfloat16, against the formula in float64. What differs in words: positions are counted from
// the first key unless there is a past or a length, an additive mask is a bias, and of the modes of qk_matmul_output 0 to 2 are
// scores and 3 the weights. A past is a cache; what is present is what it holds then.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <set>

#include "support/kv_cache.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

enum class Mask { kNone, kBool, kFloat };

struct Case {
  const char *name;
  AttentionSizes sizes;  // key_len: past and new
  bool flat = false;     // [B,L,H D] in place of [B,H,L,D]
  bool causal = false;
  Mask mask = Mask::kNone;
  Shape mask_shape = {};
  float scale = 0, softcap = 0;
  int64_t past = 0;
  std::vector<int64_t> nonpad = {};
  int64_t window_left = -1, window_right = -1;
  int qk_matmul_output = 0;  // its mode; 0 to 2 are asked for in every case
  bool masked_rows = false;  // the mask's first row has nothing to attend
};

constexpr AttentionSizes kPlain = {2, 3, 3, 4, 6, 8, 8}, kGrouped = {2, 9, 3, 4, 6, 8, 8},
                         kWide = {2, 3, 3, 4, 6, 8, 10}, kPast = {2, 3, 3, 4, 18, 8, 8},
                         kGroupedPast = {2, 9, 3, 4, 18, 8, 8}, kWidePast = {2, 3, 3, 4, 18, 8, 10},
                         kRows = {1, 2, 2, 2, 2, 8, 8};

const Case kCases[] = {
    {.name = "4d", .sizes = kPlain},
    {.name = "4d, grouped heads", .sizes = kGrouped},
    {.name = "4d, another size of values", .sizes = kWide},
    {.name = "4d, scaled", .sizes = kPlain, .scale = 1e-2f},
    {.name = "4d, grouped heads, scaled", .sizes = kGrouped, .scale = 1e-2f},
    {.name = "4d, another size of values, scaled", .sizes = kWide, .scale = 1e-2f},
    {.name = "4d, causal", .sizes = kPlain, .causal = true},
    {.name = "4d, grouped heads, causal", .sizes = kGrouped, .causal = true},
    {.name = "4d, another size of values, causal", .sizes = kWide, .causal = true},
    {.name = "4d, mask [Q,K]", .sizes = kPlain, .mask = Mask::kFloat, .mask_shape = {4, 6}},
    {.name = "4d, mask [B,1,Q,K]", .sizes = kPlain, .mask = Mask::kFloat, .mask_shape = {2, 1, 4, 6}},
    {.name = "4d, mask [B,1,Q,K], causal",
     .sizes = kPlain,
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 1, 4, 6}},
    {.name = "4d, mask [B,H,Q,K]", .sizes = kPlain, .mask = Mask::kFloat, .mask_shape = {2, 3, 4, 6}},
    {.name = "4d, mask [B,H,Q,K], causal",
     .sizes = kPlain,
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 3, 4, 6}},
    {.name = "4d, boolean mask [Q,K]", .sizes = kPlain, .mask = Mask::kBool, .mask_shape = {4, 6}},
    {.name = "4d, boolean mask [B,H,Q,K]", .sizes = kPlain, .mask = Mask::kBool, .mask_shape = {2, 3, 4, 6}},
    {.name = "4d, grouped heads, mask", .sizes = kGrouped, .mask = Mask::kFloat, .mask_shape = {4, 6}},
    {.name = "4d, another size of values, mask", .sizes = kWide, .mask = Mask::kFloat, .mask_shape = {4, 6}},
    {.name = "4d, past", .sizes = kPast, .mask = Mask::kFloat, .mask_shape = {4, 18}, .past = 12},
    {.name = "4d, grouped heads, past", .sizes = kGroupedPast, .mask = Mask::kFloat, .mask_shape = {4, 18}, .past = 12},
    {.name = "4d, another size of values, past, mask [B,1,Q,K]",
     .sizes = kWidePast,
     .mask = Mask::kFloat,
     .mask_shape = {2, 1, 4, 18},
     .past = 12},
    {.name = "4d, another size of values, past, mask [B,H,Q,K]",
     .sizes = kWidePast,
     .mask = Mask::kFloat,
     .mask_shape = {2, 3, 4, 18},
     .past = 12},
    {.name = "4d, past, mask [B,1,Q,K], causal",
     .sizes = kPast,
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 1, 4, 18},
     .past = 12},
    {.name = "4d, past, mask [B,H,Q,K], causal",
     .sizes = kPast,
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 3, 4, 18},
     .past = 12},
    {.name = "4d, past, causal", .sizes = {2, 3, 3, 4, 16, 8, 8}, .causal = true, .past = 12},
    {.name = "4d, soft-cap", .sizes = kPlain, .softcap = 2},
    {.name = "4d, grouped heads, soft-cap", .sizes = kGrouped, .softcap = 2},
    {.name = "4d, another size of values, soft-cap", .sizes = kWide, .softcap = 2},
    {.name = "4d, soft-cap, mask of -infinity",
     .sizes = {1, 1, 1, 2, 4, 8, 8},
     .mask = Mask::kFloat,
     .mask_shape = {2, 4},
     .softcap = 0.5f},
    {.name = "4d, soft-cap, mask, weights",
     .sizes = kPlain,
     .mask = Mask::kFloat,
     .mask_shape = {4, 6},
     .softcap = 2,
     .qk_matmul_output = 3},
    {.name = "4d, mask, weights", .sizes = kPlain, .mask = Mask::kFloat, .mask_shape = {4, 6}, .qk_matmul_output = 3},
    {.name = "3d", .sizes = kPlain, .flat = true},
    {.name = "3d, grouped heads", .sizes = kGrouped, .flat = true},
    {.name = "3d, another size of values", .sizes = kWide, .flat = true},
    {.name = "3d, scaled", .sizes = kPlain, .flat = true, .scale = 1e-2f},
    {.name = "3d, grouped heads, scaled", .sizes = kGrouped, .flat = true, .scale = 1e-2f},
    {.name = "3d, causal", .sizes = kPlain, .flat = true, .causal = true},
    {.name = "3d, grouped heads, causal", .sizes = kGrouped, .flat = true, .causal = true},
    {.name = "3d, another size of values, causal", .sizes = kWide, .flat = true, .causal = true},
    {.name = "3d, mask", .sizes = kPlain, .flat = true, .mask = Mask::kFloat, .mask_shape = {4, 6}},
    {.name = "3d, another size of values, mask",
     .sizes = kWide,
     .flat = true,
     .mask = Mask::kFloat,
     .mask_shape = {4, 6}},
    {.name = "3d, soft-cap", .sizes = kPlain, .flat = true, .softcap = 3},
    {.name = "3d, grouped heads, soft-cap", .sizes = kGrouped, .flat = true, .softcap = 3},
    {.name = "3d, grouped heads, past",
     .sizes = kGroupedPast,
     .flat = true,
     .mask = Mask::kFloat,
     .mask_shape = {4, 18},
     .past = 12},
    {.name = "3d, soft-cap, past, weights",
     .sizes = kPast,
     .flat = true,
     .mask = Mask::kFloat,
     .mask_shape = {4, 18},
     .softcap = 2,
     .past = 12,
     .qk_matmul_output = 3},
    // Opset 24: lengths of the keys that are not padding; masks that end before the keys do.
    {.name = "padded keys, mask [B,H,Q,4]",
     .sizes = kWide,
     .mask = Mask::kFloat,
     .mask_shape = {2, 3, 4, 4},
     .nonpad = {3, 4}},
    {.name = "padded keys, mask [B,H,Q,4], causal",
     .sizes = kPlain,
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 3, 4, 4},
     .nonpad = {3, 4}},
    {.name = "padded keys, grouped heads, one query", .sizes = {2, 4, 2, 1, 8, 8, 8}, .causal = true, .nonpad = {8, 5}},
    {.name = "padded keys, prefill goes on", .sizes = {1, 2, 2, 2, 6, 8, 8}, .causal = true, .nonpad = {4}},
    {.name = "padded keys, prefill goes on in a batch",
     .sizes = {3, 2, 2, 2, 6, 8, 8},
     .causal = true,
     .nonpad = {4, 5, 6}},
    {.name = "padded keys, fewer than queries", .sizes = {1, 2, 2, 4, 6, 8, 8}, .causal = true, .nonpad = {2}},
    {.name = "padded keys, boolean mask, causal",
     .sizes = {2, 2, 2, 3, 6, 8, 8},
     .causal = true,
     .mask = Mask::kBool,
     .mask_shape = {2, 1, 3, 6},
     .nonpad = {4, 5}},
    {.name = "a row without keys", .sizes = kRows, .mask = Mask::kBool, .mask_shape = {2, 2}, .masked_rows = true},
    {.name = "a row without keys, causal",
     .sizes = kRows,
     .causal = true,
     .mask = Mask::kBool,
     .mask_shape = {2, 2},
     .masked_rows = true},
    {.name = "a row without keys, weights",
     .sizes = kRows,
     .mask = Mask::kBool,
     .mask_shape = {2, 2},
     .qk_matmul_output = 3,
     .masked_rows = true},
    // Opset 25: windows.
    {.name = "window", .sizes = kPlain, .causal = true, .window_left = 2},
    {.name = "window to both sides", .sizes = {1, 1, 1, 5, 5, 1, 1}, .window_left = 1, .window_right = 2},
    {.name = "window, mask [K]",
     .sizes = kPlain,
     .causal = true,
     .mask = Mask::kBool,
     .mask_shape = {1, 1, 1, 6},
     .window_left = 2},
    {.name = "window, past", .sizes = {2, 3, 3, 4, 10, 8, 8}, .causal = true, .past = 8, .window_left = 2},
    {.name = "window, padded keys, mask [H,Q,K]",
     .sizes = {2, 3, 3, 4, 8, 8, 8},
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {1, 3, 4, 8},
     .nonpad = {6, 7},
     .window_left = 2},
    {.name = "window, padded keys, mask [B,1,Q,K]",
     .sizes = {2, 3, 3, 4, 8, 8, 8},
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {2, 1, 4, 8},
     .nonpad = {6, 7},
     .window_left = 2},
    {.name = "window, padded keys, mask [1,K]",
     .sizes = {2, 3, 3, 4, 8, 8, 8},
     .causal = true,
     .mask = Mask::kFloat,
     .mask_shape = {1, 8},
     .nonpad = {6, 7},
     .window_left = 2},
    {.name = "window, 3d, one head of keys",
     .sizes = {2, 4, 1, 4, 6, 8, 6},
     .flat = true,
     .causal = true,
     .window_left = 2},
    {.name = "window, soft-cap, grouped heads, boolean mask, weights",
     .sizes = {2, 4, 2, 4, 6, 8, 6},
     .causal = true,
     .mask = Mask::kBool,
     .mask_shape = {2, 4, 4, 6},
     .softcap = 2,
     .window_left = 2,
     .qk_matmul_output = 3,
     .masked_rows = true},
};

// A tensor of the call: floats, which all have a number of `dtype`, in that type.
class Typed {
 public:
  Typed(const Tensor<float> &floats, fovea_dtype dtype) : floats_(floats), dtype_(dtype) {
    if (dtype != FOVEA_F32) narrow_.emplace(floats, dtype);
  }
  fovea_tensor view() const { return narrow_ ? narrow_->view() : floats_.view(); }
  float at(const Shape &index) const { return narrow_ ? widened(narrow_->at(index), dtype_) : floats_.at(index); }
  bool gaps_untouched() const { return narrow_ ? narrow_->gaps_untouched() : floats_.gaps_untouched(); }

 private:
  const Tensor<float> &floats_;
  fovea_dtype dtype_;
  std::optional<NarrowTensor> narrow_;
};

void fill(Tensor<float> &tensor, fovea_dtype dtype, Random &random) {
  tensor.fill([&] { return rounded_to(random.normal(), dtype); });
}

void set_mask(AttentionProblem &problem, const Case &one, fovea_dtype dtype, Random &random) {
  if (one.mask == Mask::kNone) return;
  const int64_t keys = one.mask_shape.back(), first_row = one.masked_rows ? keys : 0;
  const int64_t rows = one.mask_shape[one.mask_shape.size() - 2];
  int64_t n = 0;
  const auto attended = [&] {
    const int64_t in_head = n++ % (rows * keys);
    return in_head >= first_row && (in_head % keys == 0 || random.chance(0.7));
  };
  if (one.mask == Mask::kBool) {
    problem.mask.emplace(one.mask_shape).fill([&] { return static_cast<uint8_t>(attended()); });
  } else {
    problem.bias.emplace(one.mask_shape).fill([&] {
      return attended() || random.chance(0.5) ? rounded_to(random.normal(), dtype) : -kInfinity;
    });
  }
}

AttentionProblem make_problem(const Case &one, fovea_dtype dtype, Random &random) {
  AttentionProblem problem = make_attention(one.sizes, random, one.flat ? Layout::kHeadsLast : Layout::kHeadsFirst);
  problem.out_layout = one.flat ? Layout::kHeadsLast : Layout::kHeadsFirst;
  for (Tensor<float> *tensor : {&problem.query, &problem.key, &problem.value}) fill(*tensor, dtype, random);
  set_mask(problem, one, dtype, random);
  problem.scale = one.scale;
  problem.softcap = one.softcap;
  problem.flags = one.causal ? FOVEA_CAUSAL : 0;
  if (one.window_left >= 0) problem.flags |= FOVEA_WINDOW_LEFT;
  if (one.window_right >= 0) problem.flags |= FOVEA_WINDOW_RIGHT;
  problem.window_left = std::max<int64_t>(one.window_left, 0);
  problem.window_right = std::max<int64_t>(one.window_right, 0);
  if (one.nonpad.empty()) {
    problem.flags |= FOVEA_QUERY_OFFSET;
    problem.query_offset = one.past;
  } else {
    std::vector<int64_t> offsets;
    for (const int64_t length : one.nonpad) offsets.push_back(length - one.sizes.query_len);
    problem.set_query_offsets(offsets, true);
    problem.set_valid_lens(one.nonpad, true);
  }
  return problem;
}

// How far a number of that type may be from the truth: its own rounding, and float32's on the way.
double allowance(double truth, fovea_dtype dtype) {
  const double of_type = dtype == FOVEA_BF16 ? 0x1p-9 : dtype == FOVEA_F16 ? 0x1p-12 : 0;
  const double subnormal = dtype == FOVEA_F16 ? 0x1p-25 : 0;
  return 2 * of_type * std::abs(truth) + subnormal + 0x1p-20 * (1 + std::abs(truth));
}

// magnitudes: of what weights that are rounded to 8 bits are multiplied by; none where they are not.
void check_near(const Typed &got, const Shape &shape, const std::vector<double> &truth, fovea_dtype dtype,
                const std::vector<double> &magnitudes = {}) {
  int64_t wrong = 0;
  size_t n = 0;
  for_each_index(shape, [&](const Shape &index) {
    const double expected = truth[n], more = magnitudes.empty() ? 0 : 0x1p-8 * magnitudes[n];
    ++n;
    const double found = got.at(index);
    wrong +=
        std::isinf(expected) ? found != expected : !(std::abs(found - expected) <= allowance(expected, dtype) + more);
  });
  CHECK_EQ(wrong, 0);
  CHECK(got.gaps_untouched());
}

// The numbers of qk_matmul_output's modes 0, 1 and 2.
std::vector<double> expected_scores(const reference::AttentionInputs &in, int mode) {
  const auto raw = reference::raw_scores<double>(in);
  const double scale = in.scale != 0 ? in.scale : 1 / std::sqrt(static_cast<double>(in.query_dim));
  std::vector<double> scores;
  for (size_t n = 0; n < raw.values.size(); ++n) {
    const auto row = static_cast<int64_t>(n) / in.key_len, j = static_cast<int64_t>(n) % in.key_len;
    double score = scale * raw.values[n];
    if (mode >= 1 && in.softcap != 0) score = in.softcap * std::tanh(score / in.softcap);
    if (mode == 2) {
      if (in.bias) score += (*in.bias)[n];
      const std::vector<bool> attended = reference::attended_keys(in, row / (in.heads * in.query_len),
                                                                  row / in.query_len % in.heads, row % in.query_len);
      if (!attended[static_cast<size_t>(j)]) score = -kInfinity;
    }
    scores.push_back(score);
  }
  return scores;
}

bool rounds_weights(const AttentionArguments &call, const fovea_context *context) {
  fovea_plan *plan = nullptr;
  REQUIRE_OK(call.plan(context, &plan));
  char text[512];
  fovea_plan_describe(plan, text, sizeof text);
  fovea_plan_destroy(plan);
  return std::string(text).find("bf16 ") != std::string::npos;
}

struct Outputs {
  Outputs(const AttentionProblem &problem, fovea_dtype dtype)
      : floats(problem.make_result(true)),
        score_floats(problem.score_shape()),
        out(floats.out, dtype),
        weights(*floats.weights, dtype),
        scores(score_floats, dtype) {}
  Outputs(const Outputs &) = delete;
  Outputs &operator=(const Outputs &) = delete;

  AttentionResult floats;
  Tensor<float> score_floats;
  Typed out, weights, scores;
};

fovea_tensor positions(fovea_tensor tensor, int64_t begin, int64_t end) {
  const int64_t size = tensor.dtype == FOVEA_F32 ? 4 : 2;
  tensor.data = static_cast<char *>(tensor.data) + begin * tensor.strides[2] * size;
  tensor.shape[2] = end - begin;
  return tensor;
}

// A cache of the past, to which what is new is appended.
KvCache present(const fovea_context *context, const AttentionProblem &problem, int64_t past, const fovea_tensor &key,
                const fovea_tensor &value) {
  const int64_t key_len = problem.sizes.key_len;
  KvCache cache = make_cache(problem, key_len, key.dtype);
  for (const auto &[begin, end] : {std::pair{int64_t{0}, past}, std::pair{past, key_len}}) {
    const fovea_tensor keys = positions(key, begin, end), values = positions(value, begin, end);
    REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &keys, &values));
  }
  CHECK_EQ(fovea_kv_cache_length(cache.get()), key_len);
  return cache;
}

void check_case(const Case &one, fovea_dtype dtype) {
  CAPTURE(one.name);
  CAPTURE(dtype);
  Random random(base_seed());
  const AttentionProblem problem = make_problem(one, dtype, random);
  const reference::AttentionInputs inputs = problem.reference_inputs();
  const auto truth = reference::attention<double>(inputs);
  for_each_isa([&](const fovea_context *context) {
    const Typed query(problem.query, dtype), key(problem.key, dtype), value(problem.value, dtype);
    std::optional<Typed> bias;
    if (problem.bias) bias.emplace(*problem.bias, dtype);
    const auto check_call = [&](int mode, const fovea_kv_cache *cache) {
      CAPTURE(mode);
      const Outputs outputs(problem, dtype);
      AttentionArguments call(problem, outputs.floats);
      call.query = query.view();
      call.key = key.view();
      call.value = value.view();
      call.out = outputs.out.view();
      call.weights = outputs.weights.view();
      if (bias) call.bias = bias->view();
      const fovea_tensor scores = outputs.scores.view();
      if (mode < 3) {
        call.options.weights = nullptr;
        call.options.scores = &scores;
        call.options.scores_kind = mode;
      }
      REQUIRE_OK(cache == nullptr
                     ? call.run(context)
                     : fovea_kv_cache_attend(context, cache, nullptr, &call.query, &call.out, &call.options));
      const bool rounded = rounds_weights(call, context);
      check_near(outputs.out, outputs.floats.out.shape(), truth.out, dtype,
                 rounded ? truth.weighted_magnitude : std::vector<double>());
      if (mode == 3) {
        check_near(outputs.weights, problem.score_shape(), truth.weights, dtype);
      } else {
        check_near(outputs.scores, problem.score_shape(), expected_scores(inputs, mode), dtype);
      }
    };
    std::set<int> modes = {0, 1, 2, one.qk_matmul_output};
    for (const int mode : modes) check_call(mode, nullptr);
    if (one.past == 0) return;
    const KvCache cache = present(context, problem, one.past, key.view(), value.view());
    for (const int mode : modes) check_call(mode, cache.get());
  });
}

}  // namespace

TEST_SUITE("onnx attention") {
  TEST_CASE("every kind of case, in every type") {
    std::set<std::string> names;
    for (const Case &one : kCases) {
      CHECK_MESSAGE(names.insert(one.name).second, "a name that two cases have");
      for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) check_case(one, dtype);
    }
  }

  TEST_CASE("by hand: five equal keys, a window of one to the left and two to the right") {
    const std::vector<float> zeros(5), values = {0, 1, 2, 3, 4}, expected = {1, 1.5f, 2.5f, 3, 3.5f};
    for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      const Case one = {.name = "", .sizes = {1, 1, 1, 5, 5, 1, 1}, .window_left = 1, .window_right = 2};
      Random random(base_seed());
      AttentionProblem problem = make_problem(one, dtype, random);
      problem.query.assign(zeros);
      problem.key.assign(zeros);
      problem.value.assign(values);
      for_each_isa([&](const fovea_context *context) {
        const Outputs outputs(problem, dtype);
        AttentionArguments call(problem, outputs.floats);
        const Typed query(problem.query, dtype), key(problem.key, dtype), value(problem.value, dtype);
        call.query = query.view();
        call.key = key.view();
        call.value = value.view();
        call.out = outputs.out.view();
        call.options.weights = nullptr;
        REQUIRE_OK(call.run(context));
        for (int64_t i = 0; i < 5; ++i) {
          CHECK(std::abs(outputs.out.at({0, 0, i, 0}) - expected[static_cast<size_t>(i)]) <=
                (dtype == FOVEA_F32 ? 1e-6f : 0.0f));
        }
      });
    }
  }
}
