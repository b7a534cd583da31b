// A step of sequences for the tests: attention problems of one batch entry each, whose queries are packed one behind
// the other, and whose keys and values are packed likewise or lie in pages.
#pragma once

#include <fovea/fovea.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention_problem.hpp"
#include "narrow.hpp"
#include "quantized_rows.hpp"

namespace testing {

struct DestroySchedule {
  void operator()(fovea_schedule *schedule) const { fovea_schedule_destroy(schedule); }
};
using OwnSchedule = std::unique_ptr<fovea_schedule, DestroySchedule>;

struct RaggedLayout {
  int64_t page_size = 0;                      // 0: packed
  std::vector<int> page_axes = {0, 1, 2, 3};  // the order of [P,Hkv,page,D] in memory
  int64_t gap = 0;                            // unused elements behind each row of a page
  bool wide = false;                          // 64-bit integers
  bool starts = false;                        // page_starts instead of a table
  int64_t workers = 0;
  int64_t spare = 0;  // room for more sequences, tokens and page ids
  fovea_dtype query = FOVEA_F32, key = FOVEA_F32, value = FOVEA_F32;
  int64_t group = 0;  // features that share a scale, of pages of 8 or 4 bits; 0: whole rows
  uint64_t seed = 1;  // of the order of pages
};

// Integers as the caller has them.
class Integers {
 public:
  Integers(Shape shape, const std::vector<int64_t> &values, bool wide) {
    if (wide) {
      wide_.emplace(shape).assign(values);
      view_ = wide_->view();
    } else {
      narrow_.emplace(shape).assign(std::vector<int32_t>(values.begin(), values.end()));
      view_ = narrow_->view();
    }
  }
  const fovea_tensor *view() const { return &view_; }

 private:
  std::optional<Tensor<int32_t>> narrow_;
  std::optional<Tensor<int64_t>> wide_;
  fovea_tensor view_{};
};

// Rows of any type.
class RaggedRows {
 public:
  RaggedRows(Tensor<float> numbers, fovea_dtype dtype, int64_t group = 0) : numbers_(std::move(numbers)) {
    if (dtype == FOVEA_I8 || dtype == FOVEA_U8) {
      quantized_.emplace(numbers_.shape(), numbers_.strides(), dtype, group);
      quantized_->quantize(nullptr, numbers_.view());
    } else if (dtype != FOVEA_F32) {
      narrow_.emplace(numbers_, dtype);
    }
  }
  fovea_tensor view() const {
    if (quantized_) return quantized_->view();
    return narrow_ ? narrow_->view() : numbers_.view();
  }
  std::optional<fovea_tensor> scales() const { return quantized_ ? std::optional(quantized_->scales()) : std::nullopt; }

 private:
  Tensor<float> numbers_;
  std::optional<NarrowTensor> narrow_;
  std::optional<QuantizedRows> quantized_;
};

// Of a tensor's numbers, in its layout.
inline RaggedRows rows_of_type(const Tensor<float> &numbers, fovea_dtype dtype, int64_t group = 0) {
  Tensor<float> copy(numbers.shape(), numbers.strides());
  copy.assign(numbers.dense());
  return RaggedRows(std::move(copy), dtype, group);
}

class Ragged {
 public:
  // All sequences have the sizes, options and score function of the first, but for their lengths.
  Ragged(const std::vector<AttentionProblem> &sequences, const RaggedLayout &layout)
      : Ragged(std::span(sequences), layout) {}
  Ragged(std::span<const AttentionProblem> sequences, const RaggedLayout &layout)
      : sequences_(sequences), layout_(layout) {
    const AttentionSizes &sizes = first().sizes;
    std::vector<int64_t> query_starts = {0}, key_starts = {0}, key_lens;
    for (const AttentionProblem &sequence : sequences) {
      query_starts.push_back(query_starts.back() + sequence.sizes.query_len);
      key_starts.push_back(key_starts.back() + sequence.sizes.key_len);
      key_lens.push_back(sequence.sizes.key_len);
    }
    const auto count = static_cast<int64_t>(sequences.size());
    tokens_ = query_starts.back();
    query_.emplace(pack(&AttentionProblem::query, tokens_, sizes.heads, sizes.head_dim), layout.query);
    out_ = Tensor<float>({tokens_, sizes.heads, sizes.value_dim});
    log_sum_exp_ = Tensor<float>({tokens_, sizes.heads});
    step_.struct_size = sizeof step_;
    add(&fovea_step::query_starts, {count + 1}, query_starts);
    if (layout.page_size == 0) {
      key_.emplace(pack(&AttentionProblem::key, key_starts.back(), sizes.kv_heads, sizes.key_size()), layout.key);
      value_.emplace(pack(&AttentionProblem::value, key_starts.back(), sizes.kv_heads, sizes.value_dim), layout.value);
      add(&fovea_step::key_starts, {count + 1}, key_starts);
      return;
    }
    add(&fovea_step::key_lens, {count}, key_lens);
    lay_out_pages();
    key_.emplace(in_pages(&AttentionProblem::key, sizes.key_size()), layout.key, layout.group);
    value_.emplace(in_pages(&AttentionProblem::value, sizes.value_dim), layout.value, layout.group);
  }
  Ragged(const Ragged &) = delete;
  Ragged &operator=(const Ragged &) = delete;

  const AttentionProblem &first() const { return sequences_.front(); }
  const fovea_step &step() const { return step_; }
  const std::vector<std::vector<int64_t>> &pages() const { return pages_; }
  fovea_tensor keys() const { return key_->view(); }
  fovea_tensor values() const { return value_->view(); }
  int64_t tokens() const { return tokens_; }

  // The arguments of a schedule for this step; data is not there.
  struct Arguments {
    fovea_tensor query, key, value, out, log_sum_exp, alibi_slopes, sinks, key_scales, value_scales;
    fovea_attention_options options{};
    fovea_schedule_limits limits{};
    std::optional<ScoreArguments> score;
  };
  std::unique_ptr<Arguments> arguments() const {
    auto made = std::make_unique<Arguments>();
    const auto described = [&](fovea_tensor tensor) {
      tensor.data = nullptr;
      return tensor;
    };
    made->query = described(query_->view());
    made->key = described(key_->view());
    made->value = described(value_->view());
    made->out = described(out_.view());
    made->log_sum_exp = described(log_sum_exp_.view());
    for (fovea_tensor *tensor : {&made->query, &made->out, &made->log_sum_exp}) tensor->shape[0] += layout_.spare;
    if (layout_.page_size == 0) {
      for (fovea_tensor *tensor : {&made->key, &made->value}) tensor->shape[0] += layout_.spare;
    }
    fovea_attention_options &options = made->options;
    options.struct_size = sizeof options;
    options.flags = first().flags;
    options.empty_rows = first().empty_rows;
    options.scale = first().scale;
    options.softcap = first().softcap;
    options.query_offset = first().query_offset;
    options.window_left = first().window_left;
    options.window_right = first().window_right;
    options.log_sum_exp = &made->log_sum_exp;
    const auto add_heads = [&](const std::optional<Tensor<float>> &from, fovea_tensor *to) -> const fovea_tensor * {
      if (!from) return nullptr;
      *to = described(from->view());
      return to;
    };
    options.alibi_slopes = add_heads(first().alibi_slopes, &made->alibi_slopes);
    options.sinks = add_heads(first().sinks, &made->sinks);
    const auto add_scales = [&](const RaggedRows &rows, fovea_tensor *to) -> const fovea_tensor * {
      if (!rows.scales()) return nullptr;
      *to = described(*rows.scales());
      return to;
    };
    options.key_scales = add_scales(*key_, &made->key_scales);
    options.value_scales = add_scales(*value_, &made->value_scales);
    if (first().score) made->score.emplace(*first().score);
    made->limits.struct_size = sizeof made->limits;
    made->limits.sequences = std::max<int64_t>(1, static_cast<int64_t>(sequences_.size())) + layout_.spare;
    made->limits.page_ids = layout_.page_size == 0 ? 0 : std::max<int64_t>(1, used_) + layout_.spare;
    made->limits.workers = layout_.workers;
    return made;
  }

  fovea_status create(const fovea_context *context, OwnSchedule *schedule) const {
    const std::unique_ptr<Arguments> given = arguments();
    fovea_schedule *made = nullptr;
    const fovea_status status =
        fovea_schedule_create(context, given->score ? &given->score->score : nullptr, &given->query, &given->key,
                              &given->value, &given->out, &given->options, &given->limits, &made);
    schedule->reset(made);
    return status;
  }

  fovea_attention_buffers buffers() const {
    fovea_attention_buffers buffers{};
    buffers.struct_size = sizeof buffers;
    buffers.query = query_->view().data;
    buffers.key = key_->view().data;
    buffers.value = value_->view().data;
    buffers.out = out_.data();
    buffers.log_sum_exp = log_sum_exp_.data();
    if (first().alibi_slopes) buffers.alibi_slopes = first().alibi_slopes->data();
    if (first().sinks) buffers.sinks = first().sinks->data();
    if (key_->scales()) buffers.key_scales = key_->scales()->data;
    if (value_->scales()) buffers.value_scales = value_->scales()->data;
    if (first().score) ScoreArguments(*first().score).set_data(buffers);
    return buffers;
  }

  // All of it on a context.
  void run(const fovea_context *context) const {
    OwnSchedule schedule;
    REQUIRE_OK(create(context, &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &step_));
    run(schedule.get());
  }
  void run(const fovea_schedule *schedule) const {
    const GuardedMemory workspace(fovea_schedule_workspace_size(schedule));
    const fovea_attention_buffers its = buffers();
    REQUIRE_OK(fovea_schedule_run(schedule, &its, workspace.data(), workspace.size()));
  }

  // What a sequence got, as its own problem has it.
  AttentionResult result(size_t sequence) const {
    const AttentionProblem &problem = sequences_[sequence];
    AttentionResult result = problem.make_result(false);
    int64_t start = 0;
    for (size_t s = 0; s < sequence; ++s) start += sequences_[s].sizes.query_len;
    for (int64_t h = 0; h < problem.sizes.heads; ++h) {
      for (int64_t i = 0; i < problem.sizes.query_len; ++i) {
        if (result.log_sum_exp) (*result.log_sum_exp)(0, h, i) = log_sum_exp_(start + i, h);
        for (int64_t d = 0; d < problem.sizes.value_dim; ++d) result.out(0, h, i, d) = out_(start + i, h, d);
      }
    }
    return result;
  }

  std::vector<float> out() const { return out_.dense(); }
  std::vector<float> log_sum_exp() const { return log_sum_exp_.dense(); }
  bool untouched() const { return out_.untouched() && log_sum_exp_.untouched(); }

 private:
  void add(const fovea_tensor *fovea_step::*member, Shape shape, const std::vector<int64_t> &values) {
    integers_.push_back(std::make_unique<Integers>(std::move(shape), values, layout_.wide));
    step_.*member = integers_.back()->view();
  }

  static void copy_row(int64_t dim, const float *from, int64_t from_stride, float *to, int64_t to_stride) {
    for (int64_t d = 0; d < dim; ++d) to[d * to_stride] = from[d * from_stride];
  }

  Tensor<float> pack(Tensor<float> AttentionProblem::*rows, int64_t length, int64_t heads, int64_t dim) const {
    Tensor<float> packed({length, heads, dim});
    int64_t start = 0;
    for (const AttentionProblem &sequence : sequences_) {
      const Tensor<float> &its = sequence.*rows;
      const int64_t count = its.shape()[2];
      for_each_index({heads, count}, [&](const Shape &at) {
        copy_row(dim, &its(0, at[0], at[1], 0), its.strides().back(), &packed(start + at[1], at[0], 0), 1);
      });
      start += count;
    }
    return packed;
  }

  void lay_out_pages() {
    const int64_t size = layout_.page_size;
    int64_t most = 0;
    for (const AttentionProblem &sequence : sequences_) {
      const int64_t count = (sequence.sizes.key_len + size - 1) / size;
      used_ += count;
      most = std::max(most, count);
    }
    page_count_ = used_ + 2;
    std::vector<int64_t> order(static_cast<size_t>(page_count_));
    std::iota(order.begin(), order.end(), int64_t{0});
    Random random(layout_.seed);
    for (size_t n = order.size(); n > 1; --n) {
      std::swap(order[n - 1], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(n) - 1))]);
    }
    size_t next = 0;
    std::vector<int64_t> table, listed, starts = {0};
    for (const AttentionProblem &sequence : sequences_) {
      std::vector<int64_t> its;
      for (int64_t n = 0; n < (sequence.sizes.key_len + size - 1) / size; ++n) its.push_back(order[next++]);
      pages_.push_back(its);
      listed.insert(listed.end(), its.begin(), its.end());
      starts.push_back(static_cast<int64_t>(listed.size()));
      its.resize(static_cast<size_t>(most), -7);  // not to be looked at
      table.insert(table.end(), its.begin(), its.end());
    }
    if (layout_.starts) {
      add(&fovea_step::page_ids, {static_cast<int64_t>(listed.size())}, listed);
      add(&fovea_step::page_starts, {static_cast<int64_t>(starts.size())}, starts);
    } else {
      add(&fovea_step::page_ids, {static_cast<int64_t>(sequences_.size()), most}, table);
    }
  }

  // What no sequence has is no number.
  Tensor<float> in_pages(Tensor<float> AttentionProblem::*rows, int64_t dim) const {
    const int64_t size = layout_.page_size;
    const Shape shape = {page_count_, first().sizes.kv_heads, size, dim};
    Tensor<float> pages(shape, permuted_strides(shape, layout_.page_axes, layout_.gap));
    pages.fill([] { return kNan; });
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const Tensor<float> &its = sequences_[s].*rows;
      for_each_index({shape[1], its.shape()[2]}, [&](const Shape &at) {
        float *const row = &pages(pages_[s][static_cast<size_t>(at[1] / size)], at[0], at[1] % size, 0);
        copy_row(dim, &its(0, at[0], at[1], 0), its.strides().back(), row, pages.strides().back());
      });
    }
    return pages;
  }

  std::span<const AttentionProblem> sequences_;
  RaggedLayout layout_;
  int64_t tokens_ = 0, used_ = 0, page_count_ = 0;
  std::vector<std::vector<int64_t>> pages_;
  std::vector<std::unique_ptr<Integers>> integers_;
  fovea_step step_{};
  std::optional<RaggedRows> query_, key_, value_;
  Tensor<float> out_, log_sum_exp_;
};

}  // namespace testing
