// Thousands of seeded problems (support/random_attention.hpp). To replay the one that failed:
//   FOVEA_TEST_SEED=<its seed> FOVEA_TEST_CASES=1 <test program> -tc="random*"
#include <doctest/doctest.h>

#include "support/random_attention.hpp"

using namespace testing;

namespace {

void check_random(int64_t cases, uint64_t first_seed, int64_t most_len, int64_t most_dim,
                  Scores scores = Scores::kSdpa) {
  for (int64_t n = 0; n < cases; ++n) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(n);
    CAPTURE(seed);
    Random random(seed);
    const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
    check_attention(random_problem(random, most_len, most_dim, scores));
  }
}

}  // namespace

TEST_SUITE("sdpa random") {
  TEST_CASE("random small problems") { check_random(case_count(3000), base_seed(), 40, 24); }
  TEST_CASE("random larger problems") { check_random(case_count(60), base_seed(), 260, 130); }
}

TEST_SUITE("scores random") {
  TEST_CASE("random small problems of any score") { check_random(case_count(3000), base_seed(), 40, 24, Scores::kAny); }
  TEST_CASE("random larger problems of any score") { check_random(case_count(60), base_seed(), 200, 70, Scores::kAny); }
}

TEST_SUITE("long") {
  TEST_CASE("random problems, many") {
    check_random(case_count(30000), base_seed() + 1000000, 48, 40);
    check_random(case_count(1000), base_seed() + 2000000, 400, 260);
    check_random(case_count(30000), base_seed() + 3000000, 48, 40, Scores::kAny);
    check_random(case_count(300), base_seed() + 4000000, 400, 260, Scores::kAny);
  }
}
