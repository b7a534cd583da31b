// What the tests of the C++ interface share: expectations of values and of errors.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <fovea/fovea.hpp>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

namespace testing {

using Floats = std::vector<float>;

inline Floats counting(std::size_t count) {
  Floats values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

inline void check_near(const Floats &values, std::initializer_list<double> expected, double tolerance = 1e-5) {
  REQUIRE_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(static_cast<double>(values[i]) - expected.begin()[i]) <= tolerance);
  }
}

// The call throws an Error of this status whose text is the C interface's and holds the words.
template <typename Call>
void check_error(fovea_status status, const std::string &words, Call call) {
  try {
    call();
  } catch (const fovea::Error &error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK_EQ(error.status(), status);
    CHECK_EQ(std::string(error.status_name()), fovea_status_name(status));
    CHECK(message.find(words) != std::string::npos);
    return;
  }
  FAIL_CHECK("no exception");
}

}  // namespace testing
