// Kernels of functions of single elements: exp, tanh and activations.
#include "isa/rowwise_units.hpp"
#include "kernels/rowwise/activate.hpp"

namespace fovea {
extern const ElementKernels FOVEA_KERNELS(elements) = {
    .exp = FOVEA_ISA::exp_elements, .tanh = FOVEA_ISA::tanh_elements, .activate = FOVEA_ISA::activate_elements};
}
