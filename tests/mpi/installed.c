/* A program of a user of fovea-mpi, to be built against what is installed: prints ranks, in order. */
#include <fovea/mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  fovea_mpi *mpi = NULL;
  int provided = 0, turn;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (fovea_mpi_create(MPI_COMM_WORLD, NULL, NULL, &mpi) != FOVEA_OK) {
    fprintf(stderr, "%s\n", fovea_mpi_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (turn = 0; turn < fovea_mpi_ranks(mpi); ++turn) {
    if (turn == fovea_mpi_rank(mpi)) {
      printf("rank %d of %d\n", fovea_mpi_rank(mpi), fovea_mpi_ranks(mpi));
      fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  fovea_mpi_destroy(mpi);
  MPI_Finalize();
  return 0;
}
