// Stands in for the library's runtime/cpu.cpp in programs that test what runs on AMX's tiles: where the processor or
// the system has none, they are emulated. The library's own detection is asked first and stays what it is.
#include "tile_cpu.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace testing {
namespace {

std::atomic<int> requests{0};
std::atomic<bool> knows_tiles{true};

bool is_emulated();

// Linux's answer to ARCH_REQ_XCOMP_PERM (arch/x86/kernel/fpu/xstate.c): it knows no tiles, or one of the threads, here
// the one that asks, has a signal stack they would not fit.
long emulated_request() {
  if (!knows_tiles) return -EINVAL;
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  return (stack.ss_flags & SS_DISABLE) == 0 && stack.ss_size < kTileFrame ? -ENOSPC : 0;
}

long request(long number, int code, int component) {
  ++requests;
  if (!is_emulated()) return syscall(number, code, component);
  const long answer = emulated_request();
  errno = static_cast<int>(-answer);
  return answer == 0 ? 0 : -1;
}

}  // namespace
}  // namespace testing

#define syscall testing::request
#define cpu_features detected_features
#define tiles_granted detected_tiles_granted
#include "runtime/cpu.cpp"
#undef cpu_features
#undef tiles_granted
#undef syscall

#include "tile_emulator.hpp"

namespace testing {
namespace {

TileAccess access = TileAccess::granted;

bool is_emulated() { return !tiles_are_native(); }

}  // namespace

void set_tile_access(TileAccess now) { access = now; }

int tile_requests() { return requests; }

void forget_tiles() { knows_tiles = false; }

bool tiles_are_native() { return (fovea::detected_features() & fovea::feature::bfloat16_tiles) != 0; }

bool take_tiles() {
  if (tiles_are_native()) return true;
  if (!can_emulate_tiles() || (fovea::detected_features() & fovea::feature::avx512) == 0) return false;
  emulate_tiles();
  return true;
}

}  // namespace testing

namespace fovea {

Features cpu_features();
bool tiles_granted();

Features cpu_features() {
  const Features detected = detected_features();
  if (testing::access == testing::TileAccess::absent) return detected & ~feature::tiles;
  if (testing::tiles_are_native()) return detected;
  const bool emulated = testing::can_emulate_tiles() && (detected & feature::avx512) != 0;
  return emulated ? detected | feature::tiles : detected;
}

bool tiles_granted() {
  return testing::access == testing::TileAccess::granted && testing::take_tiles() && detected_tiles_granted();
}

}  // namespace fovea
