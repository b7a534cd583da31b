// ONNX's operator Attention, opsets 23 to 25, as ordinary calls: for each kind of case that its node tests have, the
// call that does the same, in float32, float16 and bfloat16, against the formula in float64. What differs in words:
// positions are counted from the first key unless there is a past or a length, an additive mask is a bias, and of the
// modes of qk_matmul_output 0 to 2 are scores and 3 the weights. A past lies in memory with room for what is new, where
// ONNX's TensorScatter puts it: a page for each batch entry, to which a schedule appends, and which a schedule or a
// call of attention reads.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <set>

#include "onnx_cases.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

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

void set_mask(AttentionProblem &problem, const OnnxCase &one, fovea_dtype dtype, Random &random) {
  if (one.mask == OnnxMask::kNone) return;
  const int64_t keys = one.mask_shape.back(), first_row = one.masked_rows ? keys : 0;
  const int64_t rows = one.mask_shape[one.mask_shape.size() - 2];
  int64_t n = 0;
  const auto attended = [&] {
    const int64_t in_head = n++ % (rows * keys);
    return in_head >= first_row && (in_head % keys == 0 || random.chance(0.7));
  };
  if (one.mask == OnnxMask::kBool) {
    problem.mask.emplace(one.mask_shape).fill([&] { return static_cast<uint8_t>(attended()); });
  } else {
    problem.bias.emplace(one.mask_shape).fill([&] {
      return attended() || random.chance(0.5) ? rounded_to(random.normal(), dtype) : -kInfinity;
    });
  }
}

AttentionProblem make_problem(const OnnxCase &one, fovea_dtype dtype, Random &random) {
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

// Positions [begin, end) of all batch entries of [B,H,L,D], as tokens [B (end - begin),H,D].
Tensor<float> tokens_of(const Tensor<float> &rows, int64_t begin, int64_t end) {
  const int64_t batch = rows.shape()[0], count = end - begin;
  Tensor<float> tokens({batch * count, rows.shape()[1], rows.shape()[3]});
  for_each_index({batch, rows.shape()[1], count, rows.shape()[3]}, [&](const Shape &at) {
    tokens(at[0] * count + at[2], at[1], at[3]) = rows(at[0], at[1], begin + at[2], at[3]);
  });
  return tokens;
}

// Keys and values of a case in caches with room behind them, [B,Hkv,room,D]: a page for each batch entry.
class Caches {
 public:
  Caches(const fovea_context *context, const OnnxCase &one, const AttentionProblem &problem, fovea_dtype dtype)
      : problem_(problem), dtype_(dtype), room_(problem.sizes.key_len + 3) {
    const AttentionSizes &s = problem.sizes;
    keys_ = cache_of(s.head_dim, &key_memory_);
    values_ = cache_of(s.value_dim, &value_memory_);
    const int64_t most = s.batch * std::max(s.key_len, s.query_len);
    const int64_t query_shape[] = {most, s.heads, s.head_dim}, out_shape[] = {most, s.heads, s.value_dim};
    const fovea_tensor query = fovea_tensor_contiguous(nullptr, dtype, 3, query_shape);
    const fovea_tensor out = fovea_tensor_contiguous(nullptr, dtype, 3, out_shape);
    auto options = sized_options<fovea_attention_options>();
    options.flags = problem.flags;
    options.scale = problem.scale;
    options.softcap = problem.softcap;
    options.query_offset = problem.query_offset;
    if (s.batch == 1 && !one.nonpad.empty() && one.nonpad[0] < s.query_len) {  // the first query's position is below 0
      options.flags |= FOVEA_QUERY_OFFSET;
      options.query_offset = one.nonpad[0] - s.query_len;
    }
    options.window_left = problem.window_left;
    options.window_right = problem.window_right;
    auto limits = sized_options<fovea_schedule_limits>();
    limits.sequences = s.batch;
    fovea_schedule *made = nullptr;
    REQUIRE_OK(fovea_schedule_create(context, nullptr, &query, &keys_, &values_, &out, &options, &limits, &made));
    schedule_.reset(made);
    append(0, one.past);
    append(one.past, s.key_len);
  }

  fovea_tensor keys() const { return cut(keys_); }
  fovea_tensor values() const { return cut(values_); }

  // The queries of the case, over so many keys of each batch entry.
  std::vector<float> attend(const std::vector<int64_t> &lengths, bool *rounds) const {
    const AttentionSizes &s = problem_.sizes;
    set(s.query_len, lengths);
    char text[512];
    fovea_schedule_describe(schedule_.get(), text, sizeof text);
    *rounds = std::string(text).find("bf16") != std::string::npos;
    const Tensor<float> query_floats = tokens_of(problem_.query, 0, s.query_len);
    const Tensor<float> out_floats({s.batch * s.query_len, s.heads, s.value_dim});
    const Typed query(query_floats, dtype_), out(out_floats, dtype_);
    auto buffers = sized_options<fovea_attention_buffers>();
    buffers.query = query.view().data;
    buffers.key = keys_.data;
    buffers.value = values_.data;
    buffers.out = out.view().data;
    REQUIRE_OK(fovea_schedule_run(schedule_.get(), &buffers, nullptr, 0));
    std::vector<float> numbers;
    for_each_index({s.batch, s.heads, s.query_len, s.value_dim}, [&](const Shape &at) {
      numbers.push_back(out.at({at[0] * s.query_len + at[2], at[1], at[3]}));
    });
    return numbers;
  }

 private:
  fovea_tensor cache_of(int64_t dim, std::vector<unsigned char> *memory) const {
    const AttentionSizes &s = problem_.sizes;
    const int64_t shape[] = {s.batch, s.kv_heads, room_, dim};
    const int64_t element = dtype_ == FOVEA_F32 ? 4 : 2;
    memory->assign(static_cast<size_t>(s.batch * s.kv_heads * room_ * dim * element), 0xff);  // NaN
    return fovea_tensor_contiguous(memory->data(), dtype_, 4, shape);
  }
  fovea_tensor cut(fovea_tensor cache) const {
    cache.shape[2] = problem_.sizes.key_len;
    return cache;
  }

  // A step of so many tokens of each batch entry.
  void set(int64_t tokens, const std::vector<int64_t> &lengths) const {
    const int64_t batch = problem_.sizes.batch, table[] = {batch, 1}, more = batch + 1;
    std::vector<int64_t> starts, ids;
    for (int64_t b = 0; b <= batch; ++b) starts.push_back(b * tokens);
    for (int64_t b = 0; b < batch; ++b) ids.push_back(b);
    const fovea_tensor starts_view = fovea_tensor_contiguous(starts.data(), FOVEA_I64, 1, &more);
    const fovea_tensor lens_view = fovea_tensor_contiguous(lengths.data(), FOVEA_I64, 1, &batch);
    const fovea_tensor ids_view = fovea_tensor_contiguous(ids.data(), FOVEA_I64, 2, table);
    auto step = sized_options<fovea_step>();
    step.query_starts = &starts_view;
    step.key_lens = &lens_view;
    step.page_ids = &ids_view;
    REQUIRE_OK(fovea_schedule_set(schedule_.get(), &step));
  }

  void append(int64_t begin, int64_t end) const {
    set(end - begin, std::vector<int64_t>(static_cast<size_t>(problem_.sizes.batch), end));
    const Tensor<float> key_floats = tokens_of(problem_.key, begin, end),
                        value_floats = tokens_of(problem_.value, begin, end);
    const Typed key(key_floats, dtype_), value(value_floats, dtype_);
    const fovea_tensor k = key.view(), v = value.view();
    REQUIRE_OK(fovea_schedule_append(schedule_.get(), &k, &v, &keys_, &values_, nullptr));
  }

  const AttentionProblem &problem_;
  fovea_dtype dtype_;
  int64_t room_;
  std::vector<unsigned char> key_memory_, value_memory_;
  fovea_tensor keys_{}, values_{};
  OwnSchedule schedule_;
};

// What schedules can do themselves: all but masks. Lengths are each sequence's own.
void check_schedule(const OnnxCase &one, const AttentionProblem &problem, const Caches &caches,
                    const reference::AttentionOutputs<double> &truth, fovea_dtype dtype) {
  if (one.mask != OnnxMask::kNone) return;
  const AttentionSizes &s = problem.sizes;
  bool rounds = false;
  const std::vector<float> out = caches.attend(
      one.nonpad.empty() ? std::vector<int64_t>(static_cast<size_t>(s.batch), s.key_len) : one.nonpad, &rounds);
  Tensor<float> as_call({s.batch, s.heads, s.query_len, s.value_dim});
  as_call.assign(out);
  check_near(Typed(as_call, FOVEA_F32), as_call.shape(), truth.out, dtype,
             rounds ? truth.weighted_magnitude : std::vector<double>());
}

void check_case(const OnnxCase &one, fovea_dtype dtype) {
  const std::string name = one.name;
  CAPTURE(name);
  CAPTURE(dtype);
  Random random(base_seed());
  const AttentionProblem problem = make_problem(one, dtype, random);
  const reference::AttentionInputs inputs = problem.reference_inputs();
  const auto truth = reference::attention<double>(inputs);
  for_each_isa([&](const fovea_context *context) {
    const Typed query(problem.query, dtype), key(problem.key, dtype), value(problem.value, dtype);
    std::optional<Typed> bias;
    if (problem.bias) bias.emplace(*problem.bias, dtype);
    const auto check_call = [&](int mode, const Caches *caches) {
      CAPTURE(mode);
      const Outputs outputs(problem, dtype);
      AttentionArguments call(problem, outputs.floats);
      call.query = query.view();
      call.key = caches == nullptr ? key.view() : caches->keys();
      call.value = caches == nullptr ? value.view() : caches->values();
      call.out = outputs.out.view();
      call.weights = outputs.weights.view();
      if (bias) call.bias = bias->view();
      const fovea_tensor scores = outputs.scores.view();
      if (mode < 3) {
        call.options.weights = nullptr;
        call.options.scores = &scores;
        call.options.scores_kind = mode;
      }
      REQUIRE_OK(call.run(context));
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
    const Caches caches(context, one, problem, dtype);
    check_schedule(one, problem, caches, truth, dtype);
    for (const int mode : modes) check_call(mode, &caches);
  });
}

}  // namespace

TEST_SUITE("onnx attention") {
  TEST_CASE("every kind of case, in every type") {
    std::set<std::string> names;
    for (const OnnxCase &one : kOnnxCases) {
      CHECK_MESSAGE(names.insert(one.name).second, "a name that two cases have");
      for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) check_case(one, dtype);
    }
  }

  TEST_CASE("by hand: five equal keys, a window of one to the left and two to the right") {
    const std::vector<float> zeros(5), values = {0, 1, 2, 3, 4}, expected = {1, 1.5f, 2.5f, 3, 3.5f};
    for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      const OnnxCase one = {.name = "", .sizes = {1, 1, 1, 5, 5, 1, 1}, .window_left = 1, .window_right = 2};
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
