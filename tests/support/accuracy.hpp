// Is a float32 result as accurate as it must be? Judged against the truth (the formula in double) and against the plain
// float32 evaluation of the same formula.
#pragma once

#include <doctest/doctest.h>

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

// Without a floor, for tensors of many elements: as roots of mean squares twice the plain evaluation's error at most. The
// largest of few errors is a matter of luck, so of the largest four times.
std::string judge_closely(const std::vector<float> &actual, const std::vector<double> &truth,
                          const std::vector<float> &plain);

// Checks |actual - truth| <= bounds, element by element, and that NaN and infinity are where they should be. The bounds leave
// out how well the scores are conditioned; where that makes the plain evaluation use more than half of its bound, twice its
// worst use is the limit instead.
std::string judge_elements(const std::vector<float> &actual, const std::vector<double> &truth,
                           const std::vector<float> &plain, const std::vector<double> &bounds);

}  // namespace testing

#define CHECK_ACCURATE(actual, truth, plain, floor) CHECK_EQ(testing::judge((actual), (truth), (plain), (floor)), "")
