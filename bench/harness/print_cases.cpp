// What is measured, as JSON: every case's work, sizes and options.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <regex>

#include "harness/cases.hpp"

namespace fovea_bench {
namespace {

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

void print_cases(const std::string &pattern) {
  const std::regex expression(pattern, std::regex::extended);
  const char *separator = "[\n";
  for (const Case &c : cases()) {
    if (!pattern.empty() && !std::regex_search(c.name(), expression)) continue;
    std::printf("%s%s", separator, json_of(c).c_str());
    separator = ",\n";
  }
  std::printf("%s]\n", separator[0] == '[' ? "[" : "\n");
}

}  // namespace fovea_bench
