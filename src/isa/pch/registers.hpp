// What every unit includes first, read once for a set: two of the four seconds that many of them take to compile.
#include "isa/unit.hpp"

#include "kernels/simd.hpp"
