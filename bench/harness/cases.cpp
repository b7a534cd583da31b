// SPDX-License-Identifier: Apache-2.0
#include "harness/cases.hpp"

#include <algorithm>
#include <cstdio>
#include <regex>
#include <thread>

#include "fovea/fovea.h"

namespace fovea_bench {
namespace {

// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[40];
  for (int digits = 15; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::stod(text) == value) break;
  }
  return text;
}

const char *name_of(Bound bound) {
  switch (bound) {
    case Bound::flops: return "flops";
    case Bound::bytes: return "bytes";
    case Bound::elements: return "elements";
    case Bound::none: break;
  }
  return "none";
}

std::string json_of(const Case &c) {
  std::string text = "{\"name\": \"" + c.name() + "\", \"operation\": \"" + c.operation + "\", \"dtype\": \"" +
                     type_name(c.dtype) + "\", \"model\": \"" + c.model + "\", \"bound\": \"" + name_of(c.bound) +
                     "\", \"flops\": " + number(c.work.flops) + ", \"bytes\": " + number(c.work.bytes) +
                     ", \"elements\": " + number(c.work.elements) + ", \"parameters\": {";
  const char *separator = "";
  for (const Parameter &parameter : c.parameters) {
    text += separator + ('"' + parameter.name) + "\": " + parameter.json;
    separator = ", ";
  }
  return text + "}}";
}

}  // namespace

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

void print_cases(const std::string &pattern) {
  const std::regex expression(pattern, std::regex::extended);
  const char *separator = "[\n";
  for (const Case &c : cases()) {
    if (c.dtype != FOVEA_F32) continue;
    if (!pattern.empty() && !std::regex_search(c.name(), expression)) continue;
    std::printf("%s%s", separator, json_of(c).c_str());
    separator = ",\n";
  }
  std::printf("%s]\n", separator[0] == '[' ? "[" : "\n");
}

Kept &last_kept() {
  static Kept kept;
  return kept;
}

}  // namespace fovea_bench
