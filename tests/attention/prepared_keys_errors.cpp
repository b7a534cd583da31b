// What prepared keys and plans over them refuse: by name, and without a change to them or to an output.
#include <doctest/doctest.h>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/creation.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

TEST_SUITE("prepared keys") {
  TEST_CASE("bad arguments: create") {
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_ADDITIVE, 3, 20);
    const ScoreArguments arguments(*problem.score);
    fovea_prepared_keys *keys = nullptr;
    const auto create = [&](const fovea_score *score, int64_t batch, int64_t kv_heads, int64_t capacity,
                            int64_t query_dim, int64_t key_dim) {
      return prepared_keys_create(nullptr, score, batch, kv_heads, capacity, query_dim, key_dim, &keys);
    };
    check_refusal(create(nullptr, 2, 2, 5, 10, 7), FOVEA_NULL_POINTER, {"score", "NULL"});
    check_refusal(prepared_keys_create(nullptr, &arguments.score, 2, 2, 5, 10, 7, nullptr), FOVEA_NULL_POINTER,
                  {"keys", "NULL"});
    for (int32_t kind : {FOVEA_SCORE_DOT, FOVEA_SCORE_GAUSSIAN}) {
      Random random(base_seed());
      const ScoreFunction other = make_score(kind, 10, 10, 1, random);
      const ScoreArguments other_arguments(other);
      check_refusal(create(&other_arguments.score, 2, 2, 5, 10, 10), FOVEA_BAD_VALUE, {"kind", std::to_string(kind)});
    }
    for (int64_t batch : {int64_t{-1}, (int64_t{1} << 30) + 1}) {
      check_refusal(create(&arguments.score, batch, 2, 5, 10, 7), FOVEA_BAD_VALUE,
                    {"sizes.batch", std::to_string(batch)});
    }
    for (int64_t heads : {int64_t{-1}, int64_t{0}, (int64_t{1} << 30) + 1}) {
      check_refusal(create(&arguments.score, 2, heads, 5, 10, 7), FOVEA_BAD_VALUE, {"kv_heads", std::to_string(heads)});
    }
    for (int64_t capacity : {int64_t{-1}, (int64_t{1} << 30) + 1}) {
      check_refusal(create(&arguments.score, 2, 2, capacity, 10, 7), FOVEA_BAD_VALUE,
                    {"capacity", std::to_string(capacity)});
    }
    for (int64_t dim : {-1, 0, 1025}) {
      check_refusal(create(&arguments.score, 2, 2, 5, dim, 7), FOVEA_BAD_VALUE, {"query_dim", std::to_string(dim)});
      check_refusal(create(&arguments.score, 2, 2, 5, 10, dim), FOVEA_BAD_VALUE, {"key_dim", std::to_string(dim)});
    }
    check_refusal(create(&arguments.score, 2, 2, 5, 9, 7), FOVEA_BAD_SHAPE, {"query_weight.shape[1]", "10", "9"});
    check_refusal(create(&arguments.score, 2, 2, 5, 10, 8), FOVEA_BAD_SHAPE, {"key_weight.shape[1]", "7", "8"});
    check_refusal(create(&arguments.score, 1 << 30, 1 << 30, 1 << 30, 10, 7), FOVEA_SIZE_OVERFLOW, {"capacity"});
    check_refusal(create(&arguments.score, 1 << 12, 1 << 5, 1 << 28, 10, 7), FOVEA_OUT_OF_MEMORY, {});
    fovea_score newer = arguments.score;
    newer.struct_size = 0;
    check_refusal(create(&newer, 2, 2, 5, 10, 7), FOVEA_BAD_OPTION, {"struct_size", "0"});
    fovea_tensor no_data = arguments.key_weight;
    no_data.data = nullptr;
    fovea_score bad = arguments.score;
    bad.key_weight = &no_data;
    check_refusal(create(&bad, 2, 2, 5, 10, 7), FOVEA_NULL_POINTER, {"score.key_weight.data is NULL"});
    check_refusal(fovea_prepared_keys_create(nullptr, &arguments.score, nullptr, &keys), FOVEA_NULL_POINTER,
                  {"sizes is NULL"});
    CHECK(keys == nullptr);
  }

  TEST_CASE("bad arguments: append and truncate") {
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_CONCAT, 3, 20);
    const Keys keys = make_keys(nullptr, problem, 20);
    append(nullptr, keys, problem, 0, 8);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      fovea_tensor part = slice_positions(problem.key, 8, 12);
      spoil(part);
      check_refusal(fovea_prepared_keys_append(nullptr, keys.get(), &part), expected, words);
      CHECK(fovea_prepared_keys_length(keys.get()) == 8);
    };
    refuse(FOVEA_NULL_POINTER, {"key", "NULL"}, [](fovea_tensor &part) { part.data = nullptr; });
    refuse(FOVEA_BAD_DTYPE, {"key has dtype FOVEA_I32"}, [](fovea_tensor &part) { part.dtype = FOVEA_I32; });
    for (int32_t rank : {1, 5}) refuse(FOVEA_BAD_RANK, {"key"}, [&](fovea_tensor &part) { part.rank = rank; });
    for (int axis : {0, 1, 3}) {
      refuse(FOVEA_BAD_SHAPE, {"key"}, [axis](fovea_tensor &part) { --part.shape[axis]; });
    }
    refuse(FOVEA_BAD_SHAPE, {"key.shape[2]", "-1"}, [](fovea_tensor &part) { part.shape[2] = -1; });
    refuse(FOVEA_BAD_STRIDE, {"key.strides[3]", "2"}, [](fovea_tensor &part) { part.strides[3] = 2; });
    refuse(FOVEA_SIZE_OVERFLOW, {"key"}, [](fovea_tensor &part) { part.strides[0] = INT64_MAX; });
    check_refusal(fovea_prepared_keys_append(nullptr, keys.get(), nullptr), FOVEA_NULL_POINTER, {"key", "NULL"});
    const fovea_tensor good = slice_positions(problem.key, 8, 12);
    check_refusal(fovea_prepared_keys_append(nullptr, nullptr, &good), FOVEA_NULL_POINTER, {"keys", "NULL"});
    for (int64_t length : {int64_t{-1}, int64_t{9}, INT64_MAX, INT64_MIN}) {
      check_refusal(fovea_prepared_keys_truncate(keys.get(), length), FOVEA_BAD_VALUE,
                    {"length", std::to_string(length), "8"});
    }
    check_refusal(fovea_prepared_keys_truncate(nullptr, 0), FOVEA_NULL_POINTER, {"keys", "NULL"});
    CHECK(fovea_prepared_keys_length(keys.get()) == 8);
  }

  TEST_CASE("bad arguments: attend") {
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_BILINEAR, 3, 20);
    const Keys keys = make_full(nullptr, problem);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      const AttentionResult result = problem.make_result();
      AttentionArguments call(problem, result);
      spoil(call);
      check_refusal(fovea_attention_prepared(nullptr, &call.query, keys.get(), &call.value, &call.out, &call.options),
                    expected, words);
      CHECK(result.out.untouched());
      CHECK(result.log_sum_exp->untouched());
      CHECK(result.weights->untouched());
    };
    refuse(FOVEA_NULL_POINTER, {"query", "NULL"}, [](AttentionArguments &call) { call.query.data = nullptr; });
    refuse(FOVEA_BAD_SHAPE, {"query", "9", "10"}, [](AttentionArguments &call) { call.query.shape[3] = 9; });
    refuse(FOVEA_BAD_SHAPE, {"query has 1 batch entries, expected 2"},
           [](AttentionArguments &call) { call.query.shape[0] = call.value.shape[0] = call.out.shape[0] = 1; });
    refuse(FOVEA_BAD_SHAPE, {"query has 3 heads, expected a multiple", "2"},
           [](AttentionArguments &call) { call.query.shape[1] = call.out.shape[1] = 3; });
    refuse(FOVEA_BAD_SHAPE, {"value", "19", "20"}, [](AttentionArguments &call) { call.value.shape[2] = 19; });
    refuse(FOVEA_BAD_SHAPE, {"value", "1", "2"}, [](AttentionArguments &call) { call.value.shape[1] = 1; });
    refuse(FOVEA_BAD_OPTION, {"flags"}, [](AttentionArguments &call) { call.options.flags = 0x80000000u; });
    refuse(FOVEA_OVERLAP, {"out", "value"}, [](AttentionArguments &call) { call.out.data = call.value.data; });
    const AttentionResult result = problem.make_result();
    const AttentionArguments call(problem, result);
    check_refusal(fovea_attention_prepared(nullptr, &call.query, nullptr, &call.value, &call.out, nullptr),
                  FOVEA_NULL_POINTER, {"keys", "NULL"});
    check_refusal(fovea_attention_prepared(nullptr, nullptr, keys.get(), &call.value, &call.out, nullptr),
                  FOVEA_NULL_POINTER, {"query", "NULL"});
    check_refusal(fovea_attention_prepared(nullptr, &call.query, keys.get(), nullptr, &call.out, nullptr),
                  FOVEA_NULL_POINTER, {"value", "NULL"});
    check_refusal(fovea_attention_prepared(nullptr, &call.query, keys.get(), &call.value, nullptr, nullptr),
                  FOVEA_NULL_POINTER, {"out", "NULL"});
    CHECK(result.out.untouched());
  }

  TEST_CASE("bad arguments: planned") {
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_ADDITIVE, 3, 20);
    const Keys keys = make_full(nullptr, problem);
    const AttentionResult result = problem.make_result();
    const AttentionArguments call(problem, result);
    fovea_plan *plan = nullptr;
    const auto create = [&](const fovea_prepared_keys *from, const fovea_tensor *value, fovea_plan **to) {
      return fovea_attention_prepared_plan_create(nullptr, &call.query, from, value, &call.out, &call.options, to);
    };
    check_refusal(create(nullptr, &call.value, &plan), FOVEA_NULL_POINTER, {"keys", "NULL"});
    check_refusal(create(keys.get(), nullptr, &plan), FOVEA_NULL_POINTER, {"value", "NULL"});
    check_refusal(create(keys.get(), &call.value, nullptr), FOVEA_NULL_POINTER, {"plan", "NULL"});
    fovea_tensor value = call.value;
    value.shape[2] = 19;
    check_refusal(create(keys.get(), &value, &plan), FOVEA_BAD_SHAPE, {"value", "19", "20"});
    CHECK(plan == nullptr);
    const AttentionPlan made(nullptr, problem, keys.get(), result);
    CHECK(made.describe().find("op=additive") == 0);
    const auto refuse = [&](fovea_status expected, std::initializer_list<std::string> words, auto spoil) {
      fovea_attention_buffers buffers = buffers_without_key(problem, result);
      spoil(buffers);
      check_refusal(made.run(buffers), expected, words);
      CHECK(result.out.untouched());
    };
    refuse(FOVEA_BAD_VALUE, {"buffers.key", "NULL"},
           [&](fovea_attention_buffers &buffers) { buffers.key = buffers.value; });
    refuse(FOVEA_BAD_VALUE, {"buffers.query_weight", "NULL"},
           [&](fovea_attention_buffers &buffers) { buffers.query_weight = buffers.value; });
    refuse(FOVEA_NULL_POINTER, {"value", "NULL"}, [](fovea_attention_buffers &buffers) { buffers.value = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"query", "NULL"}, [](fovea_attention_buffers &buffers) { buffers.query = nullptr; });
    check_refusal(fovea_attention_run(made.get(), nullptr, nullptr, 0), FOVEA_NULL_POINTER, {"buffers"});
  }
}
