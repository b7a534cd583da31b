// Makes rows of cosines and sines. Integers that say where to read, positions and sections, are forced into range as
// they are read: the caller's memory may change during a call, which then gives wrong numbers and nothing worse.
#include "ops/positions/rotary_tables.hpp"

#include <algorithm>

#include "ops/positions/rows.hpp"

namespace fovea {

RotaryTables::RotaryTables(const RotaryArguments &call, const Context &context, int64_t width, int64_t block_length,
                           int workers)
    : call_(call),
      kernels_(*context.kernels->rowwise),
      pairs_(call.rotary_dim / 2),
      width_(width),
      frequencies_(layout_.add<double>(call.cosines == nullptr ? round_up(pairs_, kernels_.lanes) : 0)),
      sections_(layout_.add<int32_t>(call.sections == nullptr ? 0 : pairs_)),
      pair_positions_(layout_.add_copies<double>(
          workers, call.sections == nullptr || call.cosines != nullptr ? 0 : round_up(pairs_, kernels_.lanes))),
      pair_turns_(
          layout_.add_copies<float>(workers, call.sections == nullptr || call.cosines == nullptr ? 0 : 2 * pairs_)),
      tables_(layout_.add_copies<float>(workers, block_length * 2 * width)) {}

void RotaryTables::fill(void *memory) {
  memory_ = memory;
  if (call_.cosines == nullptr) fill_frequencies();
  if (call_.sections != nullptr) copy_sections();
}

void RotaryTables::fill_frequencies() const {
  double *frequencies = frequencies_.in(memory_);
  if (call_.frequencies == nullptr) {
    fovea::fill_frequencies(call_.base, call_.rotary_dim, pairs_, kernels_.lanes, frequencies);
  } else {
    const auto *given = static_cast<const float *>(call_.frequencies->data);
    for (int64_t j = 0; j < pairs_; ++j) {
      frequencies[j] = quarter_turns_per_radian * given[j * call_.frequencies->strides[0]];
    }
    std::fill(frequencies + pairs_, frequencies + round_up(pairs_, kernels_.lanes), 0.0);
  }
  if (!call_.inverse) return;
  for (int64_t j = 0; j < pairs_; ++j) frequencies[j] = -frequencies[j];
}

void RotaryTables::copy_sections() const {
  int32_t *sections = sections_.in(memory_);
  const fovea_tensor &given = *call_.sections;
  for (int64_t j = 0; j < pairs_; ++j) {
    sections[j] = static_cast<int32_t>(integer_within(given, j * given.strides[0], 0, call_.section_count - 1));
  }
}

int64_t RotaryTables::position(int64_t section, int64_t group, int64_t row) const {
  const PositionStrides &strides = call_.position_strides;
  const int64_t position =
      call_.positions == nullptr
          ? call_.options.offset + row
          : integer_at(*call_.positions, section * strides.section + group * strides.batch + row * strides.row);
  return call_.cosines == nullptr ? position : clamp_to(position, 0, call_.cosines->shape[0] - 1);
}

// Where rows stand, scaled.
void RotaryTables::place(int64_t group, int64_t first, int64_t count, double *positions) const {
  const double scale = call_.position_scale;
  const fovea_tensor *given = call_.positions;
  if (given == nullptr) {
    const int64_t offset = call_.options.offset + first;
    for (int64_t i = 0; i < count; ++i) positions[i] = scale * static_cast<double>(offset + i);
    return;
  }
  const PositionStrides &strides = call_.position_strides;
  const int64_t start = group * strides.batch + first * strides.row;
  for (int64_t i = 0; i < count; ++i) {
    positions[i] = scale * static_cast<double>(integer_at(*given, start + i * strides.row));
  }
}

RotaryTable RotaryTables::angles(int64_t count, float *table) const {
  return {.frequencies = frequencies_.in(memory_),
          .positions = nullptr,
          .count = count,
          .pairs = pairs_,
          .interleaved = call_.interleaved,
          .width = width_,
          .factor = call_.attention_factor,
          .table = table};
}

void RotaryTables::turn_by_sections(int worker, int64_t group, int64_t row, float *table) const {
  const int32_t *sections = sections_.in(memory_);
  double *positions = pair_positions_.in(memory_, worker);
  const fovea_tensor &given = *call_.positions;
  const bool is_64bit = given.dtype == FOVEA_I64;
  const int64_t start = group * call_.position_strides.batch + row * call_.position_strides.row;
  const int64_t stride = call_.position_strides.section;
  const double scale = call_.position_scale;
  for (int64_t j = 0; j < pairs_; ++j) {
    positions[j] = scale * static_cast<double>(read_integer(given.data, is_64bit, start + sections[j] * stride));
  }
  std::fill(positions + pairs_, positions + round_up(pairs_, kernels_.lanes), 0.0);
  RotaryTable turns = angles(1, table);
  turns.positions = positions;
  kernels_.rotary_row_of_positions(turns);
}

// Runs of pairs of one section are read as one.
const float *RotaryTables::gather_turns(const fovea_tensor &from, int64_t group, int64_t row, float *to) const {
  const int32_t *sections = sections_.in(memory_);
  const auto dtype = static_cast<Dtype>(from.dtype);
  for (int64_t j = 0; j < pairs_;) {
    int64_t end = j + 1;
    while (end < pairs_ && sections[end] == sections[j]) ++end;
    const int64_t at = position(sections[j], group, row) * from.strides[0] + j;
    kernels_.widen_rows(element_at(from.data, dtype, at), dtype, 0, 1, end - j, to + j, 0);
    j = end;
  }
  return to;
}

void RotaryTables::turn_as_given(int worker, int64_t group, int64_t row, float *table) const {
  const fovea_tensor &cosines = *call_.cosines, &sines = *call_.sines;
  GivenTurns turns = {.cosines = nullptr,
                      .cosine_type = Dtype::f32,
                      .sines = nullptr,
                      .sine_type = Dtype::f32,
                      .pairs = pairs_,
                      .interleaved = call_.interleaved,
                      .width = width_,
                      .cosine_factor = call_.attention_factor,
                      .sine_factor = call_.inverse ? -call_.attention_factor : call_.attention_factor,
                      .table = table};
  if (call_.sections != nullptr) {
    float *gathered = pair_turns_.in(memory_, worker);
    turns.cosines = gather_turns(cosines, group, row, gathered);
    turns.sines = gather_turns(sines, group, row, gathered + pairs_);
  } else {
    const int64_t index = call_.rows_given() ? 0 : position(0, group, row);
    const auto row_of = [&](const fovea_tensor &from) {
      const int64_t at = call_.rows_given() ? group * from.strides[0] + row * from.strides[1] : index * from.strides[0];
      return element_at(from.data, static_cast<Dtype>(from.dtype), at);
    };
    turns.cosines = row_of(cosines);
    turns.cosine_type = static_cast<Dtype>(cosines.dtype);
    turns.sines = row_of(sines);
    turns.sine_type = static_cast<Dtype>(sines.dtype);
  }
  kernels_.rotary_given_row(turns);
}

const float *RotaryTables::make(int worker, int64_t group, int64_t first, int64_t count) const {
  float *table = tables_.in(memory_, worker);
  if (call_.cosines == nullptr && call_.sections == nullptr) {
    double positions[most_positions_per_block];
    place(group, first, count, positions);
    RotaryTable turns = angles(count, table);
    turns.positions = positions;
    kernels_.rotary_table(turns);
    return table;
  }
  for (int64_t i = 0; i < count; ++i) {
    float *row = table + i * 2 * width_;
    call_.cosines == nullptr ? turn_by_sections(worker, group, first + i, row)
                             : turn_as_given(worker, group, first + i, row);
  }
  return table;
}

}  // namespace fovea
