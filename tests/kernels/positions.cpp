// The kernels of positions: tables of rotations and turning by them, the sinusoidal encoding and its sum with x.
#include "positions.hpp"
#include "kernels.hpp"

using namespace testing;

namespace {

// In quarter turns for each position, with zeros up to whole registers.
std::vector<double> frequencies_of(int64_t pairs, int64_t dim, int64_t lanes, double sign) {
  std::vector<double> frequencies(static_cast<size_t>(fovea::round_up(pairs, lanes)));
  for (int64_t j = 0; j < pairs; ++j) {
    frequencies[static_cast<size_t>(j)] = sign * reference::angle(1, j, dim, 10000) * 2 / std::acos(-1.0);
  }
  return frequencies;
}

struct Rotation {
  int64_t head_dim, rotary_dim, count;
  bool interleaved, inverse, one_position, in_place;
  fovea::Distance distance;
  bool stream;
};

void check_rotation(const fovea::Kernels &table, const Rotation &r, Random &random) {
  CAPTURE(r.head_dim);
  CAPTURE(r.rotary_dim);
  CAPTURE(r.interleaved);
  CAPTURE(r.one_position);
  const int64_t pairs = r.rotary_dim / 2;
  const int64_t width = fovea::round_up(r.interleaved ? 2 * pairs : pairs,
                                        r.interleaved ? 2 * table.rowwise->lanes : table.rowwise->lanes);
  const std::vector<double> frequencies = frequencies_of(pairs, r.rotary_dim, table.rowwise->lanes, r.inverse ? -1 : 1);
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < r.count; ++row) positions.push_back(r.one_position ? 70 : random.integer(0, 1000));
  const std::vector<double> turns(positions.begin(), positions.end());
  const Floats rotations(r.count * 2 * width), x(normals(r.count * r.head_dim, random));
  const Floats out = r.in_place ? Floats(x.values()) : Floats(r.count * r.head_dim);
  table.rowwise->rotary_table(
      {frequencies.data(), turns.data(), r.count, pairs, r.interleaved, width, 1.0f, rotations.data()});
  table.rowwise->rotate_rows({.x = r.in_place ? out.data() : x.data(),
                              .x_type = fovea::Dtype::f32,
                              .x_stride = r.head_dim,
                              .out = out.data(),
                              .out_type = fovea::Dtype::f32,
                              .out_stride = r.head_dim,
                              .table = rotations.data(),
                              .table_stride = r.one_position ? 0 : 2 * width,
                              .width = width,
                              .count = r.count,
                              .head_dim = r.head_dim,
                              .rotary_dim = r.rotary_dim,
                              .interleaved = r.interleaved,
                              .distance = r.distance,
                              .stream = r.stream});
  reference::Rotary how{.rotary_dim = r.rotary_dim};
  how.interleaved = r.interleaved;
  how.inverse = r.inverse;
  std::vector<double> whole = reference::rotary(x.values(), positions, how);
  CHECK_WITHIN(out.values(), whole, roundings(whole, 4, 40));  // 4 of |x| + |y|, each at most 5
}

}  // namespace

TEST_SUITE("kernels positions") {
  TEST_CASE("rotation, every number of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      const fovea::Distance distances[] = {fovea::Distance::near, fovea::Distance::cached, fovea::Distance::far,
                                           fovea::Distance::memory};
      for (int64_t dim = 2; dim <= 5 * table.rowwise->lanes + 2; dim += 2) {
        for (const bool interleaved : {false, true}) {
          const fovea::Distance distance = distances[dim / 2 % 4];
          Rotation r = {dim, dim, 1 + dim % 7, interleaved, false, false, false, distance, dim % 3 == 0};
          check_rotation(table, r, random);
          r.one_position = true;
          r.count = 9;
          check_rotation(table, r, random);
          r.inverse = r.in_place = true;
          r.stream = false;
          check_rotation(table, r, random);
          r.in_place = r.one_position = false;
          r.head_dim += dim % 5;
          check_rotation(table, r, random);
        }
      }
    });
  }

  // A row of the table, from positions of each pair and from cosines and sines that were given, is that of one
  // position.
  TEST_CASE("rows of rotations, every number of pairs") {
    for_each_table([](const fovea::Kernels &table) {
      const int64_t lanes = table.rowwise->lanes;
      Random random(base_seed());
      for (int64_t pairs = 1; pairs <= 3 * lanes + 1; ++pairs) {
        for (const bool interleaved : {false, true}) {
          CAPTURE(pairs);
          CAPTURE(interleaved);
          const int64_t width = fovea::round_up(pairs, lanes) * (interleaved ? 2 : 1);
          const std::vector<double> frequencies = frequencies_of(pairs, 2 * pairs, lanes, 1);
          const std::vector<double> positions(frequencies.size(), 30);
          const Floats expected(2 * width), by_pairs(2 * width), given(2 * width), halves(4 * width);
          fovea::RotaryTable rows = {frequencies.data(), positions.data(), 1, pairs, interleaved, width, 1.25f,
                                     expected.data()};
          table.rowwise->rotary_table(rows);
          rows.table = by_pairs.data();
          table.rowwise->rotary_row_of_positions(rows);
          CHECK(by_pairs.values() == expected.values());
          const int64_t half_width = fovea::round_up(pairs, lanes);
          rows = {frequencies.data(), positions.data(), 1, pairs, false, half_width, 1.0f, halves.data()};
          table.rowwise->rotary_table(rows);
          const Floats cosines(std::vector<float>(halves.data(), halves.data() + pairs));
          const Floats sines(std::vector<float>(halves.data() + half_width, halves.data() + half_width + pairs));
          table.rowwise->rotary_given_row({cosines.data(), fovea::Dtype::f32, sines.data(), fovea::Dtype::f32, pairs,
                                           interleaved, width, 1.25f, 1.25f, given.data()});
          const std::vector<float> made = given.values(), wanted = expected.values();
          int64_t wrong = 0;
          for (int64_t n = 0; n < 2 * width; ++n) {
            const int64_t column = n % width;
            if (column >= (interleaved ? 2 * pairs : pairs)) continue;
            wrong += made[static_cast<size_t>(n)] == wanted[static_cast<size_t>(n)] ? 0 : 1;
          }
          CHECK(wrong == 0);
        }
      }
    });
  }

  TEST_CASE("sinusoidal encoding, every number of features") {
    for_each_table([](const fovea::Kernels &table) {
      Random random(base_seed());
      for (int64_t dim = 1; dim <= 5 * table.rowwise->lanes + 1; ++dim) {
        CAPTURE(dim);
        const std::vector<int64_t> positions = {0, 1, 17, 999};
        const std::vector<double> turns(positions.begin(), positions.end());
        const auto frequencies = frequencies_of((dim + 1) / 2, dim, table.rowwise->lanes, 1);
        const std::vector<double> encoding = reference::positional_encoding(positions, dim, 10000);
        const Floats x(normals(4 * dim, random)), made(4 * dim), sum(4 * dim), added(4 * dim);
        std::vector<double> truth;
        for (size_t n = 0; n < encoding.size(); ++n) truth.push_back(encoding[n] + static_cast<double>(x.data()[n]));
        for (const bool stream : {false, true}) {
          constexpr fovea::Dtype f32 = fovea::Dtype::f32;
          table.rowwise->encode_rows(
              {frequencies.data(), turns.data(), 4, dim, nullptr, f32, 0, made.data(), f32, dim, stream});
          CHECK_WITHIN(made.values(), encoding, roundings(encoding, 0, 4));
          table.rowwise->encode_rows(
              {frequencies.data(), turns.data(), 4, dim, x.data(), f32, dim, sum.data(), f32, dim, stream});
          CHECK_WITHIN(sum.values(), truth, roundings(truth, 1, 4));
          table.rowwise->add_rows({.x = x.data(),
                                   .x_type = f32,
                                   .x_stride = dim,
                                   .encoding = made.data(),
                                   .encoding_stride = dim,
                                   .out = added.data(),
                                   .out_type = f32,
                                   .out_stride = dim,
                                   .count = 4,
                                   .dim = dim,
                                   .distance = stream ? fovea::Distance::memory : fovea::Distance::near,
                                   .stream = stream,
                                   .dropout = nullptr,
                                   .batch = 0,
                                   .batch_step = 0,
                                   .query = 0,
                                   .query_step = 1});
          CHECK(added.values() == sum.values());
        }
      }
    });
  }
}
