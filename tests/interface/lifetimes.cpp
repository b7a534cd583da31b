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

  TEST_CASE("contexts, pools and schedules need nothing of what they were made and set with") {
    fovea_context *context = nullptr;
    fovea_kv_pool *pool = nullptr;
    fovea_schedule *schedule = nullptr;
    int64_t sequence = -1;
    const int64_t rows[] = {1, 1, 2}, one = 1, two = 2;
    {
      struct Name {
        char text[8] = "base";
      };
      const Perishable<Name> name;
      const Perishable<fovea_context_options> options(fovea_context_options{});
      options->struct_size = sizeof(fovea_context_options);
      options->max_isa = name->text;
      REQUIRE_OK(fovea_context_create(options.operator->(), &context));
      const Perishable<fovea_kv_pool_sizes> sizes(
          fovea_kv_pool_sizes{sizeof(fovea_kv_pool_sizes), 1, 1, 2, 2, 4, 2, 1, FOVEA_F32, FOVEA_F32, 0});
      REQUIRE_OK(fovea_kv_pool_create(sizes.operator->(), &pool));
      REQUIRE_OK(fovea_kv_pool_open(pool, &sequence));
      const Perishable<fovea_tensor> query(fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, rows));
      const Perishable<fovea_tensor> rows_out(fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, rows));
      const Perishable<fovea_tensor> keys(fovea_kv_pool_keys(pool, 0)), values(fovea_kv_pool_values(pool, 0));
      const Perishable<fovea_attention_options> attention(sized_options<fovea_attention_options>());
      const Perishable<fovea_schedule_limits> limits(fovea_schedule_limits{sizeof(fovea_schedule_limits), 1, 0, 0, 0});
      REQUIRE_OK(fovea_schedule_create(context, nullptr, query.operator->(), keys.operator->(), values.operator->(),
                                       rows_out.operator->(), attention.operator->(), limits.operator->(), &schedule));
      struct Numbers {
        int64_t sequence, tokens, starts[2], length, page;
      };
      const Perishable<Numbers> numbers(Numbers{sequence, 1, {0, 1}, 1, 0});
      const Perishable<fovea_tensor> sequences(fovea_tensor_contiguous(&numbers->sequence, FOVEA_I64, 1, &one));
      const Perishable<fovea_tensor> tokens(fovea_tensor_contiguous(&numbers->tokens, FOVEA_I64, 1, &one));
      fovea_step step;
      REQUIRE_OK(fovea_kv_pool_step(context, pool, sequences.operator->(), tokens.operator->(), &step));
      // The same in the caller's own memory.
      const Perishable<fovea_tensor> starts(fovea_tensor_contiguous(numbers->starts, FOVEA_I64, 1, &two));
      const Perishable<fovea_tensor> lens(fovea_tensor_contiguous(&numbers->length, FOVEA_I64, 1, &one));
      const int64_t table[] = {1, 1};
      const Perishable<fovea_tensor> ids(fovea_tensor_contiguous(&numbers->page, FOVEA_I64, 2, table));
      numbers->page = static_cast<const int32_t *>(step.page_ids->data)[0];
      const Perishable<fovea_step> own(fovea_step{sizeof(fovea_step), starts.operator->(), nullptr, lens.operator->(),
                                                  ids.operator->(), nullptr, nullptr});
      REQUIRE_OK(fovea_schedule_set(schedule, own.operator->()));
    }
    CHECK_EQ(std::string(fovea_isa_name(context)), "base");
    float numbers[2] = {1, 2}, out[2] = {};
    const fovea_tensor x = fovea_tensor_contiguous(numbers, FOVEA_F32, 3, rows);
    const fovea_tensor keys = fovea_kv_pool_keys(pool, 0), values = fovea_kv_pool_values(pool, 0);
    REQUIRE_OK(fovea_schedule_append(schedule, &x, &x, &keys, &values, nullptr));
    auto buffers = sized_options<fovea_attention_buffers>();
    buffers.query = numbers;
    buffers.key = keys.data;
    buffers.value = values.data;
    buffers.out = out;
    REQUIRE_OK(fovea_schedule_run(schedule, &buffers, nullptr, 0));
    CHECK(out[1] == 2);
    fovea_schedule_destroy(schedule);
    fovea_kv_pool_destroy(pool);
    fovea_context_destroy(context);
  }
}
