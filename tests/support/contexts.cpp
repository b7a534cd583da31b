#include "contexts.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace testing {
namespace {

const char *wanted_isa() { return std::getenv("FOVEA_TEST_ISA"); }

bool is_skipped(const std::string &isa) {
  const char *skipped = std::getenv("FOVEA_TEST_SKIP_ISA");
  return skipped != nullptr && isa == skipped;
}

std::vector<std::string> available_sets() {
  std::vector<std::string> names;
  for (int32_t index = 0; fovea_isa_available(index) != nullptr; ++index)
    names.emplace_back(fovea_isa_available(index));
  return names;
}

bool contains(const std::vector<std::string> &names, const std::string &name) {
  for (const std::string &other : names) {
    if (other == name) return true;
  }
  return false;
}

}  // namespace

const std::vector<std::string> &instruction_sets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> sets = available_sets();
    if (wanted_isa() == nullptr) {
      sets.erase(std::remove_if(sets.begin(), sets.end(), is_skipped), sets.end());
      return sets;
    }
    if (!contains(sets, wanted_isa())) throw std::runtime_error("FOVEA_TEST_ISA names no set this machine has");
    return std::vector<std::string>{wanted_isa()};
  }();
  return names;
}

std::string instruction_set_report() {
  std::string run, skipped;
  for (const std::string &name : instruction_sets()) run += " " + name;
  for (const std::string name : {"base", "avx2", "avx512", "amx"}) {
    if (contains(instruction_sets(), name)) continue;
    const char *why = !contains(available_sets(), name) ? " (not on this machine)"
                      : wanted_isa() != nullptr         ? " (left out by FOVEA_TEST_ISA)"
                                                        : " (left out by FOVEA_TEST_SKIP_ISA)";
    skipped += " " + name + why;
  }
  return "instruction sets tested:" + run + "; skipped:" + (skipped.empty() ? " none" : skipped);
}

OwnContext make_context(const std::string &isa, int32_t precision, int max_threads) {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_isa = isa.c_str();
  options.max_threads = max_threads;
  options.precision = precision;
  fovea_context *created = nullptr;
  if (const fovea_status status = fovea_context_create(&options, &created); status != FOVEA_OK) {
    throw std::runtime_error("fovea_context_create: " + status_text(status));
  }
  return OwnContext(created);
}

const fovea_context *shared_context(const std::string &isa, int max_threads) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, OwnContext> contexts;
  const std::lock_guard lock(mutex);
  OwnContext &context = contexts[{isa, max_threads}];
  if (context == nullptr) context = make_context(isa, FOVEA_PRECISION_DEFAULT, max_threads);
  return context.get();
}

bool has_products_of(fovea_dtype dtype, const fovea_context *context) {
  static const int64_t shape[] = {32, 2};
  const fovea_tensor rows = fovea_tensor_contiguous(nullptr, dtype, 2, shape);
  fovea_attention_options options{};
  options.struct_size = sizeof options;
  options.flags = FOVEA_QUERY_INVARIANT;
  fovea_plan *plan = nullptr;
  if (fovea_sdpa_plan_create(context, &rows, &rows, &rows, &rows, &options, &plan) != FOVEA_OK) {
    throw std::runtime_error(fovea_last_error());
  }
  char text[256];
  fovea_plan_describe(plan, text, sizeof text);
  fovea_plan_destroy(plan);
  const std::string kernels = text;
  return kernels.find(dtype == FOVEA_F16 ? "fp16 " : "bf16 ") != std::string::npos;
}

}  // namespace testing
