// New keys and values that a step writes into pages.
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {.heads = 4, .kv_heads = 2, .head_dim = 20, .value_dim = 12};

// Sequences that bring their last query_len positions.
std::vector<AttentionProblem> make_sequences(const std::vector<std::pair<int64_t, int64_t>> &lengths) {
  Random random(base_seed());
  std::vector<AttentionProblem> sequences;
  for (const auto &[query_len, key_len] : lengths) {
    AttentionSizes sizes = kSizes;
    sizes.query_len = query_len;
    sizes.key_len = key_len;
    sequences.push_back(make_attention(sizes, random));
    sequences.back().flags = FOVEA_CAUSAL;
  }
  return sequences;
}

// The new rows of all sequences, [tokens,Hkv,dim].
Tensor<float> new_rows(const std::vector<AttentionProblem> &sequences, Tensor<float> AttentionProblem::*rows,
                       int64_t tokens, int64_t gap) {
  const int64_t heads = kSizes.kv_heads, dim = (sequences.front().*rows).shape()[3];
  Tensor<float> packed({tokens, heads, dim}, permuted_strides({tokens, heads, dim}, {0, 1, 2}, gap));
  packed.fill([] { return kNan; });  // behind the step's tokens
  int64_t token = 0;
  for (const AttentionProblem &sequence : sequences) {
    for (int64_t i = 0; i < sequence.sizes.query_len; ++i, ++token) {
      const int64_t j = sequence.sizes.key_len - sequence.sizes.query_len + i;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < dim; ++d) packed(token, h, d) = (sequence.*rows)(0, h, j, d);
      }
    }
  }
  return packed;
}

std::vector<float> numbers(const fovea_tensor &pages) {
  std::vector<float> all;
  for_each_index({pages.shape[0], pages.shape[1], pages.shape[2], pages.shape[3]}, [&](const Shape &at) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < 4; ++axis) offset += at[axis] * pages.strides[axis];
    all.push_back(pages.dtype == FOVEA_F32 ? static_cast<const float *>(pages.data)[offset]
                                           : widened(static_cast<const uint16_t *>(pages.data)[offset], pages.dtype));
  });
  return all;
}

void make_nan(const fovea_tensor &pages, const std::vector<int64_t> &its, int64_t size, int64_t first, int64_t last) {
  for (int64_t j = first; j < last; ++j) {
    for (int64_t h = 0; h < pages.shape[1]; ++h) {
      for (int64_t d = 0; d < pages.shape[3]; ++d) {
        const int64_t offset = its[static_cast<size_t>(j / size)] * pages.strides[0] + h * pages.strides[1] +
                               j % size * pages.strides[2] + d;
        if (pages.dtype == FOVEA_F32) {
          static_cast<float *>(pages.data)[offset] = kNan;
        } else {
          static_cast<uint16_t *>(pages.data)[offset] = 0x7fff;
        }
      }
    }
  }
}

}  // namespace

TEST_SUITE("ragged append") {
  TEST_CASE("what is appended is what was there: types, page sizes, layouts") {
    const auto sequences = make_sequences({{1, 1}, {3, 40}, {0, 7}, {16, 16}, {1, 33}, {70, 70}});
    for (const fovea_dtype kept : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      for (const fovea_dtype given : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
        for (const int64_t size : {1, 16, 17, 100}) {
          CAPTURE(kept);
          CAPTURE(given);
          CAPTURE(size);
          RaggedLayout layout = {.page_size = size, .gap = size % 3, .spare = 3, .key = kept, .value = kept};
          if (size == 17) layout.page_axes = {0, 2, 1, 3};
          for_each_isa([&](const fovea_context *context) {
            const Ragged step(sequences, layout);
            OwnSchedule schedule;
            REQUIRE_OK(step.create(context, &schedule));
            REQUIRE_OK(fovea_schedule_set(schedule.get(), &step.step()));
            const std::vector<float> keys = numbers(step.keys()), values = numbers(step.values());
            for (size_t s = 0; s < sequences.size(); ++s) {
              const AttentionSizes &its = sequences[s].sizes;
              for (const fovea_tensor &pages : {step.keys(), step.values()}) {
                make_nan(pages, step.pages()[s], size, its.key_len - its.query_len, its.key_len);
              }
            }
            const int64_t tokens = step.tokens() + size % 2;
            const RaggedRows key(new_rows(sequences, &AttentionProblem::key, tokens, size % 3), given);
            const RaggedRows value(new_rows(sequences, &AttentionProblem::value, tokens, size % 2), given);
            const fovea_tensor k = key.view(), v = value.view(), k_pages = step.keys(), v_pages = step.values();
            REQUIRE_OK(fovea_schedule_append(schedule.get(), &k, &v, &k_pages, &v_pages, nullptr));
            const auto expect = [&](const std::vector<float> &before, const std::vector<float> &now) {
              for (size_t n = 0; n < before.size(); ++n) {
                if (std::isnan(before[n])) {
                  REQUIRE(std::isnan(now[n]));
                } else if (given == kept || given == FOVEA_F32) {
                  REQUIRE_EQ(before[n], now[n]);
                } else {  // rounded twice
                  REQUIRE_LT(std::abs(before[n] - now[n]), 0.02F * (1 + std::abs(before[n])));
                }
              }
            };
            expect(keys, numbers(step.keys()));
            expect(values, numbers(step.values()));
          });
        }
      }
    }
  }

  TEST_CASE("what cannot be appended is refused, and pages stay as they are") {
    const auto sequences = make_sequences({{1, 3}, {3, 40}});
    const Ragged step(sequences, {.page_size = 16});
    const fovea_context *context = shared_context(instruction_sets().back());
    OwnSchedule schedule;
    REQUIRE_OK(step.create(context, &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &step.step()));
    const std::vector<float> before = numbers(step.keys());
    struct Call {
      fovea_tensor key, value, key_pages, value_pages;
    };
    const RaggedRows key(new_rows(sequences, &AttentionProblem::key, 4, 0), FOVEA_F32);
    const RaggedRows value(new_rows(sequences, &AttentionProblem::value, 4, 0), FOVEA_F32);
    const Call no_values = {key.view(), value.view(), step.keys(), step.values()};
    const auto refuse = [&](fovea_status status, std::initializer_list<std::string> words, auto spoil) {
      Call call = {key.view(), value.view(), step.keys(), step.values()};
      spoil(call);
      check_refusal(
          fovea_schedule_append(schedule.get(), &call.key, &call.value, &call.key_pages, &call.value_pages, nullptr),
          status, words);
      CHECK(std::memcmp(before.data(), numbers(step.keys()).data(), before.size() * sizeof(float)) == 0);
    };
    refuse(FOVEA_BAD_SHAPE, {"key has 3 tokens", "4"}, [](Call &call) { call.key.shape[0] = 3; });
    refuse(FOVEA_BAD_SHAPE, {"value", "heads", "1", "2"}, [](Call &call) { call.value.shape[1] = 1; });
    refuse(FOVEA_BAD_SHAPE, {"key", "features", "19", "20"}, [](Call &call) { call.key.shape[2] = 19; });
    refuse(FOVEA_BAD_RANK, {"key has rank 2"}, [](Call &call) { call.key.rank = 2; });
    refuse(FOVEA_BAD_DTYPE, {"value", "FOVEA_I32"}, [](Call &call) { call.value.dtype = FOVEA_I32; });
    refuse(FOVEA_BAD_SHAPE, {"key_pages.shape[0]"}, [](Call &call) { call.key_pages.shape[0] -= 1; });
    refuse(FOVEA_BAD_STRIDE, {"value_pages.strides[0]"}, [](Call &call) { call.value_pages.strides[0] += 1; });
    refuse(FOVEA_BAD_DTYPE, {"key_pages", "FOVEA_F16", "FOVEA_F32"},
           [](Call &call) { call.key_pages.dtype = FOVEA_F16; });
    refuse(FOVEA_NULL_POINTER, {"key_pages"}, [](Call &call) { call.key_pages.data = nullptr; });
    check_refusal(
        fovea_schedule_append(schedule.get(), &no_values.key, nullptr, &no_values.key_pages, nullptr, nullptr),
        FOVEA_NULL_POINTER, {"value is NULL", "view"});
    refuse(FOVEA_OVERLAP, {"key_pages", "value_pages"},
           [](Call &call) { call.value_pages.data = call.key_pages.data; });
    check_refusal(fovea_schedule_append(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), FOVEA_NULL_POINTER,
                  {"schedule"});
  }

  TEST_CASE("two sequences must not write into one page, and each needs as many keys as tokens") {
    const auto sequences = make_sequences({{1, 16}, {1, 18}});
    const Ragged step(sequences, {.page_size = 16});
    OwnSchedule schedule;
    REQUIRE_OK(step.create(shared_context(instruction_sets().back()), &schedule));
    const RaggedRows key(new_rows(sequences, &AttentionProblem::key, 2, 0), FOVEA_F32);
    const RaggedRows value(new_rows(sequences, &AttentionProblem::value, 2, 0), FOVEA_F32);
    const fovea_tensor k = key.view(), v = value.view(), k_pages = step.keys(), v_pages = step.values();
    const auto append = [&] { return fovea_schedule_append(schedule.get(), &k, &v, &k_pages, &v_pages, nullptr); };
    const auto set = [&](const std::vector<int64_t> &ids, const std::vector<int64_t> &lens) {
      const Integers table({2, 2}, ids, false), key_lens({2}, lens, false);
      fovea_step changed = step.step();
      changed.page_ids = table.view();
      changed.key_lens = key_lens.view();
      REQUIRE_OK(fovea_schedule_set(schedule.get(), &changed));
    };
    set({0, 0, 1, 2}, {16, 18});
    REQUIRE_OK(append());
    set({0, 0, 0, 2}, {16, 18});  // the second reads the first's page, which it does not write into
    REQUIRE_OK(append());
    set({2, 0, 1, 2}, {16, 18});
    check_refusal(append(), FOVEA_BAD_VALUE, {"sequences 0 and 1", "page 2"});
    set({0, 0, 1, 2}, {0, 18});
    check_refusal(append(), FOVEA_BAD_VALUE, {"sequence 0", "1 tokens", "0 keys"});
  }
}
