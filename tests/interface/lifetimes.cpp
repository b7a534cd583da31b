// Descriptors, options and names are the caller's, and needed no longer than the call they are given to: what handles
// and plans know of them later are copies. Here they are gone, memory and all, before the handle is used.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "support/attention_plan.hpp"
#include "support/attention_problem.hpp"
#include "support/creation.hpp"
#include "support/multi_head.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

// An object between guard pages. Once it is destroyed, whoever looks at it ends the program.
template <typename T>
class Perishable {
 public:
  template <typename... Arguments>
  explicit Perishable(Arguments &&...arguments)
      : memory_(sizeof(T)), object_(new (memory_.data()) T(std::forward<Arguments>(arguments)...)) {}
  ~Perishable() { object_->~T(); }
  Perishable(const Perishable &) = delete;
  Perishable &operator=(const Perishable &) = delete;

  T *operator->() const { return object_; }

 private:
  GuardedMemory memory_;
  T *object_;
};

template <typename T>
using Mortal = std::optional<Perishable<T>>;

AttentionProblem make_problem(int32_t kind) {
  Random random(base_seed());
  AttentionSizes sizes = {
      .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 5, .key_len = 40, .head_dim = 8, .value_dim = 6};
  if (takes_two_dims(kind)) sizes.key_dim = 7;
  AttentionProblem problem = make_scored(kind, sizes, 9, random);
  problem.flags = FOVEA_CAUSAL | FOVEA_AVERAGE_WEIGHTS;
  problem.set_valid_lens({40, 33});
  problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 5 != 0; });
  problem.bias.emplace(Shape{1, 1, 1, 40}).fill_normal(random);
  problem.alibi_slopes.emplace(Shape{4}).fill([] { return 0.1f; });
  problem.sinks.emplace(Shape{4}).fill_normal(random);
  return problem;
}

}  // namespace

TEST_SUITE("lifetimes") {
  TEST_CASE("a plan needs nothing of the call it was made for") {
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      const AttentionProblem problem = make_problem(kind);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult expected = problem.make_result(), result = problem.make_result();
        REQUIRE_OK(problem.run(context, expected));
        Mortal<AttentionArguments> arguments(std::in_place, problem, result);
        fovea_plan *made = nullptr;
        REQUIRE_OK((*arguments)->plan(context, &made));
        arguments.reset();
        const std::unique_ptr<fovea_plan, DestroyPlan> plan(made);
        const GuardedMemory workspace(fovea_plan_workspace_size(made));
        Mortal<AttentionArguments> again(std::in_place, problem, result);
        const fovea_attention_buffers buffers = buffers_of(*again->operator->());
        again.reset();
        REQUIRE_OK(fovea_attention_run(made, &buffers, workspace.data(), workspace.size()));
        CHECK(same_bits(result, expected));
      });
    }
  }

  TEST_CASE("prepared keys need nothing of what they were made and filled from") {
    for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      CAPTURE(kind);
      const AttentionProblem problem = make_prepared_problem(kind, 3, 20);
      const AttentionSizes &s = problem.sizes;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult expected = problem.make_result(), result = problem.make_result();
        REQUIRE_OK(attend(context, problem, make_full(context, problem), expected));
        fovea_prepared_keys *made = nullptr;
        {
          AttentionProblem gone = make_prepared_problem(kind, 3, 20);
          const Perishable<ScoreArguments> score(*gone.score);
          REQUIRE_OK(prepared_keys_create(context, &score->score, s.batch, s.kv_heads, s.key_len, s.head_dim,
                                          s.key_size(), &made));
          const Perishable<fovea_tensor> key(gone.key.view());
          REQUIRE_OK(fovea_prepared_keys_append(context, made, key.operator->()));
        }
        REQUIRE_OK(attend(context, problem, Keys(made), result));
        CHECK(same_bits(result, expected));
      });
    }
  }

  TEST_CASE("multi-head weights and packed matrices need nothing of what they were made from") {
    const MultiHeadSizes sizes = {
        .query_len = 4, .query_inputs = 10, .heads = 2, .kv_heads = 2, .head_dim = 6, .value_dim = 5, .outputs = 7};
    Random random(base_seed());
    const MultiHead layer = make_multi_head(sizes, Inputs::kOne, random);
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> expected = layer.make_out(), out = layer.make_out();
      REQUIRE_OK(layer.run(context, layer.make_weights(context), expected));
      fovea_mha_weights *made = nullptr;
      fovea_packed_matrix *packed = nullptr;
      const fovea_tensor x = layer.query.view();
      fovea_tensor rows = x;
      rows.rank = 2;
      for (int axis : {0, 1}) {
        rows.shape[axis] = x.shape[axis + 1];
        rows.strides[axis] = x.strides[axis + 1];
      }
      const Tensor<float> small({4, 12}), packed_small({4, 12});
      const fovea_tensor to = small.view(), packed_to = packed_small.view();
      {
        Random same(base_seed());
        const MultiHead gone = make_multi_head(sizes, Inputs::kOne, same);
        const Perishable<MhaParameters> parameters(gone);
        REQUIRE_OK(fovea_mha_weights_create(context, &parameters->parameters, &made));
        const fovea_tensor weight = gone.query_weight.view();
        fovea_tensor turned = weight;
        std::swap(turned.shape[0], turned.shape[1]);
        std::swap(turned.strides[0], turned.strides[1]);
        REQUIRE_OK(fovea_matmul(context, &rows, &turned, &to));
        const Perishable<fovea_tensor> descriptor(weight);
        REQUIRE_OK(linear_pack(context, descriptor.operator->(), FOVEA_WEIGHT_OUT_IN, &packed));
      }
      REQUIRE_OK(layer.run(context, MhaWeights(made), out));
      CHECK(same_bits(out, expected));
      REQUIRE_OK(fovea_matmul_packed(context, &rows, packed, &packed_to));
      CHECK(same_bits(packed_small, small));
      fovea_packed_matrix_destroy(packed);
    });
  }

  TEST_CASE("contexts and caches need nothing of their options") {
    fovea_context *context = nullptr;
    fovea_kv_cache *cache = nullptr;
    {
      struct Name {
        char text[8] = "base";
      };
      const Perishable<Name> name;
      const Perishable<fovea_context_options> options(fovea_context_options{});
      options->struct_size = sizeof(fovea_context_options);
      options->max_isa = name->text;
      REQUIRE_OK(fovea_context_create(options.operator->(), &context));
      const Perishable<fovea_kv_cache_sizes> sizes(
          fovea_kv_cache_sizes{sizeof(fovea_kv_cache_sizes), 1, 1, 3, 2, 2, FOVEA_F32, 0});
      REQUIRE_OK(fovea_kv_cache_create(sizes.operator->(), &cache));
    }
    CHECK_EQ(std::string(fovea_isa_name(context)), "base");
    float numbers[2] = {1, 2}, out[2] = {};
    const int64_t shape[] = {1, 2};
    const fovea_tensor x = fovea_tensor_contiguous(numbers, FOVEA_F32, 2, shape);
    const fovea_tensor y = fovea_tensor_contiguous(out, FOVEA_F32, 2, shape);
    REQUIRE_OK(fovea_kv_cache_append(context, cache, &x, &x));
    REQUIRE_OK(fovea_kv_cache_attend(context, cache, nullptr, &x, &y, nullptr));
    CHECK(out[1] == 2);
    fovea_kv_cache_destroy(cache);
    fovea_context_destroy(context);
  }
}
