// A parallel loop of the caller's own, as fovea.h has it, that is a team of OpenMP's threads. GOMP_parallel is what
// GCC's compiler calls for a parallel region; LLVM's and Intel's runtimes have it, too.
#include "team.hpp"

#include <atomic>

#include "errors.hpp"
#include "handle.hpp"

namespace fovea_python {
namespace {

using Parallel = void (*)(void (*body)(void *), void *data, unsigned threads, unsigned flags);

struct Team {
  Parallel parallel;
  unsigned threads;
};

struct Loop {
  std::atomic<int64_t> next;
  int64_t count;
  fovea_work work;
  void *work_data;
};

// What each thread of a team does: all that is left, for the team may be smaller than was asked for.
void take_part(void *data) {
  Loop &loop = *static_cast<Loop *>(data);
  for (int64_t index = 0; (index = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.count;) {
    loop.work(loop.work_data, index);
  }
}

// Always of as many threads: a runtime ends those that a smaller team has no use for, and starts them again for the
// next one.
void run_in_team(void *user, int64_t count, fovea_work work, void *work_data) {
  const Team &team = *static_cast<const Team *>(user);
  Loop loop{{0}, count, work, work_data};
  team.parallel(take_part, &loop, team.threads, 0);
}

}  // namespace

PyObject *team_context(PyObject *, PyObject *arguments) {
  PyObject *address = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "Oi:team_context", &address, &threads) == 0) return nullptr;
  void *const parallel = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (parallel == nullptr || threads < 1) {
    PyErr_SetString(PyExc_ValueError, "parallel and threads: an address and at least one thread are wanted");
    return nullptr;
  }
  // Kept for good: a context may be used until the process ends, and there is one for each number of threads.
  auto *const team = new Team{reinterpret_cast<Parallel>(parallel), static_cast<unsigned>(threads)};
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_threads = threads;
  options.parallel_for = run_in_team;
  options.parallel_for_user = team;
  fovea_context *context = nullptr;
  const fovea_status status = fovea_context_create(&options, &context);
  if (status == FOVEA_OK) return new_context(context);
  delete team;
  raise_status(status);
  return nullptr;
}

}  // namespace fovea_python
