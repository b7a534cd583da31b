#include "accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace testing {
namespace {

std::string describe(const char *what, size_t index, double actual, double truth, double plain, double limit) {
  char text[256];
  std::snprintf(text, sizeof text,
                "%s at element %zu: got %.9g, truth %.17g, plain float32 %.9g, limit %.3g (error %.3g)", what, index,
                actual, truth, plain, limit, std::abs(actual - truth));
  return text;
}

// The two agree on being NaN, or on being infinite and of which sign.
bool same_class(float actual, double truth) {
  if (std::isnan(truth)) return std::isnan(actual);
  if (std::isinf(truth)) return static_cast<double>(actual) == truth;
  return std::isfinite(actual);
}

}  // namespace

std::string judge(const std::vector<float> &actual, const std::vector<double> &truth, const std::vector<float> &plain,
                  double floor) {
  if (actual.size() != truth.size() || plain.size() != truth.size()) return "the sizes differ";
  double plain_error = 0;
  for (size_t n = 0; n < truth.size(); ++n) {
    if (std::isfinite(truth[n]) && std::isfinite(plain[n])) {
      plain_error = std::max(plain_error, std::abs(plain[n] - truth[n]));
    }
  }
  const double limit = std::max(2 * plain_error, floor);
  double worst = -1;
  size_t worst_index = 0;
  for (size_t n = 0; n < truth.size(); ++n) {
    if (!same_class(actual[n], truth[n])) return describe("NaN or infinity", n, actual[n], truth[n], plain[n], limit);
    if (!std::isfinite(truth[n])) continue;
    const double error = std::abs(actual[n] - truth[n]);
    if (error > worst) {
      worst = error;
      worst_index = n;
    }
  }
  if (worst <= limit) return "";
  return describe("error", worst_index, actual[worst_index], truth[worst_index], plain[worst_index], limit);
}

std::string judge_elements(const std::vector<float> &actual, const std::vector<double> &truth,
                           const std::vector<float> &plain, const std::vector<double> &bounds) {
  double worst_use = 0;
  for (size_t n = 0; n < truth.size(); ++n) {
    if (!std::isfinite(truth[n]) || !std::isfinite(plain[n]) || bounds[n] == 0) continue;
    worst_use = std::max(worst_use, std::abs(plain[n] - truth[n]) / bounds[n]);
  }
  for (size_t n = 0; n < truth.size(); ++n) {
    if (!std::isfinite(truth[n])) continue;
    const double limit = std::max(1.0, 2 * worst_use) * bounds[n];
    if (!(std::abs(actual[n] - truth[n]) <= limit)) {
      return describe("bound", n, actual[n], truth[n], plain[n], limit);
    }
  }
  return "";
}

}  // namespace testing
