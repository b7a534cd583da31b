// The examples of the reference pages, run by a test. A page shows what stands between [name] and [end].
//
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fovea/fovea.hpp>
#include <vector>

namespace {

using fovea::Tensor;

void must(bool holds, int line) {
  if (holds) return;
  std::printf("FAILED: line %d\n", line);
  std::exit(1);
}

bool near(float found, float expected) { return std::abs(found - expected) < 1e-3F; }

// [attention]
const std::vector<float> query = {3, 0, 0, 3}, key = {1, 0, 0, 1, 1, 1}, value = {10, 20, 30, 40, 50, 60};
std::vector<float> out(4);
// [end]
const std::vector<float> identity = {1, 0, 0, 1}, ones = {1, 1};

void attend() {
  // [attention]
  const Tensor q(query, {2, 2}), k(key, {3, 2}), v(value, {3, 2});
  fovea::sdpa(q, k, v, Tensor(out, {2, 2}), {.causal = true});
  fovea::sdpa(q, k, v, Tensor(out, {2, 2}));  // {30.00, 40.00, 38.30, 48.30}
  // [end]
  must(near(out[2], 38.3036F), __LINE__);
  // [score]
  const fovea::Score score = fovea::Additive{
      .query_weight = Tensor(identity, {2, 2}), .key_weight = Tensor(identity, {2, 2}), .score_vector = Tensor(ones)};
  fovea::attention(score, q, k, v, Tensor(out, {2, 2}));
  // [end]
  must(out[0] > 10 && out[0] < 50, __LINE__);
  // [gradients]
  std::vector<float> sums(2), grad_out = {1, 0, 0, 0}, grad_query(4), grad_value(6);
  const fovea::AttentionOptions options = {.log_sum_exp = Tensor(sums, {2})};
  fovea::attention(fovea::Dot{}, q, k, v, Tensor(out, {2, 2}), options);
  fovea::attention_backward(fovea::Dot{}, q, k, v, Tensor(out, {2, 2}), options,
                            {.out = Tensor(grad_out, {2, 2}),
                             .query = Tensor(grad_query, {2, 2}),
                             .value = Tensor(grad_value, {3, 2})});
  // [end]
  must(near(grad_value[0] + grad_value[2] + grad_value[4], 1), __LINE__);
  // [plan]
  const fovea::Plan plan = fovea::Plan::sdpa(q, k, v, Tensor(out, {2, 2}));
  std::vector<std::byte> workspace(plan.workspace_size());
  fovea::AttentionBuffers buffers;
  buffers.query = query.data();
  buffers.key = key.data();
  buffers.value = value.data();
  buffers.out = out.data();
  plan.run(buffers, workspace);
  // [end]
  must(near(out[2], 38.3036F), __LINE__);
  // [prepared_keys]
  fovea::PreparedKeys keys(score, {.capacity = 8, .query_dim = 2, .key_dim = 2});
  keys.append(k);
  fovea::attention(q, keys, v, Tensor(out, {2, 2}));
  // [end]
  must(keys.length() == 3, __LINE__);
  // [schedule]
  const std::vector<std::int64_t> starts = {0, 1, 3};  // sequences of 1 and 2 tokens, one behind the other
  std::vector<float> results(6);
  const auto rows = fovea::Input::at(nullptr, {3, 1, 2});  // [tokens, H, D]
  fovea::Schedule schedule(rows, rows, rows, fovea::Output::at(nullptr, {3, 1, 2}), {.sequences = 2});
  schedule.set({.query_starts = starts, .key_starts = starts});
  fovea::AttentionBuffers packed;
  packed.query = packed.key = key.data();
  packed.value = value.data();
  packed.out = results.data();
  schedule.run(packed);
  // [end]
  must(near(results[0], 10) && results[2] > 30, __LINE__);
  // [kv_pool]
  fovea::KvPool pool({.layers = 1, .kv_heads = 1, .head_dim = 2, .positions = 64, .sequences = 4});
  fovea::Schedule paged(rows, pool.keys(0), pool.values(0), fovea::Output::at(nullptr, {3, 1, 2}), {.sequences = 4},
                        {.causal = true});
  const fovea::Sequence sequence = pool.open();
  paged.set(pool.step({{&sequence, 3}}));  // room for 3 more positions
  paged.append(Tensor(key, {3, 1, 2}), Tensor(value, {3, 1, 2}), pool.keys(0), pool.values(0));
  packed.key = pool.keys(0).data();
  packed.value = pool.values(0).data();
  paged.run(packed);
  const fovea::Sequence other = sequence.fork(2);  // shares its pages
  // [end]
  must(near(results[0], 10) && other.length() == 2, __LINE__);
  // [quantize]
  std::vector<std::int8_t> small(6);
  std::vector<fovea::Float16> scales(3);  // one for each row
  fovea::quantize(v, Tensor(small, {3, 2}), Tensor(scales, {3, 1}));
  fovea::sdpa(q, k, Tensor(small, {3, 2}), Tensor(out, {2, 2}), {.value_scales = Tensor(scales, {3, 1})});
  // [end]
  must(out[2] > 38 && out[2] < 38.6F, __LINE__);
  // [context]
  const fovea::Context one({.max_threads = 1, .max_isa = "base"});
  fovea::sdpa(q, k, v, Tensor(out, {2, 2}), {}, one);
  // [end]
  must(near(out[2], 38.3036F), __LINE__);
  // [status]
  try {
    fovea::sdpa(q, k, q, Tensor(out, {2, 2}));
  } catch (const fovea::Error &error) {
    std::puts(error.what());
  }
  // [end]
}

void reduce() {
  // [kernel_regression]
  const std::vector<float> at = {1.5F}, inputs = {0, 1, 2}, targets = {0, 1, 4};
  std::vector<float> y(1);
  fovea::kernel_regression(Tensor(at), Tensor(inputs), Tensor(targets), Tensor(y), {.sigma = 0.3F});
  // [end]
  must(std::abs(y[0] - 2.5F) < 0.02F, __LINE__);
  // [merge_states]
  const std::vector<float> outs(8), lses(4);  // of two parts of the keys, as log_sum_exp returns them
  fovea::merge_states(Tensor(outs, {2, 2, 2}), Tensor(lses, {2, 2}), Tensor(out, {2, 2}));
  // [end]
  must(out[0] == 0, __LINE__);
  // [masked_softmax]
  std::vector<float> x(8);
  const std::vector<std::int64_t> lens = {1, 2};
  fovea::masked_softmax(Tensor(x, {1, 2, 4}), Tensor(lens, {1, 2}), Tensor(x, {1, 2, 4}));  // in place
  // [end]
  must(x[0] == 1 && x[5] == 0.5F && x[6] == 0, __LINE__);
}

void multiply() {
  // [matmul]
  const fovea::PackedMatrix packed(Tensor(value, {3, 2}));
  fovea::matmul(Tensor(key, {2, 3}, {1, 2}), packed, Tensor(out, {2, 2}));  // key transposed, by its strides
  // [end]
  must(out[0] == 60 && out[3] == 100, __LINE__);
  // [linear]
  const std::vector<float> bias = {0, -1};
  const fovea::PackedMatrix weight = fovea::linear_pack(Tensor(query, {2, 2}));  // [out, in], as torch.nn.Linear has it
  fovea::linear(Tensor(query, {2, 2}), weight, Tensor(out, {2, 2}),
                {.activation = fovea::Activation::relu, .bias = Tensor(bias)});
  // [end]
  must(out[0] == 9 && out[1] == 0 && out[3] == 8, __LINE__);
  // [layer_norm]
  fovea::layer_norm(Tensor(query, {2, 2}), Tensor(out, {2, 2}), {.epsilon = 1e-5F, .residual = Tensor(query, {2, 2})});
  // [end]
  must(near(out[0], 1) && near(out[1], -1), __LINE__);
  // [rms_norm]
  std::vector<float> sums(4);
  const Tensor square(query, {2, 2});
  const Tensor result(out, {2, 2});
  fovea::rms_norm(square, result, {.residual = square, .sum = Tensor(sums, {2, 2})});  // of their sum, which is in sums
  // [end]
  must(near(out[0], 1.41421F) && sums[0] == 6, __LINE__);
  // [softmax]
  fovea::softmax(square, 0, result);       // down the columns
  fovea::log_softmax(square, -1, result);  // along the rows
  // [end]
  must(near(out[1], -3.04859F), __LINE__);
  // [activation]
  fovea::activation(fovea::Activation::silu, query, out);
  // [end]
  must(near(out[0], 2.85772F), __LINE__);
  // [layer_gradients]
  std::vector<float> ones(4, 1), grad_x(4), grad_weight(4);
  fovea::linear_backward(square, square, fovea::WeightLayout::out_in, {},
                         {.out = Tensor(ones, {2, 2}), .x = Tensor(grad_x, {2, 2}), .weight = Tensor(grad_weight, {2, 2})});
  // [end]
  must(grad_x[0] == query[0] + query[2] && grad_weight[3] == query[1] + query[3], __LINE__);
  // [gemm]
  fovea::gemm(square, square, result, {.alpha = 0.5F, .beta = -1.0F, .c = square});
  // [end]
  must(out[0] == 1.5F && out[1] == 0, __LINE__);
  // [multi_head_attention]
  const Tensor weights(identity, {2, 2});
  const fovea::MultiHeadWeights packed_weights(
      {.heads = 2, .query_weight = weights, .key_weight = weights, .value_weight = weights, .out_weight = weights});
  std::vector<float> projected(6);
  fovea::self_attention(packed_weights, Tensor(key, {3, 2}), Tensor(projected, {3, 2}),
                        {.attention = {.causal = true}});
  // [end]
  must(projected[0] == 1 && projected[1] == 0, __LINE__);
}

void place() {
  // [positional_encoding]
  std::vector<float> encoding(60 * 32);
  fovea::positional_encoding(Tensor(encoding, {60, 32}));
  fovea::add_positional_encoding(Tensor(encoding, {60, 32}), Tensor(encoding, {60, 32}));  // in place: twice as much
  // [end]
  must(encoding[1] == 2, __LINE__);
  // [rotary]
  fovea::rotary(Tensor(query, {2, 2}), Tensor(out, {2, 2}), {.offset = 3});  // [L, D]
  // [end]
  must(near(out[0], 3 * std::cos(3.0F)), __LINE__);
  // [rotary_frequencies]
  std::vector<float> frequencies(64);
  const float factor = fovea::rotary_frequencies(Tensor(frequencies), {.kind = fovea::FrequenciesKind::llama3,
                                                                       .base = 500000,
                                                                       .factor = 8,
                                                                       .original_length = 8192,
                                                                       .low_frequency_factor = 1,
                                                                       .high_frequency_factor = 4});  // Llama 3.1
  std::vector<float> head(128, 1.0F);
  fovea::rotary(Tensor(head, {1, 128}), Tensor(head, {1, 128}),
                {.offset = 9000, .frequencies = Tensor(frequencies), .attention_factor = factor});
  // [end]
  must(near(head[63], 1 - 9000 * frequencies[63]), __LINE__);
  // [alibi_slopes]
  std::vector<float> slopes(4);
  fovea::alibi_slopes(Tensor(slopes));  // {1/4, 1/16, 1/64, 1/256}
  // [end]
  must(slopes[3] == 1.0F / 256, __LINE__);
  // [elementwise]
  fovea::tanh(Tensor(query), Tensor(out));
  fovea::exp(Tensor(out), Tensor(out));  // in place
  // [end]
  must(out[1] == 1, __LINE__);
  // [tensor]
  std::vector<float> inside(2 * 5 * 4 * 64);                              // [B, L, H, D] in memory
  const Tensor view(inside, {2, 4, 5, 64}, {5 * 4 * 64, 64, 4 * 64, 1});  // [B, H, L, D]
  fovea::tanh(view, view);
  // [end]
  must(inside[0] == 0, __LINE__);
}

}  // namespace

int main() {
  attend();
  reduce();
  multiply();
  place();
}
