// What the error tests share: a call that must be refused with a code and words, leaving its outputs as they were.
#pragma once

#include <doctest/doctest.h>
#include <fovea/fovea.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace testing {

// Checks the status and that the message is one line that holds every word.
inline void check_refusal(fovea_status status, fovea_status expected, std::initializer_list<std::string> words) {
  const std::string message = fovea_last_error();
  CAPTURE(message);
  CHECK_EQ(std::string(fovea_status_name(status)), std::string(fovea_status_name(expected)));
  for (const std::string &word : words) {
    CAPTURE(word);
    CHECK(message.find(word) != std::string::npos);
  }
  CHECK(message.find('\n') == std::string::npos);
  CHECK(!message.empty());
}

// The words that a message about one axis must hold: "query.shape[1]", "-2".
inline std::string axis_of(const std::string &name, const char *member, int axis) {
  return name + "." + member + "[" + std::to_string(axis) + "]";
}

}  // namespace testing
