// A sequence as bytes: the format byte by byte, round trips between pools, and bytes that were cut off, altered or made
// up.
#include <doctest/doctest.h>

#include <string>

#include "errors.hpp"
#include "support/guarded_memory.hpp"
#include "support/kv_pool.hpp"

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

constexpr size_t kHeader = 64, kChecksumAt = 60;

// With the checksum that belongs to them.
Bytes sealed(Bytes bytes) {
  Bytes covered = bytes;
  covered.erase(covered.begin() + kChecksumAt, covered.begin() + kHeader);
  put(bytes, kChecksumAt, 4, crc32c(covered));
  return bytes;
}

// In a header: where, how many bytes.
struct Field {
  const char *name;
  size_t at, size;
};
constexpr Field kFields[] = {{"version", 8, 4},   {"keys", 12, 4},     {"values", 16, 4},    {"layers", 20, 4},
                             {"kv_heads", 24, 4}, {"head_dim", 28, 4}, {"value_dim", 32, 4}, {"scale_group", 36, 4},
                             {"first", 40, 8},    {"length", 48, 8},   {"reserved", 56, 4}};

Bytes with_field(const Bytes &bytes, const Field &field, uint64_t number) {
  Bytes altered = bytes;
  put(altered, field.at, field.size, number);
  return sealed(altered);
}

// From memory that ends where the bytes do.
fovea_status restore(const KvPool &pool, const Bytes &bytes, int64_t *sequence) {
  const GuardedMemory memory(bytes.size());
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  return fovea_kv_pool_restore(pool.get(), memory.data(), memory.size(), sequence);
}

void check_refused(const KvPool &pool, const Bytes &bytes, std::initializer_list<std::string> words) {
  const int64_t free = fovea_kv_pool_free_pages(pool.get());
  int64_t sequence = -7;
  check_refusal(restore(pool, bytes, &sequence), FOVEA_BAD_VALUE, words);
  CHECK(sequence == -7);
  CHECK(fovea_kv_pool_free_pages(pool.get()) == free);
}

// A pool and a sequence in it, of positions [first, length).
struct Filled {
  KvPool pool;
  int64_t sequence;
};
Filled make_filled(const PoolSizes &sizes, int64_t length, int64_t first) {
  KvPool pool = make_pool(sizes);
  const int64_t sequence = open_sequence(pool);
  fill(pool, sequence, length, 1);
  REQUIRE_OK(fovea_kv_pool_drop(pool.get(), sequence, first));
  return {std::move(pool), sequence};
}

// The elements of a tensor that a row of a sequence has, as bytes.
void append_row(const fovea_tensor &rows, int64_t page, int64_t head, int64_t at, Bytes *bytes) {
  const int64_t size = rows.dtype == FOVEA_F32 ? 4 : 2;
  const auto *row = static_cast<const unsigned char *>(rows.data) +
                    (page * rows.strides[0] + head * rows.strides[1] + at * rows.strides[2]) * size;
  bytes->insert(bytes->end(), row, row + rows.shape[3] * size);
}

}  // namespace

TEST_SUITE("kv pool") {
  TEST_CASE("the format of a saved sequence, byte by byte") {
    const std::string digits = "123456789";
    REQUIRE(crc32c(Bytes(digits.begin(), digits.end())) == 0xe3069283);  // the polynomial's test vector
    const PoolSizes sizes = {.layers = 3, .kv_heads = 2, .head_dim = 5, .value_dim = 3};
    const struct { int64_t length, first; } cases[] = {{0, 0}, {1, 0}, {4, 0}, {9, 0}, {9, 2}, {9, 7}, {8, 8}, {9, 9}};
    for (const auto &c : cases) {
      CAPTURE(c.length);
      CAPTURE(c.first);
      const Filled filled = make_filled(sizes, c.length, c.first);
      Bytes expected(kHeader, 0);
      const unsigned char magic[] = {0x89, 'f', 'o', 'v', 'e', 'a', 'k', 'p'};
      std::copy(std::begin(magic), std::end(magic), expected.begin());
      const auto length = static_cast<uint64_t>(c.length), first = static_cast<uint64_t>(c.first);
      const uint64_t numbers[] = {1, FOVEA_F32, FOVEA_F16, 3, 2, 5, 3, 0, first, length, 0};
      for (size_t n = 0; n < std::size(numbers); ++n) put(expected, kFields[n].at, kFields[n].size, numbers[n]);
      const std::vector<int64_t> pages = pages_of(filled.pool, filled.sequence);
      for (const auto rows_in : {fovea_kv_pool_keys, fovea_kv_pool_values}) {
        for (int64_t layer = 0; layer < 3; ++layer) {
          for (int64_t head = 0; head < 2; ++head) {
            for (int64_t at = c.first; at < c.length; ++at) {
              append_row(rows_in(filled.pool.get(), layer), pages[static_cast<size_t>(at / 4)], head, at % 4,
                         &expected);
            }
          }
        }
      }
      CHECK(fovea_kv_pool_saved_size(filled.pool.get(), filled.sequence) == expected.size());
      CHECK(save(filled.pool, filled.sequence) == sealed(expected));
    }
  }

  TEST_CASE("saved and restored between pools of any page size; wherever the bytes lie") {
    const struct { int64_t length, first; } cases[] = {{0, 0}, {1, 0}, {37, 0}, {37, 10}, {37, 37}, {36, 36}, {35, 34}};
    for (const int64_t from_page : {1, 4, 7, 64}) {
      for (const auto &c : cases) {
        CAPTURE(from_page);
        CAPTURE(c.length);
        CAPTURE(c.first);
        const Filled filled = make_filled({.page_size = from_page}, c.length, c.first);
        const Bytes saved = save(filled.pool, filled.sequence);
        for (const int64_t to_page : {1, 3, 4, 16, 64}) {
          CAPTURE(to_page);
          const KvPool pool = make_pool({.positions = 80, .page_size = to_page});
          const int64_t all = fovea_kv_pool_free_pages(pool.get());
          fill(pool, open_sequence(pool), 1, 500);
          int64_t restored = -7;
          REQUIRE_OK(restore(pool, saved, &restored));
          CHECK(fovea_kv_pool_length(pool.get(), restored) == c.length);
          CHECK(all - fovea_kv_pool_free_pages(pool.get()) ==
                1 + (c.length + to_page - 1) / to_page - c.first / to_page);
          CHECK(save(pool, restored) == saved);
          const auto kept = c.length - c.first;
          const auto first_stamp = static_cast<uint32_t>(c.first + 1);
          CHECK(holds(pool, restored, c.first, stamps_from(first_stamp, kept)));
          fill(pool, restored, 3, 900);
          CHECK(holds(pool, restored, c.first, stamps_from(first_stamp, kept)));
          CHECK(holds(pool, restored, c.length, {900, 901, 902}));
          REQUIRE_OK(fovea_kv_pool_close(pool.get(), restored));
          CHECK(all - fovea_kv_pool_free_pages(pool.get()) == 1);
        }
        for (const Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
          const WithPlacement placed(placement);
          const GuardedMemory memory(saved.size());
          REQUIRE_OK(fovea_kv_pool_save(filled.pool.get(), filled.sequence, memory.data(), memory.size()));
          memory.freeze();
          CHECK(std::memcmp(memory.data(), saved.data(), saved.size()) == 0);
        }
      }
    }
  }

  TEST_CASE("every byte altered, and cut off anywhere") {
    const Filled filled = make_filled({.layers = 1}, 6, 1);
    const Bytes saved = save(filled.pool, filled.sequence);
    for (size_t at = 0; at < saved.size(); ++at) {
      for (const unsigned char change : {1, 0x80, 0xff}) {
        Bytes altered = saved;
        altered[at] ^= change;
        CAPTURE(at);
        check_refused(filled.pool, altered, {});
      }
      check_refused(filled.pool, Bytes(saved.begin(), saved.begin() + static_cast<int64_t>(at)),
                    {"size is " + std::to_string(at)});
    }
    Bytes longer = saved;
    longer.push_back(0);
    check_refused(filled.pool, longer,
                  {"size is " + std::to_string(longer.size()), "expected " + std::to_string(saved.size())});
  }

  TEST_CASE("bytes that were made up: right but for one field") {
    const Filled filled = make_filled({}, 6, 1);
    const Bytes saved = save(filled.pool, filled.sequence);
    int64_t restored = -7;
    REQUIRE_OK(restore(filled.pool, sealed(saved), &restored));
    for (const Field &field : kFields) {
      for (const uint64_t bad : {uint64_t{7}, uint64_t{1} << 31, uint64_t{0xffffffff}}) {
        CAPTURE(field.name);
        const std::string name = field.name;
        const std::string word = name == "first" && bad == 7    ? "first position is 7, expected 0 to 6"
                                 : name == "length" && bad == 7 ? "size"
                                                                : name;
        check_refused(filled.pool, with_field(saved, field, bad), {word});
      }
    }
    const Field first = kFields[8], length = kFields[9];
    for (const uint64_t bad : {~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 30) + 1}) {
      check_refused(filled.pool, with_field(saved, first, bad), {"first position is"});
      check_refused(filled.pool, with_field(saved, length, bad), {"length is"});
    }
    check_refused(filled.pool, with_field(saved, length, uint64_t{1} << 30), {"size is"});
    Bytes other = saved;
    other[7] = 'v';
    check_refused(filled.pool, sealed(other), {"foveakp"});
  }

  TEST_CASE("a length that no memory could hold takes none") {
    const Filled filled = make_filled({.page_size = 1}, 0, 0);
    const Bytes saved = save(filled.pool, filled.sequence);
    const uint64_t most = uint64_t{1} << 30;
    int64_t restored = -7;
    REQUIRE_OK(restore(filled.pool, with_field(with_field(saved, kFields[8], most), kFields[9], most), &restored));
    CHECK(fovea_kv_pool_length(filled.pool.get(), restored) == int64_t{1} << 30);
    CHECK(fovea_kv_pool_free_pages(filled.pool.get()) == 60);
    // Nor do rows that the bytes do not hold, even where their size is no number.
    check_refused(filled.pool, with_field(saved, kFields[9], most), {"size is 64"});
    const fovea_kv_pool_sizes sizes = PoolSizes{.layers = 1 << 16,
                                                .kv_heads = 1 << 15,
                                                .head_dim = 1,
                                                .value_dim = 1,
                                                .positions = 1,
                                                .page_size = 1,
                                                .key_dtype = FOVEA_F16}
                                          .sizes();
    fovea_kv_pool *made = nullptr;
    if (fovea_kv_pool_create(&sizes, &made) != FOVEA_OK) {
      MESSAGE("skipped: no 8 GB, which a pool takes whose rows may take more than 2^63 bytes");
      return;
    }
    const KvPool wide(made);
    const Bytes empty = save(wide, open_sequence(wide));
    check_refused(wide, with_field(empty, kFields[9], most), {"length is 1073741824", "2^63"});
    check_refused(wide, with_field(empty, kFields[9], most - 1), {"size is 64"});
  }

  TEST_CASE("a pool of other sizes or types") {
    const Filled filled = make_filled({}, 6, 1);
    const Bytes saved = save(filled.pool, filled.sequence);
    const auto refuse = [&](const PoolSizes &sizes, std::initializer_list<std::string> words) {
      check_refused(make_pool(sizes), saved, words);
    };
    refuse({.layers = 3}, {"bytes have layers 2, expected 3"});
    refuse({.kv_heads = 1}, {"bytes have kv_heads 2, expected 1"});
    refuse({.head_dim = 2}, {"bytes have head_dim 3, expected 2"});
    refuse({.value_dim = 4}, {"bytes have value_dim 2, expected 4"});
    refuse({.key_dtype = FOVEA_BF16}, {"bytes have keys of FOVEA_F32, expected FOVEA_BF16"});
    refuse({.value_dtype = FOVEA_BF16}, {"bytes have values of FOVEA_F16, expected FOVEA_BF16"});
  }
}
