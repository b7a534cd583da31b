// SPDX-License-Identifier: Apache-2.0
#include "decoder.hpp"

#include <chrono>

namespace smollm2 {
namespace {

using fovea::Input;
using fovea::Output;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Adds the time until it goes.
class Timer {
 public:
  explicit Timer(double &total) : total_(total), start_(seconds()) {}
  ~Timer() { total_ += seconds() - start_; }
  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;

 private:
  double &total_, start_;
};

// Heads from column `first` on of rows that hold several tensors' heads side by side, [tokens, heads, dim].
fovea_tensor heads_in(const Output &rows, std::int64_t first, std::int64_t heads, std::int64_t dim) {
  fovea_tensor c = *rows.get();
  const std::int64_t row = c.strides[0], size = c.dtype == FOVEA_F32 ? 4 : 2;
  if (c.data != nullptr) c.data = static_cast<char *>(c.data) + first * size;
  return {c.data, c.dtype, 3, {c.shape[0], heads, dim}, {row, dim, 1}};
}

// The same as [1, heads, tokens, dim].
fovea_tensor heads_first(const fovea_tensor &c) {
  return {c.data, c.dtype, 4, {1, c.shape[1], c.shape[0], c.shape[2]}, {0, c.strides[1], c.strides[0], 1}};
}

constexpr std::int64_t scale_group = 32;

bool has_scales(fovea_dtype cache) { return cache == FOVEA_I8 || cache == FOVEA_U8; }

fovea::KvPool::Sizes pool_sizes(const ModelSizes &sizes, const DecoderLimits &limits, fovea_dtype cache) {
  return {.layers = sizes.layers,
          .kv_heads = sizes.kv_heads,
          .head_dim = sizes.head_dim(),
          .positions = limits.positions,
          .sequences = limits.sequences,
          .key_dtype = cache == FOVEA_U8 ? FOVEA_I8 : cache,
          .value_dtype = cache,
          .scale_group = has_scales(cache) ? scale_group : 0};
}

std::size_t area(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

}  // namespace

Decoder::Decoder(const Model &model, const DecoderLimits &limits, fovea_dtype cache)
    : model_(model),
      cache_(cache),
      pool_(pool_sizes(model.sizes(), limits, cache)),
      x_(Type::f32, area(limits.tokens, model.sizes().hidden)),
      y_(model.type(), area(limits.tokens, model.sizes().hidden)),
      query_key_value_(model.type(), area(limits.tokens, model.sizes().columns())),
      attended_(model.type(), area(limits.tokens, model.sizes().hidden)),
      gate_(model.type(), area(limits.tokens, model.sizes().intermediate)),
      up_(Type::f32, area(limits.tokens, model.sizes().intermediate)),
      last_(Type::f32, area(limits.sequences, model.sizes().hidden)),
      logits_(area(limits.sequences, model.sizes().vocabulary)),
      schedule_(make_schedule(limits)) {}

fovea::Schedule Decoder::make_schedule(const DecoderLimits &limits) {
  const ModelSizes &s = model_.sizes();
  const Output query =
      Output::of(heads_in(query_key_value_.view({limits.tokens, s.columns()}), 0, s.heads, s.head_dim()));
  const Output out = attended_.view({limits.tokens, s.heads, s.head_dim()});
  fovea::AttentionOptions options = {.causal = true};
  if (has_scales(cache_)) {
    options.key_scales = pool_.key_scales(0);
    options.value_scales = pool_.value_scales(0);
  }
  return {query, pool_.keys(0), pool_.values(0), out, {.sequences = limits.sequences}, options};
}

double Decoder::cache_bytes(std::int64_t depth) const {
  const ModelSizes &s = model_.sizes();
  const double in_bytes = 1 + 2.0 / scale_group, in_four_bits = 0.5 + 4.0 / scale_group;
  const double of_float = cache_ == FOVEA_F32 ? 4 : 2, of_key = has_scales(cache_) ? in_bytes : of_float;
  const double of_value = cache_ == FOVEA_U8 ? in_four_bits : of_key;
  return static_cast<double>(depth * s.layers * s.kv_heads * s.head_dim()) * (of_key + of_value);
}

std::span<const float> Decoder::step(const std::vector<Continuation> &continuations) {
  std::int64_t tokens = 0;
  {
    const Timer timer(times_.rest);
    std::vector<fovea::KvPool::Growth> growths;
    for (const Continuation &c : continuations) {
      growths.push_back({c.sequence, std::ssize(c.tokens)});
      tokens += std::ssize(c.tokens);
    }
    schedule_.set(pool_.step(growths));
    workspace_.resize(schedule_.workspace_size());
    embed(continuations);
  }
  for (std::int64_t layer = 0; layer < model_.sizes().layers; ++layer) {
    attend(layer, tokens);
    feed_forward(model_.layers_[static_cast<std::size_t>(layer)], tokens);
  }
  make_logits(continuations);
  return std::span(logits_).first(continuations.size() * static_cast<std::size_t>(model_.sizes().vocabulary));
}

void Decoder::embed(const std::vector<Continuation> &continuations) {
  const auto hidden = static_cast<std::size_t>(model_.sizes().hidden);
  std::size_t row = 0;
  for (const Continuation &c : continuations) {
    for (const std::int32_t token : c.tokens) {
      x_.assign(row, model_.embedding_, static_cast<std::size_t>(token) * hidden, hidden);
      row += hidden;
    }
  }
}

void Decoder::attend(std::int64_t number, std::int64_t tokens) {
  const ModelSizes &s = model_.sizes();
  const Model::Layer &layer = model_.layers_[static_cast<std::size_t>(number)];
  const Output x = rows(x_, tokens, s.hidden), y = rows(y_, tokens, s.hidden),
               attended = rows(attended_, tokens, s.hidden), all = rows(query_key_value_, tokens, s.columns());
  {
    const Timer timer(times_.rest);
    fovea::rms_norm(x, y, {.epsilon = s.epsilon, .weight = layer.attention_norm.view({s.hidden})});
  }
  {
    const Timer timer(times_.products);
    fovea::linear(y, layer.query_key_value, all);
  }
  {
    const Timer timer(times_.attention);
    const std::int64_t dim = s.head_dim();
    const fovea_tensor turned = heads_in(all, 0, s.heads + s.kv_heads, dim),
                       key = heads_in(all, s.heads * dim, s.kv_heads, dim),
                       value = heads_in(all, (s.heads + s.kv_heads) * dim, s.kv_heads, dim);
    const Output heads = Output::of(heads_first(turned));
    fovea::rotary(heads, heads, {.interleaved = true, .base = s.rotary_base, .positions = schedule_.positions()});
    fovea::AttentionBuffers buffers;
    const Output keys = pool_.keys(number), values = pool_.values(number);
    fovea::AppendOptions scales;
    buffers.query = all.get()->data;
    buffers.key = keys.get()->data;
    buffers.value = values.get()->data;
    buffers.out = attended.get()->data;
    if (has_scales(cache_)) {
      scales.key_scales = pool_.key_scales(number);
      scales.value_scales = pool_.value_scales(number);
      buffers.key_scales = scales.key_scales.get()->data;
      buffers.value_scales = scales.value_scales.get()->data;
    }
    schedule_.append(Output::of(key), Output::of(value), keys, values, scales);
    schedule_.run(buffers, workspace_);
  }
  const Timer timer(times_.products);
  fovea::linear(attended, layer.out, x, {.residual = x});
}

void Decoder::feed_forward(const Model::Layer &layer, std::int64_t tokens) {
  const ModelSizes &s = model_.sizes();
  const Output x = rows(x_, tokens, s.hidden), y = rows(y_, tokens, s.hidden),
               gate = rows(gate_, tokens, s.intermediate), up = rows(up_, tokens, s.intermediate);
  {
    const Timer timer(times_.rest);
    fovea::rms_norm(x, y, {.epsilon = s.epsilon, .weight = layer.feed_forward_norm.view({s.hidden})});
  }
  {
    const Timer timer(times_.products);
    fovea::linear(y, layer.up, up);
    fovea::linear(y, layer.gate, gate, {.activation = fovea::Activation::silu, .multiplier = up});
    fovea::linear(gate, layer.down, x, {.residual = x});
  }
}

void Decoder::make_logits(const std::vector<Continuation> &continuations) {
  const ModelSizes &s = model_.sizes();
  const auto hidden = static_cast<std::size_t>(s.hidden);
  const auto count = std::ssize(continuations);
  std::size_t end = 0;
  for (std::size_t n = 0; n < continuations.size(); ++n) {
    end += continuations[n].tokens.size();
    last_.assign(n * hidden, x_, (end - 1) * hidden, hidden);
  }
  const Output last = rows(last_, count, s.hidden), y = rows(y_, count, s.hidden);
  fovea::rms_norm(last, y, {.epsilon = s.epsilon, .weight = model_.last_norm_.view({s.hidden})});
  const Timer timer(times_.products);
  fovea::linear(y, model_.to_logits_, Output(logits_, {count, s.vocabulary}));
}

}  // namespace smollm2
