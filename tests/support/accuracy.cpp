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

std::string describe_squares(double mean_square, double plain) {
  char text[128];
  std::snprintf(text, sizeof text, "root mean square of errors %.3g, of plain float32's %.3g", std::sqrt(mean_square),
                std::sqrt(plain));
  return text;
}

// The two agree on being NaN, or on being infinite and of which sign.
bool same_class(float actual, double truth) {
  if (std::isnan(truth)) return std::isnan(actual);
  if (std::isinf(truth)) return static_cast<double>(actual) == truth;
  return std::isfinite(actual);
}

// The errors of the finite elements.
struct Errors {
  double largest = 0, mean_square = 0;

  Errors(const std::vector<float> &values, const std::vector<double> &truth) {
    double squares = 0;
    size_t count = 0;
    for (size_t n = 0; n < truth.size(); ++n) {
      if (!std::isfinite(truth[n]) || !std::isfinite(values[n])) continue;
      const double error = std::abs(values[n] - truth[n]);
      largest = std::max(largest, error);
      squares += error * error;
      ++count;
    }
    mean_square = count == 0 ? 0 : squares / static_cast<double>(count);
  }
};

// Whether no error is above `limit`.
std::string judge_largest(const std::vector<float> &actual, const std::vector<double> &truth,
                          const std::vector<float> &plain, double limit) {
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

}  // namespace

std::string judge(const std::vector<float> &actual, const std::vector<double> &truth, const std::vector<float> &plain,
                  double floor) {
  if (actual.size() != truth.size() || plain.size() != truth.size()) return "the sizes differ";
  return judge_largest(actual, truth, plain, std::max(2 * Errors(plain, truth).largest, floor));
}

std::string judge_in_orders(const std::vector<float> &actual, const std::vector<double> &truth,
                            const PlainInOrder &plain, double floor) {
  if (actual.size() != truth.size() || plain(0).size() != truth.size()) return "the sizes differ";
  const Errors errors(actual, truth);
  double limit = floor;
  if (errors.largest > floor) {
    double mean_square = 0;
    for (int order = 0; order < kOrders; ++order) {  // mostly the first will do
      const Errors plain_errors(plain(order), truth);
      limit = std::max(limit, 2 * plain_errors.largest);
      mean_square = std::max(mean_square, plain_errors.mean_square);
      if (errors.largest <= limit && errors.mean_square <= 4 * mean_square) break;
    }
    if (errors.mean_square > 4 * mean_square) return describe_squares(errors.mean_square, mean_square);
  }
  return judge_largest(actual, truth, plain(0), limit);
}

std::string judge_closely(const std::vector<float> &actual, const std::vector<double> &truth,
                          const std::vector<float> &plain) {
  if (actual.size() != truth.size() || plain.size() != truth.size()) return "the sizes differ";
  const Errors plain_errors(plain, truth);
  const Errors errors(actual, truth);
  if (errors.mean_square > 4 * plain_errors.mean_square) {
    return describe_squares(errors.mean_square, plain_errors.mean_square);
  }
  return judge_largest(actual, truth, plain, 4 * plain_errors.largest);
}

std::string judge_elements(const std::vector<float> &actual, const std::vector<double> &truth,
                           const std::vector<float> &plain, const std::vector<double> &bounds) {
  double worst_use = 0;
  for (size_t n = 0; n < truth.size(); ++n) {
    if (!std::isfinite(truth[n]) || !std::isfinite(plain[n]) || bounds[n] == 0) continue;
    worst_use = std::max(worst_use, std::abs(plain[n] - truth[n]) / bounds[n]);
  }
  for (size_t n = 0; n < truth.size(); ++n) {
    const double limit = std::max(1.0, 2 * worst_use) * bounds[n];
    if (!same_class(actual[n], truth[n])) return describe("NaN or infinity", n, actual[n], truth[n], plain[n], limit);
    if (!std::isfinite(truth[n])) continue;
    if (!(std::abs(actual[n] - truth[n]) <= limit)) {
      return describe("bound", n, actual[n], truth[n], plain[n], limit);
    }
  }
  return "";
}

}  // namespace testing
