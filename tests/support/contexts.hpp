// Contexts for the tests: each instruction set of the machine, any number of threads, made once and shared.
#pragma once

#include <doctest/doctest.h>
#include <fovea/fovea.h>

#include <memory>
#include <string>
#include <vector>

namespace testing {

// The sets this machine can run, worst first. FOVEA_TEST_ISA=avx2 leaves all others out,
// FOVEA_TEST_SKIP_ISA=amx that one: for tests of what it has no kernels of its own for.
const std::vector<std::string> &instruction_sets();

// One line: which sets the tests run, and which known ones they skip.
std::string instruction_set_report();

// Lives until the program ends. max_threads 0: the default.
const fovea_context *shared_context(const std::string &isa, int max_threads = 0);

struct DestroyContext {
  void operator()(fovea_context *context) const { fovea_context_destroy(context); }
};
using OwnContext = std::unique_ptr<fovea_context, DestroyContext>;

// One of the caller's own, made of these options.
OwnContext make_context(const std::string &isa, int32_t precision, int max_threads = 0);

// Whether the context multiplies elements of that type by the processor's own products of them, in an order of their
// own.
bool has_products_of(fovea_dtype dtype, const fovea_context *context);

// Runs body(context) for each instruction set; failures inside name the set.
template <typename Body>
void for_each_isa(Body body) {
  for (const std::string &isa : instruction_sets()) {
    CAPTURE(isa);
    body(shared_context(isa));
  }
}

// A status with its message, for REQUIRE_OK.
inline std::string status_text(fovea_status status) {
  return std::string(fovea_status_name(status)) + (status == FOVEA_OK ? "" : std::string(": ") + fovea_last_error());
}

}  // namespace testing

#define REQUIRE_OK(call) REQUIRE_EQ(testing::status_text(call), "FOVEA_OK")
