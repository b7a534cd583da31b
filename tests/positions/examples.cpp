// The sinusoidal encoding, alone and added to a tensor, with dropout; the slopes of ALiBi.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "philox.hpp"
#include "positions.hpp"
#include "support/contexts.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

using Options = fovea_positional_encoding_options;

constexpr double kEncodingError = 1e-7;  // up to position 10^6

Options make_options(float base = 0, int64_t offset = 0, float dropout = 0, uint64_t seed = 0) {
  return {sizeof(Options), base, dropout, offset, seed, 0, 0};
}

std::vector<int64_t> positions_from(int64_t offset, int64_t count) {
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), offset);
  return positions;
}

std::vector<float> encode(const fovea_context *context, int64_t length, int64_t dim, const Options &options) {
  const Tensor<float> out({length, dim});
  const fovea_tensor view = out.view();
  REQUIRE_OK(fovea_positional_encoding(context, &view, &options));
  return out.dense();
}

double largest_error(const std::vector<float> &actual, const std::vector<double> &truth) {
  REQUIRE(actual.size() == truth.size());
  double largest = 0;
  for (size_t n = 0; n < actual.size(); ++n) {
    const double error = std::abs(actual[n] - truth[n]);
    largest = error <= largest ? largest : error;  // NaN is the largest
  }
  return largest;
}

// x [...,L,d] plus the library's own encoding, then dropout by the reference's choice.
std::vector<float> expected_sum(const fovea_context *context, const Tensor<float> &x, const Options &options) {
  const Shape &shape = x.shape();
  const int64_t dim = shape.back(), length = shape[shape.size() - 2];
  Options plain = options;
  plain.dropout = 0;
  const std::vector<float> encoding = encode(context, length, dim, plain);
  const reference::Dropout dropout = {options.dropout, options.dropout_seed};
  const auto scale = static_cast<float>(1 / (1 - static_cast<double>(options.dropout)));
  std::vector<float> sum = x.dense();
  for (size_t n = 0; n < sum.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    sum[n] += encoding[n % encoding.size()];
    if (options.dropout == 0) continue;
    const bool gone = reference::dropped(dropout, at / (length * dim), 0, at / dim % length, at % dim);
    sum[n] = gone ? 0.0f : sum[n] * scale;
  }
  return sum;
}

void check_sum(const Shape &shape, const Shape &x_strides, const Shape &out_strides, const Options &options) {
  CAPTURE(shape);
  Random random(base_seed());
  Tensor<float> x(shape, x_strides);
  x.fill_normal(random).memory().freeze();
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out(shape, out_strides);
    const fovea_tensor x_view = x.view(), out_view = out.view();
    REQUIRE_OK(fovea_add_positional_encoding(context, &x_view, &out_view, &options));
    CHECK(same_bits(out.dense(), expected_sum(context, x, options)));
    CHECK(out.gaps_untouched());
  });
}

void check_sum(const Shape &shape, const Options &options) {
  check_sum(shape, contiguous_strides(shape), contiguous_strides(shape), options);
}

const std::vector<Shape> kShapes = {
    {1, 1},       {7, 5},          {3, 0},          {0, 4},    {2, 0, 3},     {2, 3, 4},      {1, 67, 33},
    {3, 300, 17}, {2, 2, 2, 5, 6}, {1, 1, 1, 3, 9}, {5, 1, 8}, {300, 1, 130}, {2, 3, 40, 64}, {2, 1, 3, 1, 4, 31}};

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("worked example: 60 steps, 32 features") {
    for_each_isa([](const fovea_context *context) {
      const Tensor<float> out({60, 32});
      const fovea_tensor view = out.view();
      REQUIRE_OK(fovea_positional_encoding(context, &view, nullptr));
      // Columns 6 to 9 are the waves sin, cos of i / 10000^(6/32) and sin, cos of i / 10000^(8/32) = i / 10.
      const double fast = std::pow(10.0, -0.75);
      for (int64_t i = 0; i < 60; ++i) {
        CAPTURE(i);
        const auto step = static_cast<double>(i);
        CHECK(std::abs(out(i, 6) - std::sin(step * fast)) < kEncodingError);
        CHECK(std::abs(out(i, 7) - std::cos(step * fast)) < kEncodingError);
        CHECK(std::abs(out(i, 8) - std::sin(step / 10)) < kEncodingError);
        CHECK(std::abs(out(i, 9) - std::cos(step / 10)) < kEncodingError);
      }
      // The later pair is slower: its sine falls to zero after 31 steps, the earlier one's after 17.
      const auto half_wave = [&](int64_t column) {
        int64_t i = 1;
        while (out(i, column) > 0) ++i;
        return i;
      };
      CHECK(half_wave(6) == 18);
      CHECK(half_wave(8) == 32);
    });
  }

  TEST_CASE("position 0 is 0, 1, 0, 1, ... exactly") {
    for_each_isa([](const fovea_context *context) {
      for (int64_t dim : {1, 2, 7, 64, 129}) {
        const std::vector<float> row = encode(context, 1, dim, make_options());
        for (size_t c = 0; c < row.size(); ++c) CHECK(row[c] == (c % 2 == 0 ? 0.0f : 1.0f));
      }
    });
  }

  TEST_CASE("against float64, up to position 10^6") {
    for (int64_t dim : {1, 2, 3, 8, 31, 64, 127, 512}) {
      for (float base : {0.0f, 1.5f, 100.0f, 500000.0f, 1e30f}) {
        for (int64_t offset : {0, 12345, 999900}) {
          CAPTURE(dim);
          CAPTURE(base);
          CAPTURE(offset);
          const auto truth =
              reference::positional_encoding(positions_from(offset, 101), dim, base == 0 ? 10000 : double(base));
          for_each_isa([&](const fovea_context *context) {
            CHECK(largest_error(encode(context, 101, dim, make_options(base, offset)), truth) < kEncodingError);
          });
        }
      }
    }
  }

  TEST_CASE("every position up to 10^6") {
    constexpr int64_t count = 1000001;
    const auto truth = reference::positional_encoding(positions_from(0, count), 6, 10000);
    for_each_isa([&](const fovea_context *context) {
      CHECK(largest_error(encode(context, count, 6, make_options()), truth) < kEncodingError);
    });
  }

  // There a float64 angle has an error of 2^-24.
  TEST_CASE("at the largest offset") {
    const int64_t offset = int64_t{1} << 30;
    const auto truth = reference::positional_encoding(positions_from(offset, 70), 64, 10000);
    for_each_isa([&](const fovea_context *context) {
      CHECK(largest_error(encode(context, 70, 64, make_options(0, offset)), truth) < 5e-7);
    });
  }

  TEST_CASE("small sines are good to their own last bits") {
    for_each_isa([](const fovea_context *context) {
      const std::vector<float> encoding = encode(context, 4, 512, make_options(1e30f));
      for (int64_t i = 1; i < 4; ++i) {
        for (int64_t j = 4; j < 256; ++j) {
          const double truth = std::sin(reference::angle(static_cast<double>(i), j, 512, double(1e30f)));
          CHECK(std::abs(encoding[static_cast<size_t>(i * 512 + 2 * j)] / truth - 1) < 2.5e-7);
        }
      }
    });
  }

  // (P[i,2j], P[i,2j+1]) turned by delta / base^(2j/d) is the pair delta rows further on.
  TEST_CASE("an offset is a rotation") {
    constexpr int64_t length = 120, dim = 32;
    for_each_isa([](const fovea_context *context) {
      const std::vector<float> encoding = encode(context, length, dim, make_options());
      double worst = 0;
      for (int64_t delta = 0; delta < length; ++delta) {
        for (int64_t j = 0; j < dim / 2; ++j) {
          const double angle = reference::angle(static_cast<double>(delta), j, dim, 10000);
          for (int64_t i = 0; i + delta < length; ++i) {
            const float *from = &encoding[static_cast<size_t>(i * dim + 2 * j)];
            const float *to = &encoding[static_cast<size_t>((i + delta) * dim + 2 * j)];
            worst = std::max(worst, std::abs(std::cos(angle) * from[0] + std::sin(angle) * from[1] - to[0]));
            worst = std::max(worst, std::abs(-std::sin(angle) * from[0] + std::cos(angle) * from[1] - to[1]));
          }
        }
      }
      CHECK(worst < 3 * kEncodingError);
    });
  }

  TEST_CASE("a row has the same bits wherever the table begins") {
    for_each_isa([](const fovea_context *context) {
      const std::vector<float> table = encode(context, 400, 35, make_options());
      const std::vector<float> later = encode(context, 100, 35, make_options(0, 300));
      CHECK(same_bits({table.begin() + 300 * 35, table.end()}, later));
    });
  }

  TEST_CASE("the encoding alone: widths around the registers, strides, page ends") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t dim = 0; dim <= 70; ++dim) {
        CAPTURE(dim);
        const auto truth = reference::positional_encoding(positions_from(0, 3), dim, 10000);
        for_each_isa([&](const fovea_context *context) {
          const Tensor<float> out({3, dim}, {-(dim + 2), 1});
          const fovea_tensor view = out.view();
          REQUIRE_OK(fovea_positional_encoding(context, &view, nullptr));
          CHECK(largest_error(out.dense(), truth) < kEncodingError);
          CHECK(out.gaps_untouched());
        });
      }
    }
  }

  TEST_CASE("added: shapes, with dropout and without") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const Shape &shape : kShapes) {
        check_sum(shape, make_options());
        check_sum(shape, make_options(50, 77, 0.3f, 99));
      }
    }
    check_sum({3, 101, 512}, make_options());  // fits a cache that cores share
    check_sum({9, 700, 341}, make_options());  // fits none
    for (int64_t dim = 1; dim <= 70; ++dim) {
      check_sum({1, 3, dim}, make_options());
      check_sum({2, 3, dim}, make_options(0, 5));
      check_sum({2, 3, dim}, make_options(0, 5, 0.5f, 1));
    }
  }

  TEST_CASE("added: strides") {
    for (float dropout : {0.0f, 0.4f}) {
      const Options options = make_options(0, 3, dropout, 8);
      const Shape shape = {2, 3, 40, 24};
      const Shape dense = contiguous_strides(shape);
      check_sum(shape, permuted_strides(shape, {0, 2, 1, 3}), dense, options);
      check_sum(shape, dense, permuted_strides(shape, {2, 1, 0, 3}, 5), options);
      check_sum(shape, permuted_strides(shape, {1, 2, 0, 3}, 1), permuted_strides(shape, {0, 2, 1, 3}, 3), options);
      check_sum(shape, {0, 24, 72, 1}, dense, options);
      check_sum(shape, {40 * 24, 0, 24, 1}, dense, options);
      check_sum(shape, {24, 48, 0, 1}, dense, options);
      check_sum(shape, {-2880, -960, -24, 1}, dense, options);
      check_sum({4, 6, 1}, {6, 1, 77}, {9, 1, -5}, options);
    }
  }

  // In place it never is.
  TEST_CASE("added: an output so large that it is written past the caches") {
    const WithPlacement aligned(Placement::kBegin);
    for (const Shape &shape : {Shape{1, 2100, 4096}, Shape{2, 1050, 4096}, Shape{1, 2101, 4003}}) {
      CAPTURE(shape);
      const int64_t count = element_count(shape);
      const Tensor<float> x(shape), out(shape), in_place(shape);
      for (int64_t n = 0; n < count; ++n) x.data()[n] = static_cast<float>(n % 1009) * 0.01f - 5;
      const fovea_tensor x_view = x.view(), out_view = out.view(), in_place_view = in_place.view();
      for_each_isa([&](const fovea_context *context) {
        std::copy_n(x.data(), count, in_place.data());
        std::fill_n(out.data(), count, kNan);
        REQUIRE_OK(fovea_add_positional_encoding(context, &x_view, &out_view, nullptr));
        REQUIRE_OK(fovea_add_positional_encoding(context, &in_place_view, &in_place_view, nullptr));
        CHECK(std::equal(out.data(), out.data() + count, in_place.data()));
      });
    }
  }

  TEST_CASE("added in place") {
    Random random(base_seed());
    for (const Shape &shape : kShapes) {
      for (float dropout : {0.0f, 0.25f}) {
        const Options options = make_options(0, 11, dropout, 4);
        for_each_isa([&](const fovea_context *context) {
          Tensor<float> x(shape);
          x.fill_normal(random);
          const std::vector<float> expected = expected_sum(context, x, options);
          const fovea_tensor view = x.view();
          REQUIRE_OK(fovea_add_positional_encoding(context, &view, &view, &options));
          CHECK(same_bits(x.dense(), expected));
        });
      }
    }
  }

  TEST_CASE("what is dropped is 0 even where x is NaN or infinite") {
    Tensor<float> x({2, 9, 40});
    int64_t n = 0;
    x.fill([&] { return n++ % 2 == 0 ? kNan : kInfinity; });
    const Options options = make_options(0, 0, 0.5f, 7);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({2, 9, 40});
      const fovea_tensor x_view = x.view(), out_view = out.view();
      REQUIRE_OK(fovea_add_positional_encoding(context, &x_view, &out_view, &options));
      const std::vector<float> values = out.dense();
      int64_t wrong = 0;
      for (int64_t at = 0; at < 720; ++at) {
        const float value = values[static_cast<size_t>(at)];
        const bool gone = reference::dropped({0.5f, 7}, at / 360, 0, at / 40 % 9, at % 40);
        wrong += (gone ? value == 0 : !std::isfinite(value)) ? 0 : 1;
      }
      CHECK(wrong == 0);
    });
  }

  TEST_CASE("dropout keeps the mean") {
    Tensor<float> x({4, 250, 100});
    x.fill([] { return 0.0f; });
    for (float dropout : {0.1f, 0.5f, 0.9f}) {
      CAPTURE(dropout);
      const Tensor<float> out({4, 250, 100});
      const fovea_tensor x_view = x.view(), out_view = out.view();
      const Options options = make_options(0, 1, dropout, 5);
      REQUIRE_OK(fovea_add_positional_encoding(nullptr, &x_view, &out_view, &options));
      const std::vector<float> values = out.dense();
      const auto gone = static_cast<double>(std::count(values.begin(), values.end(), 0.0f));
      const double count = 1e5, p = dropout;
      CHECK(std::abs(gone - count * p) < 5 * std::sqrt(count * p * (1 - p)));
    }
  }

  TEST_CASE("the same bits for any number of threads") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{8, 70, 300}, Shape{1, 700, 257}, Shape{500, 1, 300}}) {
      Tensor<float> x(shape);
      x.fill_normal(random);
      for (float dropout : {0.0f, 0.2f}) {
        const Options options = make_options(0, 2, dropout, 6);
        for (const std::string &isa : instruction_sets()) {
          CAPTURE(isa);
          const auto run = [&](const fovea_context *context) {
            const Tensor<float> out(shape);
            const fovea_tensor x_view = x.view(), out_view = out.view();
            REQUIRE_OK(fovea_add_positional_encoding(context, &x_view, &out_view, &options));
            return out.dense();
          };
          const std::vector<float> expected = run(shared_context(isa, 1));
          for (int threads = 2; threads <= 8; ++threads) CHECK(same_bits(run(shared_context(isa, threads)), expected));
          const PoolContext pool(isa, 4, 3);
          CHECK(same_bits(run(pool.get()), expected));
        }
      }
    }
  }

  TEST_CASE("ALiBi slopes") {
    const auto slopes = [](int64_t heads, int64_t stride) {
      const Tensor<float> out({heads}, {stride});
      const fovea_tensor view = out.view();
      REQUIRE_OK(fovea_alibi_slopes(&view));
      CHECK(out.gaps_untouched());
      return out.dense();
    };
    using Floats = std::vector<float>;
    CHECK(slopes(0, 1) == Floats{});
    CHECK(slopes(1, 1) == Floats{0x1p-8f});
    CHECK(slopes(2, 1) == Floats{0x1p-4f, 0x1p-8f});
    CHECK(slopes(3, 1) == Floats{0x1p-4f, 0x1p-8f, 0x1p-2f});
    CHECK(slopes(8, 3) == Floats{0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f, 0x1p-6f, 0x1p-7f, 0x1p-8f});
    const Floats twelve = slopes(12, -2), eight = slopes(8, 1), sixteen = slopes(16, 1);
    for (size_t h = 0; h < 8; ++h) CHECK(twelve[h] == eight[h]);
    for (size_t h = 8; h < 12; ++h) CHECK(twelve[h] == sixteen[2 * (h - 8)]);
    for (size_t h = 0; h < 16; ++h) {
      CHECK(std::abs(sixteen[h] / std::pow(2.0, -0.5 * static_cast<double>(h + 1)) - 1) < 6e-8);
    }
  }
}
