// Planned multi-head attention: the bits of the call it plans, in workspaces of any alignment, over a schedule's steps;
// what is refused.
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/kv_pool.hpp"
#include "support/multi_head.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

struct DestroyMhaPlan {
  void operator()(fovea_mha_plan *plan) const { fovea_mha_plan_destroy(plan); }
};
using OwnPlan = std::unique_ptr<fovea_mha_plan, DestroyMhaPlan>;

struct Tensors {
  fovea_tensor query, key, value, out;
  const fovea_tensor *key_or_none, *value_or_none;

  Tensors(const MultiHead &layer, const Tensor<float> &to)
      : query(layer.query.view()),
        key(layer.inputs == Inputs::kOne ? fovea_tensor{} : layer.key.view()),
        value(layer.inputs == Inputs::kThree ? layer.value.view() : fovea_tensor{}),
        out(to.view()),
        key_or_none(layer.inputs == Inputs::kOne ? nullptr : &key),
        value_or_none(layer.inputs == Inputs::kThree ? &value : nullptr) {}

  fovea_mha_buffers buffers() const {
    auto buffers = sized_options<fovea_mha_buffers>();
    buffers.query = query.data;
    buffers.key = key.data;
    buffers.value = value.data;
    buffers.out = out.data;
    return buffers;
  }
};

OwnPlan make_plan(const fovea_context *context, const MhaWeights &weights, Tensors tensors,
                  const fovea_mha_options *options) {
  for (fovea_tensor *tensor : {&tensors.query, &tensors.key, &tensors.value, &tensors.out}) tensor->data = nullptr;
  fovea_mha_plan *plan = nullptr;
  REQUIRE_OK(fovea_mha_plan_create(
      context, weights.get(), &tensors.query, tensors.key_or_none == nullptr ? nullptr : &tensors.key,
      tensors.value_or_none == nullptr ? nullptr : &tensors.value, &tensors.out, options, &plan));
  return OwnPlan(plan);
}

fovea_status run_plan(const OwnPlan &plan, const fovea_mha_buffers &buffers) {
  const GuardedMemory workspace(fovea_mha_plan_workspace_size(plan.get()));
  return fovea_mha_run(plan.get(), &buffers, workspace.data(), workspace.size());
}

MultiHead make_decoder(int64_t tokens) {
  Random random(base_seed());
  return make_multi_head({.query_len = tokens,
                          .query_inputs = 30,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 16,
                          .value_dim = 12,
                          .outputs = 30},
                         Inputs::kOne, random);
}

// Sequences of a pool of one layer, and a schedule for the layer's heads.
struct Decoder {
  KvPool pool = make_pool({.layers = 1,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .value_dim = 12,
                           .positions = 400,
                           .page_size = 8,
                           .value_dtype = FOVEA_F32});
  fovea_tensor keys = fovea_kv_pool_keys(pool.get(), 0), values = fovea_kv_pool_values(pool.get(), 0);
  OwnSchedule schedule;

  Decoder(const fovea_context *context, int64_t most_tokens, uint32_t flags) {
    const int64_t q[] = {most_tokens, 4, 16}, o[] = {most_tokens, 4, 12};
    const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, q),
                       out = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, o);
    auto options = sized_options<fovea_attention_options>();
    options.flags = flags;
    auto limits = sized_options<fovea_schedule_limits>();
    limits.sequences = 4;
    fovea_schedule *made = nullptr;
    REQUIRE_OK(fovea_schedule_create(context, nullptr, &query, &keys, &values, &out, &options, &limits, &made));
    schedule.reset(made);
  }
  void step(const std::vector<int64_t> &sequences, const std::vector<int64_t> &tokens) {
    const fovea_tensor numbers = vector_of(sequences), counts = vector_of(tokens);
    auto step = sized_options<fovea_step>();
    REQUIRE_OK(fovea_kv_pool_step(nullptr, pool.get(), &numbers, &counts, &step));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &step));
  }
};

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("planned: the bits of the call, with masks and rotary") {
    for (const MultiHeadSizes &sizes : multi_head_sizes()) {
      for (const Inputs inputs : {Inputs::kOne, Inputs::kTwo, Inputs::kThree}) {
        Random random(base_seed());
        MultiHeadSizes its = sizes;
        if (inputs == Inputs::kOne) its.key_inputs = its.value_inputs = its.query_inputs;
        if (inputs == Inputs::kTwo) its.value_inputs = its.key_inputs;
        const MultiHead layer = make_multi_head(its, inputs, random);
        const std::vector<int32_t> lens(static_cast<size_t>(its.batch), 3);
        const int64_t shape[] = {its.batch};
        fovea_tensor valid = fovea_tensor_contiguous(lens.data(), FOVEA_I32, 1, shape);
        auto attention = sized_options<fovea_attention_options>();
        attention.valid_lens = &valid;
        auto rotary = sized_options<fovea_rotary_options>();
        auto options = sized_options<fovea_mha_options>();
        options.attention = &attention;
        if (its.key_size() == its.head_dim && its.head_dim % 2 == 0) options.rotary = &rotary;
        for_each_isa([&](const fovea_context *context) {
          const MhaWeights weights = layer.make_weights(context);
          for (const fovea_mha_options *given :
               {static_cast<const fovea_mha_options *>(nullptr), static_cast<const fovea_mha_options *>(&options)}) {
            const Tensor<float> once = layer.make_out(), planned = layer.make_out();
            if (layer.run(context, weights, once, given) != FOVEA_OK) continue;  // lengths past the keys
            const Tensors tensors(layer, planned);
            const OwnPlan plan = make_plan(context, weights, tensors, given);
            fovea_mha_buffers buffers = tensors.buffers();
            auto masks = sized_options<fovea_attention_buffers>();
            masks.valid_lens = lens.data();
            if (given != nullptr) buffers.attention = &masks;
            CAPTURE(its.query_len);
            CAPTURE(its.heads);
            CAPTURE(static_cast<int>(inputs));
            CAPTURE((given == nullptr));
            for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
              const WithPlacement here(placement);
              CAPTURE(static_cast<int>(placement));
              REQUIRE_OK(run_plan(plan, buffers));
              CHECK(same_bits(once, planned));
            }
          }
        });
      }
    }
  }

  TEST_CASE("planned over a schedule: the bits of the call, step after step, in pages of another layer too") {
    const MultiHead layer = make_decoder(60);
    for_each_isa([&](const fovea_context *context) {
      const MhaWeights weights = layer.make_weights(context);
      Decoder called(context, 60, FOVEA_CAUSAL), planned(context, 60, FOVEA_CAUSAL);
      auto rotary = sized_options<fovea_rotary_options>();
      auto options = sized_options<fovea_mha_options>();
      options.rotary = &rotary;
      const auto use = [&](const Decoder &decoder) {
        options.schedule = decoder.schedule.get();
        options.key_pages = &decoder.keys;
        options.value_pages = &decoder.values;
      };
      const Tensor<float> first = layer.make_out(), second = layer.make_out();
      const auto tokens_of = [](const Tensor<float> &rows, int64_t count) {
        fovea_tensor view = rows.view();
        view.rank = 2;
        for (int axis = 0; axis < 2; ++axis) {
          view.shape[axis] = view.shape[axis + 1];
          view.strides[axis] = view.strides[axis + 1];
        }
        view.shape[0] = count;
        return view;
      };
      use(planned);
      fovea_tensor query = tokens_of(layer.query, 60), out = tokens_of(second, 60);
      query.data = out.data = nullptr;
      fovea_mha_plan *made = nullptr;
      REQUIRE_OK(fovea_mha_plan_create(context, weights.get(), &query, nullptr, nullptr, &out, &options, &made));
      const OwnPlan plan(made);
      const int64_t a[] = {open_sequence(called.pool), open_sequence(called.pool)};
      const int64_t b[] = {open_sequence(planned.pool), open_sequence(planned.pool)};
      for (const auto &[one, two] : {std::pair<int64_t, int64_t>{40, 20}, {1, 1}, {0, 3}, {0, 0}, {30, 1}}) {
        called.step({a[0], a[1]}, {one, two});
        planned.step({b[0], b[1]}, {one, two});
        use(called);
        const fovea_tensor x = tokens_of(layer.query, one + two), to = tokens_of(first, one + two);
        REQUIRE_OK(fovea_multi_head_attention(context, weights.get(), &x, nullptr, nullptr, &to, &options));
        auto buffers = sized_options<fovea_mha_buffers>();
        buffers.query = layer.query.data();
        buffers.out = second.data();
        buffers.key_pages = planned.keys.data;
        buffers.value_pages = planned.values.data;
        REQUIRE_OK(run_plan(plan, buffers));
        CHECK(same_bits(first, second));
      }
    });
  }

  TEST_CASE("planned: a rotation that does not fit the heads is refused with the plan, a position with the run") {
    const MultiHead layer = make_decoder(4);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out();
    Tensors tensors(layer, out);
    int32_t numbers[] = {0, 1, -2, 3};
    const int64_t three = 3, four = 4;
    fovea_tensor positions = fovea_tensor_contiguous(numbers, FOVEA_I32, 1, &three);
    auto rotary = sized_options<fovea_rotary_options>();
    auto options = sized_options<fovea_mha_options>();
    options.rotary = &rotary;
    fovea_mha_plan *made = nullptr;
    const auto refuse = [&](fovea_status status, std::initializer_list<std::string> words) {
      check_refusal(fovea_mha_plan_create(nullptr, weights.get(), &tensors.query, nullptr, nullptr, &tensors.out,
                                          &options, &made),
                    status, words);
      CHECK_EQ(made, nullptr);
    };
    rotary.rotary_dim = 3;
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "rotary_dim is 3"});
    rotary.rotary_dim = 0;
    rotary.positions = &positions;
    refuse(FOVEA_BAD_SHAPE, {"options.rotary", "positions.shape[0] is 3"});
    positions = fovea_tensor_contiguous(numbers, FOVEA_I32, 1, &four);
    const OwnPlan plan = make_plan(nullptr, weights, tensors, &options);
    const fovea_mha_buffers buffers = tensors.buffers();
    check_refusal(run_plan(plan, buffers), FOVEA_BAD_VALUE, {"plan's options.rotary", "positions[2] is -2"});
    CHECK(out.untouched());
    numbers[2] = 2;
    REQUIRE_OK(run_plan(plan, buffers));
  }

  TEST_CASE("planned: what is refused") {
    const MultiHead layer = make_decoder(4);
    const MhaWeights weights = layer.make_weights(nullptr);
    const Tensor<float> out = layer.make_out();
    const Tensors tensors(layer, out);
    const OwnPlan plan = make_plan(nullptr, weights, tensors, nullptr);
    const GuardedMemory workspace(fovea_mha_plan_workspace_size(plan.get()));
    const auto refuse = [&](fovea_status status, std::initializer_list<std::string> words, auto spoil) {
      fovea_mha_buffers buffers = tensors.buffers();
      size_t size = workspace.size();
      void *memory = workspace.data();
      spoil(buffers, memory, size);
      check_refusal(fovea_mha_run(plan.get(), &buffers, memory, size), status, words);
      CHECK(out.untouched());
    };
    refuse(FOVEA_NULL_POINTER, {"buffers.query"}, [](auto &buffers, auto &, auto &) { buffers.query = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"buffers.out"}, [](auto &buffers, auto &, auto &) { buffers.out = nullptr; });
    refuse(FOVEA_BAD_VALUE, {"buffers.key is", "NULL"},
           [](auto &buffers, auto &, auto &) { buffers.key = buffers.query; });
    refuse(FOVEA_BAD_VALUE, {"buffers.key_pages"},
           [](auto &buffers, auto &, auto &) { buffers.key_pages = buffers.out; });
    refuse(FOVEA_OVERLAP, {"out", "query"},
           [](auto &buffers, auto &, auto &) { buffers.out = const_cast<void *>(buffers.query); });
    refuse(FOVEA_WORKSPACE_TOO_SMALL, {"workspace_size"}, [](auto &, auto &, auto &size) { --size; });
    refuse(FOVEA_NULL_POINTER, {"workspace"}, [](auto &, auto &memory, auto &) { memory = nullptr; });
    refuse(FOVEA_BAD_OPTION, {"buffers.struct_size"}, [](auto &buffers, auto &, auto &) { buffers.struct_size = 5; });
    auto masks = sized_options<fovea_attention_buffers>();
    masks.mask = &masks;
    refuse(FOVEA_BAD_VALUE, {"buffers.attention", "mask"},
           [&](auto &buffers, auto &, auto &) { buffers.attention = &masks; });
    masks = sized_options<fovea_attention_buffers>();
    masks.query = &masks;
    refuse(FOVEA_BAD_VALUE, {"buffers.query", "NULL"},
           [&](auto &buffers, auto &, auto &) { buffers.attention = &masks; });
    const fovea_mha_buffers buffers = tensors.buffers();
    check_refusal(fovea_mha_run(nullptr, &buffers, nullptr, 0), FOVEA_NULL_POINTER, {"plan"});
    check_refusal(fovea_mha_run(plan.get(), nullptr, workspace.data(), workspace.size()), FOVEA_NULL_POINTER,
                  {"buffers"});
    CHECK_EQ(fovea_mha_plan_workspace_size(nullptr), 0);
    fovea_mha_plan_destroy(nullptr);
    Decoder decoder(nullptr, 60, FOVEA_CAUSAL);
    auto options = sized_options<fovea_mha_options>();
    options.schedule = decoder.schedule.get();
    options.key_pages = &decoder.keys;
    options.value_pages = &decoder.values;
    const int64_t shape[] = {3, 30};
    const fovea_tensor few = fovea_tensor_contiguous(nullptr, FOVEA_F32, 2, shape);
    fovea_mha_plan *made = nullptr;
    REQUIRE_OK(fovea_mha_plan_create(nullptr, weights.get(), &few, nullptr, nullptr, &few, &options, &made));
    const OwnPlan small(made);
    decoder.step({open_sequence(decoder.pool)}, {4});
    fovea_mha_buffers its = tensors.buffers();
    check_refusal(run_plan(small, its), FOVEA_BAD_SHAPE, {"4 tokens", "3"});
    decoder.step({open_sequence(decoder.pool)}, {2});
    its.key_pages = decoder.keys.data;
    check_refusal(run_plan(small, its), FOVEA_NULL_POINTER, {"buffers.value_pages"});
    its.value_pages = decoder.keys.data;
    its.key_pages = nullptr;
    check_refusal(run_plan(small, its), FOVEA_NULL_POINTER, {"buffers.key_pages"});
    its.key_pages = decoder.keys.data;
    check_refusal(run_plan(small, its), FOVEA_OVERLAP, {"key_pages", "value_pages"});
    decoder.step({open_sequence(decoder.pool)}, {4});
    its.key_pages = decoder.keys.data;
    its.value_pages = decoder.values.data;
    check_refusal(run_plan(small, its), FOVEA_BAD_SHAPE, {"4 tokens", "3"});
    CHECK(out.untouched());
  }
}
