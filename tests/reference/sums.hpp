// Sums as a careful evaluation takes them: halves, and halves of these, down to runs of 16 (whose error is that of NumPy's
// blocks of 128 in eight sums).
#pragma once

#include <cstdint>

namespace reference {

// term(begin) + ... + term(end - 1)
template <typename Real, typename Term>
Real sum_of(int64_t begin, int64_t end, const Term &term) {
  constexpr int64_t run = 16;
  if (end - begin > run) {
    const int64_t middle = begin + (end - begin) / 2;
    return sum_of<Real>(begin, middle, term) + sum_of<Real>(middle, end, term);
  }
  Real sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += term(i);
  return sum;
}

}  // namespace reference
