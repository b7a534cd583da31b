// Caches of each element type, keys and values of each appended to them. What is kept is bit by bit what was given where
// the types are the same, else rounded once; and attention over it has the bits of tensors that hold what is kept.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <optional>

#include "errors.hpp"
#include "support/kv_cache.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

constexpr fovea_dtype kTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

size_t size_of(fovea_dtype dtype) { return dtype == FOVEA_F32 ? 4 : 2; }

// Elements of one type, contiguous.
struct Elements {
  fovea_dtype dtype;
  std::vector<unsigned char> bytes;

  explicit Elements(fovea_dtype type) : dtype(type) {}
  Elements(const std::vector<float> &numbers, fovea_dtype type) : dtype(type) {
    for (float number : numbers) add(number);
  }
  size_t count() const { return bytes.size() / size_of(dtype); }
  void add_bits(uint32_t bits) {
    for (size_t n = 0; n < size_of(dtype); ++n) bytes.push_back(static_cast<unsigned char>(bits >> (8 * n)));
  }
  void add(float number) {
    add_bits(dtype == FOVEA_F32 ? std::bit_cast<uint32_t>(number) : uint32_t{narrowed(number, dtype)});
  }
  uint32_t bits(size_t at) const {
    uint32_t bits = 0;
    for (size_t n = 0; n < size_of(dtype); ++n) bits |= uint32_t{bytes[at * size_of(dtype) + n]} << (8 * n);
    return bits;
  }
  float number(size_t at) const {
    return dtype == FOVEA_F32 ? std::bit_cast<float>(bits(at)) : widened(static_cast<uint16_t>(bits(at)), dtype);
  }
  fovea_tensor view(std::initializer_list<int64_t> shape) const {
    return fovea_tensor_contiguous(bytes.data(), dtype, static_cast<int32_t>(shape.size()), shape.begin());
  }
};

// Numbers that are hard to round: halfway between two of 16 bits and beside that, the largest and what is past them,
// subnormal ones, infinities, NaN; and random bits.
std::vector<float> hard_numbers(size_t count) {
  std::vector<float> numbers = {0.0f,      -0.0f,       kInfinity, -kInfinity, kNan,       65504.0f,      65519.9f,
                                65520.0f,  65536.0f,    0x1p-24f,  0x1p-25f,   0x1.8p-25f, 0x1.8p-24f,    0x1p-133f,
                                0x1p-134f, 0x1.8p-134f, 0x1p-149f, 3.3895e38f, 3.39e38f,   -3.4028234e38f};
  for (int step = 0; numbers.size() + 6 < count / 2; ++step) {
    for (const uint32_t half : {0x1000u, 0x8000u}) {  // of float16's last place, of bfloat16's
      const uint32_t middle = 0x3f800000u + static_cast<uint32_t>(step) * 2 * half + half;
      for (const uint32_t bits : {middle - 1, middle, middle + 1}) numbers.push_back(std::bit_cast<float>(bits));
    }
  }
  for (uint32_t bits = 1; numbers.size() < count;)
    numbers.push_back(std::bit_cast<float>(bits = bits * 2654435761u + 7));
  return numbers;
}

fovea_kv_cache *create(int64_t batch, int64_t heads, int64_t capacity, int64_t dim, fovea_dtype dtype) {
  const fovea_kv_cache_sizes sizes = {sizeof sizes, batch, heads, capacity, dim, 0, dtype, 0};
  fovea_kv_cache *cache = nullptr;
  REQUIRE_OK(fovea_kv_cache_create(&sizes, &cache));
  return cache;
}

// Where what is kept is not what was given, rounded once.
int64_t wrongly_kept(const Elements &given, const Elements &kept) {
  int64_t wrong = 0;
  for (size_t at = 0; at < given.count(); ++at) {
    const float number = given.number(at);
    if (given.dtype == kept.dtype) {
      wrong += given.bits(at) != kept.bits(at);
    } else if (std::isnan(number)) {
      wrong += !std::isnan(kept.number(at));
    } else {
      wrong +=
          kept.bits(at) != (kept.dtype == FOVEA_F32 ? std::bit_cast<uint32_t>(number) : narrowed(number, kept.dtype));
    }
  }
  return wrong;
}

// The payload of a saved cache: its keys, or its values.
Elements saved_half(const KvCache &cache, fovea_dtype dtype, size_t count, bool values) {
  const std::vector<unsigned char> bytes = save(cache);
  Elements half(dtype);
  const auto begin = bytes.begin() + static_cast<int64_t>(kSavedHeader + (values ? count * size_of(dtype) : 0));
  half.bytes.assign(begin, begin + static_cast<int64_t>(count * size_of(dtype)));
  return half;
}

Tensor<float> rounded(const Tensor<float> &from, fovea_dtype dtype) {
  Tensor<float> to(from.shape(), from.strides());
  for_each_index(from.shape(), [&](const Shape &index) { to.at(index) = rounded_to(from.at(index), dtype); });
  return to;
}

fovea_tensor positions(fovea_tensor part, int64_t begin, int64_t end) {
  const int axis = part.rank - 2;
  part.data = static_cast<char *>(part.data) + begin * part.strides[axis] * static_cast<int64_t>(size_of(part.dtype));
  part.shape[axis] = end - begin;
  return part;
}

// A tensor in any type.
struct Typed {
  Tensor<float> floats;
  std::optional<NarrowTensor> narrow;

  Typed(const Tensor<float> &from, fovea_dtype dtype) : floats(rounded(from, dtype)) {
    if (dtype != FOVEA_F32) narrow.emplace(from, dtype);
  }
  fovea_tensor view() const { return narrow ? narrow->view() : floats.view(); }
};

// Attention over a cache of `kept`, filled in steps with keys and values of the types given, against tensors of `kept`.
void check_attention_over(const AttentionProblem &problem, fovea_dtype kept, fovea_dtype key_type,
                          fovea_dtype value_type, fovea_dtype query_type, fovea_dtype out_type) {
  CAPTURE(problem.describe());
  CAPTURE(kept);
  CAPTURE(key_type);
  CAPTURE(value_type);
  CAPTURE(query_type);
  CAPTURE(out_type);
  const int64_t key_len = problem.sizes.key_len;
  const Typed key(problem.key, key_type), value(problem.value, value_type), query(problem.query, query_type);
  const Typed kept_key(key.floats, kept), kept_value(value.floats, kept);
  for_each_isa([&](const fovea_context *context) {
    const KvCache cache = make_cache(problem, key_len + 3, kept);
    for (int64_t begin = 0; begin < key_len; begin += 19) {
      const int64_t end = std::min(begin + 19, key_len);
      const fovea_tensor k = positions(key.view(), begin, end), v = positions(value.view(), begin, end);
      REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &k, &v));
    }
    const AttentionResult result = problem.make_result(false), truth = problem.make_result(false);
    AttentionArguments call(problem, result), expected(problem, truth);
    Typed out(result.out, out_type), expected_out(truth.out, out_type);
    call.query = expected.query = query.view();
    call.out = out.view();
    expected.out = expected_out.view();
    expected.key = kept_key.view();
    expected.value = kept_value.view();
    REQUIRE_OK(expected.run(context));
    REQUIRE_OK(fovea_kv_cache_attend(context, cache.get(), call.score ? &call.score->score : nullptr, &call.query,
                                     &call.out, &call.options));
    if (out.narrow) {
      bool same = true;
      for_each_index(result.out.shape(), [&](const Shape &index) {
        same = same && out.narrow->at(index) == expected_out.narrow->at(index);
      });
      CHECK(same);
    } else {
      CHECK(same_bits(out.floats, expected_out.floats));
    }
    CHECK(same_bits(*result.log_sum_exp, *truth.log_sum_exp));
  });
}

}  // namespace

TEST_SUITE("kv cache") {
  TEST_CASE("keys and values of any type in a cache of any type: the same bits, or rounded once") {
    constexpr int64_t length = 64, dim = 37;
    const std::vector<float> numbers = hard_numbers(2 * length * dim);
    for (const fovea_dtype kept : kTypes) {
      for (const fovea_dtype key_type : kTypes) {
        for (const fovea_dtype value_type : kTypes) {
          CAPTURE(kept);
          CAPTURE(key_type);
          CAPTURE(value_type);
          const Elements keys(numbers, key_type),
              values(std::vector<float>(numbers.rbegin(), numbers.rend()), value_type);
          for_each_isa([&](const fovea_context *context) {
            const KvCache cache(create(1, 2, length, dim, kept));
            const fovea_tensor key = keys.view({1, 2, length, dim}), value = values.view({1, 2, length, dim});
            REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &key, &value));
            CHECK_EQ(wrongly_kept(keys, saved_half(cache, kept, keys.count(), false)), 0);
            CHECK_EQ(wrongly_kept(values, saved_half(cache, kept, values.count(), true)), 0);
          });
        }
      }
    }
  }

  TEST_CASE("every number of 16 bits is kept bit by bit, NaNs' payloads too, and converted as it should be") {
    for (const fovea_dtype given : {FOVEA_F16, FOVEA_BF16}) {
      Elements all(given);
      for (uint32_t bits = 0; bits < 0x10000; ++bits) all.add_bits(bits);
      for (const fovea_dtype kept : kTypes) {
        CAPTURE(given);
        CAPTURE(kept);
        for_each_isa([&](const fovea_context *context) {
          const KvCache cache(create(1, 1, 64, 1024, kept));
          const fovea_tensor rows = all.view({64, 1024});
          REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &rows, &rows));
          CHECK_EQ(wrongly_kept(all, saved_half(cache, kept, all.count(), true)), 0);
        });
      }
    }
  }

  TEST_CASE("attention over a cache of any type has the bits of tensors that hold what is kept") {
    Random random(base_seed());
    for (const int64_t query_len : {1, 3, 40}) {
      for (const fovea_dtype kept : kTypes) {
        for (const fovea_dtype given : kTypes) {
          const auto any = [&] { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); };
          AttentionProblem problem = make_attention({.batch = 2,
                                                     .heads = 4,
                                                     .kv_heads = 2,
                                                     .query_len = query_len,
                                                     .key_len = random.pick({70, 131}),
                                                     .head_dim = random.pick({10, 64}),
                                                     .value_dim = random.pick({7, 32})},
                                                    random, random.pick({Layout::kHeadsLast, Layout::kPadded}));
          if (random.chance(0.5)) problem.flags = FOVEA_CAUSAL;
          check_attention_over(problem, kept, given, any(), any(), any());
          check_attention_over(problem, kept, kept, kept, kept, kept);
        }
      }
    }
  }

  TEST_CASE("every score function over a cache of 16 bits") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const int64_t query_len : {1, 20}) {
        AttentionSizes sizes = {.batch = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .query_len = query_len,
                                .key_len = 90,
                                .head_dim = 10,
                                .value_dim = 6};
        if (takes_two_dims(kind)) sizes.key_dim = 7;
        const AttentionProblem problem = make_scored(kind, sizes, 19, random);
        for (const fovea_dtype kept : {FOVEA_F16, FOVEA_BF16}) {
          check_attention_over(problem, kept, FOVEA_F32, kept, FOVEA_F32, FOVEA_F32);
        }
      }
    }
  }

  TEST_CASE("16 bits take half the memory, and half the bytes when they are saved; the type is saved and restored") {
    for (const fovea_dtype dtype : kTypes) {
      const auto element = size_of(dtype);
      const KvCache cache(create(2, 3, 20, 16, dtype));
      CHECK(fovea_kv_cache_size(cache.get()) == 2 * 3 * 20 * 32 * element);
      const Elements numbers(hard_numbers(2 * 3 * 5 * 16), dtype);
      const fovea_tensor rows = numbers.view({2, 3, 5, 16});
      REQUIRE_OK(fovea_kv_cache_append(nullptr, cache.get(), &rows, &rows));
      const std::vector<unsigned char> bytes = save(cache);
      CHECK(bytes.size() == kSavedHeader + 2 * 3 * 5 * 32 * element);
      CHECK(std::vector<unsigned char>(bytes.begin() + 12, bytes.begin() + 16) ==
            std::vector<unsigned char>{static_cast<unsigned char>(dtype), 0, 0, 0});
      CHECK(std::equal(numbers.bytes.begin(), numbers.bytes.end(), bytes.begin() + kSavedHeader));
      fovea_kv_cache *made = nullptr;
      REQUIRE_OK(fovea_kv_cache_restore(bytes.data(), bytes.size(), 0, &made));
      const KvCache restored(made);
      CHECK(fovea_kv_cache_size(made) == fovea_kv_cache_size(cache.get()));
      REQUIRE_OK(fovea_kv_cache_append(nullptr, made, &rows, &rows));
      REQUIRE_OK(fovea_kv_cache_truncate(made, 5));
      CHECK(save(restored) == bytes);
    }
  }

  TEST_CASE("reordered and truncated in 16 bits, in pieces too: each sequence becomes what its source was") {
    const std::vector<int32_t> source = {2, 0, 1, 1, 3};  // a cycle of three, two copies of one, one that stays
    for (const int64_t length : {3, 700}) {               // 700 x 37 elements of a head: more than a piece
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        for_each_isa([&](const fovea_context *context) {
          const KvCache cache(create(5, 2, length, 37, dtype));
          const Elements numbers(hard_numbers(static_cast<size_t>(5 * 2 * length * 37)), dtype);
          const fovea_tensor rows = numbers.view({5, 2, length, 37});
          REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &rows, &rows));
          const int64_t count = 5;
          const fovea_tensor order = fovea_tensor_contiguous(source.data(), FOVEA_I32, 1, &count);
          REQUIRE_OK(fovea_kv_cache_reorder(context, cache.get(), &order));
          const size_t sequence = static_cast<size_t>(2 * length * 37) * 2;
          for (const bool values : {false, true}) {
            const Elements kept = saved_half(cache, dtype, numbers.count(), values);
            for (size_t b = 0; b < source.size(); ++b) {
              CHECK(
                  std::equal(kept.bytes.begin() + static_cast<int64_t>(b * sequence),
                             kept.bytes.begin() + static_cast<int64_t>((b + 1) * sequence),
                             numbers.bytes.begin() + static_cast<int64_t>(static_cast<size_t>(source[b]) * sequence)));
            }
          }
        });
      }
    }
  }

  TEST_CASE("bad arguments: element types") {
    fovea_kv_cache *cache = nullptr;
    for (const fovea_dtype bad : {FOVEA_I32, FOVEA_I64, FOVEA_BOOL, FOVEA_I8, FOVEA_U8, FOVEA_F8_E4M3, FOVEA_F8_E5M2}) {
      const fovea_kv_cache_sizes sizes = {sizeof sizes, 1, 1, 4, 2, 2, bad, 0};
      check_refusal(fovea_kv_cache_create(&sizes, &cache), FOVEA_BAD_DTYPE,
                    {"sizes.dtype is FOVEA_", "expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16"});
    }
    for (const fovea_dtype bad : {-1, 4, 12, INT32_MAX, INT32_MIN}) {
      const fovea_kv_cache_sizes sizes = {sizeof sizes, 1, 1, 4, 2, 2, bad, 0};
      check_refusal(fovea_kv_cache_create(&sizes, &cache), FOVEA_BAD_DTYPE, {"sizes.dtype is " + std::to_string(bad)});
    }
    const fovea_kv_cache_sizes reserved = {sizeof reserved, 1, 1, 4, 2, 2, FOVEA_F16, 1};
    check_refusal(fovea_kv_cache_create(&reserved, &cache), FOVEA_BAD_OPTION, {"sizes.reserved is 1, expected 0"});
    CHECK(cache == nullptr);
    const KvCache made(create(1, 1, 4, 2, FOVEA_F16));
    const std::array<int32_t, 2> numbers = {1, 2};
    const int64_t shape[] = {1, 2};
    const fovea_tensor good = fovea_tensor_contiguous(numbers.data(), FOVEA_F32, 2, shape);
    const fovea_tensor bad = fovea_tensor_contiguous(numbers.data(), FOVEA_I32, 2, shape);
    check_refusal(fovea_kv_cache_append(nullptr, made.get(), &bad, &good), FOVEA_BAD_DTYPE,
                  {"key has dtype FOVEA_I32, expected FOVEA_F32, FOVEA_F16 or FOVEA_BF16"});
    check_refusal(fovea_kv_cache_append(nullptr, made.get(), &good, &bad), FOVEA_BAD_DTYPE,
                  {"value has dtype FOVEA_I32"});
    CHECK(fovea_kv_cache_length(made.get()) == 0);
  }
}
