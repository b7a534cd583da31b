#include "ops/cache/check.hpp"

#include <cinttypes>

#include "ops/attention/call.hpp"
#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

constexpr const char *as_created = "as the cache was created";

}  // namespace

Status check_kv_cache(const fovea_kv_cache *cache) { return expect_given(cache, "cache", "a key/value cache"); }

Status check_room(const fovea_kv_cache &cache, int64_t count) {
  const int64_t left = cache.capacity - cache.length;
  if (count <= left) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE,
              "key has %" PRId64 " positions, expected at most %" PRId64 " (what is left of the cache's %" PRId64 ")",
              count, left, cache.capacity);
}

Status check_kv_cache_sizes(const char *where, const fovea_kv_cache_sizes &sizes) {
  const struct {
    const char *name;
    int64_t value, least, most;
  } numbers[] = {{"batch", sizes.batch, 0, largest_length},
                 {"kv_heads", sizes.kv_heads, 1, largest_length},
                 {"capacity", sizes.capacity, 0, largest_length},
                 {"head_dim", sizes.head_dim, 1, largest_head_dim},
                 {"value_dim", sizes.value_dim, 1, largest_head_dim}};
  for (const auto &number : numbers) {
    FOVEA_CHECK(check_range(where, number.name, number.value, number.least, number.most));
  }
  if (!is_number(static_cast<Dtype>(sizes.dtype))) {
    return fail(FOVEA_BAD_DTYPE, "%sdtype is %s, expected FOVEA_F32%s", where, DtypeName(sizes.dtype).text, or_16_bits);
  }
  if (sizes.reserved == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_OPTION, "%sreserved is %d, expected 0", where, sizes.reserved);
}

Status check_new_rows(const fovea_kv_cache &cache, const fovea_tensor *key, const fovea_tensor *value) {
  FOVEA_CHECK(check_tensor(key, {.name = "key", .min_rank = 2, .max_rank = 4, .narrow = true}));
  const TensorRule value_rule = {.name = "value", .min_rank = key->rank, .max_rank = key->rank, .narrow = true};
  FOVEA_CHECK(check_tensor(value, value_rule));
  const fovea_tensor keys = lift_heads(*key);
  const fovea_tensor values = lift_heads(*value);
  FOVEA_CHECK(expect_sizes({{"key", "batch entries", keys.shape[0], cache.batch, as_created},
                            {"key", "heads", keys.shape[1], cache.kv_heads, as_created},
                            {"key", "features", keys.shape[3], cache.head_dim, as_created},
                            {"value", "batch entries", values.shape[0], cache.batch, as_created},
                            {"value", "heads", values.shape[1], cache.kv_heads, as_created},
                            {"value", "positions", values.shape[2], keys.shape[2], "as key"},
                            {"value", "features", values.shape[3], cache.value_dim, as_created}}));
  return check_room(cache, keys.shape[2]);
}

Status check_cache_query(const fovea_kv_cache &cache, const fovea_score *score, const fovea_tensor *query) {
  AttentionCall call = {};
  FOVEA_CHECK(read_score(score, &call));
  if (query == nullptr || query->rank < 2 || query->rank > 4) return FOVEA_OK;
  if ((query->rank == 3 && cache.kv_heads != 1) || (query->rank == 2 && (cache.kv_heads != 1 || cache.batch != 1))) {
    return fail(FOVEA_BAD_RANK,
                "query has rank %d, expected 4: the cache has %" PRId64 " sequences of %" PRId64 " heads", query->rank,
                cache.batch, cache.kv_heads);
  }
  const bool one_dim = call.score.kind == FOVEA_SCORE_DOT || call.score.kind == FOVEA_SCORE_GAUSSIAN;
  const fovea_tensor lifted = lift_heads(*query);
  return expect_sizes({{"query", "batch entries", lifted.shape[0], cache.batch, as_created},
                       {"query", "features", one_dim ? lifted.shape[3] : cache.head_dim, cache.head_dim, as_created}});
}

Status check_source(const fovea_kv_cache &cache, const fovea_tensor *source) {
  FOVEA_CHECK(expect_given(source, "source", "a sequence number per sequence"));
  FOVEA_CHECK(check_integer_tensor(*source, "source", 1, true));
  FOVEA_CHECK(check_size(*source, "source", 0, cache.batch, "the cache's batch entries"));
  if (cache.batch == 0 || cache.length == 0) return FOVEA_OK;
  return check_integers(*source, "source", cache.batch - 1, "", nullptr);
}

}  // namespace fovea
