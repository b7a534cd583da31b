// Stands in for the library's runtime/cpu.cpp in programs that test what runs on AMX's tiles: where the processor or the
// system has none, they are emulated. The library's own detection is asked first and stays what it is.
#define cpu_supports detected_set
#define cpu_has_bfloat16_products detected_bfloat16_products
#define cpu_tiles detected_tiles
#include "runtime/cpu.cpp"
#undef cpu_supports
#undef cpu_has_bfloat16_products
#undef cpu_tiles

#include "tile_cpu.hpp"
#include "tile_emulator.hpp"

namespace testing {
namespace {

TileAccess access = TileAccess::granted;

}  // namespace

void set_tile_access(TileAccess now) { access = now; }

bool tiles_are_native() { return fovea::detected_set(fovea::Isa::amx); }

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

bool cpu_supports(Isa isa) {
  if (isa != Isa::amx) return detected_set(isa);
  return testing::access == testing::TileAccess::granted && testing::take_tiles();
}

bool cpu_has_bfloat16_products() { return detected_bfloat16_products(); }

Tiles cpu_tiles() {
  if (!detected_bfloat16_products()) return Tiles::absent;
  if (testing::access == testing::TileAccess::refused) return Tiles::refused;
  return cpu_supports(Isa::amx) ? Tiles::granted : Tiles::absent;
}

}  // namespace fovea
