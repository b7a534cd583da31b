// No memory on one rank, at each allocation in turn: every rank returns the same status, none waits for ever, and
// outputs are as they were. operator new is replaced in this program, and so in the libraries that it loads.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "backward_calls.hpp"
#include "narrow.hpp"

namespace {

int64_t allocations_left = INT64_MAX;  // of the calling thread's process; contexts here have one thread

bool fails() { return allocations_left != INT64_MAX && allocations_left-- == 0; }

void *allocated(size_t size, size_t alignment) noexcept {
  if (fails()) return nullptr;
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void *or_throw(void *memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t usual = alignof(std::max_align_t);

}  // namespace

void *operator new(size_t size) { return or_throw(allocated(size, usual)); }
void *operator new[](size_t size) { return or_throw(allocated(size, usual)); }
void *operator new(size_t size, const std::nothrow_t &) noexcept { return allocated(size, usual); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return allocated(size, usual); }
void *operator new(size_t size, std::align_val_t to) { return or_throw(allocated(size, static_cast<size_t>(to))); }
void *operator new[](size_t size, std::align_val_t to) { return or_throw(allocated(size, static_cast<size_t>(to))); }
void *operator new(size_t size, std::align_val_t to, const std::nothrow_t &) noexcept {
  return allocated(size, static_cast<size_t>(to));
}
void *operator new[](size_t size, std::align_val_t to, const std::nothrow_t &) noexcept {
  return allocated(size, static_cast<size_t>(to));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace testing {
namespace {

enum class Called { kRing, kDecode, kUlysses };

fovea_status call(Called called, fovea_mpi *mpi, const RankCall &call) {
  const AttentionArguments &a = call.arguments;
  switch (called) {
    case Called::kRing:
      return fovea_mpi_ring_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, nullptr);
    case Called::kDecode:
      return fovea_mpi_decode_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, nullptr);
    default:
      return fovea_mpi_ulysses_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, nullptr);
  }
}

// A call of the backward pass whose gradient of queries has 16 bits: rounding takes no memory.
struct RoundedCall {
  BackwardCall call;
  NarrowTensor query;

  template <class... Parts>
  explicit RoundedCall(const Parts &...parts) : call(parts...), query(call.mine.query, FOVEA_F16) {
    call.gradients.query = query.view();
  }
  RoundedCall(const RoundedCall &) = delete;

  bool untouched() const {
    bool as_it_was = call.mine.key.untouched() && call.mine.value.untouched();
    for_each_index(call.mine.query.shape(), [&](const Shape &at) {
      as_it_was = as_it_was && query.at(at) == narrowed(call.mine.query.at(at), FOVEA_F16);
    });
    for (const auto member : kSummedGradients) {
      as_it_was = as_it_was && (!(call.mine.*member) || (call.mine.*member)->untouched());
    }
    return as_it_was;
  }
};

// On the last rank each allocation of a call fails in turn, until the call makes no more. Each time make() gives what
// is called, run(mpi, it) calls, and untouched(it) says whether outputs are as they were.
template <class Make, class Run, class Untouched>
void fail_each_allocation(const Make &make, const Run &run, const Untouched &untouched) {
  const int last = world_size() - 1;
  int64_t failures = 0;
  for (int64_t n = 0;; ++n) {
    const OwnHandle mpi = make_handle();  // without memory from the last call
    auto called = make();
    allocations_left = world_rank() == last ? n : INT64_MAX;
    const fovea_status status = run(mpi.get(), called);
    const bool reached = allocations_left < 0;
    allocations_left = INT64_MAX;
    int of_last = status;
    MPI_Bcast(&of_last, 1, MPI_INT, last, MPI_COMM_WORLD);
    CHECK_EQ(status, of_last);
    if (status == FOVEA_OUT_OF_MEMORY) {
      ++failures;
      CHECK(untouched(called));
      const std::string said = fovea_mpi_last_error();
      CHECK_MESSAGE(said.find("memory") != std::string::npos, said);
      if (world_size() > 1) CHECK_MESSAGE(said.find("rank " + std::to_string(last) + ": ") == 0, said);
    } else {
      CHECK_EQ(status, FOVEA_OK);  // where a thing that failed was not needed
    }
    if (everywhere(world_rank() != last || !reached)) break;
    REQUIRE(n < 2000);
  }
  if (world_size() > 1) CHECK(failures > 0);  // alone the core may have all it needs
}

}  // namespace

TEST_SUITE_BEGIN("shortages");

TEST_CASE("an allocation that fails on one rank") {
  Random random(base_seed());
  const int64_t heads = world_size(), length = 12 * world_size();
  const AttentionProblem problem = make_scored(
      FOVEA_SCORE_ADDITIVE,
      {.heads = heads, .kv_heads = heads, .query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, 5,
      random);
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(length));
  const Positions mine = places[static_cast<size_t>(world_rank())].all();
  for (const Called called : {Called::kRing, Called::kDecode, Called::kUlysses}) {
    CAPTURE(static_cast<int>(called));
    fail_each_allocation(
        [&] { return RankCall(problem, mine, mine); },
        [&](fovea_mpi *mpi, const RankCall &it) { return call(called, mpi, it); },
        [](const RankCall &it) { return it.result.out.untouched() && it.result.log_sum_exp->untouched(); });
  }
}

TEST_CASE("backward: an allocation that fails on one rank") {
  Random random(base_seed());
  const int64_t length = 12 * world_size();
  for (const int32_t kind : {FOVEA_SCORE_DOT, FOVEA_SCORE_ADDITIVE}) {
    AttentionProblem problem = make_scored(
        kind, {.heads = 2, .kv_heads = 2, .query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, 5,
        random);
    problem.sinks.emplace(Shape{2}).fill_normal(random);
    const GradientTensors given = make_gradients(problem, random, true);
    const RingShares shares(FOVEA_MPI_CONTIGUOUS, even_lengths(length), even_lengths(length));
    AttentionResult forward;
    {
      const OwnHandle mpi = make_handle();
      forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
    }
    fail_each_allocation([&] { return RoundedCall(problem, shares, forward, given); },
                         [](fovea_mpi *mpi, RoundedCall &it) { return it.call.run(mpi, nullptr); },
                         [](const RoundedCall &it) { return it.untouched(); });
  }
}

TEST_SUITE_END();

}  // namespace testing
