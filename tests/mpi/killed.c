/* A rank that is killed between two calls of ring attention. Whoever started the ranks has to end them all: the program must
 * not hang, and must not succeed. A rank that is told of it instead says so and ends the others. */
#include <fovea/mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  enum { positions = 64, dim = 8 };
  static float query[positions * dim], key[positions * dim], value[positions * dim], out[positions * dim];
  const int64_t shape[] = {1, 1, positions, dim};
  const fovea_tensor q = fovea_tensor_contiguous(query, FOVEA_F32, 4, shape);
  const fovea_tensor k = fovea_tensor_contiguous(key, FOVEA_F32, 4, shape);
  const fovea_tensor v = fovea_tensor_contiguous(value, FOVEA_F32, 4, shape);
  const fovea_tensor o = fovea_tensor_contiguous(out, FOVEA_F32, 4, shape);
  fovea_mpi *mpi = NULL;
  int provided = 0, call;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (fovea_mpi_create(MPI_COMM_WORLD, NULL, NULL, &mpi) != FOVEA_OK) return 0; /* which is not what is expected */
  for (call = 0; call < 2; ++call) {
    if (call == 1 && fovea_mpi_rank(mpi) == fovea_mpi_ranks(mpi) - 1) raise(SIGKILL);
    if (fovea_mpi_ring_attention(mpi, NULL, &q, &k, &v, &o, NULL, NULL) != FOVEA_OK) {
      fprintf(stderr, "%s\n", fovea_mpi_last_error());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  return 0;
}
