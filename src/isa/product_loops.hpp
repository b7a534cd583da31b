// The struct of products with a right-hand side of one element type.
#pragma once

#include "isa/product_units.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void finish_sums(const MatmulFinish &finish) { FOVEA_FINISH.sums(finish); }

template <class Panel, class InPlace, void (*columns)(const MatmulTask &) = nullptr>
constexpr ProductLoops product_loops = {.block = [](const MatmulTask &task) { multiply_panels<Panel>(task); },
                                        .few_rows = [](const MatmulTask &task) { multiply_few_rows<InPlace>(task); },
                                        .columns = columns};

}  // namespace
}  // namespace fovea::FOVEA_ISA
