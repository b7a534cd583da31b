// The kernels that work row by row, on rows of other types: the bits that floats with the same numbers give, rounded
// once.
#include <bit>

#include "elements.hpp"

using namespace testing;

namespace {

// body(x's type, out's type) for all pairs but two floats.
template <typename Body>
void for_each_pair(Body body) {
  for (const Dtype x : kTypes) {
    for (const Dtype out : kTypes) {
      CAPTURE(static_cast<int>(x));
      CAPTURE(static_cast<int>(out));
      if (x != Dtype::f32 || out != Dtype::f32) body(x, out);
    }
  }
}

// Small numbers of features, then those around the blocks that become floats at a time.
std::vector<int64_t> sizes(const fovea::Kernels &table, int64_t step, std::initializer_list<int64_t> large) {
  std::vector<int64_t> all(large);
  for (int64_t n = step; n <= 3 * table.rowwise->lanes + step; n += step) all.push_back(n);
  return all;
}

}  // namespace

TEST_SUITE("kernels row types") {
  TEST_CASE(
      "floats become 16 bits rightly wherever they stand in a row: ties, overflow, subnormals, NaNs of any bits") {
    std::vector<float> values;
    for (const uint32_t sign : {0u, 0x80000000u}) {
      for (const uint32_t upper :
           {0u,      1u,      0x7fu,   0x80u,   0x3380u, 0x387fu, 0x3880u, 0x3f80u, 0x3f81u, 0x3ffeu,
            0x3fffu, 0x477fu, 0x4780u, 0x7f7eu, 0x7f7fu, 0x7f80u, 0x7f81u, 0x7fc0u, 0x7ffeu, 0x7fffu}) {
        for (const uint32_t lower : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
                                     0xefffu, 0xf000u, 0xffffu}) {
          values.push_back(std::bit_cast<float>(sign | upper << 16 | lower));
        }
      }
    }
    for_each_table([&](const fovea::Kernels &table) {
      const auto count = static_cast<int64_t>(values.size());
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        for (const int64_t first : {0, 1, 2, 5, 11}) {
          const Floats from(std::vector<float>(values.begin() + first, values.end()));
          const Elements out(count - first, dtype);
          table.rowwise->narrow_row(from.data(), count - first, out.data(), dtype);
          const std::vector<float> got = out.values();
          for (int64_t n = first; n < count; ++n) {
            const float value = values[static_cast<size_t>(n)], stored = got[static_cast<size_t>(n - first)];
            const float expected = rounded_to(value, static_cast<fovea_dtype>(dtype));
            CAPTURE(std::bit_cast<uint32_t>(value));
            CHECK((std::isnan(value) ? std::isnan(stored)
                                     : std::bit_cast<uint32_t>(stored) == std::bit_cast<uint32_t>(expected)));
          }
        }
      }
    });
  }

  TEST_CASE("rows of other types: exp and tanh of every number that 16 bits hold") {
    for_each_table([](const fovea::Kernels &table) {
      for (const Dtype x_type : {Dtype::bf16, Dtype::f16}) {
        std::vector<float> values;
        for (uint32_t bits = 0; bits < 0x10000; ++bits) {
          values.push_back(widened(static_cast<uint16_t>(bits), static_cast<fovea_dtype>(x_type)));
        }
        const Elements floats(values, Dtype::f32), truth(0x10000, Dtype::f32);
        for (const auto kernel : {table.rowwise->exp, table.rowwise->tanh}) {
          kernel({floats.data(), Dtype::f32, truth.data(), Dtype::f32, 0x10000});
          for (const Dtype out_type : kTypes) {
            const Elements x(values, x_type), out(0x10000, out_type);
            kernel({x.data(), x_type, out.data(), out_type, 0x10000});
            if (!computes_narrowly(x_type, out_type)) {
              CHECK_EQ(differing(out, truth), 0);
              continue;
            }
            std::vector<double> exact(values.begin(), values.end());
            const bool is_exp = kernel == table.rowwise->exp;
            for (double &value : exact) value = is_exp ? std::exp(value) : std::tanh(value);
            CHECK_LE(largest_distance(out, exact), 0.53);
            for (const uint32_t zero : {0u, 0x8000u}) {
              if (!is_exp) CHECK_EQ(std::signbit(out.values()[zero]), zero != 0);
            }
          }
        }
      }
    });
  }

  // Rounding adds to the bits of a NaN, too, which must not become an infinity or a zero.
  TEST_CASE("rows of other types: a NaN of floats with any bits is one in 16 bits") {
    for_each_table([](const fovea::Kernels &table) {
      const int64_t dim = 5 * table.rowwise->lanes + 3;
      for (const uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff800001u, 0x7fffe000u}) {
        CAPTURE(bits);
        for (const int64_t at : {int64_t{0}, int64_t{3}, dim - 4, dim - 1}) {
          std::vector<float> with_nan(static_cast<size_t>(dim), 1.0f);
          with_nan[0] = 2.0f;
          const std::vector<float> plain = with_nan;
          with_nan[static_cast<size_t>(at)] = std::bit_cast<float>(bits);
          const Elements nan(with_nan, Dtype::f32), x(plain, Dtype::bf16), out(dim, Dtype::bf16);
          const auto is_nan = [&](int64_t n) { return std::isnan(out.values()[static_cast<size_t>(n)]); };
          for (const auto kernel : {table.rowwise->exp, table.rowwise->tanh}) {
            kernel({nan.data(), Dtype::f32, out.data(), Dtype::bf16, dim});
            CHECK(is_nan(at));
          }
          const fovea::NormRow row = {x.data(), nullptr, out.data()};
          table.rowwise->norm_rows({.row = &row,
                                    .count = 1,
                                    .listed = 1,
                                    .dim = dim,
                                    .weight = nan.data(),
                                    .bias = nullptr,
                                    .types = {Dtype::bf16, Dtype::f32, Dtype::bf16, Dtype::f32, Dtype::f32},
                                    .epsilon = 1e-5,
                                    .traffic = fovea::NormTraffic::cached});
          CHECK(is_nan(at));
          CHECK(!is_nan(at == 1 ? 2 : 1));
          const fovea::SoftmaxRow scores = {nan.data(), out.data(), dim};
          table.rowwise->softmax_rows({&scores, Dtype::f32, Dtype::bf16, 1, dim, fovea::EmptyRows::zero, false});
          for (int64_t n = 0; n < dim; ++n) CHECK(is_nan(n));
          const float lse = 0;
          table.rowwise->merge_row(
              {nan.data(), Dtype::f32, &lse, nullptr, 1, out.data(), Dtype::bf16, nullptr, 1, dim, dim, 1});
          CHECK(is_nan(at));
        }
      }
    });
  }

  TEST_CASE("rows of other types: the bits of floats, rounded once: exp and tanh") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t count : sizes(table, 1, {2047, 2048, 2049, 4100})) {
        CAPTURE(count);
        for_each_pair([&](Dtype x_type, Dtype out_type) {
          const std::vector<float> values = numbers(count, random, x_type, 4);
          const Elements x(values, x_type), floats(values, Dtype::f32), out(count, out_type), truth(count, Dtype::f32);
          for (const auto kernel : {table.rowwise->exp, table.rowwise->tanh}) {
            kernel({floats.data(), Dtype::f32, truth.data(), Dtype::f32, count});
            kernel({x.data(), x_type, out.data(), out_type, count});
            if (computes_narrowly(x_type, out_type)) {
              CHECK_LE(largest_distance(out, truth), 0.53);
            } else {
              CHECK_EQ(differing(out, truth), 0);
            }
          }
        });
      }
    });
  }

  TEST_CASE("rows of other types: masked softmax, past the caches too") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t keys : sizes(table, 5, {4096, 4099, 8192, 8195, 20000})) {
        CAPTURE(keys);
        const std::vector<int64_t> lens = {keys, keys - 1, 0, keys / 2, 1, keys};
        const auto count = static_cast<int64_t>(lens.size());
        for_each_pair([&](Dtype x_type, Dtype out_type) {
          std::vector<float> values = numbers(count * keys, random, x_type, 3);
          for (int64_t j = 0; j < keys; ++j) values[static_cast<size_t>(5 * keys + j)] = -kInfinity;
          values[static_cast<size_t>(3 * keys)] = kNan;
          const Elements x(values, x_type), floats(values, Dtype::f32), out(count * keys, out_type),
              truth(count * keys, Dtype::f32);
          std::vector<fovea::SoftmaxRow> rows, float_rows;
          for (int64_t r = 0; r < count; ++r) {
            rows.push_back({x.at(r * keys), out.at(r * keys), lens[static_cast<size_t>(r)]});
            float_rows.push_back({floats.at(r * keys), truth.at(r * keys), lens[static_cast<size_t>(r)]});
          }
          const auto empty_rows = static_cast<fovea::EmptyRows>(keys % 3);
          table.rowwise->softmax_rows({float_rows.data(), Dtype::f32, Dtype::f32, count, keys, empty_rows, false});
          std::vector<float> cached;
          for (const bool stream : {false, true}) {
            table.rowwise->softmax_rows({rows.data(), x_type, out_type, count, keys, empty_rows, stream});
            if (computes_narrowly(x_type, out_type)) {
              CHECK_LE(largest_distance(out, truth), 0.53);
              if (!stream) cached = out.values();
              CHECK_EQ(differing(out, Elements(cached, Dtype::f32)), 0);
            } else {
              CHECK_EQ(differing(out, truth), 0);
            }
          }
        });
      }
    });
  }

  TEST_CASE("rows of other types: layer normalisation") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t dim : sizes(table, 3, {2047, 2048, 2049, 4100, 16384, 16385})) {
        CAPTURE(dim);
        for_each_pair([&](Dtype x_type, Dtype out_type) {
          const int64_t count = random.integer(1, 3);
          const bool weighted = random.chance(0.7), biased = random.chance(0.7), residual = random.chance(0.5);
          const bool same = random.chance(0.5);  // one type has kernels of its own
          const auto any_type = [&] { return same ? x_type : random.pick({Dtype::f32, Dtype::f16, Dtype::bf16}); };
          const Dtype residual_type = any_type(), weight_type = any_type(), bias_type = any_type();
          // Some rows' squares leave the range of floats.
          const float size = x_type != Dtype::f16 && random.chance(0.3) ? 0x1p70f : 1;
          const std::vector<float> xs = numbers(count * dim, random, x_type, size),
                                   added = numbers(count * dim, random, residual_type),
                                   factors = numbers(dim, random, weight_type),
                                   shifts = numbers(dim, random, bias_type);
          using enum fovea::NormTraffic;
          const auto traffic = random.chance(0.4) ? cached : random.chance(0.5) ? from_memory : past_caches;
          const auto run = [&](bool typed, const Elements &out) {
            const auto type = [&](Dtype dtype) { return typed ? dtype : Dtype::f32; };
            const Elements x(xs, type(x_type)), more(added, type(residual_type)), weight(factors, type(weight_type)),
                bias(shifts, type(bias_type));
            std::vector<fovea::NormRow> rows;
            for (int64_t r = 0; r < count; ++r) {
              rows.push_back({x.at(r * dim), residual ? more.at(r * dim) : nullptr, out.at(r * dim)});
            }
            table.rowwise->norm_rows({.row = rows.data(),
                                      .count = count,
                                      .listed = count,
                                      .dim = dim,
                                      .weight = weighted ? weight.data() : nullptr,
                                      .bias = biased ? bias.data() : nullptr,
                                      .types = {x.dtype(), more.dtype(), out.dtype(), weight.dtype(), bias.dtype()},
                                      .epsilon = 1e-5,
                                      .traffic = traffic});
          };
          const Elements out(count * dim, out_type), truth(count * dim, Dtype::f32);
          run(false, truth);
          run(true, out);
          const bool one_type = computes_narrowly(x_type, out_type) && (!residual || residual_type == x_type) &&
                                (!weighted || weight_type == x_type) && (!biased || bias_type == x_type);
          if (one_type) {
            CHECK_LE(largest_distance(out, truth, 0x1p-17), 0.51);
          } else {
            CHECK_EQ(differing(out, truth), 0);
          }
        });
      }
    });
  }

  TEST_CASE("rows of other types: rotation") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t rotary_dim : sizes(table, 6, {510, 2048, 2050, 4100})) {
        CAPTURE(rotary_dim);
        for_each_pair([&](Dtype x_type, Dtype out_type) {
          const bool interleaved = random.chance(0.5), one_position = random.chance(0.5);
          const int64_t dim = rotary_dim + random.pick({0, 0, 1, 70}), count = random.integer(1, 9);
          const int64_t width = fovea::round_up(interleaved ? rotary_dim : rotary_dim / 2, 2 * table.rowwise->lanes);
          const std::vector<float> values = numbers(count * dim, random, x_type);
          const Floats turns(normals(count * 2 * width, random));
          const Elements x(values, x_type), floats(values, Dtype::f32), out(count * dim, out_type),
              truth(count * dim, Dtype::f32);
          fovea::RotatedRows rows = {.x = floats.data(),
                                     .x_type = Dtype::f32,
                                     .x_stride = dim,
                                     .out = truth.data(),
                                     .out_type = Dtype::f32,
                                     .out_stride = dim,
                                     .table = turns.data(),
                                     .table_stride = one_position ? 0 : 2 * width,
                                     .width = width,
                                     .count = count,
                                     .head_dim = dim,
                                     .rotary_dim = rotary_dim,
                                     .interleaved = interleaved,
                                     .distance = fovea::Distance::cached,
                                     .stream = false};
          table.rowwise->rotate_rows(rows);
          rows.x = x.data();
          rows.x_type = x_type;
          rows.out = out.data();
          rows.out_type = out_type;
          rows.distance = random.pick(
              {fovea::Distance::near, fovea::Distance::cached, fovea::Distance::far, fovea::Distance::memory});
          rows.stream = random.chance(0.5);
          table.rowwise->rotate_rows(rows);
          CHECK_EQ(differing(out, truth), 0);
          if (x_type != out_type) return;
          rows.out = x.data();
          rows.stream = false;
          table.rowwise->rotate_rows(rows);
          CHECK_EQ(differing(x, truth), 0);
        });
      }
    });
  }

  TEST_CASE("rows of other types: the sinusoidal encoding, its sum with x, dropout") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t dim : sizes(table, 5, {2048, 2051, 4100})) {
        CAPTURE(dim);
        for_each_pair([&](Dtype x_type, Dtype out_type) {
          const int64_t count = random.integer(1, 5), pairs = fovea::round_up((dim + 1) / 2, table.rowwise->lanes);
          std::vector<double> frequencies(static_cast<size_t>(pairs)), positions(static_cast<size_t>(count));
          for (double &frequency : frequencies) frequency = static_cast<double>(random.uniform(0, 1));
          for (double &position : positions) position = static_cast<double>(random.integer(0, 1000));
          const std::vector<float> values = numbers(count * dim, random, x_type);
          const Elements x(values, x_type), floats(values, Dtype::f32), out(count * dim, out_type),
              truth(count * dim, Dtype::f32);
          for (const bool add : {false, true}) {
            const void *no = nullptr;
            table.rowwise->encode_rows({frequencies.data(), positions.data(), count, dim, add ? floats.data() : no,
                                        Dtype::f32, dim, truth.data(), Dtype::f32, dim, false});
            table.rowwise->encode_rows({frequencies.data(), positions.data(), count, dim, add ? x.data() : no, x_type,
                                        dim, out.data(), out_type, dim, add});
            CHECK_EQ(differing(out, truth), 0);
          }
          const Floats encoding(normals(count * dim, random));
          const fovea::Dropout dropout = {.threshold = 0x40000000u, .scale = 4.0f / 3, .seed = 5};
          fovea::AddedRows rows = {.x = floats.data(),
                                   .x_type = Dtype::f32,
                                   .x_stride = dim,
                                   .encoding = encoding.data(),
                                   .encoding_stride = dim,
                                   .out = truth.data(),
                                   .out_type = Dtype::f32,
                                   .out_stride = dim,
                                   .count = count,
                                   .dim = dim,
                                   .distance = fovea::Distance::far,
                                   .stream = false,
                                   .dropout = random.chance(0.5) ? &dropout : nullptr,
                                   .batch = 3,
                                   .batch_step = random.integer(0, 1),
                                   .query = 7,
                                   .query_step = random.integer(0, 1)};
          table.rowwise->add_rows(rows);
          rows.x = x.data();
          rows.x_type = x_type;
          rows.out = out.data();
          rows.out_type = out_type;
          rows.stream = true;
          table.rowwise->add_rows(rows);
          CHECK_EQ(differing(out, truth), 0);
        });
      }
    });
  }

  TEST_CASE("rows of other types: merging") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (const int64_t dim : sizes(table, 5, {511, 512, 513, 1100})) {
        CAPTURE(dim);
        for_each_pair([&](Dtype outs_type, Dtype out_type) {
          const int64_t parts = random.integer(1, 4);
          const std::vector<float> values = numbers(parts * dim, random, outs_type);
          const Floats lses(normals(parts, random, 4)), lse(int64_t{1}), float_lse(int64_t{1});
          const Elements outs(values, outs_type), floats(values, Dtype::f32), out(dim, out_type),
              truth(dim, Dtype::f32);
          table.rowwise->merge_row({floats.data(), Dtype::f32, lses.data(), nullptr, 1, truth.data(), Dtype::f32,
                                    float_lse.data(), parts, dim, dim, 1});
          table.rowwise->merge_row(
              {outs.data(), outs_type, lses.data(), nullptr, 1, out.data(), out_type, lse.data(), parts, dim, dim, 1});
          CHECK_EQ(differing(out, truth), 0);
          CHECK(lse.values() == float_lse.values());
        });
      }
    });
  }

  TEST_CASE("an element type that kernels do not load is never taken for float32") {
    for_each_table([](const fovea::Kernels &table) {
      const Floats from({1, 2, 3, 4});
      for (const int number : {-1, 0, 4, 5, 7, 8, 10, 11, 12, 99}) {
        CAPTURE(number);
        const Floats to(int64_t{4});
        const auto dtype = static_cast<Dtype>(number);
        table.rowwise->widen_rows(from.data(), dtype, 0, 1, 4, to.data(), 0);
        table.rowwise->narrow_row(from.data(), 4, to.data(), dtype);
        for (const float value : to.values()) CHECK(std::isnan(value));
        CHECK_FALSE(fovea::is_number(dtype));
      }
    });
  }
}
