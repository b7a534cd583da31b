// The test program for what runs on tiles, all of it with the set "amx". The emulator needs SIGILL, so doctest leaves
// it alone. Exit code 77 tells Meson that this machine can neither run nor emulate tiles.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include <fovea/fovea.h>

#include "support/random.hpp"
#include "support/tile_cpu.hpp"

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  if (!context.shouldExit()) {
    if (!testing::take_tiles()) {
      std::puts("neither tiles nor AVX-512 to emulate them: not tested");
      return 77;
    }
    setenv("FOVEA_TEST_ISA", "amx", 0);
    // Asking for the sets there are would ask the system for tiles.
    std::printf("fovea %s on %s tiles; all other instruction sets are left out\n", fovea_version(),
                testing::tiles_are_native() ? "the processor's" : "emulated");
    std::printf("seed %llu (FOVEA_TEST_SEED replays it)\n", static_cast<unsigned long long>(testing::base_seed()));
    std::fflush(stdout);
  }
  return context.run();
}
