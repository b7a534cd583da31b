// SPDX-License-Identifier: Apache-2.0
#include "harness/cases.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "fovea/fovea.h"

namespace fovea_bench {

std::string number(double value) {
  char text[40];
  for (int digits = 15; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::stod(text) == value) break;
  }
  return text;
}

Parameter::Parameter(const char *n, double value) : name(n), json(number(value)) {}

Parameter::Parameter(const char *n, const std::vector<int64_t> &values) : name(n), json("[") {
  for (size_t i = 0; i < values.size(); ++i) json += (i ? ", " : "") + std::to_string(values[i]);
  json += "]";
}

const std::vector<Variant> &variants() {
  static const std::vector<Variant> all = [] {
    std::vector<Variant> list;
    const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int32_t i = 0; const char *isa = fovea_isa_available(i); ++i) {
      list.push_back({isa, 1});
      if (most > 1) list.push_back({isa, most});
    }
    return list;
  }();
  return all;
}

std::vector<Variant> variants_of(const Case &what) {
  std::vector<Variant> some;
  for (const Variant &variant : variants()) {
    if (variant.isa == "amx" && !what.on_amx) continue;
    if (variant.threads > 1 && what.one_thread_only) continue;
    some.push_back(variant);
  }
  return some;
}

Kept &last_kept() {
  static Kept kept;
  return kept;
}

}  // namespace fovea_bench
