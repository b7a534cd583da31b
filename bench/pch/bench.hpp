// What most of the benchmarks include, read once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "harness/harness.hpp"
#include "limits/limits.hpp"
