// The kernels of exp, tanh, masked softmax and layer normalisation from one type of 16 bits to the same, beside the
// formula.
#include "elements.hpp"

using namespace testing;

using fovea::Dtype;

TEST_SUITE("kernels narrow rows") {
  // Two registers are one step, which takes another way where one of their numbers is large, infinite or NaN.
  TEST_CASE("rows of 16 bits: exp and tanh of an element do not depend on where it stands nor on its neighbours") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      const int64_t step = 2 * table.rowwise->lanes;
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        const auto type = static_cast<fovea_dtype>(dtype);
        for (const auto kernel : {table.rowwise->exp, table.rowwise->tanh}) {
          const auto check = [&](const std::vector<float> &values) {
            const auto count = static_cast<int64_t>(values.size());
            const Elements x(values, dtype), out(count, dtype);
            kernel({x.data(), dtype, out.data(), dtype, count});
            for (int64_t n = 0; n < count; ++n) {
              const Elements one(std::vector<float>{values[static_cast<size_t>(n)]}, dtype), alone(1, dtype);
              kernel({one.data(), dtype, alone.data(), dtype, 1});
              const float got = out.values()[static_cast<size_t>(n)], expected = alone.values()[0];
              CHECK((std::isnan(got) ? std::isnan(expected) : got == expected));
            }
            kernel({x.data(), dtype, x.data(), dtype, count});
            CHECK_EQ(std::memcmp(x.data(), out.data(), static_cast<size_t>(count) * 2), 0);
          };
          for (int64_t count = 1; count <= 2 * step + 1; ++count) check(numbers(count, random, dtype, 8));
          for (int64_t at = 0; at < step + 3; ++at) {
            std::vector<float> values = numbers(step + 3, random, dtype, 8);
            values[static_cast<size_t>(at)] =
                rounded_to(random.pick({kNan, kInfinity, -kInfinity, 63.9f, 64.5f, -64.5f, 88.5f, -88.0f, 0x1p-133f,
                                        -0x1p-24f, 60000.0f, -60000.0f, 0.0f}),
                           type);
            check(values);
          }
        }
      }
    });
  }

  // 2^-126 of the largest, what a row is raised by, and numbers whose maximum times log2 e loses its lowest bits.
  TEST_CASE("rows of 16 bits: masked softmax of numbers of any size, infinite and NaN ones at any place") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      const int64_t most = 5 * table.rowwise->lanes + 3;
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        const auto type = static_cast<fovea_dtype>(dtype);
        const auto check = [&](const std::vector<float> &values) {
          const auto keys = static_cast<int64_t>(values.size());
          const Elements x(values, dtype), out(keys, dtype);
          const fovea::SoftmaxRow row = {x.data(), out.data(), keys};
          table.rowwise->softmax_rows({&row, dtype, dtype, 1, keys, fovea::EmptyRows::zero, false});
          std::vector<double> truth(values.begin(), values.end());
          double largest = -HUGE_VAL, sum = 0;
          bool nan = false;
          for (const double value : truth) {
            largest = std::max(largest, value);
            nan = nan || std::isnan(value);
          }
          if (std::isinf(largest)) nan = nan || largest > 0;
          for (double &value : truth) sum += value = nan ? NAN : std::isinf(largest) ? 0 : std::exp(value - largest);
          for (double &value : truth) value /= sum == 0 ? 1 : sum;
          CHECK_LE(largest_distance(out, truth, 0x1p-126), 0.53);
        };
        for (const float size : {1.0f, 30.0f, 3e4f, 1e38f}) {
          for (const float offset : {0.0f, 1e3f, -6e4f, 65000.0f, 3e38f, -3e38f}) {
            if (dtype == Dtype::f16 && size + std::abs(offset) > 65504) continue;
            for (const int64_t keys : {int64_t{1}, most / 3, most - 1, most}) {
              CAPTURE(size);
              CAPTURE(offset);
              std::vector<float> values = numbers(keys, random, dtype, size / 4);
              for (float &value : values) {
                value = rounded_to(std::clamp(value + offset, -3.3e38f, 3.3e38f), type);
                if (dtype == Dtype::f16) value = std::clamp(value, -65504.0f, 65504.0f);
              }
              check(values);
            }
          }
        }
        for (int64_t keys = 1; keys <= most; keys += keys < 4 ? 1 : 3) {
          for (const float odd : {kNan, -kNan, kInfinity, -kInfinity}) {
            for (int64_t at = 0; at < keys; at += at < 2 ? 1 : 5) {
              std::vector<float> values = numbers(keys, random, dtype, 3);
              values[static_cast<size_t>(at)] = odd;
              check(values);
            }
          }
          check(std::vector<float>(static_cast<size_t>(keys), -kInfinity));
        }
      }
    });
  }

  // Deviations are from the mean of a row's first few, which may be far from that of the row; and rows may be far from
  // 0. With weights, biases, both or none; those of rows above 2048 are read as they lie.
  TEST_CASE("rows of 16 bits: layer normalisation of rows that begin unlike the rest, and of rows far from 0") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        for (const int64_t dim : {1, 2, 17, 33, 100, 777, 2048, 2049, 5000, 16384}) {
          std::vector<float> factors, zeros(static_cast<size_t>(dim));
          for (int64_t n = 0; n < dim; ++n) factors.push_back(std::ldexp(n % 3 == 0 ? -1.0f : 1.0f, n % 5 - 2));
          const Elements weight(factors, dtype), bias(zeros, dtype);
          for (const float far : {0.0f, 0.5f, 1e3f}) {
            for (const float first : {0.0f, 1e4f}) {
              CAPTURE(dim);
              CAPTURE(far);
              CAPTURE(first);
              std::vector<float> values = numbers(dim, random, dtype);
              for (int64_t n = 0; n < dim; ++n) {
                float &value = values[static_cast<size_t>(n)];
                value = rounded_to(value + far + (n < 2 * table.rowwise->lanes ? first : 0),
                                   static_cast<fovea_dtype>(dtype));
              }
              const Elements x(values, dtype), out(dim, dtype);
              const fovea::NormRow row = {x.data(), nullptr, out.data()};
              table.rowwise->norm_rows({.row = &row,
                                        .count = 1,
                                        .listed = 1,
                                        .dim = dim,
                                        .weight = far > 0 ? weight.data() : nullptr,
                                        .bias = first > 0 ? bias.data() : nullptr,
                                        .types = {dtype, dtype, dtype, dtype, dtype},
                                        .epsilon = 1e-5,
                                        .traffic = fovea::NormTraffic::cached});
              double mean = 0, variance = 0;
              for (const float value : values) mean += static_cast<double>(value) / static_cast<double>(dim);
              std::vector<double> truth;
              for (const float value : values) {
                truth.push_back(static_cast<double>(value) - mean);
                variance += truth.back() * truth.back() / static_cast<double>(dim);
              }
              for (size_t n = 0; n < truth.size(); ++n) {
                truth[n] *= (far > 0 ? static_cast<double>(factors[n]) : 1) / std::sqrt(variance + 1e-5);
              }
              CHECK_LE(largest_distance(out, truth, 0x1p-22), 0.53);
            }
          }
        }
      }
    });
  }
}
