// The header alone, twice, as C++.
#include <fovea/fovea.h>

fovea_status header_is_usable(const fovea_tensor *x);

fovea_status header_is_usable(const fovea_tensor *x) { return fovea_exp(nullptr, x, x); }
