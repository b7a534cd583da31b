// The processor's estimates of a reciprocal. Instruction sets bound their error and leave their bits to who builds the
// processor: results that take them are pinned for each kind of processor apart.
#include "bits.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdio>
#endif

namespace testing {

#if defined(__x86_64__)
namespace {

// All numbers of one binade, 2^12 of them, and a few of others: estimates go by the upper bits of the mantissa.
constexpr int kSamples = 1 << 12;
float sample(int n) { return 1 + static_cast<float>(n) * 0x1p-12F; }

__attribute__((target("avx"))) void estimate_by_8(const float *x, float *out) {
  _mm256_storeu_ps(out, _mm256_rcp_ps(_mm256_loadu_ps(x)));
}
__attribute__((target("avx512f"))) void estimate_by_16(const float *x, float *out) {
  _mm512_storeu_ps(out, _mm512_maskz_rcp14_ps(0xffff, _mm512_loadu_ps(x)));
}

}  // namespace

std::string estimate_fingerprint(const std::string &isa) {
  if (isa == "base") return "";
  Digest digest;
  for (int n = 0; n < kSamples; n += 16) {
    float x[16], estimates[16];
    for (int i = 0; i < 16; ++i) x[i] = sample(n + i);
    if (isa == "avx2") {
      estimate_by_8(x, estimates);
      estimate_by_8(x + 8, estimates + 8);
    } else {
      estimate_by_16(x, estimates);
    }
    for (const float estimate : estimates) digest.add(estimate);
  }
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(digest.value() >> 32));
  return text;
}

#else

std::string estimate_fingerprint(const std::string &) { return ""; }

#endif

}  // namespace testing
