// Seeded problems with any combination of sizes, layouts, strides and options.
#pragma once

#include "attention_problem.hpp"

namespace testing {

enum class Scores { kSdpa, kAny };

AttentionProblem random_problem(Random &random, int64_t most_len, int64_t most_dim, Scores scores = Scores::kSdpa);

}  // namespace testing
