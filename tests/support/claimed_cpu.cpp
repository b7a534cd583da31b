// Stands in for the library's runtime/cpu.cpp in programs that plan and run nothing: a processor with AVX-512 and its products
// of bfloat16, but no tiles, whatever this one is.
#include "runtime/cpu.hpp"

namespace fovea {

bool cpu_supports(Isa isa) { return isa != Isa::amx; }
bool cpu_has_bfloat16_products() { return true; }
Tiles cpu_tiles() { return Tiles::absent; }
Tiles cpu_float16_tiles() { return Tiles::absent; }

}  // namespace fovea
