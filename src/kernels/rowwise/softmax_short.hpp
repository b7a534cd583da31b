// Softmax of rows that fit a few registers: they stay there, and several rows go together. A row is one long chain, its
// maximum, powers, sum, division, and row after row such chains fill the processor's queues with what has to wait. Results are
// those of the longer rows' ways, operation by operation.
//
// Row<registers> is a row of more elements than one register less holds:
//   load(row)           what lies behind the elements counts as -infinity
//   max()               the largest, which may hide a NaN
//   takes(max)          whether the row goes this way: not one without scores to weigh
//   exponentiate(max)
//   sum()
//   put(row, factor)    the elements times factor, which may be NaN
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// False, and nothing done, unless all of `count` rows go this way.
template <class Row, int count>
FOVEA_NOINLINE bool done_together(const SoftmaxRow *rows, int64_t key_len) {
  Row row[count];
  float value[count];
  bool usual = true;
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].load(rows[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { value[r] = row[r].max(); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { usual = usual && Row::takes(value[r]); });
  if (!usual) return false;
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].exponentiate(value[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { value[r] = 1.0f / row[r].sum(); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].put(rows[r], value[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY {
    const int64_t len = rows[r].valid_len;
    if (len < key_len) fill_run(static_cast<typename Row::Element *>(rows[r].out) + len, key_len - len, 0.0f);
  });
  return true;
}

// How many of `count` rows, from the first on, were done: none if that one goes another way.
template <template <int> class Row>
FOVEA_INLINE int64_t rows_done_in_registers(const SoftmaxRow *rows, int64_t count, int64_t key_len) {
  const auto registers_of = [&](int64_t r) FOVEA_INLINE_BODY { return ceil_div(rows[r].valid_len, lanes); };
  const int64_t registers = registers_of(0);
  if (registers > 4) return 0;
  int64_t alike = 1;
  while (alike < min_of(4, count) && registers_of(alike) == registers) ++alike;
  const auto take = [&](auto held, auto at_once) FOVEA_INLINE_BODY -> int64_t {
    using Held = Row<decltype(held)::value>;
    if (alike >= at_once && done_together<Held, decltype(at_once)::value>(rows, key_len)) return at_once;
    return done_together<Held, 1>(rows, key_len) ? 1 : 0;
  };
  switch (registers) {
    case 1: return take(Index<1>{}, Index<4>{});
    case 2: return take(Index<2>{}, Index<4>{});
    case 3: return take(Index<3>{}, Index<2>{});
    case 4: return take(Index<4>{}, Index<2>{});
    default: return 0;
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
