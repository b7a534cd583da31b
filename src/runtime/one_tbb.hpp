// oneTBB's threads: starts them, shares them with other users of oneTBB in the process, and does without them where
// there are none.
#pragma once

#include <cstdint>

namespace fovea {

// Threads of the calling thread's arena; 1 where oneTBB cannot be used.
int one_tbb_concurrency();

// Calls work(data, worker) for each worker in [0, workers), on oneTBB's threads and the calling one. False if not all
// of these calls were made; none of them runs any more then, and the caller has to do what is left.
[[nodiscard]] bool run_on_one_tbb(int workers, void (*work)(void *data, int64_t worker), void *data);

}  // namespace fovea
