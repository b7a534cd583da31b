// Pools of keys and values, and schedules of attention over many sequences: part of fovea.hpp, which includes this and
// says how the C++ interface differs from the C one; serving.h is the manual.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_SERVING_HPP
#define FOVEA_SERVING_HPP

#include <fovea/layers.hpp>

#include <utility>

namespace fovea {
inline namespace face {

// ---- key/value pools ------------------------------------------------------------------------------------------------

// A sequence of a pool, whose memory stays as long as one of its sequences does: closed when this object goes.
class Sequence {
 public:
  Sequence(Sequence &&other) noexcept = default;
  Sequence &operator=(Sequence &&other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Sequence() {
    if (pool_ != nullptr) static_cast<void>(fovea_kv_pool_close(pool_.get(), number_));
  }

  // A new sequence that begins as this one's first `length` positions; as all of it.
  Sequence fork(std::int64_t length) const {
    std::int64_t forked = 0;
    check(fovea_kv_pool_fork(pool_.get(), number_, length, &forked));
    return {pool_, forked};
  }
  Sequence fork() const { return fork(length()); }

  void truncate(std::int64_t length) { check(fovea_kv_pool_truncate(pool_.get(), number_, length)); }
  void drop(std::int64_t first) { check(fovea_kv_pool_drop(pool_.get(), number_, first)); }
  std::vector<std::byte> save() const {
    std::vector<std::byte> bytes(fovea_kv_pool_saved_size(pool_.get(), number_));
    check(fovea_kv_pool_save(pool_.get(), number_, bytes.data(), bytes.size()));
    return bytes;
  }
  std::int64_t length() const noexcept { return fovea_kv_pool_length(pool_.get(), number_); }
  std::int64_t number() const noexcept { return number_; }  // as the C functions have it

 private:
  friend class KvPool;
  using Pool = std::shared_ptr<fovea_kv_pool>;
  Sequence(Pool pool, std::int64_t number) noexcept : pool_(std::move(pool)), number_(number) {}
  Pool pool_;
  std::int64_t number_;
};

class KvPool {
 public:
  struct Sizes {
    std::int64_t layers = 1;
    std::int64_t kv_heads = 1;
    std::int64_t head_dim = 0;
    std::int64_t value_dim = 0;  // 0: head_dim
    std::int64_t positions = 0;
    std::int64_t page_size = 0;  // 0: the pool's choice
    std::int64_t sequences = 1;
    fovea_dtype key_dtype = FOVEA_F32;
    fovea_dtype value_dtype = 0;  // 0: key_dtype
    std::int64_t scale_group = 0;
  };
  struct Growth {
    const Sequence *sequence;
    std::int64_t tokens;
  };

  explicit KvPool(const Sizes &sizes) {
    auto c = detail::sized<fovea_kv_pool_sizes>();
    c.layers = sizes.layers;
    c.kv_heads = sizes.kv_heads;
    c.head_dim = sizes.head_dim;
    c.value_dim = sizes.value_dim;
    c.positions = sizes.positions;
    c.page_size = sizes.page_size;
    c.sequences = sizes.sequences;
    c.key_dtype = sizes.key_dtype;
    c.value_dtype = sizes.value_dtype;
    c.scale_group = sizes.scale_group;
    fovea_kv_pool *created = nullptr;
    check(fovea_kv_pool_create(&c, &created));
    pool_.reset(created, fovea_kv_pool_destroy);
  }
  KvPool(KvPool &&) noexcept = default;
  KvPool &operator=(KvPool &&) noexcept = default;

  Sequence open() {
    std::int64_t number = 0;
    check(fovea_kv_pool_open(get(), &number));
    return {pool_, number};
  }
  // From what a sequence's save() gave.
  Sequence restore(std::span<const std::byte> bytes) {
    std::int64_t number = 0;
    check(fovea_kv_pool_restore(get(), bytes.data(), bytes.size(), &number));
    return {pool_, number};
  }

  // For Schedule::set; its tensors are valid until the next call that changes the pool.
  fovea_step step(const std::vector<Growth> &growths, const Context &context = {}) {
    std::vector<std::int64_t> sequences, tokens;
    for (const Growth &growth : growths) {
      sequences.push_back(growth.sequence->number());
      tokens.push_back(growth.tokens);
    }
    return step(Tensor<const std::int64_t>(sequences), Tensor<const std::int64_t>(tokens), context);
  }
  fovea_step step(const Integers &sequences, const Integers &tokens, const Context &context = {}) {
    fovea_step made{};
    check(fovea_kv_pool_step(context.get(), get(), detail::get(sequences), detail::get(tokens), &made));
    return made;
  }

  // None for a layer out of range; scales: for a type without.
  Output keys(std::int64_t layer) const { return Output::of(fovea_kv_pool_keys(get(), layer)); }
  Output values(std::int64_t layer) const { return Output::of(fovea_kv_pool_values(get(), layer)); }
  Output key_scales(std::int64_t layer) const { return Output::of(fovea_kv_pool_key_scales(get(), layer)); }
  Output value_scales(std::int64_t layer) const { return Output::of(fovea_kv_pool_value_scales(get(), layer)); }

  std::int64_t free_pages() const noexcept { return fovea_kv_pool_free_pages(get()); }
  std::size_t size_bytes() const noexcept { return fovea_kv_pool_size(get()); }
  fovea_kv_pool *get() const noexcept { return pool_.get(); }

 private:
  Sequence::Pool pool_;
};

// ---- schedules ------------------------------------------------------------------------------------------------------

// A step that no pool describes.
struct Step {
  Integers query_starts = {};
  Integers key_starts = {};
  Integers key_lens = {};
  Integers page_ids = {};
  Integers page_starts = {};
  Tensor<const std::int64_t> tree = {};

  // For the C functions. Points into this object.
  fovea_step c_step() const noexcept {
    auto c = detail::sized<fovea_step>();
    c.query_starts = detail::get(query_starts);
    c.key_starts = detail::get(key_starts);
    c.key_lens = detail::get(key_lens);
    c.page_ids = detail::get(page_ids);
    c.page_starts = detail::get(page_starts);
    c.tree = tree.get();
    return c;
  }
};

struct AppendOptions {
  std::optional<RotaryOptions> rotary = {};
  Output key_scales = {};
  Output value_scales = {};
};

// The context it was made with must outlive it.
class Schedule {
 public:
  struct Limits {
    std::int64_t sequences = 1;
    std::int64_t key_len = 0;   // 0: as many as key has
    std::int64_t page_ids = 0;  // 0: see serving.h
    std::int64_t workers = 0;   // 0: the context's threads
  };

  Schedule(const Input &query, const Input &key, const Input &value, const Output &out, const Limits &limits,
           const AttentionOptions &options = {}, const Context &context = {})
      : Schedule(nullptr, query, key, value, out, limits, options, context) {}
  Schedule(const Score &score, const Input &query, const Input &key, const Input &value, const Output &out,
           const Limits &limits, const AttentionOptions &options = {}, const Context &context = {})
      : Schedule(&score, query, key, value, out, limits, options, context) {}

  void set(const fovea_step &step) { check(fovea_schedule_set(get(), &step)); }
  void set(const Step &step) { set(step.c_step()); }

  // Valid until the next step is set.
  Tensor<const std::int32_t> positions() const {
    const fovea_tensor c = fovea_schedule_positions(get());
    if (c.rank < 0) return {};
    return Tensor<const std::int32_t>::at(static_cast<const std::int32_t *>(c.data), {c.shape[0]});
  }
  std::size_t workspace_size() const noexcept { return fovea_schedule_workspace_size(get()); }
  std::string describe() const {
    std::string text(fovea_schedule_describe(get(), nullptr, 0), '\0');
    fovea_schedule_describe(get(), text.data(), text.size() + 1);
    return text;
  }

  // Allocates nothing. workspace: workspace_size() bytes, not shared with a run at the same time; none: the context's.
  void run(const AttentionBuffers &buffers, std::span<std::byte> workspace = {}) const {
    check(fovea_schedule_run(get(), &buffers, workspace.data(), workspace.size()));
  }
  std::int64_t phases() const noexcept { return fovea_schedule_phases(get()); }
  std::int64_t tasks(std::int64_t phase) const noexcept { return fovea_schedule_tasks(get(), phase); }
  void run_tasks(const AttentionBuffers &buffers, std::span<std::byte> workspace, std::int64_t phase,
                 std::int64_t begin, std::int64_t end, std::int64_t worker) const {
    check(fovea_schedule_run_tasks(get(), &buffers, workspace.data(), workspace.size(), phase, begin, end, worker));
  }

  void append(const Input &key, const Input &value, const Output &key_pages, const Output &value_pages,
              const AppendOptions &options = {}) const {
    fovea_rotary_options rotary{};
    auto c = detail::sized<fovea_append_options>();
    if (options.rotary) {
      rotary = options.rotary->c_options();
      c.rotary = &rotary;
    }
    c.key_scales = options.key_scales.get();
    c.value_scales = options.value_scales.get();
    check(fovea_schedule_append(get(), key.get(), value.get(), key_pages.get(), value_pages.get(), &c));
  }

  fovea_schedule *get() const noexcept { return schedule_.get(); }

 private:
  Schedule(const Score *score, const Input &query, const Input &key, const Input &value, const Output &out,
           const Limits &limits, const AttentionOptions &options, const Context &context) {
    const fovea_score s = score == nullptr ? fovea_score{} : detail::c_score(*score);
    const fovea_attention_options o = options.c_options();
    auto c = detail::sized<fovea_schedule_limits>();
    c.sequences = limits.sequences;
    c.key_len = limits.key_len;
    c.page_ids = limits.page_ids;
    c.workers = limits.workers;
    fovea_schedule *created = nullptr;
    check(fovea_schedule_create(context.get(), score == nullptr ? nullptr : &s, query.get(), key.get(), value.get(),
                                out.get(), &o, &c, &created));
    schedule_.reset(created);
  }

  detail::Owner<fovea_schedule, fovea_schedule_destroy> schedule_;
};

namespace detail {

inline const fovea_schedule *c_schedule(const Schedule *schedule) noexcept {
  return schedule == nullptr ? nullptr : schedule->get();
}

}  // namespace detail

}  // namespace face
}  // namespace fovea

#endif  // FOVEA_SERVING_HPP
