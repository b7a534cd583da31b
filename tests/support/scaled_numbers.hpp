// Keys and values as numbers with scales, of 8 bits and of 4, beside float tensors of what they stand for, and calls
// with them.
#pragma once

#include <cmath>
#include <string>

#include "attention_plan.hpp"
#include "narrow.hpp"
#include "random_attention.hpp"

namespace testing {

// A number of features that may share a scale: a multiple of `step` that divides them, or all.
inline int64_t any_group(Random &random, int64_t dim, int64_t step = 16) {
  std::vector<int64_t> groups = {dim};
  for (int64_t group = step; group < dim; group += step) {
    if (dim % group == 0) groups.push_back(group);
  }
  return groups[static_cast<size_t>(random.integer(0, static_cast<int64_t>(groups.size()) - 1))];
}

// Strides of a tensor of such a shape in some layout.
inline Shape any_strides(const Shape &shape, Random &random) {
  std::vector<int> order(shape.size());
  for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = static_cast<int>(axis);
  if (order.size() == 4 && random.chance(0.5)) std::swap(order[1], order[2]);
  return permuted_strides(shape, order, random.integer(0, 3));
}

// What a call is given in the place of keys or values.
class ScaledNumbers {
 public:
  virtual ~ScaledNumbers() = default;
  virtual fovea_tensor numbers_view() const = 0;
  virtual void read_back(Tensor<float> &floats) const = 0;

  Tensor<uint16_t> &scales() { return scales_; }
  fovea_tensor scales_view() const {
    scales_.memory().freeze();
    fovea_tensor view = scales_.view();
    view.dtype = FOVEA_F16;
    return view;
  }

 protected:
  static Shape last_size(Shape shape, int64_t size) {
    shape.back() = size;
    return shape;
  }
  float scale_of(const Shape &index, int64_t at) const { return widened(scales_.at(last_size(index, at)), FOVEA_F16); }
  void make_scales(const Shape &floats, int64_t count, Random &random) {
    const Shape shape = last_size(floats, count);
    scales_ = Tensor<uint16_t>(shape, any_strides(shape, random));
  }

  Tensor<uint16_t> scales_;
};

// Numbers with the layout of a tensor, which gets what they stand for, and their scales, of about a size; 0: of any.
class EightBits : public ScaledNumbers {
 public:
  EightBits(Tensor<float> &floats, int64_t group, Random &random, float most = 0)
      : numbers_(floats.shape(), floats.strides()), group_(group) {
    make_scales(floats.shape(), floats.shape().back() / group, random);
    const float size = most != 0 ? most : random.pick({0.02f, 0.02f, 0.02f, 1e-6f, 3.0f});
    numbers_.fill([&] { return static_cast<int8_t>(random.integer(-128, 127)); });
    scales_.fill([&] {
      const float scale = size * random.uniform(0.2f, 1.8f) * (random.chance(0.05) ? -1.0f : 1.0f);
      return narrowed(random.chance(0.02) ? 0.0f : scale, FOVEA_F16);
    });
    read_back(floats);
  }

  void read_back(Tensor<float> &floats) const override {
    floats.memory().thaw();
    for_each_index(floats.shape(), [&](const Shape &index) {
      floats.at(index) = static_cast<float>(numbers_.at(index)) * scale_of(index, index.back() / group_);
    });
  }

  fovea_tensor numbers_view() const override {
    numbers_.memory().freeze();
    return numbers_.view();
  }

 private:
  Tensor<int8_t> numbers_;
  int64_t group_;
};

// Likewise of 4 bits: pairs of a scale and a least number.
class FourBits : public ScaledNumbers {
 public:
  FourBits(Tensor<float> &floats, int64_t group, Random &random, float most = 0) : group_(group) {
    const Shape shape = last_size(floats.shape(), floats.shape().back() / 2);
    numbers_ = Tensor<uint8_t>(shape, any_strides(shape, random));
    make_scales(floats.shape(), 2 * (floats.shape().back() / group), random);
    const float size = most != 0 ? most : random.pick({0.2f, 0.2f, 0.2f, 1e-6f, 3.0f});
    numbers_.fill([&] { return static_cast<uint8_t>(random.integer(0, 255)); });
    scales_.fill([&] {
      const float scale = size * random.uniform(0.2f, 1.8f) * (random.chance(0.5) ? -1.0f : 1.0f);
      return narrowed(random.chance(0.02) ? 0.0f : scale, FOVEA_F16);
    });
    read_back(floats);
  }

  void read_back(Tensor<float> &floats) const override {
    floats.memory().thaw();
    for_each_index(floats.shape(), [&](const Shape &index) {
      const int64_t d = index.back();
      const int byte = numbers_.at(last_size(index, d / 32 * 16 + d % 16));
      const auto number = static_cast<float>(d % 32 < 16 ? byte % 16 : byte / 16);
      floats.at(index) = std::fma(number, scale_of(index, d / group_ * 2), scale_of(index, d / group_ * 2 + 1));
    });
  }

  fovea_tensor numbers_view() const override {
    numbers_.memory().freeze();
    fovea_tensor view = numbers_.view();
    view.dtype = FOVEA_U8;
    return view;
  }

 private:
  Tensor<uint8_t> numbers_;
  int64_t group_;
};

// A call with numbers in the place of its keys or values, or both.
struct ScaledCall {
  ScaledCall(const AttentionProblem &problem, const AttentionResult &result, const ScaledNumbers *keys,
             const ScaledNumbers *values)
      : call(problem, result) {
    if (keys != nullptr) {
      call.key = keys->numbers_view();
      key_scales = keys->scales_view();
      call.options.key_scales = &key_scales;
    }
    if (values != nullptr) {
      call.value = values->numbers_view();
      value_scales = values->scales_view();
      call.options.value_scales = &value_scales;
    }
  }

  AttentionArguments call;
  fovea_tensor key_scales{}, value_scales{};
};

inline std::string plan_text(const AttentionArguments &call, const fovea_context *context) {
  fovea_plan *plan = nullptr;
  REQUIRE_OK(call.plan(context, &plan));
  char text[512];
  fovea_plan_describe(plan, text, sizeof text);
  fovea_plan_destroy(plan);
  return text;
}

// The type that the kernels of a call multiply.
inline fovea_dtype multiplied(const std::string &plan) {
  if (plan.find("kernels=amxfp16") != std::string::npos) return FOVEA_F16;
  const bool pairs = plan.find("kernels=avx512bf16") != std::string::npos;
  return pairs || plan.find("kernels=amxbf16") != std::string::npos ? FOVEA_BF16 : FOVEA_F32;
}

inline bool same_but_nan(const Tensor<float> &a, const Tensor<float> &b) {
  bool same = true;
  for_each_index(a.shape(), [&](const Shape &index) {
    const float x = a.at(index), y = b.at(index);
    same = same && ((std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0);
  });
  return same;
}

// Rows one after the other, of a type: the 8 bits are copied, too.
inline NarrowTensor packed(const Tensor<float> &from, fovea_dtype dtype) {
  Tensor<float> copy{Shape(from.shape())};
  copy.assign(from.dense());
  return NarrowTensor(copy, dtype);
}

// Few rows, of sizes that products of bytes take: numbers of keys around a block and a piece, with or without a window,
// a mask, a soft-cap, dropout.
inline AttentionProblem any_few_rows_of_bytes(Random &random) {
  const int64_t queries = random.pick({1, 1, 1, 2});
  AttentionProblem problem =
      make_attention({.batch = 2,
                      .heads = 2 * (queries == 1 ? random.integer(1, 16) : random.integer(1, 8)),
                      .kv_heads = 2,
                      .query_len = queries,
                      .key_len = random.pick({1, 2, 3, 4, 5, 15, 16, 17, 95, 96, 97, 191, 192, 193, 200, 386}),
                      .head_dim = random.pick({64, 64, 128, 192, 256, 512}),
                      .value_dim = random.pick({64, 64, 128, 192, 256, 512})},
                     random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}));
  if (random.chance(0.3)) problem.flags |= FOVEA_WINDOW_LEFT | FOVEA_CAUSAL;
  problem.window_left = random.integer(0, 100);
  if (random.chance(0.3)) {
    problem.set_mask([&](int64_t, int64_t, int64_t, int64_t) { return random.chance(0.7); });
  }
  if (random.chance(0.2)) problem.softcap = 20;
  if (random.chance(0.2)) problem.dropout = 0.5f;
  return problem;
}

inline bool by_bytes(const std::string &plan) { return plan.find("kernels=avx512vnni") != std::string::npos; }

// Products of bytes round a query's numbers to 2^-16 of the largest of its block, and a weight times a scale to 2^-16
// of the largest of 192 keys. So many roundings hardly ever go one way: 64 of one sign are allowed here.
inline void check_near(const AttentionProblem &problem, const AttentionResult &result, const AttentionResult &truth) {
  const std::vector<float> queries = problem.query.dense(), keys = problem.key.dense(), values = problem.value.dense();
  const auto largest = [](const std::vector<float> &numbers) {
    double most = 0;
    for (const float number : numbers) most = std::isfinite(number) ? std::max<double>(most, std::abs(number)) : most;
    return most;
  };
  const auto dim = static_cast<size_t>(problem.sizes.head_dim);
  double sum = 0;  // the largest of the numbers' sizes in a key
  for (size_t begin = 0; begin < keys.size(); begin += dim) {
    double its = 0;
    for (size_t d = 0; d < dim; ++d) its += std::abs(keys[begin + d]);
    sum = std::max(sum, its);
  }
  const double usual = (problem.flags & FOVEA_SCALE_GIVEN) != 0 ? 0 : 1 / std::sqrt(static_cast<double>(dim));
  const double scale = problem.scale != 0 ? std::abs(problem.scale) : usual;
  const double of_score = 0x1p-16 * scale * largest(queries) * sum;
  const double keep = 1 / (1 - static_cast<double>(problem.dropout));
  const double allowed = keep * largest(values) * (64 * 0x1p-16 + 2 * of_score);
  const auto check = [](const Tensor<float> &got, const Tensor<float> &expected, double most, double relative) {
    int64_t wrong = 0;
    for_each_index(expected.shape(), [&](const Shape &index) {
      const double a = got.at(index), b = expected.at(index);
      wrong += std::isfinite(b) ? !(std::abs(a - b) <= most + relative * std::abs(b))
                                : std::isnan(a) != std::isnan(b) || (std::isinf(b) && a != b);
    });
    CHECK_EQ(wrong, 0);
  };
  check(result.out, truth.out, allowed, 1e-6);
  if (truth.log_sum_exp) check(*result.log_sum_exp, *truth.log_sum_exp, of_score + 1e-5, 1e-5);
}

// The same beside the formula, in double.
inline void check_near_formula(const AttentionProblem &problem, const AttentionResult &result) {
  const reference::AttentionOutputs<double> truth = reference::attention<double>(problem.reference_inputs());
  AttentionResult rounded = problem.make_result(false);
  rounded.out.assign({truth.out.begin(), truth.out.end()});
  rounded.log_sum_exp->assign({truth.log_sum_exp.begin(), truth.log_sum_exp.end()});
  check_near(problem, result, rounded);
}

}  // namespace testing
