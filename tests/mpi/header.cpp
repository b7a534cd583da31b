// The header in C++, as C++11 takes it.
#include <fovea/mpi.h>

fovea_status mpi_header_is_usable(fovea_mpi *mpi);

fovea_status mpi_header_is_usable(fovea_mpi *mpi) { return fovea_mpi_rank(mpi) == 0 ? FOVEA_OK : FOVEA_BAD_VALUE; }
