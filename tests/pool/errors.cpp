// What a key/value pool refuses: by name, and without a change to it or to an output.
#include <doctest/doctest.h>

#include "errors.hpp"
#include "support/kv_pool.hpp"

using namespace testing;

namespace {

// Calls every function that takes a pool.
template <typename Check>
void call_all(fovea_kv_pool *pool, int64_t sequence, Check check) {
  const std::vector<int64_t> numbers = {sequence}, tokens = {1};
  const fovea_tensor sequences = vector_of(numbers), counts = vector_of(tokens);
  fovea_step step = {};
  int64_t made = -7;
  unsigned char bytes[64] = {};
  check(fovea_kv_pool_fork(pool, sequence, 0, &made));
  check(fovea_kv_pool_truncate(pool, sequence, 0));
  check(fovea_kv_pool_drop(pool, sequence, 0));
  check(fovea_kv_pool_close(pool, sequence));
  check(fovea_kv_pool_step(nullptr, pool, &sequences, &counts, &step));
  check(fovea_kv_pool_save(pool, sequence, bytes, sizeof bytes));
  CHECK(fovea_kv_pool_length(pool, sequence) == -1);
  CHECK(fovea_kv_pool_saved_size(pool, sequence) == 0);
  CHECK(made == -7);
  CHECK(step.struct_size == 0);
  for (const unsigned char byte : bytes) CHECK(byte == 0);
}

}  // namespace

TEST_SUITE("kv pool") {
  TEST_CASE("bad arguments: create") {
    fovea_kv_pool *pool = nullptr;
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      fovea_kv_pool_sizes sizes = PoolSizes{}.sizes();
      spoil(sizes);
      check_refusal(fovea_kv_pool_create(&sizes, &pool), expected, words);
      CHECK(pool == nullptr);
    };
    const struct {
      const char *name;
      int64_t fovea_kv_pool_sizes::*member;
      int64_t most;
      bool may_be_0;
    } members[] = {{"layers", &fovea_kv_pool_sizes::layers, 1 << 16, false},
                   {"kv_heads", &fovea_kv_pool_sizes::kv_heads, 1 << 20, false},
                   {"head_dim", &fovea_kv_pool_sizes::head_dim, 1024, false},
                   {"value_dim", &fovea_kv_pool_sizes::value_dim, 1024, true},
                   {"positions", &fovea_kv_pool_sizes::positions, 1 << 30, false},
                   {"page_size", &fovea_kv_pool_sizes::page_size, 1 << 20, true},
                   {"sequences", &fovea_kv_pool_sizes::sequences, 1 << 20, false}};
    for (const auto &member : members) {
      for (const int64_t bad : {int64_t{-1}, member.most + 1, INT64_MIN, INT64_MAX, int64_t{0}}) {
        if (bad == 0 && member.may_be_0) continue;
        refuse(FOVEA_BAD_VALUE, {std::string("sizes.") + member.name + " is " + std::to_string(bad)},
               [&](auto &sizes) { sizes.*member.member = bad; });
      }
      fovea_kv_pool_sizes sizes = PoolSizes{.layers = 1, .kv_heads = 1, .head_dim = 1, .value_dim = 1}.sizes();
      sizes.*member.member = member.most;
      if (member.member == &fovea_kv_pool_sizes::positions) sizes.page_size = 1 << 20;
      REQUIRE_OK(fovea_kv_pool_create(&sizes, &pool));
      fovea_kv_pool_destroy(pool);
      pool = nullptr;
    }
    for (const fovea_dtype bad : kDtypes) {
      if ((bad >= 0 && bad <= FOVEA_BF16) || bad == FOVEA_I8) continue;
      refuse(FOVEA_BAD_DTYPE, {"sizes.key_dtype is " + dtype_name(bad), "FOVEA_F32"},
             [bad](auto &sizes) { sizes.key_dtype = bad; });
      if (bad == FOVEA_U8) continue;
      refuse(FOVEA_BAD_DTYPE, {"sizes.value_dtype is " + dtype_name(bad), "FOVEA_U8, FOVEA_I8, FOVEA_F32"},
             [bad](auto &sizes) { sizes.value_dtype = bad; });
    }
    for (const int64_t dim : {1, 16, 48}) {
      refuse(FOVEA_BAD_VALUE, {"sizes.value_dim is " + std::to_string(dim), "multiple of 32", "FOVEA_U8"},
             [dim](auto &sizes) {
               sizes.value_dim = dim;
               sizes.value_dtype = FOVEA_U8;
             });
    }
    for (const int64_t group : {-32, 16, 48, 128}) {  // 48 divides values of 96, 128 does not
      refuse(FOVEA_BAD_VALUE, {"sizes.scale_group is " + std::to_string(group), "32", "FOVEA_U8"},
             [group](auto &sizes) {
               sizes.value_dim = 96;
               sizes.value_dtype = FOVEA_U8;
               sizes.scale_group = group;
             });
    }
    refuse(FOVEA_BAD_VALUE, {"sizes.scale_group is 64", "32", "FOVEA_U8"}, [](auto &sizes) {  // of values alone
      sizes.head_dim = 96;
      sizes.value_dim = 64;
      sizes.key_dtype = FOVEA_I8;
      sizes.value_dtype = FOVEA_U8;
      sizes.scale_group = 64;
    });
    for (const int64_t group : {-16, 8, 24, 96}) {
      refuse(FOVEA_BAD_VALUE, {"sizes.scale_group is " + std::to_string(group), "16"}, [group](auto &sizes) {
        sizes.head_dim = 64;
        sizes.key_dtype = FOVEA_I8;
        sizes.scale_group = group;
      });
    }
    refuse(FOVEA_BAD_VALUE, {"sizes.scale_group is 32", "0 without FOVEA_I8 or FOVEA_U8"},
           [](auto &sizes) { sizes.scale_group = 32; });
    refuse(FOVEA_BAD_OPTION, {"sizes.struct_size", "0"}, [](auto &sizes) { sizes.struct_size = 0; });
    refuse(FOVEA_BAD_OPTION, {"sizes.struct_size"}, [](auto &sizes) { sizes.struct_size -= 8; });
    refuse(FOVEA_SIZE_OVERFLOW, {"sizes.positions", "65536 layers"}, [](auto &sizes) {
      sizes = {sizeof sizes, 1 << 16, 1 << 20, 1024, 1024, 1 << 30, 1 << 20, 1, FOVEA_F32, FOVEA_F32, 0};
    });
    refuse(FOVEA_SIZE_OVERFLOW, {"sizes.positions", "65536 layers"}, [](auto &sizes) {  // a layer fits
      sizes = {sizeof sizes, 1 << 16, 1 << 10, 1024, 1024, 1 << 28, 1 << 20, 1, FOVEA_F32, FOVEA_F32, 0};
    });
    refuse(FOVEA_OUT_OF_MEMORY, {"memory"}, [](auto &sizes) {
      sizes = {sizeof sizes, 1 << 8, 1 << 10, 1024, 1024, 1 << 28, 1 << 20, 1, FOVEA_F32, FOVEA_F32, 0};
    });
    check_refusal(fovea_kv_pool_create(nullptr, &pool), FOVEA_NULL_POINTER, {"sizes", "NULL"});
    const fovea_kv_pool_sizes good = PoolSizes{}.sizes();
    check_refusal(fovea_kv_pool_create(&good, nullptr), FOVEA_NULL_POINTER, {"pool", "NULL"});
  }

  TEST_CASE("no pool") {
    const auto refused = [](fovea_status status) { check_refusal(status, FOVEA_NULL_POINTER, {"pool is NULL"}); };
    call_all(nullptr, 1, refused);
    int64_t made = -7;
    const unsigned char bytes[64] = {};
    refused(fovea_kv_pool_open(nullptr, &made));
    refused(fovea_kv_pool_restore(nullptr, bytes, sizeof bytes, &made));
    CHECK(made == -7);
    CHECK(fovea_kv_pool_free_pages(nullptr) == 0);
    CHECK(fovea_kv_pool_size(nullptr) == 0);
    CHECK(fovea_kv_pool_keys(nullptr, 0).rank == -1);
    CHECK(fovea_kv_pool_values(nullptr, 0).rank == -1);
    fovea_kv_pool_destroy(nullptr);
  }

  TEST_CASE("no sequence") {
    const KvPool pool = make_pool({});
    const int64_t a = open_sequence(pool), closed = open_sequence(pool);
    fill(pool, a, 5, 1);
    REQUIRE_OK(fovea_kv_pool_close(pool.get(), closed));
    const PoolState before = state_of(pool, {a});
    for (const int64_t bad : {closed, int64_t{0}, int64_t{-1}, a + 8, a + 2, a - 8, INT64_MAX, INT64_MIN}) {
      const std::string number = std::to_string(bad);
      call_all(pool.get(), bad, [&](fovea_status status) {
        check_refusal(status, FOVEA_BAD_VALUE, {"sequence", " is " + number, "an open sequence"});
      });
    }
    CHECK(state_of(pool, {a}) == before);
  }

  TEST_CASE("bad arguments: open, fork, truncate, drop") {
    const KvPool pool = make_pool({});
    const int64_t a = open_sequence(pool);
    fill(pool, a, 5, 1);
    const PoolState before = state_of(pool, {a});
    check_refusal(fovea_kv_pool_open(pool.get(), nullptr), FOVEA_NULL_POINTER, {"sequence is NULL"});
    check_refusal(fovea_kv_pool_fork(pool.get(), a, 3, nullptr), FOVEA_NULL_POINTER, {"forked is NULL"});
    int64_t forked = -7;
    for (const int64_t bad : {int64_t{-1}, int64_t{6}, INT64_MAX, INT64_MIN}) {
      const std::string number = std::to_string(bad);
      const std::initializer_list<std::string> words = {"length is " + number + ", expected 0 to 5"};
      check_refusal(fovea_kv_pool_fork(pool.get(), a, bad, &forked), FOVEA_BAD_VALUE, words);
      check_refusal(fovea_kv_pool_truncate(pool.get(), a, bad), FOVEA_BAD_VALUE, words);
      CHECK(std::string(fovea_last_error()).find("dropped") == std::string::npos);
      check_refusal(fovea_kv_pool_drop(pool.get(), a, bad), FOVEA_BAD_VALUE,
                    {"first is " + number + ", expected 0 to 5"});
    }
    CHECK(forked == -7);
    CHECK(state_of(pool, {a}) == before);
  }

  TEST_CASE("bad arguments: step") {
    const KvPool pool = make_pool({.sequences = 3});
    const int64_t a = open_sequence(pool), b = open_sequence(pool);
    fill(pool, a, 5, 1);
    fill(pool, b, 3, 100);
    const PoolState before = state_of(pool, {a, b});
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      std::vector<int64_t> numbers = {a, b}, counts = {1, 2};
      fovea_tensor sequences = vector_of(numbers), tokens = vector_of(counts);
      spoil(numbers, counts, sequences, tokens);
      fovea_step step = {};
      check_refusal(fovea_kv_pool_step(nullptr, pool.get(), &sequences, &tokens, &step), expected, words);
      CHECK(step.struct_size == 0);
    };
    for (const int which : {0, 1}) {
      const std::string name = which == 0 ? "sequences" : "tokens";
      const auto spoil_one = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
        refuse(expected, words, [&](auto &, auto &, fovea_tensor &sequences, fovea_tensor &tokens) {
          spoil(which == 0 ? sequences : tokens);
        });
      };
      spoil_one(FOVEA_NULL_POINTER, {name, "NULL"}, [](fovea_tensor &numbers) { numbers.data = nullptr; });
      for (const int32_t rank : {-1, 0, 2}) {
        spoil_one(FOVEA_BAD_RANK, {name}, [rank](fovea_tensor &numbers) { numbers.rank = rank; });
      }
      for (const fovea_dtype dtype : kDtypes) {
        if (dtype == FOVEA_I32 || dtype == FOVEA_I64) continue;
        spoil_one(FOVEA_BAD_DTYPE, {name + " has dtype " + dtype_name(dtype)},
                  [dtype](fovea_tensor &numbers) { numbers.dtype = dtype; });
      }
      spoil_one(FOVEA_BAD_SHAPE, {name + ".shape[0]", "-1"}, [](fovea_tensor &numbers) { numbers.shape[0] = -1; });
      spoil_one(FOVEA_SIZE_OVERFLOW, {name}, [](fovea_tensor &numbers) { numbers.strides[0] = INT64_MAX; });
      spoil_one(FOVEA_BAD_VALUE, {name, "multiple"},
                [](fovea_tensor &numbers) { numbers.data = static_cast<char *>(numbers.data) + 1; });
    }
    refuse(FOVEA_BAD_SHAPE, {"tokens.shape[0]", "1", "2"}, [](auto &, auto &, auto &, auto &t) { t.shape[0] = 1; });
    refuse(FOVEA_BAD_SHAPE, {"sequences has 4 entries", "0 to 3"}, [&](auto &numbers, auto &, auto &s, auto &) {
      numbers = {a, b, a, b};
      s = vector_of(numbers);
    });
    for (const size_t at : {0, 1}) {
      const std::string index = "[" + std::to_string(at) + "] is ";
      for (const int64_t bad : {int64_t{0}, int64_t{3}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
        refuse(FOVEA_BAD_VALUE, {"sequences" + index + std::to_string(bad), "an open sequence"},
               [&](auto &numbers, auto &, auto &, auto &) { numbers[at] = bad; });
      }
      const int64_t most = (1 << 30) - (at == 0 ? 5 : 3);
      for (const int64_t bad : {int64_t{-1}, most + 1, INT64_MAX, INT64_MIN}) {
        refuse(FOVEA_BAD_VALUE,
               {"tokens" + index + std::to_string(bad) + ", expected 0 to " + std::to_string(most),
                at == 0 ? "has 5 positions" : "has 3 positions"},
               [&](auto &, auto &counts, auto &, auto &) { counts[at] = bad; });
      }
    }
    refuse(FOVEA_BAD_VALUE, {"sequences[1] is " + std::to_string(a), "as sequences[0] is"},
           [&](auto &numbers, auto &, auto &, auto &) { numbers[1] = a; });
    const std::vector<int64_t> numbers = {a}, counts = {1};
    const fovea_tensor sequences = vector_of(numbers), tokens = vector_of(counts);
    fovea_step step = {};
    check_refusal(fovea_kv_pool_step(nullptr, pool.get(), nullptr, &tokens, &step), FOVEA_NULL_POINTER,
                  {"sequences", "NULL"});
    check_refusal(fovea_kv_pool_step(nullptr, pool.get(), &sequences, nullptr, &step), FOVEA_NULL_POINTER,
                  {"tokens", "NULL"});
    check_refusal(fovea_kv_pool_step(nullptr, pool.get(), &sequences, &tokens, nullptr), FOVEA_NULL_POINTER,
                  {"step", "NULL"});
    CHECK(step.struct_size == 0);
    CHECK(state_of(pool, {a, b}) == before);
  }

  TEST_CASE("bad arguments: save and restore") {
    const KvPool pool = make_pool({});
    const int64_t a = open_sequence(pool);
    fill(pool, a, 5, 1);
    std::vector<unsigned char> bytes = save(pool, a);
    const std::vector<unsigned char> saved = bytes;
    const std::string size = std::to_string(bytes.size());
    std::fill(bytes.begin(), bytes.end(), 0xee);
    for (const size_t less : {bytes.size() - 1, size_t{0}}) {
      check_refusal(fovea_kv_pool_save(pool.get(), a, bytes.data(), less), FOVEA_WORKSPACE_TOO_SMALL,
                    {"size is " + std::to_string(less), "at least " + size});
    }
    CHECK(bytes == std::vector<unsigned char>(bytes.size(), 0xee));
    check_refusal(fovea_kv_pool_save(pool.get(), a, nullptr, bytes.size()), FOVEA_NULL_POINTER,
                  {"bytes is NULL", size});
    int64_t made = -7;
    check_refusal(fovea_kv_pool_restore(pool.get(), nullptr, 64, &made), FOVEA_NULL_POINTER, {"bytes is NULL"});
    check_refusal(fovea_kv_pool_restore(pool.get(), saved.data(), saved.size(), nullptr), FOVEA_NULL_POINTER,
                  {"sequence is NULL"});
    const KvPool small = make_pool({.positions = 8});
    const int64_t b = open_sequence(small);
    fill(small, b, 3, 1);
    check_refusal(fovea_kv_pool_restore(small.get(), saved.data(), saved.size(), &made), FOVEA_POOL_EXHAUSTED,
                  {"bytes needs 2", "1 of 2 are free"});
    CHECK(made == -7);
    CHECK(fovea_kv_pool_free_pages(small.get()) == 1);
  }
}
