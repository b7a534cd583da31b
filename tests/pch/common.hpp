// What most tests include, read once: a third of the time that compiling them takes.
#include <doctest/doctest.h>
#include <fovea/fovea.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/attention_problem.hpp"
#include "support/contexts.hpp"
#include "support/errors.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/tensor.hpp"
