// Gradients of random problems of attention, all options mixed, judged by the formulas in float64. To replay the one
// that failed:
//   FOVEA_TEST_SEED=<its seed> FOVEA_TEST_CASES=1 <test program> -tc="random gradients*"
#include <doctest/doctest.h>

#include "support/gradient_problem.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

void check_random(int64_t cases, uint64_t first_seed, int64_t most_len, int64_t most_dim, Scores scores) {
  for (int64_t n = 0; n < cases; ++n) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(n);
    CAPTURE(seed);
    Random random(seed);
    const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
    AttentionProblem problem = random_problem(random, most_len, most_dim, scores);
    const GradientTensors gradients = make_gradients(problem, random, random.chance(0.3), random.chance(0.2));
    check_gradients(problem, gradients);
  }
}

}  // namespace

TEST_SUITE("gradients random") {
  TEST_CASE("random gradients of small problems") {
    check_random(case_count(1000), base_seed(), 40, 24, Scores::kSdpa);
  }
  TEST_CASE("random gradients of larger problems") {
    check_random(case_count(30), base_seed(), 260, 130, Scores::kSdpa);
  }
  TEST_CASE("random gradients of small problems of any score") {
    check_random(case_count(1000), base_seed(), 40, 24, Scores::kAny);
  }
  TEST_CASE("random gradients of larger problems of any score") {
    check_random(case_count(20), base_seed(), 200, 70, Scores::kAny);
  }
}
