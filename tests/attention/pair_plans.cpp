// Which kernels a plan takes where the processor has products of pairs of bfloat16, and what it says of that. Plans
// alone, so on any machine with AVX-512, in which kernels reckon their scratch memory (support/claimed_cpu.cpp). Exits
// with 77 elsewhere.
#include <doctest/doctest.h>
#include <fovea/fovea.h>

#include <cstdio>
#include <string>

#include "support/contexts.hpp"

using namespace testing;

namespace {

struct Call {
  int64_t rows, dim, key_stride;
  fovea_dtype dtype;
  int32_t precision = FOVEA_PRECISION_DEFAULT;
  int32_t kind = FOVEA_SCORE_DOT;
  bool weights = false;
};

struct Planned {
  std::string text;
  size_t workspace;

  bool says(const std::string &what) const { return text.find(what) != std::string::npos; }
  // What decides about bits.
  std::string kernels() const { return text.substr(0, text.find(" tasks=")); }
};

constexpr int64_t kKeys = 200;

fovea_tensor tensor(int64_t rows, int64_t dim, fovea_dtype dtype) {
  const int64_t shape[] = {rows, dim};
  return fovea_tensor_contiguous(nullptr, dtype, 2, shape);
}

Planned plan(const Call &call) {
  const fovea_tensor query = tensor(call.rows, call.dim, call.dtype), value = tensor(kKeys, 32, call.dtype);
  const fovea_tensor out = tensor(call.rows, 32, FOVEA_F32), weights = tensor(call.rows, kKeys, FOVEA_F32);
  fovea_tensor key = tensor(kKeys, call.dim, call.dtype);
  key.strides[0] = call.key_stride;
  fovea_score score{};
  score.struct_size = sizeof score;
  score.kind = call.kind;
  score.sigma = call.kind == FOVEA_SCORE_GAUSSIAN ? 1.0f : 0.0f;
  fovea_attention_options options{};
  options.struct_size = sizeof options;
  options.precision = call.precision;
  if (call.weights) options.weights = &weights;
  fovea_plan *made = nullptr;
  REQUIRE_OK(
      fovea_attention_plan_create(shared_context("avx512"), &score, &query, &key, &value, &out, &options, &made));
  char text[512];
  fovea_plan_describe(made, text, sizeof text);
  const Planned planned = {text, fovea_plan_workspace_size(made)};
  fovea_plan_destroy(made);
  return planned;
}

}  // namespace

TEST_SUITE("pair plans") {
  TEST_CASE("many rows take products of pairs whatever the stride of keys, which costs a copy where it is odd") {
    for (int64_t rows : {14, 70, 300}) {
      for (int32_t kind : {FOVEA_SCORE_DOT, FOVEA_SCORE_GAUSSIAN}) {
        if (kind == FOVEA_SCORE_GAUSSIAN && rows < 16) continue;
        const Call even = {.rows = rows, .dim = 48, .key_stride = 48, .dtype = FOVEA_BF16, .kind = kind};
        Call odd = even;
        odd.key_stride = 49;
        const Planned in_place = plan(even), copied = plan(odd);
        CAPTURE(in_place.text);
        CAPTURE(copied.text);
        CHECK(in_place.says("kernels=avx512bf16 path="));
        CHECK_EQ(copied.kernels(), in_place.kernels());
        CHECK(copied.workspace >= in_place.workspace + kKeys * 48 * 2);
        CHECK(copied.workspace < in_place.workspace + kKeys * 48 * 2 + 256);
      }
    }
    const Call weighed = {.rows = 70, .dim = 48, .key_stride = 51, .dtype = FOVEA_BF16, .weights = true};
    CHECK(plan(weighed).says("kernels=avx512bf16 path=tile"));
  }

  TEST_CASE("a plan that leaves pairs although all is bfloat16 says why") {
    const Planned odd_dim = plan({.rows = 70, .dim = 47, .key_stride = 47, .dtype = FOVEA_BF16});
    CHECK(odd_dim.says("kernels=avx512 pairs=odd_dim path=tile"));
    const Planned even_few = plan({.rows = 6, .dim = 48, .key_stride = 48, .dtype = FOVEA_BF16});
    CHECK(even_few.says("kernels=avx512bf16 path=rows"));
    const Planned odd_few = plan({.rows = 6, .dim = 48, .key_stride = 49, .dtype = FOVEA_BF16});
    CHECK(odd_few.says("kernels=avx512 pairs=odd_stride path=rows"));
    for (const Call &call : {Call{.rows = 2, .dim = 48, .key_stride = 49, .dtype = FOVEA_BF16},
                             Call{.rows = 70, .dim = 47, .key_stride = 47, .dtype = FOVEA_F32},
                             Call{.rows = 70, .dim = 47, .key_stride = 47, .dtype = FOVEA_F16}}) {
      CHECK_FALSE(plan(call).says("pairs="));
    }
  }

  TEST_CASE("where medium precision rounds to bfloat16, such tensors of any strides take the same kernels") {
    for (int64_t rows : {1, 3, 4, 8, 9, 12, 13, 14, 16, 17, 70}) {
      for (int64_t dim : {1, 2, 31, 32, 64, 65}) {
        for (int64_t gap : {0, 1, 2, 3}) {
          for (bool weights : {false, true}) {
            const Call floats = {.rows = rows,
                                 .dim = dim,
                                 .key_stride = dim + gap,
                                 .dtype = FOVEA_F32,
                                 .precision = FOVEA_PRECISION_MEDIUM,
                                 .weights = weights};
            Call rounded = floats;
            rounded.dtype = FOVEA_BF16;
            const Planned medium = plan(floats);
            CAPTURE(medium.text);
            if (medium.says("kernels=avx512bf16")) CHECK_EQ(plan(rounded).kernels(), medium.kernels());
          }
        }
      }
    }
  }
}

int main(int argc, char **argv) {
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    std::printf("no AVX-512 here: not tested\n");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
