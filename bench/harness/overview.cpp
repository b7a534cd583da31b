// The demo's table: a few cases that stand for all, each in the best instruction set on all threads. It is a program of
// its own, fovea_overview, so that the demo does not wait for the other cases to be compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "harness/cases.hpp"
#include "harness/harness.hpp"

namespace fovea_bench {
namespace {

constexpr const char *shown[] = {"sdpa/f32/bert_base",
                                 "sdpa/f32/bert_batch",
                                 "sdpa/f32/gpt2",
                                 "sdpa/f32/llama8b_prefill",
                                 "sdpa/f32/decode",
                                 "additive/f32/nmt",
                                 "masked_softmax/f32/64x128x128_per_query",
                                 "matmul_packed/f32/2048x768x768"};

const Case &case_of(const std::string &name) {
  const auto found = std::ranges::find(cases(), name, &Case::name);
  if (found == cases().end()) throw std::runtime_error("there is no case " + name);
  return *found;
}

// The sizes, where the name does not hold them: "B1 H32/8 Q1 K4096 D128 causal".
std::string sizes_text(const Case &what) {
  const auto value = [&](const char *name) {
    const auto found = std::ranges::find(what.parameters, name, &Parameter::name);
    return found == what.parameters.end() ? std::string() : found->json;
  };
  std::string text;
  const auto add = [&](const char *before, const std::string &size) {
    if (!size.empty()) text.append(before).append(size);
  };
  if (value("query_len").empty()) return text;
  add("B", value("batch"));
  add(" H", value("heads"));
  if (value("kv_heads") != value("heads")) add("/", value("kv_heads"));
  add(" Q", value("query_len"));
  add(" K", value("key_len"));
  add(" D", value("head_dim"));
  add(" D", value("query_dim"));
  add(" h", value("hidden_units"));
  if (value("causal") == "true") text += " causal";
  if (value("valid_lens").size() > 2) text += ", lengths";
  return text;
}

void print_row(const Case &what, const Variant &variant) {
  Prepared prepared = what.prepare(variant);
  prepared.run_on_one_thread = nullptr;  // scaling is not shown
  const Medians medians = measure(prepared);
  const double rate = what.work.in(what.bound) / medians.seconds * 1e-9;
  std::printf("  %-40s %-32s %8.3f %8.1f %-7s  %3.0f %% of %.1f\n", what.name().c_str(), sizes_text(what).c_str(),
              1e3 * medians.seconds, rate, rate_name(what.bound), 100 * medians.share, rate / medians.share);
  std::fflush(stdout);
}

void print_overview() {
  Variant best;
  std::printf("  %-40s %-32s %8s %16s  %s\n", "case", "shape", "ms", "rate", "share of limit");
  for (const char *name : shown) {
    const Case &what = case_of(name);
    std::vector<Variant> variants = variants_of(what);
    std::erase_if(variants,
                  [](const Variant &variant) { return variant.isa == "amx"; });  // taken only where it is named
    best = variants.back();
    print_row(what, best);
  }
  std::printf(
      "  Float32, instruction set %s, %d threads. The limit is what the machine reached right before and after:\n"
      "  multiply-adds in registers, or reading or copying the case's own memory. It varies with the machine's other\n"
      "  work. The masked softmax of this size lies in the caches, which copy faster than exponentials can be "
      "computed:\n"
      "  a small share is no fault there; of tensors in memory it reaches 80 %%. ./dev bench measures all cases.\n",
      best.isa.c_str(), best.threads);
}

}  // namespace

const Cases &cases() {
  static const Cases all = [] {
    Cases list;
    for (const auto add : {add_sdpa, add_scores, add_masked_softmax, add_matmul}) add(&list);
    return list;
  }();
  return all;
}

}  // namespace fovea_bench

int main() {
  try {
    fovea_bench::print_overview();
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "fovea_overview: %s\n", error.what());
    return 1;
  }
}
