#include "ops/pool/check.hpp"

#include <cinttypes>

#include "ops/tensors/scaled.hpp"

namespace fovea {
namespace {

constexpr int64_t most_layers = int64_t{1} << 16;
constexpr int64_t most_heads = int64_t{1} << 20;
constexpr int64_t largest_page = int64_t{1} << 20;
constexpr int64_t most_sequences = int64_t{1} << 20;

Status check_element_type(const char *name, fovea_dtype dtype, bool in_four_bits) {
  if (is_number(static_cast<Dtype>(dtype)) || dtype == FOVEA_I8 || (in_four_bits && dtype == FOVEA_U8)) return FOVEA_OK;
  return fail(FOVEA_BAD_DTYPE, "sizes.%s is %s, expected %sFOVEA_I8, FOVEA_F32%s", name, DtypeName(dtype).text,
              in_four_bits ? "FOVEA_U8, " : "", or_16_bits);
}

// Groups are whole registers of bytes, of whatever has 8 bits, and whole blocks of what has 4.
Status check_scale_group(const fovea_kv_pool_sizes &sizes) {
  const int64_t group = sizes.scale_group;
  if (group == 0) return FOVEA_OK;
  const auto fits = [&](fovea_dtype dtype, int64_t dim) {
    return !is_scaled_type(dtype) || (group > 0 && group % group_step(dtype) == 0 && dim % group == 0);
  };
  const bool has_fours = sizes.value_dtype == FOVEA_U8;
  const bool has_bytes = sizes.key_dtype == FOVEA_I8 || sizes.value_dtype == FOVEA_I8;
  if ((has_bytes || has_fours) && fits(sizes.key_dtype, sizes.head_dim) && fits(sizes.value_dtype, sizes.value_dim)) {
    return FOVEA_OK;
  }
  return fail(FOVEA_BAD_VALUE, "sizes.scale_group is %" PRId64 ", expected %s", group,
              has_fours   ? "0, or a multiple of 32 that divides the features of what has FOVEA_I8 or FOVEA_U8"
              : has_bytes ? "0, or a multiple of 16 that divides the features of what has FOVEA_I8"
                          : "0 without FOVEA_I8 or FOVEA_U8");
}

// Values of 4 bits are whole blocks.
Status check_value_dim(const fovea_kv_pool_sizes &sizes) {
  if (sizes.value_dtype != FOVEA_U8 || sizes.value_dim % group_step(FOVEA_U8) == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "sizes.value_dim is %" PRId64 ", expected a multiple of 32 for values of FOVEA_U8",
              sizes.value_dim);
}

Status refuse_repeated(const fovea_kv_pool &pool, int64_t at) {
  const std::vector<Growth> &growths = pool.step.growths;
  const int64_t number = growths.back().sequence->number;
  size_t before = 0;
  while (growths[before].sequence->number != number) ++before;
  return fail(FOVEA_BAD_VALUE, "sequences[%" PRId64 "] is %" PRId64 ", as sequences[%zu] is, expected each one once",
              at, number, before);
}

// One sequence of a step.
Status read_growth(fovea_kv_pool *pool, int64_t at, int64_t number, int64_t tokens) {
  Sequence *sequence = pool->sequences.find(number);
  if (sequence == nullptr) {
    return fail(FOVEA_BAD_VALUE, "sequences[%" PRId64 "] is %" PRId64 ", expected the number of an open sequence", at,
                number);
  }
  pool->step.growths.push_back({sequence, tokens, false});
  if (sequence->last_step == pool->step.count) return refuse_repeated(*pool, at);
  sequence->last_step = pool->step.count;
  const int64_t most = largest_length - sequence->length;
  if (tokens >= 0 && tokens <= most) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE,
              "tokens[%" PRId64 "] is %" PRId64 ", expected 0 to %" PRId64 ": sequence %" PRId64 " has %" PRId64
              " positions, and may have 2^30",
              at, tokens, most, number, sequence->length);
}

}  // namespace

Status check_kv_pool(const fovea_kv_pool *pool) { return expect_given(pool, "pool", "a key/value pool"); }

Status check_kv_pool_sizes(const fovea_kv_pool_sizes &sizes) {
  const struct {
    const char *name;
    int64_t value, least, most;
  } numbers[] = {{"layers", sizes.layers, 1, most_layers},          {"kv_heads", sizes.kv_heads, 1, most_heads},
                 {"head_dim", sizes.head_dim, 1, largest_head_dim}, {"value_dim", sizes.value_dim, 1, largest_head_dim},
                 {"positions", sizes.positions, 1, largest_length}, {"page_size", sizes.page_size, 0, largest_page},
                 {"sequences", sizes.sequences, 1, most_sequences}};
  for (const auto &number : numbers) {
    FOVEA_CHECK(check_range("sizes.", number.name, number.value, number.least, number.most));
  }
  FOVEA_CHECK(check_element_type("key_dtype", sizes.key_dtype, false));
  FOVEA_CHECK(check_element_type("value_dtype", sizes.value_dtype, true));
  FOVEA_CHECK(check_value_dim(sizes));
  return check_scale_group(sizes);
}

Status check_sequence(const fovea_kv_pool *pool, int64_t number) {
  FOVEA_CHECK(check_kv_pool(pool));
  if (pool->sequences.find(number) != nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "sequence is %" PRId64 ", expected the number of an open sequence", number);
}

Status check_kept_length(const Sequence &sequence, int64_t length) {
  if (length >= sequence.first && length <= sequence.length) return FOVEA_OK;
  const bool was_dropped = length >= 0 && length < sequence.first;
  return fail(FOVEA_BAD_VALUE, "length is %" PRId64 ", expected %" PRId64 " to %" PRId64 "%s", length, sequence.first,
              sequence.length, was_dropped ? ": earlier positions of the sequence were dropped" : "");
}

Status check_sequence_room(const fovea_kv_pool &pool) {
  if (pool.sequences.open_count() < pool.sequences.most()) return FOVEA_OK;
  return fail(FOVEA_POOL_EXHAUSTED, "pool has %" PRId64 " open sequences, expected fewer: it was made for %" PRId64,
              pool.sequences.open_count(), pool.sequences.most());
}

Status check_page_room(const fovea_kv_pool &pool, const char *user, int64_t needed) {
  if (needed <= pool.pages.free()) return FOVEA_OK;
  return fail(FOVEA_POOL_EXHAUSTED,
              "pool has too few pages: %s needs %" PRId64 ", and %" PRId64 " of %" PRId64 " are free", user, needed,
              pool.pages.free(), pool.pages.count());
}

Status check_step(fovea_kv_pool *pool, const fovea_tensor *sequences, const fovea_tensor *tokens,
                  const fovea_step *step) {
  FOVEA_CHECK(expect_given(step, "step", "where to store the step"));
  FOVEA_CHECK(expect_given(sequences, "sequences", "the numbers of sequences"));
  FOVEA_CHECK(check_integer_tensor(*sequences, "sequences", 1, true));
  FOVEA_CHECK(expect_given(tokens, "tokens", "a number of tokens for each sequence"));
  FOVEA_CHECK(check_integer_tensor(*tokens, "tokens", 1, true));
  const int64_t count = sequences->shape[0];
  FOVEA_CHECK(expect_size_in("sequences", "entries", count, 0, pool->sequences.most()));
  FOVEA_CHECK(check_size(*tokens, "tokens", 0, count, "as many as sequences"));
  pool->step.growths.clear();
  ++pool->step.count;
  for (int64_t s = 0; s < count; ++s) {
    const int64_t number = integer_at(*sequences, s * sequences->strides[0]);
    FOVEA_CHECK(read_growth(pool, s, number, integer_at(*tokens, s * tokens->strides[0])));
  }
  return FOVEA_OK;
}

}  // namespace fovea
