// What most units of libfovea-mpi include, read once.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <memory>

#include "mpi/check.hpp"
#include "mpi/views.hpp"
