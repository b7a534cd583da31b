// A cache as bytes: the format byte by byte, round trips, and bytes that were cut off, altered or made up.
#include <doctest/doctest.h>

#include <bit>
#include <string>

#include "errors.hpp"
#include "support/kv_cache.hpp"

using namespace testing;

namespace {

using Bytes = std::vector<unsigned char>;

// CRC-32C bit by bit.
uint32_t crc32c(const Bytes &bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (unsigned char byte : bytes) {
    remainder ^= byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~remainder;
}

void put(Bytes &bytes, size_t at, size_t size, uint64_t number) {
  for (size_t n = 0; n < size; ++n) bytes.at(at + n) = static_cast<unsigned char>(number >> (8 * n));
}

constexpr size_t kChecksumAt = 60;

// With the checksum that belongs to them.
Bytes sealed(Bytes bytes) {
  Bytes covered = bytes;
  covered.erase(covered.begin() + kChecksumAt, covered.begin() + kSavedHeader);
  put(bytes, kChecksumAt, 4, crc32c(covered));
  return bytes;
}

AttentionProblem make_problem(int64_t key_len) {
  Random random(base_seed());
  return make_attention(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = key_len, .head_dim = 5, .value_dim = 3},
      random);
}

fovea_status restore(const Bytes &bytes, KvCache *cache, int64_t capacity = 0) {
  fovea_kv_cache *restored = nullptr;
  const fovea_status status = fovea_kv_cache_restore(bytes.data(), bytes.size(), capacity, &restored);
  CHECK((restored != nullptr) == (status == FOVEA_OK));
  cache->reset(restored);
  return status;
}

void check_refused(const Bytes &bytes, std::initializer_list<std::string> words,
                   fovea_status expected = FOVEA_BAD_VALUE) {
  KvCache cache;
  check_refusal(restore(bytes, &cache), expected, words);
}

// In a header: where, how many bytes.
struct Field {
  const char *name;
  size_t at, size;
};
constexpr Field kFields[] = {{"version", 8, 4},   {"dtype", 12, 4},     {"batch", 16, 8},
                             {"kv_heads", 24, 8}, {"capacity", 32, 8},  {"length", 40, 8},
                             {"head_dim", 48, 4}, {"value_dim", 52, 4}, {"reserved", 56, 4}};

Bytes with_field(const Bytes &bytes, const Field &field, uint64_t number) {
  Bytes altered = bytes;
  put(altered, field.at, field.size, number);
  return sealed(altered);
}

}  // namespace

TEST_SUITE("kv cache") {
  TEST_CASE("the format, byte by byte") {
    const std::string digits = "123456789";
    REQUIRE(crc32c(Bytes(digits.begin(), digits.end())) == 0xe3069283);  // the polynomial's test vector
    for (int64_t key_len : {0, 1, 6}) {
      const AttentionProblem problem = make_problem(key_len);
      const KvCache cache = make_full_cache(nullptr, problem, 4, 3);
      const auto length = static_cast<uint64_t>(key_len);
      Bytes expected(64, 0);
      const unsigned char magic[] = {0x89, 'f', 'o', 'v', 'e', 'a', 'k', 'v'};
      std::copy(std::begin(magic), std::end(magic), expected.begin());
      const uint64_t numbers[] = {1, FOVEA_F32, 2, 2, length + 3, length, 5, 3, 0};
      for (size_t n = 0; n < std::size(numbers); ++n) put(expected, kFields[n].at, kFields[n].size, numbers[n]);
      for (const Tensor<float> *rows : {&problem.key, &problem.value}) {
        for (float number : rows->dense()) {
          expected.resize(expected.size() + 4);
          put(expected, expected.size() - 4, 4, std::bit_cast<uint32_t>(number));
        }
      }
      CHECK(fovea_kv_cache_saved_size(cache.get()) == expected.size());
      CHECK(save(cache) == sealed(expected));
    }
  }

  TEST_CASE("saved and restored: every bit, whatever its number; wherever the bytes lie") {
    AttentionProblem problem = make_problem(50);
    uint32_t bits = 0x7f800001;  // signalling NaNs, infinities, denormal numbers, both zeros
    problem.key.fill([&] { return std::bit_cast<float>(bits = bits * 2654435761u + 1); });
    problem.value.fill([] { return -0.0f; });
    problem.value(1, 1, 49, 2) = std::bit_cast<float>(0xff800001u);
    const KvCache cache = make_full_cache(nullptr, problem, 7, 10);
    const Bytes saved = save(cache);
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement placed(placement);
      const GuardedMemory memory(saved.size());
      REQUIRE_OK(fovea_kv_cache_save(cache.get(), memory.data(), memory.size()));
      memory.freeze();
      CHECK(std::memcmp(memory.data(), saved.data(), saved.size()) == 0);
      fovea_kv_cache *restored = nullptr;
      REQUIRE_OK(fovea_kv_cache_restore(memory.data(), memory.size(), 0, &restored));
      const KvCache owner(restored);
      CHECK(save(owner) == saved);
      CHECK(fovea_kv_cache_size(restored) == fovea_kv_cache_size(cache.get()));
    }
    Bytes larger(saved.size() + 9, 0xee);
    REQUIRE_OK(fovea_kv_cache_save(cache.get(), larger.data(), larger.size()));
    CHECK(Bytes(larger.begin(), larger.begin() + static_cast<int64_t>(saved.size())) == saved);
    CHECK(Bytes(larger.begin() + static_cast<int64_t>(saved.size()), larger.end()) == Bytes(9, 0xee));
  }

  TEST_CASE("restored with another capacity, appended to, attended") {
    const AttentionProblem problem = make_problem(80);
    for_each_isa([&](const fovea_context *context) {
      const KvCache cache = make_cache(problem, 60);
      append(context, cache, problem, 0, 41);
      const Bytes saved = save(cache);
      for (int64_t capacity : {80, 1000}) {
        KvCache restored;
        REQUIRE_OK(restore(saved, &restored, capacity));
        CHECK(fovea_kv_cache_length(restored.get()) == 41);
        append(context, restored, problem, 41, 80);
        check_same(context, problem, restored);
      }
      const fovea_tensor key = slice_positions(problem.key, 41, 42), value = slice_positions(problem.value, 41, 42);
      for (int64_t capacity : {1, 41}) {  // never less than it holds
        KvCache restored;
        REQUIRE_OK(restore(saved, &restored, capacity));
        CHECK(contents(restored) == contents(cache));
        check_refusal(fovea_kv_cache_append(context, restored.get(), &key, &value), FOVEA_BAD_SHAPE, {"41"});
      }
      KvCache restored;
      REQUIRE_OK(restore(saved, &restored));
      append(context, restored, problem, 41, 60);
      check_refusal(fovea_kv_cache_append(context, restored.get(), &key, &value), FOVEA_BAD_SHAPE, {"60"});
    });
    for (int64_t batch : {0, 2}) {
      AttentionProblem empty = make_problem(0);
      empty.sizes.batch = batch;
      KvCache restored;
      REQUIRE_OK(restore(save(make_cache(empty, 0)), &restored));
      CHECK(fovea_kv_cache_length(restored.get()) == 0);
    }
  }

  TEST_CASE("a buffer that is too small stays as it is") {
    const KvCache cache = make_full_cache(nullptr, make_problem(3));
    const size_t size = fovea_kv_cache_saved_size(cache.get());
    Bytes bytes(size, 0x5a);
    for (size_t given : {size_t{0}, size_t{63}, size - 1}) {
      check_refusal(fovea_kv_cache_save(cache.get(), bytes.data(), given), FOVEA_WORKSPACE_TOO_SMALL,
                    {"size", std::to_string(given), std::to_string(size)});
      CHECK(bytes == Bytes(size, 0x5a));
    }
    check_refusal(fovea_kv_cache_save(cache.get(), nullptr, size), FOVEA_NULL_POINTER, {"bytes", "NULL"});
  }

  TEST_CASE("cut off anywhere, or longer") {
    const Bytes saved = save(make_full_cache(nullptr, make_problem(3)));
    for (size_t size = 0; size < saved.size(); ++size) {
      const GuardedMemory memory(size);
      std::memcpy(memory.data(), saved.data(), size);
      fovea_kv_cache *cache = nullptr;
      check_refusal(fovea_kv_cache_restore(memory.data(), size, 0, &cache), FOVEA_BAD_VALUE,
                    {"size", std::to_string(size)});
      CHECK(cache == nullptr);
    }
    Bytes longer = saved;
    longer.push_back(0);
    check_refused(longer, {"size", std::to_string(longer.size()), std::to_string(saved.size())});
  }

  TEST_CASE("each bit altered") {
    const Bytes saved = save(make_full_cache(nullptr, make_problem(2)));
    for (size_t at = 0; at < saved.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes altered = saved;
        altered[at] ^= static_cast<unsigned char>(1 << bit);
        if (at < kChecksumAt) {
          check_refused(altered, {});
        } else {
          check_refused(altered, {"checksum"});
        }
      }
    }
  }

  TEST_CASE("made up: each field with numbers that lie, under a checksum that fits") {
    const Bytes saved = save(make_full_cache(nullptr, make_problem(3)));
    KvCache cache;
    REQUIRE_OK(restore(sealed(saved), &cache));
    for (const Field &field : kFields) {
      CAPTURE(field.name);
      std::vector<uint64_t> lies = {UINT64_MAX,
                                    uint64_t{1} << 63,
                                    uint64_t{INT64_MAX},
                                    (uint64_t{1} << 30) + 1,
                                    uint64_t{0xffffffff},
                                    uint64_t{1} << 32,
                                    1025};
      const std::string name = field.name;
      if (name == "version") lies = {0, 2, 0xffffffff};
      if (name == "dtype") lies = {0, FOVEA_F16, FOVEA_BF16, 4, FOVEA_I32, 0xffffffff};  // the size does not fit
      if (name == "reserved") lies = {1, 0x80000000};
      if (name == "capacity") lies = {UINT64_MAX, uint64_t{INT64_MAX}, (uint64_t{1} << 30) + 1, 2, 0};
      if (name == "head_dim" || name == "value_dim") lies = {0, 1025, 0xffffffff, 0x80000000};
      for (uint64_t lie : lies) check_refused(with_field(saved, field, lie), {});
    }
    check_refused(with_field(saved, kFields[0], 2), {"version 2", "1"});
    check_refused(with_field(saved, kFields[2], UINT64_MAX), {"batch", "-1"});
    check_refused(with_field(saved, kFields[5], 4), {"length", "4", "3"});
    check_refused(with_field(saved, kFields[2], 3), {"size"});
    // A product that is 0 modulo 2^64, as the header's own size would have it.
    Bytes wrapped = save(make_cache(make_problem(0), 0));
    for (const Field &field : {kFields[2], kFields[3], kFields[4], kFields[5]}) {
      wrapped = with_field(wrapped, field, uint64_t{1} << 30);
    }
    check_refused(wrapped, {"product"});
    // Sizes that hold nothing, and cannot be had either way: the first has no place for its strides.
    const Bytes empty = save(make_cache(make_problem(0), 0));
    const uint64_t most = uint64_t{1} << 30;
    const Bytes heads = with_field(with_field(empty, kFields[2], most), kFields[3], most);
    check_refused(heads, {"capacity"}, FOVEA_SIZE_OVERFLOW);
    check_refused(with_field(with_field(empty, kFields[3], most), kFields[4], 1 << 20), {"memory"},
                  FOVEA_OUT_OF_MEMORY);
    REQUIRE_OK(restore(with_field(with_field(empty, kFields[2], most), kFields[3], 1 << 20), &cache));
    CHECK(save(cache).size() == kSavedHeader);
  }

  TEST_CASE("made up at random, under a checksum that fits: never more than a refusal") {
    Random random(base_seed());
    const Bytes saved = save(make_full_cache(nullptr, make_problem(3)));
    int64_t restored = 0;
    for (int64_t n = 0; n < case_count(3000); ++n) {
      Bytes bytes = saved;
      for (int64_t changes = random.integer(1, 3); changes > 0; --changes) {
        const Field &field = kFields[random.integer(0, 8)];
        put(bytes, field.at, field.size,
            static_cast<uint64_t>(random.integer(INT64_MIN, INT64_MAX)) >> random.integer(0, 63));
      }
      bytes.resize(
          static_cast<size_t>(random.chance(0.5) ? random.integer(64, 400) : static_cast<int64_t>(saved.size())));
      KvCache cache;
      if (restore(sealed(bytes), &cache, random.pick<int64_t>({0, 1, 100})) != FOVEA_OK) continue;
      ++restored;
      CHECK(save(cache).size() == bytes.size());
    }
    CHECK(restored > 0);
    CHECK(restored < case_count(3000));
  }

  TEST_CASE("bad arguments: restore") {
    const Bytes saved = save(make_full_cache(nullptr, make_problem(3)));
    fovea_kv_cache *cache = nullptr;
    check_refusal(fovea_kv_cache_restore(nullptr, saved.size(), 0, &cache), FOVEA_NULL_POINTER, {"bytes", "NULL"});
    check_refusal(fovea_kv_cache_restore(saved.data(), saved.size(), 0, nullptr), FOVEA_NULL_POINTER,
                  {"cache", "NULL"});
    for (int64_t capacity : {int64_t{-1}, INT64_MIN, (int64_t{1} << 30) + 1, INT64_MAX}) {
      check_refusal(fovea_kv_cache_restore(saved.data(), saved.size(), capacity, &cache), FOVEA_BAD_VALUE,
                    {"capacity", std::to_string(capacity)});
    }
    check_refused(Bytes(100, 0), {"bytes", "foveakv"});
    CHECK(cache == nullptr);
  }
}
