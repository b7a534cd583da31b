// Masked softmax against float64, over shapes, strides, lengths, policies and special values.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "reference.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

struct Problem {
  Tensor<float> x;
  Shape out_strides;
  std::optional<Tensor<int32_t>> lens_32;
  std::optional<Tensor<int64_t>> lens_64;
  int32_t empty_rows = FOVEA_EMPTY_ROWS_ZERO;

  int64_t key_len() const { return x.shape().back(); }
  int64_t row_count() const { return key_len() == 0 ? 0 : x.count() / key_len(); }

  // The length of each row, in row-major order.
  std::vector<int64_t> row_lens() const {
    const Shape &shape = x.shape();
    const int64_t batch = shape.size() == 2 ? 1 : shape[0], query_len = shape[shape.size() - 2];
    std::vector<int64_t> lens;
    for (int64_t row = 0; row < row_count(); ++row) {
      const int64_t b = row / (row_count() / batch), q = row % query_len;
      lens.push_back(lens_32 ? at(*lens_32, b, q) : lens_64 ? at(*lens_64, b, q) : key_len());
    }
    return lens;
  }

  fovea_status run(const fovea_context *context, const fovea_tensor &out) const {
    const fovea_tensor x_view = x.view();
    fovea_tensor lens{};
    if (lens_32) lens = lens_32->view();
    if (lens_64) lens = lens_64->view();
    const fovea_masked_softmax_options options = {sizeof options, empty_rows, 0};
    return fovea_masked_softmax(context, &x_view, lens_32 || lens_64 ? &lens : nullptr, &out, &options);
  }

 private:
  template <typename T>
  static int64_t at(const Tensor<T> &lens, int64_t b, int64_t q) {
    return lens.shape().size() == 1 ? lens(b) : lens(b, q);
  }
};

// A row whose attended scores are all -infinity has nothing to attend.
std::vector<int64_t> attended_lens(const Problem &problem, const std::vector<float> &x) {
  std::vector<int64_t> lens = problem.row_lens();
  for (size_t row = 0; row < lens.size(); ++row) {
    const auto first = x.begin() + static_cast<int64_t>(row) * problem.key_len();
    if (std::all_of(first, first + lens[row], [](float score) { return score == -kInfinity; })) lens[row] = 0;
  }
  return lens;
}

// Elements outside |out - truth| <= (8 + K + 4 d) 2^-24 truth, d the distance to the row's maximum, whose rounding the
// exponential magnifies; and masked elements that are not exactly what the policy says.
int64_t bad_elements(const std::vector<float> &x, const std::vector<float> &out, const std::vector<double> &truth,
                     const std::vector<int64_t> &lens, int64_t key_len) {
  int64_t bad = 0;
  for (size_t row = 0; row < lens.size(); ++row) {
    const auto first = static_cast<int64_t>(row) * key_len;
    const float row_max = lens[row] == 0 ? 0 : *std::max_element(&x[first], &x[first] + lens[row]);
    for (int64_t j = 0; j < key_len; ++j) {
      const double expected = truth[first + j];
      const double distance = j < lens[row] ? std::min(double(row_max) - x[first + j], 200.0) : 0;
      const double bound = (8 + double(key_len) + 4 * distance) * kEpsilon * expected + 0x1p-124;
      const bool masked = lens[row] != 0 && j >= lens[row];
      const bool fits =
          std::isnan(expected) ? std::isnan(out[first + j]) : std::abs(out[first + j] - expected) <= bound;
      bad += fits && !(masked && out[first + j] != 0) ? 0 : 1;
    }
  }
  return bad;
}

void check_problem(const Problem &problem) {
  const std::vector<float> x = problem.x.dense();
  const auto policy = static_cast<reference::EmptyRows>(problem.empty_rows);
  const std::vector<int64_t> lens = attended_lens(problem, x);
  const auto truth = reference::masked_softmax<double>(x, lens, problem.key_len(), policy);
  const auto plain = reference::masked_softmax<float>(x, lens, problem.key_len(), policy);
  problem.x.memory().freeze();
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out(problem.x.shape(), problem.out_strides);
    REQUIRE_OK(problem.run(context, out.view()));
    CHECK_ACCURATE(out.dense(), truth, plain, 4 * kEpsilon);
    CHECK(bad_elements(x, out.dense(), truth, lens, problem.key_len()) == 0);
    CHECK(out.gaps_untouched());
  });
}

Shape random_shape(Random &random) {
  Shape shape;
  const int64_t rank = random.integer(2, 6);
  for (int64_t axis = 0; axis + 1 < rank; ++axis) shape.push_back(random.integer(1, rank > 4 ? 2 : 4));
  if (random.chance(0.03)) shape[random.integer(0, rank - 2)] = 0;
  shape.push_back(random.chance(0.5) ? random.integer(1, 40) : random.integer(1, 700));
  if (random.chance(0.03)) shape.back() = 0;
  return shape;
}

Shape random_strides(const Shape &shape, Random &random) {
  std::vector<int> order;
  for (size_t axis = 0; axis < shape.size(); ++axis) order.push_back(static_cast<int>(axis));
  for (size_t axis = shape.size() - 1; axis > 1; --axis) {
    std::swap(order[axis - 1], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(axis) - 1))]);
  }
  Shape strides = permuted_strides(shape, order, random.integer(0, 5));
  if (random.chance(0.2)) strides[0] = -strides[0];
  return strides;
}

template <typename T>
Tensor<T> random_lens(const Shape &x_shape, Random &random) {
  const int64_t batch = x_shape.size() == 2 ? 1 : x_shape[0], query_len = x_shape[x_shape.size() - 2];
  const int64_t key_len = x_shape.back();
  const int64_t spread = random.integer(1, 3);
  const Shape shape = random.chance(0.5) ? Shape{batch} : Shape{batch, query_len};
  Shape strides = contiguous_strides(shape);
  for (int64_t &stride : strides) stride *= spread;
  Tensor<T> lens(shape, strides);
  lens.fill([&] { return static_cast<T>(random.chance(0.15) ? 0 : random.integer(0, key_len)); });
  return lens;
}

Problem random_problem(uint64_t seed) {
  Random random(seed);
  const Shape shape = random_shape(random);
  Problem problem{Tensor<float>(shape, random_strides(shape, random)), random_strides(shape, random), {}, {}, 0};
  const float scale = random.pick({1.0f, 30.0f, 1e-3f}), shift = random.pick({0.0f, 0.0f, 1e4f, -1e4f});
  const double holes = random.pick({0.0, 0.0, 0.3, 1.0});
  problem.x.fill([&] { return random.chance(holes) ? -kInfinity : scale * random.normal() + shift; });
  if (random.chance(0.4)) {
    problem.lens_32 = random_lens<int32_t>(shape, random);
  } else if (random.chance(0.6)) {
    problem.lens_64 = random_lens<int64_t>(shape, random);
  }
  problem.empty_rows = random.pick({FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN});
  return problem;
}

Problem ragged(const Shape &shape, const Shape &lens_shape, const std::vector<int32_t> &lens, uint64_t seed) {
  Random random(seed);
  Problem problem{Tensor<float>(shape), contiguous_strides(shape), Tensor<int32_t>(lens_shape), {}, 0};
  problem.x.fill_normal(random);
  problem.lens_32->assign(lens);
  return problem;
}

// A number of any type, byte by byte.
struct Number {
  float value;
  fovea_dtype dtype;

  Number(float number, fovea_dtype type) : value(number), dtype(type) {}
  static size_t size(fovea_dtype dtype) { return dtype == FOVEA_F32 ? sizeof(float) : sizeof(uint16_t); }
  void append_to(std::vector<uint8_t> *bytes) const {
    uint8_t own[sizeof value];
    const uint16_t half = dtype == FOVEA_F32 ? 0 : narrowed(value, dtype);
    std::memcpy(own, dtype == FOVEA_F32 ? static_cast<const void *>(&value) : &half, size(dtype));
    bytes->insert(bytes->end(), own, own + size(dtype));
  }
};

}  // namespace

TEST_SUITE("masked_softmax") {
  TEST_CASE("one length per sequence: 2 and 3 of 4 keys") {
    const Problem problem = ragged({2, 2, 4}, {2}, {2, 3}, base_seed());
    check_problem(problem);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 2, 4});
      REQUIRE_OK(problem.run(context, out.view()));
      for (int64_t q = 0; q < 2; ++q) {
        CHECK(out(0, q, 2) == 0);
        CHECK(out(0, q, 3) == 0);
        CHECK(out(1, q, 3) == 0);
        CHECK(out(0, q, 0) + out(0, q, 1) == doctest::Approx(1));
        CHECK(out(1, q, 0) + out(1, q, 1) + out(1, q, 2) == doctest::Approx(1));
      }
    });
  }

  TEST_CASE("one length per query: 1, 3 and 2, 4 of 4 keys") {
    const Problem problem = ragged({2, 2, 4}, {2, 2}, {1, 3, 2, 4}, base_seed());
    check_problem(problem);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 2, 4});
      REQUIRE_OK(problem.run(context, out.view()));
      CHECK(out(0, 0, 0) == 1);
      for (int64_t j = 1; j < 4; ++j) CHECK(out(0, 0, j) == 0);
      for (int64_t j = 0; j < 4; ++j) CHECK(out(1, 1, j) > 0);
    });
  }

  TEST_CASE("every key length and valid length up to 70, at both ends of a page") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t key_len = 1; key_len <= 70; ++key_len) {
        CAPTURE(key_len);
        std::vector<int32_t> lens;
        for (int32_t len = 0; len <= key_len; ++len) lens.push_back(len);
        const auto rows = static_cast<int64_t>(lens.size());
        check_problem(ragged({1, rows, key_len}, {1, rows}, lens, base_seed()));
      }
      check_problem(ragged({1, 1, 5000}, {1}, {4999}, base_seed()));
    }
  }

  TEST_CASE("keys behind the valid length need no memory") {
    for (int32_t len = 0; len <= 70; ++len) {
      CAPTURE(len);
      Random random(base_seed());
      Tensor<float> x({1, 1, len});
      x.fill_normal(random).memory().freeze();
      const std::vector<float> values = x.dense();
      const auto truth = reference::masked_softmax<double>(values, {len}, len, reference::EmptyRows::kZero);
      fovea_tensor x_view = x.view();
      x_view.shape[2] = 80;  // its valid part ends where the mapped page does
      const int64_t one = 1;
      const fovea_tensor lens = fovea_tensor_contiguous(&len, FOVEA_I32, 1, &one);
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> out({1, 1, 80});
        const fovea_tensor out_view = out.view();
        REQUIRE_OK(fovea_masked_softmax(context, &x_view, &lens, &out_view, nullptr));
        int64_t wrong = 0;
        for (int64_t j = 0; j < 80; ++j) wrong += std::abs(out(0, 0, j) - (j < len ? truth[j] : 0)) < 1e-6 ? 0 : 1;
        CHECK(wrong == 0);
      });
    }
  }

  TEST_CASE("random shapes, strides, lengths, policies") {
    for (int64_t n = 0; n < case_count(1500); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      check_problem(random_problem(seed));
    }
  }

  TEST_CASE("in place gives the same bits") {
    for (int64_t n = 0; n < 200; ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      for_each_isa([&](const fovea_context *context) {
        const Problem problem = random_problem(seed);
        const Tensor<float> out(problem.x.shape(), problem.out_strides);
        REQUIRE_OK(problem.run(context, out.view()));
        REQUIRE_OK(problem.run(context, problem.x.view()));
        const std::vector<float> apart = out.dense(), in_place = problem.x.dense();
        CHECK((apart.empty() || std::memcmp(apart.data(), in_place.data(), apart.size() * sizeof(float)) == 0));
      });
    }
  }

  TEST_CASE("what lies behind the mask is not seen") {
    for (float poison : {kNan, kInfinity}) {
      Problem clean = ragged({3, 5, 100}, {3}, {1, 37, 99}, base_seed());
      Problem poisoned = ragged({3, 5, 100}, {3}, {1, 37, 99}, base_seed());
      for_each_index({3, 5, 100}, [&](const Shape &index) {
        if (index[2] >= (*clean.lens_32)(index[0])) poisoned.x.at(index) = poison;
      });
      for_each_isa([&](const fovea_context *context) {
        const Tensor<float> expected({3, 5, 100}), out({3, 5, 100});
        REQUIRE_OK(clean.run(context, expected.view()));
        REQUIRE_OK(poisoned.run(context, out.view()));
        CHECK(std::memcmp(expected.data(), out.data(), out.memory().size()) == 0);
      });
    }
  }

  TEST_CASE("NaN and +infinity in the valid part make all of it NaN and nothing else") {
    for (float special : {kNan, -kNan, kInfinity}) {
      for (float others : {0.0f, -kInfinity, 3e38f}) {
        for (int64_t len : {1, 3, 16, 50, 90}) {
          for (int64_t at : {int64_t{0}, len / 2, len - 1}) {
            Problem problem = ragged({1, 2, 100}, {1}, {static_cast<int32_t>(len)}, base_seed());
            problem.x.fill([&] { return others; });
            problem.x(0, 0, at) = special;
            problem.x(0, 1, 0) = 1;
            for_each_isa([&](const fovea_context *context) {
              const Tensor<float> out({1, 2, 100});
              REQUIRE_OK(problem.run(context, out.view()));
              int64_t wrong = 0;
              for (int64_t j = 0; j < 100; ++j) {
                wrong += (j < len ? std::isnan(out(0, 0, j)) : out(0, 0, j) == 0) ? 0 : 1;
                wrong += (j < len ? !std::isnan(out(0, 1, j)) : out(0, 1, j) == 0) ? 0 : 1;
              }
              CHECK(wrong == 0);
            });
          }
        }
      }
    }
  }

  TEST_CASE("the largest finite scores") {
    Problem problem = ragged({1, 1, 4}, {1}, {4}, base_seed());
    problem.x.assign({0x1.fffffep127f, -0x1.fffffep127f, 0x1.fffffep127f, -kInfinity});
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({1, 1, 4});
      REQUIRE_OK(problem.run(context, out.view()));
      CHECK(out.dense() == std::vector<float>{0.5f, 0.0f, 0.5f, 0.0f});
    });
  }

  // Short rows go several at once where those beside them allow it.
  TEST_CASE("a row has the same bits alone and beside others, of every type") {
    Random random(base_seed());
    for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_BF16, FOVEA_F16}) {
      for (int64_t key_len = 1; key_len <= 140; key_len += key_len < 70 ? 1 : 23) {
        CAPTURE(dtype);
        CAPTURE(key_len);
        const int64_t rows = 11;
        std::vector<Number> x;
        std::vector<int32_t> lens;
        for (int64_t row = 0; row < rows; ++row) {
          const float unusual = random.pick({-kInfinity, kNan, kInfinity, 3e38f});
          const bool all = random.chance(0.2), one = random.chance(0.2);
          const int64_t at = random.integer(0, key_len - 1);
          for (int64_t j = 0; j < key_len; ++j)
            x.emplace_back(all || (one && j == at) ? unusual : random.normal(), dtype);
          lens.push_back(static_cast<int32_t>(random.chance(0.6) ? key_len : random.integer(0, key_len)));
        }
        for_each_isa([&](const fovea_context *context) {
          const auto softmax = [&](int64_t first, int64_t count) {
            std::vector<uint8_t> given, out(static_cast<size_t>(count * key_len) * Number::size(dtype));
            for (int64_t n = first * key_len; n < (first + count) * key_len; ++n) x[n].append_to(&given);
            const int64_t shape[] = {1, count, key_len};
            const fovea_tensor x_view = fovea_tensor_contiguous(given.data(), dtype, 3, shape);
            const fovea_tensor out_view = fovea_tensor_contiguous(out.data(), dtype, 3, shape);
            const fovea_tensor lens_view = fovea_tensor_contiguous(&lens[first], FOVEA_I32, 2, shape);
            REQUIRE_OK(fovea_masked_softmax(context, &x_view, &lens_view, &out_view, nullptr));
            return out;
          };
          std::vector<uint8_t> one_by_one;
          for (int64_t row = 0; row < rows; ++row) {
            const std::vector<uint8_t> alone = softmax(row, 1);
            one_by_one.insert(one_by_one.end(), alone.begin(), alone.end());
          }
          CHECK((softmax(0, rows) == one_by_one));
        });
      }
    }
  }

  TEST_CASE("an output past the caches has the bits of one in them") {
    // 4096 keys is the longest row that is streamed.
    for (int64_t key_len : {2053, 4096, 4097}) {
      const Shape shape = {2, (int64_t{9} << 20) / key_len, key_len};
      Problem problem{Tensor<float>(shape), contiguous_strides(shape), Tensor<int32_t>({2, shape[1]}), {}, 0};
      Random random(base_seed());
      problem.lens_32->fill([&] {
        return static_cast<int32_t>(random.chance(0.2) ? 0
                                                       : random.integer(random.chance(0.5) ? key_len - 1 : 0, key_len));
      });
      uint32_t state = 1;
      problem.x.fill([&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-21f; });
      // A NaN makes the valid part NaN; what lies behind stays 0, also where one register holds some of both.
      for (int64_t row = 5; row < shape[1]; row += 11) problem.x(0, row, 0) = kNan;
      const Tensor<float> large(shape);
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(problem.run(context, large.view()));
        // The same rows, few at a time.
        int64_t wrong = 0;
        for (int64_t b = 0; b < 2; ++b) {
          for (int64_t first = 0; first + 3 <= shape[1]; first += 97) {
            const Shape few = {1, 3, key_len};
            const fovea_tensor x = fovea_tensor_contiguous(&problem.x(b, first, 0), FOVEA_F32, 3, few.data());
            const fovea_tensor lens = fovea_tensor_contiguous(&(*problem.lens_32)(b, first), FOVEA_I32, 2, few.data());
            const Tensor<float> out(few);
            const fovea_tensor out_view = out.view();
            REQUIRE_OK(fovea_masked_softmax(context, &x, &lens, &out_view, nullptr));
            wrong += std::memcmp(out.data(), &large(b, first, 0), out.memory().size()) == 0 ? 0 : 1;
          }
        }
        CHECK(wrong == 0);
      });
    }
  }
}
