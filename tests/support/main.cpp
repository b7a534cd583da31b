// The test program. Prints which instruction sets it tests and the seed, then runs doctest, whose last lines are the
// counts.
#include <doctest/doctest.h>

#include <cstdio>

#include "support/contexts.hpp"
#include "support/random.hpp"

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  if (!context.shouldExit()) {
    std::printf("fovea %s; %s\n", fovea_version(), testing::instruction_set_report().c_str());
    std::printf("seed %llu (FOVEA_TEST_SEED replays it)\n", static_cast<unsigned long long>(testing::base_seed()));
    std::fflush(stdout);
  }
  return context.run();
}
