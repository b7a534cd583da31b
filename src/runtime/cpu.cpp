// Detects features by CPUID and XGETBV, not by the compiler's helper: the operating system must save wide registers
// too, and each set is matched against every feature that its compiler flags (x86-64-v3, x86-64-v4) let the compiler
// use.
#include "runtime/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdint>
#endif

namespace fovea {

#if defined(__x86_64__)
namespace {

constexpr bool all_bits(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

uint64_t saved_registers() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux gives a process the tiles only when it asks (arch_prctl, ARCH_REQ_XCOMP_PERM), for all its threads. It may
// refuse: an old kernel, or a thread with a signal stack too small to save them on. From then on it refuses such
// stacks, so nothing is asked before the set is named or looked for.
int ask_for_tiles() {
#if defined(__linux__)
  constexpr int request_permission = 0x1023;
  constexpr int tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0 ? 1 : 0;
#else
  return 0;
#endif
}

bool has_tiles(uint64_t saved, uint32_t leaf7_d) {
  constexpr uint64_t tile_state = 0x60000;
  constexpr uint32_t amx_bf16 = uint32_t{1} << 22;
  constexpr uint32_t amx_tile = uint32_t{1} << 24;
  return all_bits(saved, tile_state) && all_bits(leaf7_d, amx_bf16 | amx_tile);
}

Features detect() {
  Features features = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c1 = 0;
  uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c1, &d) == 0) return features;
  constexpr uint32_t leaf1 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_MOVBE | bit_FMA |
                             bit_F16C | bit_AVX | bit_OSXSAVE;
  if (!all_bits(c1, leaf1)) return features;
  constexpr uint64_t ymm_state = 0x6;   // SSE and AVX registers
  constexpr uint64_t zmm_state = 0xe6;  // and the AVX-512 ones
  const uint64_t saved = saved_registers();
  uint32_t b7 = 0;
  uint32_t c7 = 0;
  uint32_t d7 = 0;
  uint32_t c_extended = 0;
  if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) == 0) return features;
  if (__get_cpuid(0x80000001, &a, &b, &c_extended, &d) == 0) return features;
  constexpr uint32_t leaf7 = static_cast<uint32_t>(bit_AVX512F) | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ |
                             static_cast<uint32_t>(bit_AVX512VL);
  if (!all_bits(saved, ymm_state) || !all_bits(b7, bit_AVX2 | bit_BMI | bit_BMI2)) return features;
  if (!all_bits(c_extended, bit_ABM)) return features;
  features |= feature::avx2;
  uint32_t a7 = 0;
  if (__get_cpuid_count(7, 1, &a7, &b, &c1, &d) == 0) a7 = 0;
  constexpr uint32_t avx_vnni = uint32_t{1} << 4;
  if (all_bits(a7, avx_vnni)) features |= feature::avx_half_products;
  if (!all_bits(saved, zmm_state) || !all_bits(b7, leaf7)) return features;
  features |= feature::avx512;
  constexpr uint32_t vnni = uint32_t{1} << 11, vbmi = uint32_t{1} << 1;  // the latter with IFMA
  if (all_bits(c7, vnni)) features |= feature::half_products;
  if (all_bits(c7, vnni | vbmi) && all_bits(b7, bit_AVX512IFMA)) features |= feature::byte_products;
  constexpr uint32_t avx512_bf16 = uint32_t{1} << 5;
  constexpr uint32_t amx_fp16 = uint32_t{1} << 21;
  if (all_bits(a7, avx512_bf16)) features |= feature::bfloat16_pairs;
  if (has_tiles(saved, d7)) features |= all_bits(a7, amx_fp16) ? feature::tiles : feature::bfloat16_tiles;
  return features;
}

// What ask() answers, 0 or more, asked once, or by several threads at once: they get the same answer, and none of them
// holds a lock for it when another one forks. Clang 14 calls a library of its own for atomic structs.
template <auto ask>
int once() {
  static constinit std::atomic<int> known{-1};
  const int answer = known.load(std::memory_order_relaxed);
  if (answer >= 0) return answer;
  const int now = ask();
  known.store(now, std::memory_order_relaxed);
  return now;
}

}  // namespace

Features cpu_features() { return once<detect>(); }

bool tiles_granted() { return once<ask_for_tiles>() != 0; }

#else

Features cpu_features() { return 0; }

bool tiles_granted() { return false; }

#endif

}  // namespace fovea
