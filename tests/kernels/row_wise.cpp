// The kernels that work row by row or element by element: exp, tanh, masked softmax, layer normalisation, merging,
// norms.
#include "kernels.hpp"
#include "narrow.hpp"
#include "reference.hpp"

using namespace testing;

namespace {

// A unit in the last place of a float of this size.
double ulp_of(double value) { return std::ldexp(1.0, std::max(value == 0 ? -126 : std::ilogb(value), -126) - 23); }

void check_elementwise(void (*kernel)(const fovea::ElementRun &), double (*truth_of)(float), double ulps, int64_t count,
                       Random &random) {
  CAPTURE(count);
  const Floats x(normals(count, random, 8)), out(count), in_place(x.values());
  std::vector<double> truth, bounds;
  for (const float value : x.values()) truth.push_back(truth_of(value));
  for (const double value : truth) bounds.push_back(ulps * ulp_of(value));
  constexpr fovea::Dtype f32 = fovea::Dtype::f32;
  kernel({x.data(), f32, out.data(), f32, count});
  CHECK_WITHIN(out.values(), truth, bounds);
  kernel({in_place.data(), f32, in_place.data(), f32, count});
  CHECK(in_place.values() == out.values());
}

struct Softmax {
  int64_t key_len;
  std::vector<int64_t> valid_lens;
  fovea::EmptyRows empty_rows;
  bool stream;
};

void check_softmax(const fovea::Kernels &table, const Softmax &s, Random &random) {
  CAPTURE(s.key_len);
  CAPTURE(s.valid_lens);
  CAPTURE(s.stream);
  const auto count = static_cast<int64_t>(s.valid_lens.size());
  const Floats x(normals(count * s.key_len, random, 4)), out(count * s.key_len);
  std::vector<fovea::SoftmaxRow> rows;
  for (int64_t r = 0; r < count; ++r) {
    rows.push_back({x.data() + r * s.key_len, out.data() + r * s.key_len, s.valid_lens[static_cast<size_t>(r)]});
  }
  table.rowwise->softmax_rows(
      {rows.data(), fovea::Dtype::f32, fovea::Dtype::f32, count, s.key_len, s.empty_rows, s.stream});
  const auto empty = static_cast<reference::EmptyRows>(s.empty_rows);
  const auto truth = reference::masked_softmax<double>(x.values(), s.valid_lens, s.key_len, empty);
  // Exponents are of differences up to 40, each rounded twice; an exponential and a quotient; a sum.
  CHECK_WITHIN(out.values(), truth, roundings(truth, 100 + static_cast<double>(s.key_len), 0x1p-100));
}

struct Norm {
  int64_t dim, count;
  bool affine, residual;
  fovea::NormTraffic traffic;
};

void check_norm(const fovea::Kernels &table, const Norm &n, Random &random) {
  CAPTURE(n.dim);
  CAPTURE(n.count);
  CAPTURE(n.affine);
  CAPTURE(n.residual);
  CAPTURE(static_cast<int>(n.traffic));
  reference::LayerNormInputs inputs;
  inputs.dim = n.dim;
  inputs.epsilon = 0.5;  // so that nothing is magnified
  inputs.x = normals(n.count * n.dim, random);
  if (n.residual) inputs.residual = normals(n.count * n.dim, random);
  if (n.affine) inputs.weight = normals(n.dim, random);
  if (n.affine) inputs.bias = normals(n.dim, random);
  const Floats x(inputs.x), residual(inputs.residual), weight(inputs.weight), bias(inputs.bias), out(n.count * n.dim);
  std::vector<fovea::NormRow> rows;
  for (int64_t r = 0; r < n.count; ++r) {
    rows.push_back({x.data() + r * n.dim, n.residual ? residual.data() + r * n.dim : nullptr, out.data() + r * n.dim});
  }
  // In two calls, the first of which knows of all rows.
  const auto norm = [&](int64_t first, int64_t count) {
    const fovea::Dtype f32 = fovea::Dtype::f32;
    table.rowwise->norm_rows({.row = rows.data() + first,
                              .count = count,
                              .listed = n.count - first,
                              .dim = n.dim,
                              .weight = weight.or_null(n.affine),
                              .bias = bias.or_null(n.affine),
                              .types = {f32, f32, f32, f32, f32},
                              .epsilon = inputs.epsilon,
                              .traffic = n.traffic});
  };
  const int64_t first = (n.count + 1) / 2;
  const auto rest = [&] {
    const std::vector<float> values = out.values();
    return std::vector<uint8_t>(reinterpret_cast<const uint8_t *>(values.data() + first * n.dim),
                                reinterpret_cast<const uint8_t *>(values.data() + values.size()));
  };
  const std::vector<uint8_t> untouched = rest();
  norm(0, first);
  CHECK(rest() == untouched);
  if (first < n.count) norm(first, n.count - first);
  const std::vector<double> truth = reference::layer_norm<double>(inputs);
  CHECK_WITHIN(out.values(), truth, roundings(truth, 16, 64));  // 64: of weights and values up to 4 each
}

}  // namespace

TEST_SUITE("kernels row wise") {
  TEST_CASE("exp and tanh, every count") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (int64_t count = 0; count <= 5 * table.rowwise->lanes + 1; ++count) {
        check_elementwise(table.rowwise->exp, reference::exp, 1.6, count, random);
        check_elementwise(table.rowwise->tanh, reference::tanh, 1.4, count, random);
      }
    });
  }

  TEST_CASE("masked softmax, every number of keys and length") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (int64_t keys = 1; keys <= 5 * table.rowwise->lanes + 1; ++keys) {
        std::vector<int64_t> all;
        for (int64_t len = 0; len <= keys; ++len) all.push_back(len);
        const auto empty_rows = static_cast<fovea::EmptyRows>(keys % 3);
        for (const bool stream : {false, true}) check_softmax(table, {keys, all, empty_rows, stream}, random);
      }
      for (const bool stream : {false, true}) {
        check_softmax(table, {1000, {1000, 999, 3}, fovea::EmptyRows::zero, stream}, random);
      }
    });
  }

  TEST_CASE("layer normalisation, every number of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      std::vector<int64_t> dims = {2047, 2048, 2049, 4097};
      for (int64_t dim = 1; dim <= 6 * table.rowwise->lanes + 1; ++dim) dims.push_back(dim);
      for (const int64_t dim : dims) {
        using enum fovea::NormTraffic;
        for (const auto traffic : {cached, from_memory, past_caches}) {
          check_norm(table, {dim, 1, false, false, traffic}, random);
          check_norm(table, {dim, 3, true, false, traffic}, random);
          check_norm(table, {dim, 4, dim % 2 == 0, true, traffic}, random);
        }
      }
    });
  }

  TEST_CASE("merging, every number of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (int64_t dim = 1; dim <= 3 * table.rowwise->lanes + 1; ++dim) {
        CAPTURE(dim);
        const int64_t parts = 1 + dim % 4;
        const Floats outs(normals(parts * dim, random)), lses(normals(parts, random, 4)), out(dim), lse(int64_t{1});
        table.rowwise->merge_row({outs.data(), fovea::Dtype::f32, lses.data(), nullptr, 1, out.data(),
                                  fovea::Dtype::f32, lse.data(), parts, dim, dim, 1});
        const auto truth = reference::merge_states<double>(outs.values(), lses.values(), parts, 1, dim);
        CHECK_WITHIN(out.values(), truth.out, roundings(truth.out, 0, 200));
        CHECK_WITHIN(lse.values(), truth.log_sum_exp, roundings(truth.log_sum_exp, 8, 8));
      }
    });
  }

  TEST_CASE("16 bits to float32: every number") {
    for_each_table([](const fovea::Kernels &table) {
      for (const fovea::Dtype dtype : {fovea::Dtype::f16, fovea::Dtype::bf16}) {
        std::vector<uint16_t> bits(65536);
        for (size_t n = 0; n < bits.size(); ++n) bits[n] = static_cast<uint16_t>(n);
        std::vector<float> floats(bits.size());
        table.rowwise->widen_rows(bits.data(), dtype, 0, 1, 65536, floats.data(), 0);
        int64_t wrong = 0;
        for (size_t n = 0; n < bits.size(); ++n) {
          const float truth = widened(bits[n], static_cast<fovea_dtype>(dtype));
          const bool same = std::memcmp(&truth, &floats[n], sizeof truth) == 0;
          wrong += std::isnan(truth) ? !std::isnan(floats[n]) || std::signbit(floats[n]) != (n >= 0x8000) : !same;
        }
        CHECK_EQ(wrong, 0);
      }
    });
  }

  TEST_CASE("float32 to 16 bits: to nearest, ties to even, overflow, subnormal numbers, NaN") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const fovea::Dtype dtype : {fovea::Dtype::f16, fovea::Dtype::bf16}) {
        const auto type = static_cast<fovea_dtype>(dtype);
        std::vector<float> floats;
        for (int32_t n = 0; n < 65536; ++n) {
          const float x = widened(static_cast<uint16_t>(n), type), next = widened(static_cast<uint16_t>(n + 1), type);
          const float middle = x / 2 + next / 2;
          for (const float y : {x, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInfinity)}) {
            floats.push_back(y);
          }
        }
        for (int n = 0; n < 200000; ++n) {
          const auto word = static_cast<uint32_t>(random.integer(0, UINT32_MAX));
          float x = 0;
          std::memcpy(&x, &word, sizeof x);
          floats.push_back(x);
        }
        for (const float x : {65519.996f, 65520.0f, 3.3895314e38f, 3.4e38f}) floats.insert(floats.end(), {x, -x});
        std::vector<uint16_t> bits(floats.size());
        table.rowwise->narrow_row(floats.data(), static_cast<int64_t>(floats.size()), bits.data(), dtype);
        int64_t wrong = 0;
        for (size_t n = 0; n < floats.size(); ++n) {
          const bool nan = std::isnan(floats[n]);
          wrong += nan ? !std::isnan(widened(bits[n], type)) : bits[n] != narrowed(floats[n], type);
        }
        CHECK_EQ(wrong, 0);
      }
    });
  }

  TEST_CASE("rows of 16 bits: every length, nothing past it touched") {
    for_each_table([](const fovea::Kernels &table) {
      for (const fovea::Dtype dtype : {fovea::Dtype::f16, fovea::Dtype::bf16}) {
        for (int64_t dim = 0; dim <= 3 * table.rowwise->lanes + 1; ++dim) {
          CAPTURE(dim);
          const Tensor<float> row(Shape{dim}), back(Shape{dim});
          for (int64_t d = 0; d < dim; ++d) row(d) = static_cast<float>(d) - 3.5f;
          const Tensor<uint16_t> bits(Shape{dim});
          table.rowwise->narrow_row(row.data(), dim, bits.data(), dtype);
          table.rowwise->widen_rows(bits.data(), dtype, dim, 1, dim, back.data(), dim);
          for (int64_t d = 0; d < dim; ++d) CHECK_EQ(back(d), row(d));
        }
      }
    });
  }

  TEST_CASE("squared norms, every number of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (int64_t dim = 1; dim <= 4 * table.rowwise->lanes + 1; ++dim) {
        CAPTURE(dim);
        const Floats rows(normals(5 * dim, random)), out(int64_t{5});
        table.attention_of(fovea::ScoreKind::gaussian)
            .squared_norms({rows.data(), fovea::Dtype::f32, dim, 5, dim, out.data()});
        std::vector<double> truth(5);
        for (int64_t n = 0; n < 5 * dim; ++n) truth[n / dim] += std::pow(static_cast<double>(rows.data()[n]), 2);
        // The sums of all lanes are exact but for the last step; adding up the lanes takes up to five.
        CHECK_WITHIN(out.values(), truth, roundings(truth, 8));
      }
    });
  }
}
