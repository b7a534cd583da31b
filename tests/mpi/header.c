/* The header alone, first in a unit of its own: it needs nothing before it and nothing but C99. */
#include <fovea/mpi.h>

fovea_status mpi_header_is_usable(fovea_mpi *mpi);

fovea_status mpi_header_is_usable(fovea_mpi *mpi) {
  fovea_mpi_figures figures = {0};
  figures.struct_size = sizeof figures;
  return fovea_mpi_last_figures(mpi, &figures);
}
