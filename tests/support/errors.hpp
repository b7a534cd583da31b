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

// Every element type there is, and numbers that are none.
inline constexpr fovea_dtype kDtypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16,    FOVEA_I32,     FOVEA_I64, FOVEA_BOOL,
                                          FOVEA_I8,  FOVEA_U8,  FOVEA_F8_E4M3, FOVEA_F8_E5M2, 0,         -1,
                                          4,         99,        INT32_MAX,     INT32_MIN};

// What a message calls an element type.
inline std::string dtype_name(fovea_dtype dtype) {
  const char *names[] = {"",         "FOVEA_F32", "FOVEA_F16",     "FOVEA_BF16",
                         "",         "FOVEA_I32", "FOVEA_I64",     "FOVEA_BOOL",
                         "FOVEA_I8", "FOVEA_U8",  "FOVEA_F8_E4M3", "FOVEA_F8_E5M2"};
  const bool named = dtype >= 1 && dtype <= 11 && dtype != 4;
  return named ? names[dtype] : std::to_string(dtype);
}

// The words that a message about one axis must hold: "query.shape[1]", "-2".
inline std::string axis_of(const std::string &name, const char *member, int axis) {
  return name + "." + member + "[" + std::to_string(axis) + "]";
}

}  // namespace testing
