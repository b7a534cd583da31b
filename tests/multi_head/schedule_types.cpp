// Multi-head attention over a schedule, in all types: bit by bit fovea_linear, fovea_rotary, fovea_schedule_append,
// fovea_schedule_run and fovea_linear one after the other, with tensors of the schedule's type between them.
#include <doctest/doctest.h>

#include <optional>

#include "support/creation.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/paged_layer.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr MultiHeadSizes kSizes = {.query_len = 45,
                                   .key_len = 45,
                                   .query_inputs = 24,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 16,
                                   .value_dim = 16,
                                   .outputs = 24};

MultiHead make_layer() {
  Random random(base_seed());
  return make_multi_head(kSizes, Inputs::kOne, random);
}

// Rows of any type, [T,E].
class Rows {
 public:
  Rows(Tensor<float> from, fovea_dtype dtype) : floats_(std::move(from)) {
    if (dtype != FOVEA_F32) narrow_.emplace(floats_, dtype);
  }
  Rows(int64_t tokens, int64_t features, fovea_dtype dtype) : Rows(zeros(tokens, features), dtype) {}
  fovea_tensor view() const { return narrow_ ? narrow_->view() : floats_.view(); }
  fovea_tensor heads(int64_t count) const {
    const fovea_tensor rows = view();
    const int64_t shape[] = {rows.shape[0], count, rows.shape[1] / count};
    return fovea_tensor_contiguous(rows.data, rows.dtype, 3, shape);
  }

 private:
  static Tensor<float> zeros(int64_t tokens, int64_t features) {
    Tensor<float> rows({tokens, features});
    rows.fill([] { return 0.0f; });
    return rows;
  }
  Tensor<float> floats_;
  std::optional<NarrowTensor> narrow_;
};

// [T,H,D] as [H,T,D].
void turn(const fovea_context *context, fovea_tensor heads, const fovea_schedule *schedule) {
  std::swap(heads.shape[0], heads.shape[1]);
  std::swap(heads.strides[0], heads.strides[1]);
  const fovea_tensor positions = fovea_schedule_positions(schedule);
  auto rotary = sized_options<fovea_rotary_options>();
  rotary.positions = &positions;
  REQUIRE_OK(fovea_rotary(context, &heads, &heads, &rotary));
}

struct Composed {
  const fovea_context *context;
  const MultiHead &layer;
  int32_t precision;

  void linear(const fovea_tensor &x, const Tensor<float> &weight, const Tensor<float> &bias,
              const fovea_tensor &out) const {
    const fovea_tensor weight_view = weight.view(), bias_view = bias.view();
    auto pack = sized_options<fovea_linear_pack_options>();
    pack.precision = precision;
    fovea_packed_matrix *packed = nullptr;
    REQUIRE_OK(fovea_linear_pack(context, &weight_view, &pack, &packed));
    auto options = sized_options<fovea_linear_options>();
    options.bias = &bias_view;
    const fovea_status status = fovea_linear(context, &x, packed, &out, &options);
    fovea_packed_matrix_destroy(packed);
    REQUIRE_OK(status);
  }

  void run(const PagedLayer &paged, fovea_dtype between, const fovea_tensor &x, const fovea_tensor &out) const {
    const MultiHeadSizes &s = layer.sizes;
    const int64_t tokens = x.shape[0];
    const Rows q(tokens, s.heads * s.head_dim, between), k(tokens, s.kv_heads * s.head_dim, between),
        v(tokens, s.kv_heads * s.value_dim, between), concat(tokens, s.heads * s.value_dim, between);
    linear(x, layer.query_weight, layer.query_bias, q.view());
    linear(x, layer.key_weight, layer.key_bias, k.view());
    linear(x, layer.value_weight, layer.value_bias, v.view());
    turn(context, q.heads(s.heads), paged.schedule());
    turn(context, k.heads(s.kv_heads), paged.schedule());
    auto buffers = sized_options<fovea_attention_buffers>();
    buffers.query = q.view().data;
    buffers.out = concat.view().data;
    buffers.key = k.view().data;
    buffers.value = v.view().data;
    if (paged.pool() != nullptr) {
      const fovea_tensor key = k.heads(s.kv_heads), value = v.heads(s.kv_heads);
      REQUIRE_OK(fovea_schedule_append(paged.schedule(), &key, &value, &paged.keys(), &paged.values(), nullptr));
      buffers.key = paged.keys().data;
      buffers.value = paged.values().data;
    }
    REQUIRE_OK(fovea_schedule_run(paged.schedule(), &buffers, nullptr, 0));
    linear(concat.view(), layer.out_weight, layer.out_bias, out);
  }
};

// What a tensor holds, widened.
std::vector<float> numbers(const fovea_tensor &rows) {
  std::vector<float> all;
  for (int64_t n = 0; n < rows.shape[0] * rows.shape[1]; ++n) {
    all.push_back(rows.dtype == FOVEA_F32 ? static_cast<const float *>(rows.data)[n]
                                          : widened(static_cast<const uint16_t *>(rows.data)[n], rows.dtype));
  }
  return all;
}

struct Types {
  fovea_dtype x, out, between, kept;
};

// Two sequences: prompts of 20 and 1 tokens, then a token and 24, then 2 each.
void check_steps(const MultiHead &layer, const Types &types, int64_t page_size, int32_t precision) {
  CAPTURE(types.x);
  CAPTURE(types.out);
  CAPTURE(types.between);
  CAPTURE(types.kept);
  CAPTURE(page_size);
  auto attention = sized_options<fovea_attention_options>();
  attention.flags = FOVEA_CAUSAL;
  attention.precision = precision;
  for_each_isa([&](const fovea_context *context) {
    MhaParameters given(layer);
    given.parameters.precision = precision;
    fovea_mha_weights *made = nullptr;
    REQUIRE_OK(fovea_mha_weights_create(context, &given.parameters, &made));
    const MhaWeights weights(made);
    const PagedSizes sizes = {.sequences = 2,
                              .tokens = 25,
                              .positions = 40,
                              .page_size = page_size,
                              .between = types.between,
                              .kept = types.kept};
    PagedLayer ours(context, layer.sizes, sizes, &attention), theirs(context, layer.sizes, sizes, &attention);
    const auto rotary = sized_options<fovea_rotary_options>();
    auto options = sized_options<fovea_mha_options>();
    options.rotary = &rotary;
    ours.give(&options);
    const Composed composed{context, layer, precision};
    int64_t done = 0;
    for (const std::vector<int64_t> &counts : {std::vector<int64_t>{20, 1}, {1, 19}, {2, 2}}) {
      const int64_t tokens = counts[0] + counts[1];
      ours.grow(counts);
      theirs.grow(counts);
      const Rows x(packed_rows(layer.query, {{done, done + tokens}}), types.x);
      const Rows out(tokens, 24, types.out), expected(tokens, 24, types.out);
      const fovea_tensor x_view = x.view(), out_view = out.view();
      REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x_view, nullptr, nullptr, &out_view, &options));
      composed.run(theirs, types.between, x_view, expected.view());
      CHECK(same_bits(numbers(out.view()), numbers(expected.view())));
      done += tokens;
    }
    if (page_size == 0) return;
    for (const size_t s : {0, 1}) {
      CHECK(same_bits(ours.kept(s, ours.keys()), theirs.kept(s, theirs.keys())));
      CHECK(same_bits(ours.kept(s, ours.values()), theirs.kept(s, theirs.values())));
    }
  });
}

}  // namespace

TEST_SUITE("multi head of 16 bits") {
  TEST_CASE("over a schedule: the bits of the calls one after the other, in any types") {
    const MultiHead layer = make_layer();
    Random random(base_seed());
    const auto any = [&] { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); };
    for (const fovea_dtype between : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      check_steps(layer, {between, between, between, between}, 0, FOVEA_PRECISION_DEFAULT);
      check_steps(layer, {any(), any(), between, between}, 0, FOVEA_PRECISION_DEFAULT);
      for (const fovea_dtype kept : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
        check_steps(layer, {between, between, between, kept}, 8, FOVEA_PRECISION_DEFAULT);
        check_steps(layer, {any(), any(), between, kept}, 5, FOVEA_PRECISION_DEFAULT);
      }
    }
  }

  TEST_CASE("over a schedule, medium precision: what is kept is not rounded, and attention is the schedule's") {
    const MultiHead layer = make_layer();
    for (const int64_t page_size : {0, 8}) {
      check_steps(layer, {FOVEA_F32, FOVEA_F32, FOVEA_F32, FOVEA_F32}, page_size, FOVEA_PRECISION_MEDIUM);
      check_steps(layer, {FOVEA_F32, FOVEA_F32, FOVEA_BF16, FOVEA_BF16}, page_size, FOVEA_PRECISION_MEDIUM);
    }
  }
}
