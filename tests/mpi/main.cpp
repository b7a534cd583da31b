// The test program of fovea-mpi, of which every rank runs one. All ranks make the same problems from the same seeds, so
// a rank that fails a check stays in step with the others; where it could not, it ends them all.
#include <doctest/doctest.h>

#include <cstdio>

#include "contexts.hpp"
#include "ranks.hpp"

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    std::printf("MPI offers threads of level %d only\n", provided);
    return 1;
  }
  int failed = 0, any_failed = 0;
  {
    doctest::Context context(argc, argv);
    if (testing::world_rank() == 0) {
      std::printf("%d ranks; %s; seed %llu\n", testing::world_size(), testing::instruction_set_report().c_str(),
                  static_cast<unsigned long long>(testing::base_seed()));
    } else {
      context.setOption("minimal", true);  // nothing but failures
    }
    failed = context.run();
  }
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any_failed;
}
