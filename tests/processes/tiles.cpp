// AMX's tiles as something that threads and processes have: what a caller's own code keeps in them, that no thread
// holds them between calls, forks, and when the system is asked for them, what it may refuse and what then happens.
// Native or emulated; what is asked of the system is so in children, each of which is another process to it.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "beyond_xsimd/amx_tiles.hpp"
#include "support/attention_plan.hpp"
#include "support/child.hpp"
#include "support/contexts.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/random_attention.hpp"
#include "support/same_bits.hpp"
#include "support/thread_pool.hpp"
#include "support/tile_cpu.hpp"
#include "support/tile_emulator.hpp"

using namespace testing;
namespace amx = fovea::FOVEA_ISA;

namespace {

// Attention and a product, all in bfloat16.
struct Work {
  AttentionProblem problem;
  AttentionResult result;
  AttentionArguments arguments;
  NarrowTensor query, key, value, a, b;
  Tensor<float> product;

  Work() : Work(make_problem()) {}

  static AttentionProblem make_problem() {
    Random random(7);
    return make_attention(
        {.heads = 4, .kv_heads = 2, .query_len = 100, .key_len = 300, .head_dim = 40, .value_dim = 40}, random);
  }

  explicit Work(AttentionProblem &&made)
      : problem(std::move(made)),
        result(problem.make_result(false)),
        arguments(problem, result),
        query(problem.query, FOVEA_BF16),
        key(problem.key, FOVEA_BF16),
        value(problem.value, FOVEA_BF16),
        a(matrix(90, 70), FOVEA_BF16),
        b(matrix(70, 130), FOVEA_BF16),
        product({90, 130}) {
    arguments.query = query.view();
    arguments.key = key.view();
    arguments.value = value.view();
  }

  static Tensor<float> matrix(int64_t rows, int64_t columns) {
    Random random(11);
    return normal(random, {rows, columns});
  }

  // False where a call failed.
  bool run(const fovea_context *context) const {
    const fovea_tensor left = a.view(), right = b.view(), to = product.view();
    return arguments.run(context) == FOVEA_OK && fovea_matmul(context, &left, &right, &to) == FOVEA_OK;
  }
  std::vector<float> output() const {
    std::vector<float> all = result.out.dense();
    const std::vector<float> more = product.dense();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  bool gives(const std::vector<float> &expected, const fovea_context *context) const {
    return run(context) && same_bits(output(), expected);
  }
  bool plan_says(const fovea_context *context, const char *part) const {
    fovea_plan *plan = nullptr;
    if (arguments.plan(context, &plan) != FOVEA_OK) return false;
    char text[512];
    fovea_plan_describe(plan, text, sizeof text);
    fovea_plan_destroy(plan);
    return std::strstr(text, part) != nullptr;
  }
};

std::vector<float> expected_of(const char *isa) {
  const Work work;
  REQUIRE(work.run(shared_context(isa, 1)));
  return work.output();
}

// What a caller's own code has in the tiles: shapes of its own, numbers in them.
struct OwnTiles {
  amx::TileConfig config;
  alignas(64) uint8_t numbers[amx::tile_count][amx::tile_bytes] = {};

  OwnTiles() {
    const int rows[] = {16, 3, 0, 1, 16, 9, 16, 2}, bytes[] = {64, 64, 0, 4, 20, 64, 8, 32};
    for (int t = 0; t < amx::tile_count; ++t) {
      config.rows[t] = static_cast<uint8_t>(rows[t]);
      config.row_bytes[t] = static_cast<uint16_t>(bytes[t]);
      for (int r = 0; r < rows[t]; ++r) {
        for (int c = 0; c < bytes[t]; ++c) numbers[t][64 * r + c] = static_cast<uint8_t>(17 * t + 5 * r + c + 1);
      }
    }
  }
  void put() const {
    amx::configure_tiles(config);
    amx::load_tile<0>(numbers[0]);
    amx::load_tile<1>(numbers[1]);
    amx::load_tile<3>(numbers[3]);
    amx::load_tile<4>(numbers[4]);
    amx::load_tile<5>(numbers[5]);
    amx::load_tile<6>(numbers[6]);
    amx::load_tile<7>(numbers[7]);
  }
  // And takes them away.
  bool are_there() const {
    amx::TileConfig now;
    OwnTiles found;
    std::memset(found.numbers, 0, sizeof found.numbers);
    amx::read_configuration(&now);
    if (std::memcmp(&now, &config, sizeof now) != 0) return false;
    amx::store_tile<0>(found.numbers[0], 64);
    amx::store_tile<1>(found.numbers[1], 64);
    amx::store_tile<3>(found.numbers[3], 64);
    amx::store_tile<4>(found.numbers[4], 64);
    amx::store_tile<5>(found.numbers[5], 64);
    amx::store_tile<6>(found.numbers[6], 64);
    amx::store_tile<7>(found.numbers[7], 64);
    amx::release_tiles();
    return std::memcmp(found.numbers, numbers, sizeof numbers) == 0;
  }
};

// The signal stack of this thread, of so many bytes.
bool take_signal_stack(size_t size) {
  static char memory[size_t{64} << 10];
  const stack_t stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = size};
  return sigaltstack(&stack, nullptr) == 0;
}

constexpr size_t kSmallStack = 4096, kLargeStack = size_t{64} << 10;

// In a child of a process that has not asked for tiles yet: these cases come first.
template <typename Body>
std::string outcome(Body body) {
  REQUIRE_EQ(tile_requests(), 0);
  return outcome_in_child([&] { return take_tiles() && body(); }, 30);
}

}  // namespace

TEST_SUITE("tile permission") {
  TEST_CASE("is asked for by the first call or plan that could use tiles, once; not by contexts or other calls") {
    const Work work;
    CHECK_EQ(outcome([&] {
               fovea_context *context = nullptr;
               bool right = fovea_context_create(nullptr, &context) == FOVEA_OK;
               fovea_context_destroy(context);
               AttentionArguments floats(work.problem, work.result);
               right = right && floats.run(nullptr) == FOVEA_OK && tile_requests() == 0;
               right = right && work.run(shared_context("avx512")) && tile_requests() == 0;
               right = right && work.plan_says(nullptr, "kernels=amxbf16 path") && tile_requests() == 1;
               return right && work.run(nullptr) && work.run(shared_context("amx")) && tile_requests() == 1;
             }),
             "");
    CHECK_EQ(outcome([&] {
               const fovea_tensor left = work.a.view(), right = work.b.view(), to = work.product.view();
               return fovea_matmul(nullptr, &left, &right, &to) == FOVEA_OK && tile_requests() == 1;
             }),
             "");
  }

  TEST_CASE("refused for a signal stack too small, for good: the next best kernels, as a plan says") {
    const Work work;
    const std::vector<float> expected = expected_of("avx512");
    CHECK_EQ(outcome([&] {
               bool right =
                   take_signal_stack(kSmallStack) && work.plan_says(nullptr, "kernels=avx512bf16 tiles=refused");
               right = right && work.gives(expected, nullptr);
               right = right && std::string(fovea_isa_available(2)) == "avx512" && fovea_isa_available(3) == nullptr;
               right = right && take_signal_stack(kLargeStack) && work.gives(expected, nullptr);
               return right && work.plan_says(nullptr, "tiles=refused");
             }),
             "");
  }

  TEST_CASE("granted beside a signal stack that is large enough") {
    const Work work;
    CHECK_EQ(outcome([&] {
               return take_signal_stack(kLargeStack) && work.plan_says(nullptr, "kernels=amxbf16 path") &&
                      work.run(nullptr);
             }),
             "");
  }

  TEST_CASE("a system that knows no tiles") {
    if (tiles_are_native()) return;
    const Work work;
    const std::vector<float> expected = expected_of("avx512");
    CHECK_EQ(outcome([&] {
               forget_tiles();
               return work.plan_says(nullptr, "kernels=avx512bf16 tiles=refused") && work.gives(expected, nullptr);
             }),
             "");
  }

  TEST_CASE("a thread that was there before runs what another one planned") {
    const Work work;
    CHECK_EQ(outcome([&] {
               std::atomic<int> step{0};
               bool right = false;
               std::thread early([&] {
                 while (step == 0) std::this_thread::yield();
                 right = work.run(shared_context("amx", 1)) && !has_tiles();
               });
               const bool planned = work.plan_says(nullptr, "kernels=amxbf16 path");
               step = 1;
               early.join();
               return planned && right && work.gives(work.output(), shared_context("amx", 1));
             }),
             "");
  }
}

TEST_SUITE("tile state") {
  TEST_CASE("what a caller has in the tiles of its thread is there after a call") {
    REQUIRE(take_tiles());
    const Work work;
    const OwnTiles own;
    const std::vector<float> expected = expected_of("amx");
    own.put();
    const bool right = work.gives(expected, shared_context("amx", 1));
    CHECK(own.are_there());
    CHECK(right);
    CHECK_FALSE(has_tiles());
  }

  TEST_CASE("and in those of the threads of its own loop") {
    REQUIRE(take_tiles());
    struct Loop {
      ThreadPool pool{3};
      OwnTiles own;
      std::atomic<int> lost{0}, shares{0};

      static void parallel_for(void *user, int64_t count, fovea_work work, void *work_data) {
        auto *loop = static_cast<Loop *>(user);
        struct Share {
          Loop *loop;
          fovea_work work;
          void *work_data;
        } share = {loop, work, work_data};
        const fovea_work around = [](void *data, int64_t index) {
          const Share &s = *static_cast<Share *>(data);
          s.loop->own.put();
          s.work(s.work_data, index);
          s.loop->lost += s.loop->own.are_there() ? 0 : 1;
          ++s.loop->shares;
        };
        ThreadPool::parallel_for(&loop->pool, count, around, &share);
      }
    } loop;
    auto options = fovea_context_options{};
    options.struct_size = sizeof options;
    options.max_isa = "amx";
    options.max_threads = 3;
    options.parallel_for = Loop::parallel_for;
    options.parallel_for_user = &loop;
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(&options, &context));
    const Work work;
    CHECK(work.gives(expected_of("amx"), context));
    fovea_context_destroy(context);
    CHECK_GT(loop.shares, 0);
    CHECK_EQ(loop.lost, 0);
  }

  TEST_CASE("no thread holds tiles between calls, those of oneTBB neither") {
    REQUIRE(take_tiles());
    const Work work;
    for (const int threads : {1, 2, 4, 8}) {
      REQUIRE(work.run(shared_context("amx", threads)));
      CHECK_EQ(tile_counts().holders, 0);
      CHECK_FALSE(has_tiles());
    }
  }

  TEST_CASE("a plan made before a fork runs in the child, and one made in the child") {
    REQUIRE(take_tiles());
    const Work work;
    const std::vector<float> expected = expected_of("amx");
    fovea_plan *plan = nullptr;
    REQUIRE_OK(work.arguments.plan(shared_context("amx", 2), &plan));
    const GuardedMemory workspace(fovea_plan_workspace_size(plan));
    const auto run = [&](const fovea_plan *which) {
      const fovea_attention_buffers buffers = buffers_of(work.arguments);
      const std::vector<float> zeros(work.result.out.dense().size());
      return fovea_attention_run(which, &buffers, workspace.data(), workspace.size()) == FOVEA_OK &&
             std::memcmp(work.result.out.dense().data(), expected.data(), zeros.size() * sizeof(float)) == 0 &&
             !has_tiles();
    };
    CHECK_EQ(outcome_in_child([&] { return take_tiles() && run(plan); }), "");
    CHECK_EQ(outcome_in_child([&] {
               fovea_plan *own = nullptr;
               return take_tiles() && work.arguments.plan(shared_context("amx", 2), &own) == FOVEA_OK && run(own);
             }),
             "");
    CHECK_EQ(outcome_in_child([&] { return take_tiles() && work.gives(expected, shared_context("amx", 2)); }), "");
    fovea_plan_destroy(plan);
  }

  TEST_CASE("a fork while a caller has tiles: the child computes, the parent keeps them") {
    REQUIRE(take_tiles());
    const Work work;
    const OwnTiles own;
    const std::vector<float> expected = expected_of("amx");
    own.put();
    const std::string outcome =
        outcome_in_child([&] { return take_tiles() && work.gives(expected, shared_context("amx", 1)); });
    CHECK(own.are_there());
    CHECK_EQ(outcome, "");
  }
}
