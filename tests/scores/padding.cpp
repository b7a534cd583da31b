// Keys behind every valid length of their batch entry: neither read nor projected, and what scratch memory holds in
// their place does not matter.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/attention_plan.hpp"
#include "support/attention_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {.batch = 2, .heads = 2, .key_len = 70, .head_dim = 64, .value_dim = 9};

// The second entry's valid length is `length`, or that of its longest query.
AttentionProblem make_padded(int32_t kind, int64_t query_len, int64_t length, bool by_query) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  AttentionProblem problem = make_scored(kind, sizes, 65, random);
  std::vector<int64_t> lens = {sizes.key_len, length};
  if (by_query) {
    lens.assign(static_cast<size_t>(2 * query_len), sizes.key_len);
    for (int64_t i = 0; i < query_len; ++i) lens[static_cast<size_t>(query_len + i)] = length * i / query_len;
    lens.back() = length;
  }
  problem.set_valid_lens(lens);
  return problem;
}

template <class Body>
void for_each_padded(const Body &body) {
  for (int32_t kind : kScoreKinds) {
    for (int64_t query_len : {1, 3, 90}) {
      for (int64_t length : {0, 1, 23, 24, 25, 48, 69, 70}) {
        for (bool by_query : {false, true}) {
          CAPTURE(kind);
          CAPTURE(query_len);
          CAPTURE(length);
          CAPTURE(by_query);
          body(make_padded(kind, query_len, length, by_query), length);
        }
      }
    }
  }
}

// The first rows of a tensor [2,1,K,size], up to row `length` of the second entry. Behind them lies memory that may not
// be touched, as much as the tensor's other rows would take: no other tensor is where the call is told that these are.
class ValidRows {
 public:
  ValidRows(const Tensor<float> &tensor, int64_t length) {
    const std::vector<float> dense = tensor.dense();
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), whole = dense.size() * sizeof(float);
    const size_t rows = static_cast<size_t>((kSizes.key_len + length) * tensor.shape().back()) * sizeof(float);
    const size_t usable = (rows + page - 1) / page * page;
    size_ = usable + whole;
    memory_ = static_cast<std::byte *>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE_EQ(mprotect(memory_, usable, PROT_READ | PROT_WRITE), 0);
    data_ = memory_ + usable - rows;
    std::memcpy(data_, dense.data(), rows);
  }
  ~ValidRows() { munmap(memory_, size_); }
  ValidRows(const ValidRows &) = delete;
  ValidRows &operator=(const ValidRows &) = delete;

  void *data() const { return data_; }

 private:
  std::byte *memory_ = nullptr, *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

TEST_SUITE("scores padding") {
  TEST_CASE("keys and values behind every valid length are not read") {
    for_each_padded([](const AttentionProblem &problem, int64_t length) {
      const ValidRows key(problem.key, length), value(problem.value, length);
      for_each_isa([&](const fovea_context *context) {
        for (bool weights : {false, true}) {
          const AttentionResult whole = problem.make_result(weights), part = problem.make_result(weights);
          REQUIRE_OK(problem.run(context, whole));
          AttentionArguments arguments(problem, part);
          arguments.key.data = key.data();
          arguments.value.data = value.data();
          REQUIRE_OK(arguments.run(context));
          CHECK(same_bits(whole, part));
        }
      });
    });
  }

  TEST_CASE("what scratch memory held before does not matter") {
    for_each_padded([](const AttentionProblem &problem, int64_t) {
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult clean = problem.make_result(), dirty = problem.make_result();
        const AttentionPlan plan(context, problem, clean);
        std::memset(plan.workspace().data(), 0, plan.workspace().size());
        REQUIRE_OK(plan.run(problem, clean));
        for (int byte : {0xFF, 0x7E, 0x4B}) {  // NaN, 8e37, 1.3e7
          std::memset(plan.workspace().data(), byte, plan.workspace().size());
          REQUIRE_OK(plan.run(problem, dirty));
          CHECK(same_bits(clean, dirty));
        }
      });
    });
  }
}
