// Stands in for one_tbb.cpp with -Dthreads=caller: there are no threads but those of a context's own parallel loop, and
// nothing is linked but the C++ runtime.
#include "runtime/one_tbb.hpp"

namespace fovea {

int one_tbb_concurrency() { return 1; }

bool run_on_one_tbb(int, void (*)(void *, int64_t), void *) { return false; }

}  // namespace fovea
