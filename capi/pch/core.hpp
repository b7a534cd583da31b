// What most units of the core include, read once: half of the time that many of them take to compile.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "ops/tensors/check.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "runtime/parallel.hpp"
