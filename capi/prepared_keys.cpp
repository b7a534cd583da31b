// The C functions of prepared keys.
#include "ops/attention/prepared_keys.hpp"

#include "guard.hpp"
#include "ops/attention/attention.hpp"

using namespace fovea;

fovea_status fovea_prepared_keys_create(const fovea_context *context, const fovea_score *score,
                                        const fovea_prepared_keys_sizes *sizes, fovea_prepared_keys **keys) {
  return guarded([&] { return create_prepared_keys(context, score, sizes, keys); });
}

fovea_status fovea_prepared_keys_append(const fovea_context *context, fovea_prepared_keys *keys,
                                        const fovea_tensor *key) {
  return guarded([&] { return append_prepared_keys(context, keys, key); });
}

fovea_status fovea_prepared_keys_truncate(fovea_prepared_keys *keys, int64_t length) {
  return guarded([&] { return truncate_prepared_keys(keys, length); });
}

int64_t fovea_prepared_keys_length(const fovea_prepared_keys *keys) { return keys == nullptr ? 0 : keys->length; }

size_t fovea_prepared_keys_size(const fovea_prepared_keys *keys) { return keys == nullptr ? 0 : keys->size; }

void fovea_prepared_keys_destroy(fovea_prepared_keys *keys) { delete keys; }

namespace {

// That the keys are there has to be asked here: further on their absence means a call with a key tensor.
template <class Use>
fovea_status with_keys(const fovea_prepared_keys *keys, const Use &use) {
  return guarded([&]() -> Status {
    FOVEA_CHECK(expect_given(keys, "keys", "prepared keys"));
    return use();
  });
}

}  // namespace

fovea_status fovea_attention_prepared(const fovea_context *context, const fovea_tensor *query,
                                      const fovea_prepared_keys *keys, const fovea_tensor *value,
                                      const fovea_tensor *out, const fovea_attention_options *options) {
  return with_keys(keys, [&] { return attend(context, {nullptr, query, nullptr, keys, value, out, options}); });
}

fovea_status fovea_attention_prepared_plan_create(const fovea_context *context, const fovea_tensor *query,
                                                  const fovea_prepared_keys *keys, const fovea_tensor *value,
                                                  const fovea_tensor *out, const fovea_attention_options *options,
                                                  fovea_plan **plan) {
  return with_keys(keys, [&] {
    return make_attention_plan(context, {nullptr, query, nullptr, keys, value, out, options}, plan);
  });
}
