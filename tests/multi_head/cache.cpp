// Multi-head attention with a key/value cache: a decoder going step by step, in chunks, over encoder states; what is
// refused leaves the cache as it was.
#include <doctest/doctest.h>

#include "accuracy.hpp"
#include "errors.hpp"
#include "support/kv_cache.hpp"
#include "support/multi_head.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

using Cache = KvCache;

Cache make_cache(const MultiHeadSizes &s, int64_t capacity, fovea_dtype dtype = FOVEA_F32) {
  auto sizes = sized_options<fovea_kv_cache_sizes>();
  sizes.batch = s.batch;
  sizes.kv_heads = s.kv_heads;
  sizes.capacity = capacity;
  sizes.head_dim = s.key_size();
  sizes.value_dim = s.value_dim;
  sizes.dtype = dtype;
  fovea_kv_cache *cache = nullptr;
  REQUIRE_OK(fovea_kv_cache_create(&sizes, &cache));
  return Cache(cache);
}

// Positions [begin, end) of a [B,L,E] tensor.
fovea_tensor part(const Tensor<float> &tensor, int64_t begin, int64_t end) {
  fovea_tensor view = tensor.view();
  view.data = static_cast<float *>(view.data) + begin * view.strides[1];
  view.shape[1] = end - begin;
  return view;
}

MultiHead make_decoder(int64_t length) {
  Random random(base_seed());
  return make_multi_head({.batch = 2,
                          .query_len = length,
                          .query_inputs = 30,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .value_dim = 12,
                          .outputs = 30},
                         Inputs::kOne, random);
}

// What a decoder is asked for: causal, and turned by rotary if wanted.
struct Options {
  explicit Options(bool turns, uint32_t flags = FOVEA_CAUSAL) {
    attention.flags = flags;
    options.attention = &attention;
    if (turns) options.rotary = &rotary;
  }
  Options(const Options &) = delete;
  Options &operator=(const Options &) = delete;

  fovea_attention_options attention = sized_options<fovea_attention_options>();
  fovea_rotary_options rotary = sized_options<fovea_rotary_options>();
  fovea_mha_options options = sized_options<fovea_mha_options>();
};

// The layer over its input in chunks of `step` positions.
void run_in_steps(const fovea_context *context, const MultiHead &layer, const MhaWeights &weights, int64_t step,
                  fovea_mha_options options, const Tensor<float> &out) {
  const int64_t length = layer.sizes.query_len;
  const Cache cache = make_cache(layer.sizes, length);
  options.cache = cache.get();
  for (int64_t begin = 0; begin < length; begin += step) {
    const int64_t end = std::min(begin + step, length);
    const fovea_tensor x = part(layer.query, begin, end), o = part(out, begin, end);
    REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x, nullptr, nullptr, &o, &options));
    CHECK(fovea_kv_cache_length(cache.get()) == end);
  }
}

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("a cache built step by step gives the bits of the full causal call, if queries are to be invariant") {
    const MultiHead layer = make_decoder(70);
    for (bool turns : {false, true}) {
      Options options(turns, uint32_t{FOVEA_CAUSAL} | uint32_t{FOVEA_QUERY_INVARIANT});
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Tensor<float> full = layer.make_out();
        REQUIRE_OK(layer.run(context, weights, full, &options.options));
        for (int64_t step : {1, 3, 64, 70}) {
          CAPTURE(step);
          const Tensor<float> out = layer.make_out();
          run_in_steps(context, layer, weights, step, options.options, out);
          CHECK(same_bits(out, full));
        }
      });
    }
  }

  TEST_CASE("and without that is as accurate as the full call") {
    const MultiHead layer = make_decoder(70);
    reference::MultiHeadInputs in = layer.reference_inputs();
    in.causal = true;
    const auto truth = reference::multi_head<double>(in);
    const auto plain = reference::multi_head<float>(in);
    const Options options(false);
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      for (int64_t step : {1, 3, 64}) {
        const Tensor<float> out = layer.make_out();
        run_in_steps(context, layer, weights, step, options.options, out);
        CHECK_ACCURATE(out.dense(), truth.out, plain.out, rounding_floor(truth));
      }
    });
  }

  TEST_CASE("the cache holds what linear and rotary give") {
    const MultiHead layer = make_decoder(21);
    const MultiHeadSizes &s = layer.sizes;
    for (bool turns : {false, true}) {
      const Options options(turns);
      for_each_isa([&](const fovea_context *context) {
        const MhaWeights weights = layer.make_weights(context);
        const Cache cache = make_cache(s, 21);
        fovea_mha_options with_cache = options.options;
        with_cache.cache = cache.get();
        const Tensor<float> out = layer.make_out(), expected = layer.make_out();
        REQUIRE_OK(layer.run(context, weights, out, &with_cache));
        layer.compose(context, expected, &options.attention, nullptr, turns ? &options.rotary : nullptr);
        CHECK(same_bits(out, expected));
      });
    }
  }

  TEST_CASE("a cache of 16 bits: what a cache of float32 holds, turned first and then rounded once, is attended") {
    const MultiHead layer = make_decoder(21);
    for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
      for (bool turns : {false, true}) {
        Options options(turns);
        for_each_isa([&](const fovea_context *context) {
          const MhaWeights weights = layer.make_weights(context);
          const Cache wide = make_cache(layer.sizes, 21), narrow = make_cache(layer.sizes, 21, dtype);
          const Tensor<float> out = layer.make_out(), expected = layer.make_out();
          const auto run = [&](const Cache &cache, uint32_t flags, int64_t begin, int64_t end,
                               const Tensor<float> &to) {
            const fovea_tensor x = part(layer.query, begin, end), o = part(to, begin, end);
            options.options.cache = cache.get();
            options.options.flags = flags;
            REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x, nullptr, nullptr, &o, &options.options));
          };
          for (int64_t begin : {0, 7, 14}) {
            run(wide, 0, begin, begin + 7, expected);
            run(narrow, 0, begin, begin + 7, out);
          }
          // The float32 cache's numbers, rounded: as bytes, and appended to a cache of float32 of their own.
          const std::vector<float> held = contents(wide);
          std::vector<float> rounded(held.size());
          std::vector<unsigned char> bytes;
          for (size_t n = 0; n < held.size(); ++n) {
            const uint16_t bits = narrowed(held[n], dtype);
            rounded[n] = widened(bits, dtype);
            bytes.push_back(static_cast<unsigned char>(bits & 255));
            bytes.push_back(static_cast<unsigned char>(bits >> 8));
          }
          const std::vector<unsigned char> saved = save(narrow);
          CHECK(std::vector<unsigned char>(saved.begin() + kSavedHeader, saved.end()) == bytes);
          const Cache same = make_cache(layer.sizes, 21);
          const int64_t keys[] = {2, 2, 21, 16}, values[] = {2, 2, 21, 12};
          const fovea_tensor key = fovea_tensor_contiguous(rounded.data(), FOVEA_F32, 4, keys);
          const fovea_tensor value =
              fovea_tensor_contiguous(rounded.data() + size_t{2} * 2 * 21 * 16, FOVEA_F32, 4, values);
          REQUIRE_OK(fovea_kv_cache_append(context, same.get(), &key, &value));
          run(same, FOVEA_MHA_KEEP_CACHE, 14, 21, expected);
          run(narrow, FOVEA_MHA_KEEP_CACHE, 14, 21, out);
          CHECK(std::memcmp(&out.at({1, 14, 0}), &expected.at({1, 14, 0}), 7 * 30 * sizeof(float)) == 0);
          CHECK(std::memcmp(&out.at({0, 14, 0}), &expected.at({0, 14, 0}), 7 * 30 * sizeof(float)) == 0);
        });
      }
    }
  }

  TEST_CASE("encoder states, projected once and attended at every step") {
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 5,
                                             .key_len = 40,
                                             .query_inputs = 30,
                                             .key_inputs = 22,
                                             .heads = 4,
                                             .kv_heads = 4,
                                             .head_dim = 8,
                                             .value_dim = 8,
                                             .outputs = 30},
                                            Inputs::kTwo, random);
    Options options(false, FOVEA_QUERY_INVARIANT);
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      const Tensor<float> expected = layer.make_out(), first = layer.make_out(), out = layer.make_out();
      REQUIRE_OK(layer.run(context, weights, expected, &options.options));
      const Cache cache = make_cache(layer.sizes, 40);
      options.options.cache = cache.get();
      options.options.flags = 0;
      REQUIRE_OK(layer.run(context, weights, first, &options.options));
      CHECK(same_bits(first, expected));
      options.options.flags = FOVEA_MHA_KEEP_CACHE;
      for (int64_t i = 0; i < 5; ++i) {
        const fovea_tensor x = part(layer.query, i, i + 1), o = part(out, i, i + 1);
        REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x, nullptr, nullptr, &o, &options.options));
      }
      CHECK(same_bits(out, expected));
      CHECK(fovea_kv_cache_length(cache.get()) == 40);
      options.options.cache = nullptr;
      options.options.flags = 0;
    });
  }

  TEST_CASE("what is refused leaves cache and output as they were") {
    const MultiHead layer = make_decoder(4);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out();
    const auto refused = [&](MultiHeadSizes sizes, int64_t capacity, fovea_status status,
                             std::initializer_list<std::string> words, auto spoil) {
      const Cache cache = make_cache(sizes, capacity);
      Options options(false);
      options.options.cache = cache.get();
      spoil(options);
      check_refusal(layer.run(nullptr, weights, out, &options.options), status, words);
      CHECK(fovea_kv_cache_length(cache.get()) == 0);
      CHECK(out.untouched());
    };
    const auto nothing = [](Options &) {};
    MultiHeadSizes sizes = layer.sizes;
    refused(sizes, 3, FOVEA_BAD_SHAPE, {"options.cache", "4", "3"}, nothing);
    sizes.batch = 3;
    refused(sizes, 9, FOVEA_BAD_SHAPE, {"options.cache has 3 sequences", "2"}, nothing);
    sizes = layer.sizes;
    sizes.kv_heads = 4;
    refused(sizes, 9, FOVEA_BAD_SHAPE, {"options.cache has 4 heads", "2"}, nothing);
    sizes = layer.sizes;
    sizes.head_dim = 15;
    refused(sizes, 9, FOVEA_BAD_SHAPE, {"options.cache has 15 features in a key", "16"}, nothing);
    sizes = layer.sizes;
    sizes.value_dim = 16;
    refused(sizes, 9, FOVEA_BAD_SHAPE, {"options.cache has 16 features in a value", "12"}, nothing);
    sizes = layer.sizes;
    refused(sizes, 9, FOVEA_BAD_VALUE, {"options.attention: options.softcap"},
            [](Options &o) { o.attention.softcap = -1; });
    refused(sizes, 9, FOVEA_BAD_VALUE, {"options.rotary", "position_scale"}, [](Options &o) {
      o.options.rotary = &o.rotary;
      o.rotary.position_scale = kInfinity;
    });
  }

  TEST_CASE("a cache that is kept takes no keys") {
    const MultiHead layer = make_decoder(4);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out();
    const Cache cache = make_cache(layer.sizes, 9);
    Options options(false);
    options.options.cache = cache.get();
    options.options.flags = FOVEA_MHA_KEEP_CACHE;
    const fovea_tensor x = layer.query.view(), o = out.view();
    for (int n : {0, 1}) {
      const fovea_status status = fovea_multi_head_attention(nullptr, weights.get(), &x, n == 0 ? &x : nullptr,
                                                             n == 1 ? &x : nullptr, &o, &options.options);
      check_refusal(status, FOVEA_BAD_VALUE, {n == 0 ? "key" : "value", "FOVEA_MHA_KEEP_CACHE"});
    }
    CHECK(out.untouched());
  }
}
