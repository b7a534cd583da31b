#include "handles.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace testing {

fovea_prepared_keys *prepared_keys(OperandCall &call) {
  const Tensor<float> weight({6, 6}), key({2, 2, 5, 6});
  const fovea_tensor w = weight.view(), k = key.view();
  for (const Tensor<float> *tensor : {&weight, &key}) std::fill_n(tensor->data(), tensor->count(), 0.25f);
  fovea_score score{};
  score.struct_size = sizeof score;
  score.kind = FOVEA_SCORE_BILINEAR;
  score.weight = &w;
  const fovea_prepared_keys_sizes sizes = {sizeof sizes, 2, 2, 64, 6, 6, FOVEA_F32, 0};
  fovea_prepared_keys *keys = nullptr;
  REQUIRE(fovea_prepared_keys_create(nullptr, &score, &sizes, &keys) == FOVEA_OK);
  REQUIRE(fovea_prepared_keys_append(nullptr, keys, &k) == FOVEA_OK);
  return keep<fovea_prepared_keys, fovea_prepared_keys_destroy>(call, keys);
}

fovea_schedule *schedule(OperandCall &call, const Pages &pages, bool per_head) {
  const auto described = [](const Shape &shape, fovea_dtype dtype = FOVEA_F32) {
    return fovea_tensor_contiguous(nullptr, dtype, static_cast<int32_t>(shape.size()), shape.data());
  };
  const fovea_tensor query = described({kTokens, 4, 6}), out = described({kTokens, 4, pages.value_dim});
  const fovea_tensor key = described(pages.keys(), pages.dtype()), value = described(pages.values(), pages.dtype());
  const fovea_tensor heads = described({4}), scales = described(pages.scales(), FOVEA_F16);
  fovea_attention_options options{};
  options.struct_size = sizeof options;
  options.alibi_slopes = options.sinks = per_head ? &heads : nullptr;
  options.key_scales = options.value_scales = pages.eight_bits ? &scales : nullptr;
  fovea_schedule_limits limits{};
  limits.struct_size = sizeof limits;
  limits.sequences = 2;
  fovea_schedule *made = nullptr;
  REQUIRE(fovea_schedule_create(nullptr, nullptr, &query, &key, &value, &out, &options, &limits, &made) == FOVEA_OK);
  const int64_t starts[] = {0, 2, kTokens}, lens[] = {2, 3}, ids[] = {2, 0}, three = 3, two = 2, table[] = {2, 1};
  const fovea_tensor starts_view = fovea_tensor_contiguous(starts, FOVEA_I64, 1, &three);
  const fovea_tensor lens_view = fovea_tensor_contiguous(lens, FOVEA_I64, 1, &two);
  const fovea_tensor ids_view = fovea_tensor_contiguous(ids, FOVEA_I64, 2, table);
  fovea_step step{};
  step.struct_size = sizeof step;
  step.query_starts = &starts_view;
  step.key_lens = &lens_view;
  step.page_ids = &ids_view;
  REQUIRE(fovea_schedule_set(made, &step) == FOVEA_OK);
  return keep<fovea_schedule, fovea_schedule_destroy>(call, made);
}

fovea_schedule *packed_schedule(OperandCall &call) {
  const int64_t shape[] = {kTokens, 4, 6};
  const fovea_tensor rows = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, shape);
  fovea_schedule_limits limits{};
  limits.struct_size = sizeof limits;
  limits.sequences = 2;
  fovea_schedule *made = nullptr;
  REQUIRE(fovea_schedule_create(nullptr, nullptr, &rows, &rows, &rows, &rows, nullptr, &limits, &made) == FOVEA_OK);
  return keep<fovea_schedule, fovea_schedule_destroy>(call, made);
}

fovea_packed_matrix *packed(OperandCall &call) {
  const Tensor<float> b({5, 8});
  std::fill_n(b.data(), b.count(), 0.25f);
  const fovea_tensor view = b.view();
  fovea_packed_matrix *made = nullptr;
  REQUIRE(fovea_matmul_pack(nullptr, &view, nullptr, &made) == FOVEA_OK);
  return keep<fovea_packed_matrix, fovea_packed_matrix_destroy>(call, made);
}

fovea_mha_weights *mha_weights(OperandCall &call) {
  const Tensor<float> query({24, 10}), key({12, 10}), out({10, 24});
  for (const Tensor<float> *tensor : {&query, &key, &out}) std::fill_n(tensor->data(), tensor->count(), 0.1f);
  const fovea_tensor q = query.view(), k = key.view(), o = out.view();
  fovea_mha_parameters parameters{};
  parameters.struct_size = sizeof parameters;
  parameters.heads = 4;
  parameters.kv_heads = 2;
  parameters.query_weight = &q;
  parameters.key_weight = parameters.value_weight = &k;
  parameters.out_weight = &o;
  fovea_mha_weights *made = nullptr;
  REQUIRE(fovea_mha_weights_create(nullptr, &parameters, &made) == FOVEA_OK);
  return keep<fovea_mha_weights, fovea_mha_weights_destroy>(call, made);
}

}  // namespace testing
