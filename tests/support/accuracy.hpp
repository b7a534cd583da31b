// Judges whether a float32 result is as accurate as it must be, by the truth (the formula in double) and by the plain
// float32 evaluation of the same formula.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace testing {

inline constexpr double kEpsilon = 0x1p-24;  // half an ulp of 1, the rounding error of one float32 operation

// Checks max |actual - truth| <= max(2 * max |plain - truth|, floor), and that NaN and infinities stand exactly where
// the truth has them. Returns "" or what is wrong.
//
// Why a floor: the plain evaluation of a small tensor may round to the truth by luck, and twice nothing admits no
// rounding at all. The caller passes what a few roundings of the quantities involved cost; on large tensors it is below
// the other term.
std::string judge(const std::vector<float> &actual, const std::vector<double> &truth, const std::vector<float> &plain,
                  double floor);

// The plain evaluation, its sums taken in order 0 (as terms come) to kOrders - 1 (reference/sums.hpp).
using PlainInOrder = std::function<const std::vector<float> &(int order)>;
inline constexpr int kOrders = 17;

// The same where the largest error is a matter of luck: of few elements, or of many of which few have large errors.
// There two evaluations of like accuracy often differ by more than a factor of two. So twice the largest error that the
// plain evaluation has in any of its orders is the limit, and where that is above the floor, twice the largest of their
// roots of mean squares is another.
//
// Were the actual errors those of one more order, doubled, each would be above its limit in one of kOrders + 1 cases,
// however many the elements and however unlike their errors. Errors of 1.45 times the plain ones, the most the library
// has as root mean square, are above in 1 % of cases where one element decides, in 0.3 % where ten do. The more do, the
// less do orders differ, roots of mean squares least: of ten, 3 times the plain errors are above in 85 % of cases, of a
// hundred 2.5 times in nearly all. So a large tensor has hardly more room than one order gives it, and by its root of
// mean squares less. Where orders change nothing, it is the check above.
std::string judge_in_orders(const std::vector<float> &actual, const std::vector<double> &truth,
                            const PlainInOrder &plain, double floor);

// Without a floor, for tensors of many elements: as roots of mean squares twice the plain evaluation's error at most.
// The largest of few errors is a matter of luck, so of the largest four times.
std::string judge_closely(const std::vector<float> &actual, const std::vector<double> &truth,
                          const std::vector<float> &plain);

// Checks |actual - truth| <= bounds, element by element, and that NaN and infinity are where they should be. The bounds
// leave out how well the scores are conditioned; where that makes the plain evaluation use more than half of its bound,
// twice its worst use is the limit instead.
std::string judge_elements(const std::vector<float> &actual, const std::vector<double> &truth,
                           const std::vector<float> &plain, const std::vector<double> &bounds);

}  // namespace testing

#define CHECK_ACCURATE(actual, truth, plain, floor) CHECK_EQ(testing::judge((actual), (truth), (plain), (floor)), "")
