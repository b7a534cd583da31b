// One layer's keys and values in a pool, and a schedule over its sequences: what multi-head attention is given step by
// step.
#pragma once

#include <fovea/fovea.h>

#include <numeric>
#include <utility>
#include <vector>

#include "kv_pool.hpp"
#include "multi_head.hpp"
#include "ragged.hpp"

namespace testing {

struct PagedSizes {
  int64_t sequences = 1;
  int64_t tokens = 1;      // the most of a step
  int64_t positions = 1;   // room of each sequence
  int64_t page_size = 16;  // 0: keys are packed, and there is no pool
  fovea_dtype between = FOVEA_F32, kept = FOVEA_F32;
};

// A schedule for layers of these sizes. pages: of the pool's layer, or null.
inline fovea_status create_schedule_for(const fovea_context *context, const MultiHeadSizes &s, const PagedSizes &p,
                                        const fovea_kv_pool *pool, const fovea_attention_options *attention,
                                        OwnSchedule *schedule, const fovea_score *score = nullptr) {
  const auto rows = [&](int64_t heads, int64_t dim) {
    const int64_t shape[] = {p.tokens, heads, dim};
    return fovea_tensor_contiguous(nullptr, p.between, 3, shape);
  };
  const fovea_tensor query = rows(s.heads, s.head_dim), out = rows(s.heads, s.value_dim);
  const fovea_tensor key = pool == nullptr ? rows(s.kv_heads, s.key_size()) : fovea_kv_pool_keys(pool, 0);
  const fovea_tensor value = pool == nullptr ? rows(s.kv_heads, s.value_dim) : fovea_kv_pool_values(pool, 0);
  auto limits = sized_options<fovea_schedule_limits>();
  limits.sequences = p.sequences;
  fovea_schedule *made = nullptr;
  const fovea_status status =
      fovea_schedule_create(context, score, &query, &key, &value, &out, attention, &limits, &made);
  schedule->reset(made);
  return status;
}

class PagedLayer {
 public:
  PagedLayer(const fovea_context *context, const MultiHeadSizes &s, const PagedSizes &p,
             const fovea_attention_options *attention = nullptr)
      : sizes_(p) {
    if (p.page_size > 0) {
      const int64_t pages = (p.positions + p.page_size - 1) / p.page_size;
      pool_ = make_pool({.layers = 1,
                         .kv_heads = s.kv_heads,
                         .head_dim = s.key_size(),
                         .value_dim = s.value_dim,
                         .positions = p.sequences * pages * p.page_size,
                         .page_size = p.page_size,
                         .sequences = p.sequences,
                         .key_dtype = p.kept,
                         .value_dtype = p.kept});
      keys_ = fovea_kv_pool_keys(pool_.get(), 0);
      values_ = fovea_kv_pool_values(pool_.get(), 0);
      for (int64_t n = 0; n < p.sequences; ++n) sequences_.push_back(open_sequence(pool_));
    }
    REQUIRE_OK(create_schedule_for(context, s, p, pool_.get(), attention, &schedule_));
  }
  PagedLayer(const PagedLayer &) = delete;
  PagedLayer &operator=(const PagedLayer &) = delete;

  fovea_schedule *schedule() const { return schedule_.get(); }
  const fovea_tensor &keys() const { return keys_; }
  const fovea_tensor &values() const { return values_; }
  const KvPool &pool() const { return pool_; }
  int64_t sequence(size_t s) const { return sequences_[s]; }
  int64_t length(size_t s) const { return fovea_kv_pool_length(pool_.get(), sequences_[s]); }

  // A step in which each sequence brings so many tokens, whose keys it keeps.
  void grow(const std::vector<int64_t> &tokens) {
    fovea_step step = sized_options<fovea_step>();
    if (pool_ != nullptr) {
      REQUIRE_OK(step_status(pool_, sequences_, tokens, &step));
      REQUIRE_OK(fovea_schedule_set(schedule_.get(), &step));
      return;
    }
    const std::vector<int64_t> starts = starts_of(tokens);
    const fovea_tensor view = vector_of(starts);
    step.query_starts = step.key_starts = &view;
    REQUIRE_OK(fovea_schedule_set(schedule_.get(), &step));
  }

  // A step in which each sequence asks what its pages hold.
  void ask(const std::vector<int64_t> &queries) {
    fovea_step step;
    REQUIRE_OK(step_status(pool_, sequences_, std::vector<int64_t>(queries.size(), 0), &step));
    const std::vector<int64_t> starts = starts_of(queries);
    const fovea_tensor view = vector_of(starts);
    step.query_starts = &view;
    REQUIRE_OK(fovea_schedule_set(schedule_.get(), &step));
  }

  // Into a call's options.
  void give(fovea_mha_options *options) const {
    options->schedule = schedule_.get();
    options->key_pages = pool_ == nullptr ? nullptr : &keys_;
    options->value_pages = pool_ == nullptr ? nullptr : &values_;
  }

  // What a sequence's pages hold, [Hkv,length,dim], widened.
  std::vector<float> kept(size_t s, const fovea_tensor &pages) const {
    const std::vector<int64_t> ids = pages_of(pool_, sequences_[s]);
    std::vector<float> numbers;
    for_each_index({pages.shape[1], length(s), pages.shape[3]}, [&](const Shape &at) {
      const int64_t page = ids.at(static_cast<size_t>(at[1] / sizes_.page_size));
      const int64_t offset = page * pages.strides[0] + at[0] * pages.strides[1] +
                             at[1] % sizes_.page_size * pages.strides[2] + at[2] * pages.strides[3];
      numbers.push_back(pages.dtype == FOVEA_F32
                            ? static_cast<const float *>(pages.data)[offset]
                            : widened(static_cast<const uint16_t *>(pages.data)[offset], pages.dtype));
    });
    return numbers;
  }

 private:
  static std::vector<int64_t> starts_of(const std::vector<int64_t> &counts) {
    std::vector<int64_t> starts(counts.size() + 1);
    std::partial_sum(counts.begin(), counts.end(), starts.begin() + 1);
    return starts;
  }

  PagedSizes sizes_;
  KvPool pool_;
  fovea_tensor keys_{}, values_{};
  std::vector<int64_t> sequences_;
  OwnSchedule schedule_;
};

// The positions [first, second) of each sequence of a [B,L,E] tensor.
using Pieces = std::vector<std::pair<int64_t, int64_t>>;

inline Pieces pieces_of(int64_t sequences, int64_t begin, int64_t end) {
  return Pieces(static_cast<size_t>(sequences), {begin, end});
}

inline std::vector<int64_t> counts_of(const Pieces &pieces) {
  std::vector<int64_t> counts;
  for (const auto &[begin, end] : pieces) counts.push_back(end - begin);
  return counts;
}

// Calls visit(sequence, position, token) for each.
template <typename Visit>
void for_each_token(const Pieces &pieces, Visit visit) {
  int64_t token = 0;
  for (size_t s = 0; s < pieces.size(); ++s) {
    for (int64_t i = pieces[s].first; i < pieces[s].second; ++i) visit(static_cast<int64_t>(s), i, token++);
  }
}

// The pieces one behind the other, [T,E].
template <typename T>
Tensor<T> packed_rows(const Tensor<T> &from, const Pieces &pieces) {
  const std::vector<int64_t> counts = counts_of(pieces);
  Tensor<T> rows({std::accumulate(counts.begin(), counts.end(), int64_t{0}), from.shape()[2]});
  for_each_token(pieces, [&](int64_t s, int64_t i, int64_t token) {
    for (int64_t e = 0; e < from.shape()[2]; ++e) rows(token, e) = from(s, i, e);
  });
  return rows;
}

// And back.
inline void unpack_rows(const Tensor<float> &rows, const Pieces &pieces, const Tensor<float> &to) {
  for_each_token(pieces, [&](int64_t s, int64_t i, int64_t token) {
    for (int64_t e = 0; e < to.shape()[2]; ++e) to(s, i, e) = rows(token, e);
  });
}

}  // namespace testing
