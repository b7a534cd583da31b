#include "ops/attention/prepared_check.hpp"

#include <cinttypes>

#include "ops/tensors/lift.hpp"
#include "runtime/dispatch.hpp"

namespace fovea {
namespace {

// Stands in for the key tensor of a call whose keys were prepared, so that its checks need no case of their own.
fovea_tensor describe_prepared(const fovea_prepared_keys &keys, int32_t rank) {
  const int64_t shape[] = {keys.batch, keys.kv_heads, keys.length, keys.key_dim};
  if (rank == 3) {
    const int64_t one_head[] = {keys.batch, keys.length, keys.key_dim};
    return contiguous_tensor(nullptr, FOVEA_F32, 3, one_head);
  }
  return contiguous_tensor(nullptr, FOVEA_F32, rank, rank == 2 ? shape + 2 : shape);
}

Status check_sizes(const fovea_prepared_keys_sizes &sizes) {
  const struct {
    const char *name;
    int64_t value, least, most;
  } numbers[] = {{"batch", sizes.batch, 0, largest_length},
                 {"kv_heads", sizes.kv_heads, 1, largest_length},
                 {"capacity", sizes.capacity, 0, largest_length},
                 {"query_dim", sizes.query_dim, 1, largest_head_dim},
                 {"key_dim", sizes.key_dim, 1, largest_head_dim}};
  for (const auto &number : numbers) {
    FOVEA_CHECK(check_range("sizes.", number.name, number.value, number.least, number.most));
  }
  if (sizes.reserved == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_OPTION, "sizes.reserved is %d, expected 0", sizes.reserved);
}

Status check_dtype(fovea_dtype dtype, int32_t kind) {
  const bool may_be_narrow = kind == FOVEA_SCORE_BILINEAR;
  if (dtype == FOVEA_F32 || (may_be_narrow && is_number(static_cast<Dtype>(dtype)))) return FOVEA_OK;
  return fail(FOVEA_BAD_DTYPE, "sizes.dtype is %s, expected FOVEA_F32%s", DtypeName(dtype).text,
              may_be_narrow ? or_16_bits : ": hidden units are kept in it");
}

}  // namespace

Status check_prepared_for(const fovea_prepared_keys &keys, const Context &context) {
  if (same_set(*keys.kernels, *context.kernels)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "keys were prepared for %s, expected %s, the context's instruction set",
              keys.kernels->name, context.kernels->name);
}

Status check_prepared_creation(const fovea_score *score, const fovea_prepared_keys_sizes *given,
                               fovea_prepared_keys_sizes *sizes, AttentionCall *call) {
  FOVEA_CHECK(expect_given(given, "sizes", "the sizes of the keys"));
  FOVEA_CHECK(read_options("sizes", given, sizes));
  FOVEA_CHECK(check_sizes(*sizes));
  FOVEA_CHECK(expect_given(score, "score", "a score function with keys to prepare"));
  FOVEA_CHECK(read_score(score, call));
  if (call->score.kind == FOVEA_SCORE_DOT || call->score.kind == FOVEA_SCORE_GAUSSIAN) {
    return fail(FOVEA_BAD_VALUE, "score.kind is %d, expected one with keys to prepare: %d to %d", call->score.kind,
                FOVEA_SCORE_BILINEAR, FOVEA_SCORE_CONCAT);
  }
  if (sizes->dtype == 0) sizes->dtype = FOVEA_F32;
  FOVEA_CHECK(check_dtype(sizes->dtype, call->score.kind));
  FOVEA_CHECK(check_score(*call, {.head_dim = sizes->query_dim, .key_dim = sizes->key_dim}));
  return check_operand_data(*call, first_score_operand, last_score_operand);
}

Status check_new_keys(const fovea_prepared_keys &keys, const fovea_tensor *key) {
  const TensorRule rule = {.name = "key", .min_rank = 2, .max_rank = 4, .narrow = true};
  FOVEA_CHECK(check_tensor(key, rule));
  const fovea_tensor lifted = lift_heads(*key);
  constexpr const char *as_created = "as the keys were created";
  FOVEA_CHECK(expect_sizes({{"key", "batch entries", lifted.shape[0], keys.batch, as_created},
                            {"key", "heads", lifted.shape[1], keys.kv_heads, as_created},
                            {"key", "features", lifted.shape[3], keys.key_dim, as_created}}));
  if (lifted.shape[2] > keys.capacity - keys.length) {
    return fail(FOVEA_BAD_SHAPE,
                "key has %" PRId64 " positions, expected at most %" PRId64 " (what is left of %" PRId64 ")",
                lifted.shape[2], keys.capacity - keys.length, keys.capacity);
  }
  return FOVEA_OK;
}

Status read_prepared_keys(const Context &context, const AttentionArguments &arguments, AttentionCall *call) {
  const fovea_prepared_keys &keys = *arguments.prepared;
  FOVEA_CHECK(check_prepared_for(keys, context));
  call->prepared = &keys;
  call->score.kind = keys.kind;
  const fovea_tensor *query = arguments.query;
  if (query == nullptr || query->rank < 2 || query->rank > 4) return FOVEA_OK;  // is refused later
  const int32_t rank = query->rank;
  const fovea_tensor key = describe_prepared(keys, rank);
  call->tensor[key_operand] = *TensorArgument(&key);
  if ((rank == 3 && keys.kv_heads != 1) || (rank == 2 && (keys.kv_heads != 1 || keys.batch != 1))) {
    return fail(FOVEA_BAD_RANK,
                "query has rank %d, expected 4: the keys have %" PRId64 " sequences of %" PRId64 " heads", rank,
                keys.batch, keys.kv_heads);
  }
  const int64_t batch = rank == 2 ? 1 : query->shape[0];
  return expect_sizes({{"query", "batch entries", batch, keys.batch, "as the keys were created"}});
}

Status check_prepared_query(const fovea_prepared_keys &keys, const AttentionProblem &problem) {
  return expect_sizes({{"query", "features", problem.sizes.head_dim, keys.query_dim, "as the keys were prepared for"}});
}

}  // namespace fovea
