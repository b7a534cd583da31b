// Every parameter of a score function, made bad in every way: the code, the words of the message, and outputs that stay
// as they were.
#include <functional>
#include <vector>

#include "errors.hpp"
#include "support/attention_problem.hpp"

using namespace testing;

namespace {

// A good call of one kind, to be spoiled.
struct Call {
  explicit Call(int32_t kind) {
    Random random(base_seed());
    AttentionSizes sizes = {
        .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 6, .value_dim = 7};
    if (takes_two_dims(kind)) sizes.key_dim = 8;
    problem = make_scored(kind, sizes, 9, random);
    if (kind == FOVEA_SCORE_GAUSSIAN) {
      problem.score->sigma = 0;
      problem.score->sigmas.emplace(Shape{4}).assign({1, 2, 3, 4});
    }
    result = problem.make_result();
    arguments.emplace(problem, result);
    score = &arguments->score->score;
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  fovea_status run() {
    return fovea_attention(nullptr, score, &arguments->query, &arguments->key, &arguments->value, &arguments->out,
                           &arguments->options);
  }
  fovea_status plan() {
    fovea_plan *const before = reinterpret_cast<fovea_plan *>(this);
    fovea_plan *plan = before;
    const fovea_status status =
        fovea_attention_plan_create(nullptr, score, &arguments->query, &arguments->key, &arguments->value,
                                    &arguments->out, &arguments->options, &plan);
    if (status == FOVEA_OK) {
      fovea_plan_destroy(plan);
    } else {
      CHECK(plan == before);
    }
    return status;
  }
  fovea_score &given() { return arguments->score->score; }

  bool outputs_untouched() const {
    return result.out.untouched() && result.log_sum_exp->untouched() && result.weights->untouched();
  }

  AttentionProblem problem;
  AttentionResult result;
  std::optional<AttentionArguments> arguments;
  const fovea_score *score;
};

enum class Where { kCallAndPlan, kCallOnly };

void refuse(int32_t kind, fovea_status expected, std::initializer_list<std::string> words,
            const std::function<void(Call &)> &spoil, Where where = Where::kCallAndPlan) {
  Call call(kind);
  const std::string score = score_name(kind);
  CAPTURE(score);
  spoil(call);
  check_refusal(call.run(), expected, words);
  CHECK(call.outputs_untouched());
  if (where == Where::kCallAndPlan) check_refusal(call.plan(), expected, words);
}

struct Parameter {
  const char *name;
  fovea_tensor ScoreArguments::*tensor;
  const fovea_tensor *fovea_score::*member;
};

constexpr Parameter kParameters[] = {{"query_weight", &ScoreArguments::query_weight, &fovea_score::query_weight},
                                     {"key_weight", &ScoreArguments::key_weight, &fovea_score::key_weight},
                                     {"weight", &ScoreArguments::weight, &fovea_score::weight},
                                     {"bias", &ScoreArguments::bias, &fovea_score::bias},
                                     {"score_vector", &ScoreArguments::score_vector, &fovea_score::score_vector},
                                     {"sigmas", &ScoreArguments::sigmas, &fovea_score::sigmas}};

fovea_tensor &tensor_of(Call &call, const Parameter &parameter) { return (*call.arguments->score).*(parameter.tensor); }

// body(kind, parameter, its rank) for each parameter that each kind is given.
template <typename Body>
void for_each_parameter(Body body) {
  for (int32_t kind : kScoreKinds) {
    for (const Parameter &parameter : kParameters) {
      Call call(kind);
      if (call.given().*(parameter.member) == nullptr) continue;
      CAPTURE(parameter.name);
      body(kind, parameter, tensor_of(call, parameter).rank);
    }
  }
}

}  // namespace

TEST_SUITE("errors") {
  TEST_CASE("scores: the unspoiled calls are accepted") {
    for (int32_t kind : kScoreKinds) {
      Call call(kind);
      REQUIRE_OK(call.plan());
      CHECK(call.outputs_untouched());
      REQUIRE_OK(call.run());
      CHECK(!call.outputs_untouched());
    }
  }

  TEST_CASE("scores: kinds that are none") {
    for (int32_t kind : {-1, 5, 6, INT32_MAX, INT32_MIN}) {
      refuse(FOVEA_SCORE_DOT, FOVEA_BAD_VALUE, {"score.kind", std::to_string(kind)},
             [kind](Call &call) { call.given().kind = kind; });
    }
  }

  TEST_CASE("scores: struct sizes, newer structs") {
    for (int32_t kind : kScoreKinds) {
      for (size_t size : {size_t{0}, size_t{1}, sizeof(fovea_score) - 1, size_t{1} << 40, SIZE_MAX}) {
        refuse(kind, FOVEA_BAD_OPTION, {"score.struct_size", std::to_string(size)},
               [size](Call &call) { call.given().struct_size = size; });
      }
    }
    struct Newer {
      fovea_score known;
      unsigned char unknown[24];
    };
    for (size_t set = 0; set <= 24; ++set) {
      Call call(FOVEA_SCORE_ADDITIVE);
      Newer newer{};
      newer.known = call.given();
      newer.known.struct_size = sizeof newer;
      if (set > 0) newer.unknown[set - 1] = 1;
      call.score = &newer.known;
      if (set == 0) {
        REQUIRE_OK(call.plan());
        REQUIRE_OK(call.run());
      } else {
        check_refusal(call.run(), FOVEA_BAD_OPTION, {"score"});
        CHECK(call.outputs_untouched());
        check_refusal(call.plan(), FOVEA_BAD_OPTION, {"score"});
      }
    }
  }

  TEST_CASE("scores: parameters that are missing") {
    for_each_parameter([](int32_t kind, const Parameter &parameter, int) {
      if (kind == FOVEA_SCORE_CONCAT && std::string(parameter.name) == "bias") return;  // optional
      const fovea_status expected = kind == FOVEA_SCORE_GAUSSIAN ? FOVEA_BAD_VALUE : FOVEA_NULL_POINTER;
      const std::string name = kind == FOVEA_SCORE_GAUSSIAN ? "score.sigma" : std::string("score.") + parameter.name;
      refuse(kind, expected, {name}, [&](Call &call) { call.given().*(parameter.member) = nullptr; });
    });
  }

  TEST_CASE("scores: parameters that the kind does not take") {
    for (int32_t kind : kScoreKinds) {
      for (const Parameter &parameter : kParameters) {
        if (Call(kind).given().*(parameter.member) != nullptr) continue;
        refuse(kind, FOVEA_BAD_VALUE, {std::string("score.") + parameter.name, "NULL"},
               [&](Call &call) { call.given().*(parameter.member) = &call.arguments->query; });
      }
      refuse(kind, FOVEA_BAD_VALUE, {"score.sigma", "2.5"}, [](Call &call) { call.given().sigma = 2.5f; });
    }
  }

  TEST_CASE("scores: sigma that is not above 0 and finite") {
    for (float sigma : {0.0f, -0.0f, -1.0f, -1e-40f, kNan, kInfinity, -kInfinity}) {
      refuse(FOVEA_SCORE_GAUSSIAN, FOVEA_BAD_VALUE, {"score.sigma"}, [sigma](Call &call) {
        call.given().sigmas = nullptr;
        call.given().sigma = sigma;
      });
      for (int64_t head = 0; head < 4; ++head) {
        refuse(
            FOVEA_SCORE_GAUSSIAN, FOVEA_BAD_VALUE, {"score.sigmas[" + std::to_string(head) + "]"},
            [&](Call &call) { (*call.problem.score->sigmas)(head) = sigma; }, Where::kCallOnly);
      }
    }
  }

  TEST_CASE("scores: wrong ranks and element types") {
    for_each_parameter([](int32_t kind, const Parameter &parameter, int right_rank) {
      const std::string name = std::string("score.") + parameter.name;
      for (int32_t rank : {-1, 0, 1, 2, 3, 7, INT32_MIN, INT32_MAX}) {
        if (rank == right_rank) continue;
        refuse(kind, FOVEA_BAD_RANK, {name, std::to_string(rank)},
               [&](Call &call) { tensor_of(call, parameter).rank = rank; });
      }
      for (const fovea_dtype dtype : kDtypes) {
        const bool floats = dtype == FOVEA_F16 || dtype == FOVEA_BF16;
        if (dtype == FOVEA_F32 || (floats && std::string(parameter.name) != "sigmas")) continue;
        refuse(kind, FOVEA_BAD_DTYPE, {name + " has dtype " + dtype_name(dtype) + ", expected FOVEA_F32"},
               [&](Call &call) { tensor_of(call, parameter).dtype = dtype; });
      }
    });
  }

  TEST_CASE("scores: sizes that do not chain") {
    for_each_parameter([](int32_t kind, const Parameter &parameter, int rank) {
      const std::string name = std::string("score.") + parameter.name;
      for (int axis = 0; axis < rank; ++axis) {
        for (int64_t size : {int64_t{-1}, INT64_MIN}) {
          refuse(kind, FOVEA_BAD_SHAPE, {axis_of(name, "shape", axis), std::to_string(size)},
                 [&](Call &call) { tensor_of(call, parameter).shape[axis] = size; });
        }
        Call sizes(kind);
        const int64_t size = tensor_of(sizes, parameter).shape[axis];
        for (int64_t other : {size - 1, size + 1}) {
          // A score vector of another length blames the weights that do not follow it.
          const bool leads = std::string(parameter.name) == "score_vector";
          refuse(kind, FOVEA_BAD_SHAPE,
                 {leads ? "shape[0]" : axis_of(name, "shape", axis), std::to_string(other), std::to_string(size)},
                 [&](Call &call) { tensor_of(call, parameter).shape[axis] = other; });
        }
      }
    });
    // Queries of 5 instead of 6, then keys of one less than they had: what the parameters do not have, or each other.
    const struct {
      int32_t kind;
      const char *query_message, *key_message;
    } cases[] = {
        {FOVEA_SCORE_DOT, "key has 6 features, expected 5", "key has 5 features, expected 6"},
        {FOVEA_SCORE_BILINEAR, "score.weight.shape[0] is 6, expected 5", "score.weight.shape[1] is 8, expected 7"},
        {FOVEA_SCORE_ADDITIVE, "score.query_weight.shape[1] is 6, expected 5",
         "score.key_weight.shape[1] is 8, expected 7"},
        {FOVEA_SCORE_CONCAT, "score.weight.shape[1] is 14, expected 13", "score.weight.shape[1] is 14, expected 13"},
        {FOVEA_SCORE_GAUSSIAN, "key has 6 features, expected 5", "key has 5 features, expected 6"}};
    for (const auto &c : cases) {
      refuse(c.kind, FOVEA_BAD_SHAPE, {c.query_message}, [](Call &call) { --call.arguments->query.shape[3]; });
      refuse(c.kind, FOVEA_BAD_SHAPE, {c.key_message}, [](Call &call) { --call.arguments->key.shape[3]; });
    }
  }

  TEST_CASE("scores: hidden units and feature sizes out of range") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (int64_t hidden : {int64_t{0}, int64_t{65537}, int64_t{1} << 40}) {
        refuse(kind, FOVEA_BAD_SHAPE,
               {"score.score_vector has " + std::to_string(hidden) + " hidden units, expected 1 to 65536"},
               [&](Call &call) {
                 for (const Parameter &parameter : kParameters) {
                   if (call.given().*(parameter.member) == nullptr) continue;
                   tensor_of(call, parameter).shape[0] = hidden;
                   tensor_of(call, parameter).strides[0] = 0;
                 }
               });
      }
    }
    for (int32_t kind : kScoreKinds) {
      for (int64_t dim : {0, 1025}) {
        refuse(kind, FOVEA_BAD_SHAPE, {"key has " + std::to_string(dim) + " features, expected 1 to 1024"},
               [dim](Call &call) { call.arguments->key.shape[3] = dim; });
      }
    }
  }

  TEST_CASE("scores: data that is NULL, not aligned or out of the address space") {
    for_each_parameter([](int32_t kind, const Parameter &parameter, int) {
      const std::string name = std::string("score.") + parameter.name;
      refuse(
          kind, FOVEA_NULL_POINTER, {name + ".data is NULL"},
          [&](Call &call) { tensor_of(call, parameter).data = nullptr; }, Where::kCallOnly);
      refuse(
          kind, FOVEA_BAD_VALUE, {name + ".data is 0x"},
          [&](Call &call) {
            fovea_tensor &tensor = tensor_of(call, parameter);
            tensor.data = static_cast<char *>(tensor.data) + 1;
          },
          Where::kCallOnly);
      for (int64_t stride : {int64_t{1} << 61, -(int64_t{1} << 61), INT64_MAX, INT64_MIN}) {
        refuse(kind, FOVEA_SIZE_OVERFLOW, {name + "'s shape"},
               [&](Call &call) { tensor_of(call, parameter).strides[0] = stride; });
      }
      refuse(
          kind, FOVEA_SIZE_OVERFLOW, {name + "'s shape"},
          [&](Call &call) { tensor_of(call, parameter).data = reinterpret_cast<void *>(~uintptr_t{0} - 3); },
          Where::kCallOnly);
    });
  }

  TEST_CASE("scores: outputs over a parameter") {
    for_each_parameter([](int32_t kind, const Parameter &parameter, int) {
      for (const auto &[name, output] :
           {std::pair{"out", &AttentionArguments::out}, std::pair{"log_sum_exp", &AttentionArguments::log_sum_exp},
            std::pair{"weights", &AttentionArguments::weights}}) {
        for (bool last : {false, true}) {
          Call call(kind);
          const fovea_tensor &target = tensor_of(call, parameter);
          int64_t offset = 0;
          for (int axis = 0; last && axis < target.rank; ++axis) {
            offset += (target.shape[axis] - 1) * target.strides[axis];
          }
          ((*call.arguments).*output).data = static_cast<float *>(target.data) + offset;
          check_refusal(call.run(), FOVEA_OVERLAP,
                        {std::string(name) + " (at ", std::string("overlaps score.") + parameter.name + " (at "});
          CHECK(call.outputs_untouched());
        }
      }
    });
  }
}
