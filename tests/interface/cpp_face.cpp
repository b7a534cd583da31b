// The C++ interface: each function once, errors as exceptions with the C message, owners that move. What the functions
// compute is tested through the C interface they call.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpp_face.hpp"

using fovea::Input;
using fovea::Output;
using fovea::Tensor;
using namespace testing;

namespace {

// All keys equal: whatever the score, the weights are uniform over the valid keys and the output known.
struct UniformProblem {
  Floats query = {0.3f, -1.2f, 2.0f, 0.7f}, key = Floats(2 * 10 * 2, 1.0f), value = counting(40), out = Floats(8);
  std::vector<std::int64_t> lengths = {2, 6};
  Tensor<const float> q = Tensor<const float>(query, {2, 1, 2});
  Tensor<const float> k = Tensor<const float>(key, {2, 10, 2});
  // The same values for both sequences: a stride of 0.
  Tensor<const float> v = Tensor<const float>(value, {2, 10, 4}, {0, 4, 1});
  Tensor<float> o = Tensor(out, {2, 1, 4});

  void check() const { check_near(out, {2, 3, 4, 5, 10, 11, 12, 13}); }
};

}  // namespace

TEST_SUITE_BEGIN("cpp face");

template <typename Owner>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<Owner> &&std::is_nothrow_move_assignable_v<Owner> &&
                            !std::is_copy_constructible_v<Owner> && !std::is_copy_assignable_v<Owner>;
static_assert(moves_only<fovea::Context> && moves_only<fovea::Plan> && moves_only<fovea::PackedMatrix> &&
              moves_only<fovea::PreparedKeys>);

TEST_CASE("errors carry status and message, and leave the output alone") {
  UniformProblem p;
  p.out.assign(8, 7.0f);
  const std::vector<std::int32_t> wrong = {2, 11};
  check_error(FOVEA_BAD_VALUE, "valid_lens[1]", [&] { fovea::sdpa(p.q, p.k, p.v, p.o, {.valid_lens = wrong}); });
  check_error(FOVEA_NULL_POINTER, "key", [&] { fovea::sdpa(p.q, {}, p.v, p.o); });
  check_error(FOVEA_BAD_RANK, "query", [&] { fovea::sdpa(p.query, p.k, p.v, p.o); });
  CHECK_EQ(p.out, Floats(8, 7.0f));
  check_error(FOVEA_UNKNOWN_ISA, "max_isa", [] { fovea::Context({.max_isa = "abacus"}); });
}

TEST_CASE("precision: a context's, and a call's own") {
  const fovea::Context medium({.precision = fovea::Precision::medium});
  Floats query(70 * 32), out(query.size()), highest(query.size()), own(query.size());
  for (size_t n = 0; n < query.size(); ++n) query[n] = std::sin(static_cast<float>(n));
  const auto run = [&](const fovea::Context &context, Floats &result, fovea::Precision precision) {
    const fovea::Input x{query, {70, 32}};
    fovea::sdpa(x, x, x, {result, {70, 32}}, {.precision = precision}, context);
  };
  run({}, highest, fovea::Precision::unset);
  run(medium, out, fovea::Precision::unset);
  run({}, own, fovea::Precision::medium);
  CHECK(out == own);  // rounded to bfloat16 or not, as the processor has it
  run(medium, own, fovea::Precision::highest);
  CHECK(highest == own);
}

TEST_CASE("context: options, moves, the default one") {
  CHECK_EQ(fovea::version(), fovea_version());
  REQUIRE_FALSE(fovea::isa_available().empty());
  CHECK_EQ(fovea::isa_available()[0], "base");
  fovea::Context context({.max_threads = 3, .max_isa = "base"});
  CHECK_EQ(std::string(context.isa_name()), "base");
  const fovea_context *handle = context.get();
  fovea::Context moved = std::move(context);
  CHECK_EQ(moved.get(), handle);
  CHECK(context.get() == nullptr);  // NOLINT(bugprone-use-after-move): documented
  context = std::move(moved);
  CHECK_EQ(context.get(), handle);

  int calls = 0;
  const fovea::Context own({.max_threads = 2,
                            .parallel_for =
                                [](void *user, std::int64_t count, fovea_work work, void *data) {
                                  ++*static_cast<int *>(user);
                                  while (count > 0) work(data, --count);
                                },
                            .parallel_for_user = &calls});
  const Floats x(8 * 256 * 16, 0.5f);
  Floats out(x.size());
  const Input heads(x, {8, 256, 16});
  fovea::sdpa(heads, heads, heads, Tensor(out, {8, 256, 16}), {}, own);
  CHECK(std::ranges::all_of(out, [](float value) { return std::abs(value - 0.5f) < 1e-5f; }));
  CHECK(calls > 0);
}

TEST_CASE("sdpa with options") {
  UniformProblem p;
  Floats weights(20), lse(2);
  fovea::sdpa(p.q, p.k, p.v, p.o,
              {.scale = 1,
               .valid_lens = p.lengths,
               .log_sum_exp = Tensor(lse, {2, 1}),
               .weights = Tensor(weights, {2, 1, 10})});
  p.check();
  CHECK_EQ(weights[1], 0.5f);
  CHECK_EQ(weights[2], 0.0f);
  check_near(lse, {-0.9 + std::log(2.0), 2.7 + std::log(6.0)});

  // Equal scores: the output is the mean of the values that are attended.
  const Floats zeros(4), values = {1, 3};
  Floats means(2), one(1), average(2);
  const Input two(zeros, {2, 2}), single(zeros, {1, 2}), v(values, {2, 1});
  fovea::sdpa(single, two, v, Tensor(one, {1, 1}), {.causal = true});
  check_near(one, {2});
  const Floats unlike = {-5, 1, 5, 3};  // whose scores with themselves differ
  fovea::sdpa(Tensor(unlike, {2, 2}), Tensor(unlike, {2, 2}), v, Tensor(means, {2, 1}), {.scale = 0.0f});
  check_near(means, {2, 2});
  fovea::sdpa(single, two, v, Tensor(one, {1, 1}), {.causal = true, .top_left = true});
  check_near(one, {1});
  fovea::sdpa(two, two, v, Tensor(means, {2, 1}), {.window_right = 0});
  check_near(means, {1, 2});
  fovea::sdpa(two, two, v, Tensor(means, {2, 1}), {.window_right = 1});
  check_near(means, {2, 2});
  const std::vector<std::int32_t> none = {0};
  fovea::sdpa(single, two, v, Tensor(one, {1, 1}), {.empty_rows = fovea::EmptyRows::uniform, .valid_lens = none});
  check_near(one, {2});
  fovea::sdpa(Tensor(zeros, {1, 2, 1, 2}), Tensor(zeros, {1, 1, 2, 2}), Tensor(values, {1, 1, 2, 1}),
              Tensor(means, {1, 2, 1, 1}), {.average_weights = true, .weights = Tensor(average, {1, 1, 2})});
  check_near(average, {0.5, 0.5});

  // Every other flag and number against the same call in C.
  const Floats query = counting(2 * 6 * 3), slopes = {0.5f, 0.25f}, sinks = {0.1f, -1.0f};
  Floats bias(6 * 6, 0.125f), out(2 * 6 * 3), expected(2 * 6 * 3);
  std::vector<std::uint8_t> mask(36, 1);
  mask[6] = 0;
  const std::int64_t shape[] = {1, 2, 6, 3};
  const Input x(query, fovea::Shape(shape));
  const fovea::AttentionOptions options = {.causal = true,
                                           .leave_one_out = true,
                                           .empty_rows = fovea::EmptyRows::uniform,
                                           .scale = 0.01f,
                                           .softcap = 2,
                                           .query_offset = 1,
                                           .window_left = 3,
                                           .window_right = 1,
                                           .mask = Tensor(std::as_const(mask), {1, 1, 6, 6}),
                                           .bias = Tensor(bias, {1, 1, 6, 6}),
                                           .alibi_slopes = slopes,
                                           .sinks = sinks};
  fovea_attention_options c{};
  c.struct_size = sizeof c;
  c.flags = FOVEA_CAUSAL | FOVEA_LEAVE_ONE_OUT | FOVEA_QUERY_OFFSET | FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
  c.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
  c.scale = 0.01f;
  c.softcap = 2;
  c.query_offset = 1;
  c.window_left = 3;
  c.window_right = 1;
  const std::int64_t square[] = {1, 1, 6, 6}, heads[] = {2};
  const fovea_tensor mask_view = fovea_tensor_contiguous(mask.data(), FOVEA_BOOL, 4, square);
  const fovea_tensor bias_view = fovea_tensor_contiguous(bias.data(), FOVEA_F32, 4, square);
  const fovea_tensor slopes_view = fovea_tensor_contiguous(slopes.data(), FOVEA_F32, 1, heads);
  const fovea_tensor sinks_view = fovea_tensor_contiguous(sinks.data(), FOVEA_F32, 1, heads);
  const fovea_tensor out_view = fovea_tensor_contiguous(expected.data(), FOVEA_F32, 4, shape);
  c.mask = &mask_view;
  c.bias = &bias_view;
  c.alibi_slopes = &slopes_view;
  c.sinks = &sinks_view;
  REQUIRE_EQ(fovea_sdpa(nullptr, x.get(), x.get(), x.get(), &out_view, &c), FOVEA_OK);
  fovea::sdpa(x, x, x, Tensor(out, fovea::Shape(shape)), options);
  CHECK_EQ(out, expected);
  const std::vector<std::int64_t> offsets = {2};
  const std::int64_t batch[] = {1};
  const fovea_tensor offsets_view = fovea_tensor_contiguous(offsets.data(), FOVEA_I64, 1, batch);
  fovea_attention_options moved = c;
  moved.flags = FOVEA_CAUSAL;
  moved.query_offsets = &offsets_view;
  REQUIRE_EQ(fovea_sdpa(nullptr, x.get(), x.get(), x.get(), &out_view, &moved), FOVEA_OK);
  fovea::sdpa(x, x, x, Tensor(out, fovea::Shape(shape)),
              {.causal = true,
               .empty_rows = fovea::EmptyRows::uniform,
               .scale = 0.01f,
               .softcap = 2,
               .mask = options.mask,
               .bias = options.bias,
               .alibi_slopes = slopes,
               .sinks = sinks,
               .query_offsets = offsets});
  CHECK_EQ(out, expected);
}

TEST_CASE("plan: made without data, run with it, moved") {
  UniformProblem p;
  const fovea::Context context({.max_threads = 2});
  fovea::Plan planned = fovea::Plan::sdpa(Input::at(nullptr, {2, 1, 2}), Input::at(nullptr, {2, 10, 2}),
                                          Input::at(nullptr, {2, 10, 4}, {0, 4, 1}), Output::at(nullptr, {2, 1, 4}),
                                          {.valid_lens = p.lengths}, context);
  CHECK(planned.describe().starts_with("op=sdpa"));
  CHECK(planned.describe().back() != '\0');
  const fovea::Plan plan = std::move(planned);
  std::vector<std::byte> workspace(plan.workspace_size());
  fovea::AttentionBuffers buffers;
  buffers.query = p.query.data();
  buffers.key = p.key.data();
  buffers.value = p.value.data();
  buffers.out = p.out.data();
  buffers.valid_lens = p.lengths.data();
  plan.run(buffers, workspace);
  p.check();
  check_error(FOVEA_NULL_POINTER, "plan", [&] { planned.run(buffers, workspace); });  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("masked_softmax, merge_states, exp, tanh") {
  const Floats x = {0, 0, 0, 0, 5, 5};
  Floats out(6);
  fovea::masked_softmax(Tensor(x, {2, 3}), {}, Tensor(out, {2, 3}));
  check_near(out, {1. / 3, 1. / 3, 1. / 3, 0.0033576, 0.4983212, 0.4983212});
  const std::vector<std::int32_t> none = {0};
  fovea::masked_softmax(Tensor(x, {2, 3}), none, Tensor(out, {2, 3}), {.empty_rows = fovea::EmptyRows::uniform});
  check_near(out, {1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3});

  fovea::softmax(Tensor(x, {2, 3}), 0, Tensor(out, {2, 3}));
  check_near(out, {0.5, 0.0066929, 0.0066929, 0.5, 0.9933071, 0.9933071});
  fovea::log_softmax(Tensor(x, {2, 3}), -1, Tensor(out, {2, 3}));
  check_near(out, {-std::log(3.0), -std::log(3.0), -std::log(3.0), -5.6965154, -0.6965154, -0.6965154});

  const Floats outs = {1, 2, 3, 4}, lses = {0, 0};
  Floats merged(2), lse(1);
  fovea::merge_states(Tensor(outs, {2, 1, 2}), Tensor(lses, {2, 1}), Tensor(merged, {1, 2}), lse);
  check_near(merged, {2, 3});
  check_near(lse, {std::log(2.0)});

  const std::array<float, 3> numbers = {-1, 0, 2};
  Floats results(3);
  fovea::exp(numbers, results);
  check_near(results, {std::exp(-1.0), 1, std::exp(2.0)});
  fovea::tanh(numbers, results);
  check_near(results, {std::tanh(-1.0), 0, std::tanh(2.0)});
  fovea::exp(results, results);  // in place
  check_near(results, {std::exp(std::tanh(-1.0)), 1, std::exp(std::tanh(2.0))});
}

TEST_CASE("matmul, plain and packed") {
  const Floats a = counting(6), b = counting(12);
  Floats out(8), again(8);
  fovea::matmul(Tensor(a, {2, 3}), Tensor(b, {3, 4}), Tensor(out, {2, 4}));
  check_near(out, {20, 23, 26, 29, 56, 68, 80, 92});
  fovea::PackedMatrix first(Tensor(b, {3, 4}));
  CHECK(first.size_bytes() >= 12 * sizeof(float));
  const fovea::PackedMatrix packed = std::move(first);
  fovea::matmul(Tensor(a, {2, 3}), packed, Tensor(again, {2, 4}));
  CHECK_EQ(out, again);
  const Floats c = {1, 0};
  fovea::gemm(Tensor(a, {2, 3}), Tensor(b, {3, 4}), Tensor(out, {2, 4}),
              {.alpha = 0.5f, .beta = 2, .c = Tensor(c, {2, 1})});
  check_near(out, {12, 13.5, 15, 16.5, 28, 34, 40, 46});
  fovea::gemm(Tensor(a, {2, 3}), Tensor(b, {3, 4}), Tensor(out, {2, 4}), {.alpha = 0, .c = Tensor(c, {2, 1})});
  check_near(out, {1, 1, 1, 1, 0, 0, 0, 0});
  check_error(FOVEA_BAD_SHAPE, "a.shape[1]", [&] { fovea::matmul(Tensor(a, {2, 2}), packed, Tensor(out, {2, 4})); });
}

TEST_SUITE_END();

int main(int argc, char **argv) { return doctest::Context(argc, argv).run(); }
