// Lays out the weights of multi-head attention and packs them.
#include "ops/multi_head/weights.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "ops/multi_head/weights_check.hpp"
#include "runtime/large_memory.hpp"

fovea_mha_weights::~fovea_mha_weights() { std::free(memory); }

namespace fovea {
namespace {

using PackedLinear = fovea_mha_weights::PackedLinear;

// Where panels and biases lie in the memory.
struct WeightPlaces {
  MemoryLayout layout;
  MemoryPart<float> panels[4], bias[4];
};

// The sizes of the packed weights, and where they lie.
WeightPlaces lay_out(const WeightSources &sources, fovea_mha_weights *weights) {
  const int64_t width = weights->kernels->matmul->panel_columns;
  const WeightSource *all[] = {&sources.query, &sources.key, &sources.value, &sources.out};
  PackedLinear *packed[] = {&weights->query, &weights->key, &weights->value, &weights->out};
  const bool in_bias = sources.query.bias != nullptr || sources.key.bias != nullptr || sources.value.bias != nullptr;
  WeightPlaces places;
  for (int i = 0; i < 4; ++i) {
    packed[i]->inputs = all[i]->matrix.depth;
    packed[i]->outputs = all[i]->matrix.columns;
    // The largest sizes there are do not fit, which the layout finds, but must not overflow before.
    packed[i]->padded = round_up(min_of(all[i]->matrix.columns, INT64_MAX - width), width);
    packed[i]->dtype = all[i]->matrix.panel_dtype();
    // Deeper ones do not fit either.
    const MatmulKernels &kernels = matrix_kernels(*weights->kernels, packed[i]->dtype);
    const int64_t words = kernels.panel_floats(min_of(packed[i]->inputs, deepest_product), packed[i]->dtype);
    places.panels[i] = places.layout.add_behind<float>({packed[i]->padded / width, words});
  }
  for (int i = 0; i < 4; ++i) {
    const bool has_bias = i < 3 ? in_bias : sources.out.bias != nullptr;
    if (has_bias) places.bias[i] = places.layout.add_behind<float>({packed[i]->padded});
  }
  weights->size = places.layout.size();
  return places;
}

Status allocate(const WeightPlaces &places, fovea_mha_weights *weights) {
  weights->memory = allocate_large(weights->size);
  if (weights->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of weights", weights->size);
  PackedLinear *packed[] = {&weights->query, &weights->key, &weights->value, &weights->out};
  for (int i = 0; i < 4; ++i) {
    packed[i]->panels = places.panels[i].in(weights->memory);
    packed[i]->bias = places.bias[i].in(weights->memory);
  }
  return FOVEA_OK;
}

void pack(const Context &context, const WeightSource &source, const PackedLinear &part) {
  if (part.outputs == 0) return;
  pack_panels(context, matrix_kernels(*context.kernels, source.matrix.panel_dtype()), source.matrix, source.data,
              part.panels);
  if (part.bias == nullptr) return;
  std::fill(part.bias, part.bias + part.padded, 0.0f);
  if (source.bias_data == nullptr) return;
  const RowwiseKernels &kernels = *context.kernels->rowwise;  // elements that lie apart are rows of one
  kernels.widen_rows(source.bias_data, source.bias_dtype, source.bias_stride, part.outputs, 1, part.bias, 1);
}

}  // namespace

Status plan_mha_weights(const Context *given, const fovea_mha_parameters *parameters, fovea_mha_weights *weights) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(parameters, "parameters", "the layer's parameters"));
  WeightSources sources;
  FOVEA_CHECK(read_parameters(*context, *parameters, &sources, weights));
  weights->kernels = context->kernels;
  if (lay_out(sources, weights).layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW, "the weights of parameters would exceed the address space");
}

Status pack_mha_weights(const Context &context, const fovea_mha_parameters &parameters, fovea_mha_weights *weights) {
  WeightSources sources;
  FOVEA_CHECK(read_parameters(context, parameters, &sources, weights));
  FOVEA_CHECK(allocate(lay_out(sources, weights), weights));
  pack(context, sources.query, weights->query);
  pack(context, sources.key, weights->key);
  pack(context, sources.value, weights->value);
  pack(context, sources.out, weights->out);
  return FOVEA_OK;
}

Status create_mha_weights(const Context *given, const fovea_mha_parameters *parameters, fovea_mha_weights **weights) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(expect_given(weights, "weights", "where to store the weights"));
  std::unique_ptr<fovea_mha_weights> made(new (std::nothrow) fovea_mha_weights);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for weights");
  FOVEA_CHECK(plan_mha_weights(given, parameters, made.get()));
  FOVEA_CHECK(pack_mha_weights(*context, *parameters, made.get()));
  *weights = made.release();
  return FOVEA_OK;
}

}  // namespace fovea
