// Sums as a careful evaluation takes them: halves, and halves of these, down to runs of 16 (whose error is that of
// NumPy's blocks of 128 in eight sums).
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>

namespace reference {

template <typename Real, typename Term>
Real sum_in_halves(int64_t begin, int64_t end, const Term &term) {
  constexpr int64_t run = 16;
  if (end - begin > run) {
    const int64_t middle = begin + (end - begin) / 2;
    return sum_in_halves<Real>(begin, middle, term) + sum_in_halves<Real>(middle, end, term);
  }
  Real sum{};
  for (int64_t i = begin; i < end; ++i) sum += term(i);
  return sum;
}

// term(begin) + ... + term(end - 1). Order 0 takes them as they come, any other in strides around them: the same sum,
// rounded otherwise.
template <typename Real, typename Term>
Real sum_of(int order, int64_t begin, int64_t end, const Term &term) {
  const int64_t count = end - begin;
  if (order == 0 || count < 2) return sum_in_halves<Real>(begin, end, term);
  int64_t stride = order + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  return sum_in_halves<Real>(0, count, [&](int64_t i) { return term(begin + (i * stride + order) % count); });
}

// Some numbers, computed with beside each other: the sum of one does not wait for another's.
template <typename Real>
struct Several {
  static constexpr int64_t kCount = 8;
  Real at[kCount] = {};

  Several &operator+=(const Several &other) { return *this = *this + other; }
  friend Several operator+(const Several &a, const Several &b) {
    return each([&](int64_t c) { return a.at[c] + b.at[c]; });
  }
  friend Several operator-(const Several &a, const Several &b) {
    return each([&](int64_t c) { return a.at[c] - b.at[c]; });
  }
  friend Several operator*(Real factor, const Several &a) {
    return each([&](int64_t c) { return factor * a.at[c]; });
  }
  friend Several abs(const Several &a) {
    return each([&](int64_t c) { return std::abs(a.at[c]); });
  }

 private:
  template <typename Make>
  static Several each(const Make &make) {
    Several made;
    for (int64_t c = 0; c < kCount; ++c) made.at[c] = make(c);
    return made;
  }
};

}  // namespace reference
