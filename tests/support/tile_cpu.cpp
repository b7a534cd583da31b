// Stands in for the library's runtime/cpu.cpp in programs that test what runs on AMX's tiles: where the processor or the
// system has none, they are emulated. The library's own detection is asked first and stays what it is.
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

// Linux's answer to ARCH_REQ_XCOMP_PERM (arch/x86/kernel/fpu/xstate.c): it knows no tiles, or one of the threads, here the one
// that asks, has a signal stack they would not fit.
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
#define cpu_supports detected_set
#define cpu_has_bfloat16_products detected_bfloat16_products
#define cpu_tiles detected_tiles
#define cpu_float16_tiles detected_float16_tiles
#include "runtime/cpu.cpp"
#undef cpu_supports
#undef cpu_has_bfloat16_products
#undef cpu_tiles
#undef cpu_float16_tiles
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

bool tiles_are_native() { return (fovea::once<fovea::detect>() & fovea::amx) != 0; }

bool take_tiles() {
  if (tiles_are_native()) return true;
  if (!can_emulate_tiles() || !fovea::detected_set(fovea::Isa::avx512)) return false;
  emulate_tiles();
  return true;
}

}  // namespace testing

namespace fovea {

bool cpu_supports(Isa isa);
bool cpu_has_bfloat16_products();
Tiles cpu_tiles();
Tiles cpu_float16_tiles();

bool cpu_supports(Isa isa) {
  if (isa != Isa::amx) return detected_set(isa);
  return testing::access == testing::TileAccess::granted && testing::take_tiles() && once<tiles_are_granted>() != 0;
}

bool cpu_has_bfloat16_products() { return detected_bfloat16_products(); }

Tiles cpu_tiles() {
  if (!detected_bfloat16_products()) return Tiles::absent;
  if (testing::access == testing::TileAccess::refused) return Tiles::refused;
  if (testing::access == testing::TileAccess::absent || !testing::take_tiles()) return Tiles::absent;
  return once<tiles_are_granted>() != 0 ? Tiles::granted : Tiles::refused;
}

Tiles cpu_float16_tiles() {
  const bool absent = testing::tiles_are_native() && (once<detect>() & float16_tiles) == 0;
  return absent ? Tiles::absent : cpu_tiles();
}

}  // namespace fovea
