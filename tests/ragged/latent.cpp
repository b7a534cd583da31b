// Latent attention (DeepSeek-V2's, absorbed): one key/value head, whose values are the first features of its keys, in
// the same memory.
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

constexpr int64_t kHeads = 8, kDim = 72, kValueDim = 64, kPages = 40, kPage = 16;

// Sequences with query_len and key_len, whose keys are their own and whose values are parts of them.
std::vector<AttentionProblem> make_sequences() {
  Random random(base_seed());
  std::vector<AttentionProblem> sequences;
  for (const auto &[query_len, key_len] : {std::pair<int64_t, int64_t>{1, 1}, {1, 90}, {20, 33}, {3, 300}}) {
    sequences.push_back(make_attention({.heads = kHeads,
                                        .kv_heads = 1,
                                        .query_len = query_len,
                                        .key_len = key_len,
                                        .head_dim = kDim,
                                        .value_dim = kValueDim},
                                       random));
    AttentionProblem &problem = sequences.back();
    problem.flags = FOVEA_CAUSAL;
    for_each_index(problem.value.shape(), [&](const Shape &at) { problem.value.at(at) = problem.key.at(at); });
  }
  return sequences;
}

}  // namespace

TEST_SUITE("ragged latent") {
  TEST_CASE("values that are parts of keys, appended and attended") {
    const std::vector<AttentionProblem> sequences = make_sequences();
    for_each_isa([&](const fovea_context *context) {
      Tensor<float> pages({kPages, 1, kPage, kDim});
      const fovea_tensor keys = pages.view();
      fovea_tensor values = keys;
      values.shape[3] = kValueDim;
      std::vector<int64_t> query_starts = {0}, lens, page_starts = {0}, page_ids;
      for (const AttentionProblem &problem : sequences) {
        query_starts.push_back(query_starts.back() + problem.sizes.key_len);  // all of it is appended first
        lens.push_back(problem.sizes.key_len);
        for (int64_t n = 0; n < (problem.sizes.key_len + kPage - 1) / kPage; ++n)
          page_ids.push_back(kPages - 1 - static_cast<int64_t>(page_ids.size()));
        page_starts.push_back(static_cast<int64_t>(page_ids.size()));
      }
      const int64_t tokens = query_starts.back();
      Tensor<float> query({tokens, kHeads, kDim}), out({tokens, kHeads, kValueDim}), rows({tokens, 1, kDim});
      query.fill([] { return 0.0F; });
      int64_t token = 0;
      for (const AttentionProblem &problem : sequences) {
        const int64_t first = problem.sizes.key_len - problem.sizes.query_len;
        for (int64_t j = 0; j < problem.sizes.key_len; ++j, ++token) {
          for (int64_t d = 0; d < kDim; ++d) rows(token, 0, d) = problem.key(0, 0, j, d);
          for (int64_t h = 0; j >= first && h < kHeads; ++h) {
            for (int64_t d = 0; d < kDim; ++d) query(token, h, d) = problem.query(0, h, j - first, d);
          }
        }
      }
      const fovea_tensor q = query.view(), o = out.view(), k = rows.view();
      fovea_attention_options options{};
      options.struct_size = sizeof options;
      options.flags = FOVEA_CAUSAL;
      fovea_schedule_limits limits{};
      limits.struct_size = sizeof limits;
      limits.sequences = 4;
      fovea_schedule *made = nullptr;
      REQUIRE_OK(fovea_schedule_create(context, nullptr, &q, &keys, &values, &o, &options, &limits, &made));
      const OwnSchedule schedule(made);
      const auto vector = [](const std::vector<int64_t> &numbers) {
        return Integers({static_cast<int64_t>(numbers.size())}, numbers, false);
      };
      const Integers starts = vector(query_starts), key_lens = vector(lens), ids = vector(page_ids),
                     id_starts = vector(page_starts);
      fovea_step step{};
      step.struct_size = sizeof step;
      step.query_starts = starts.view();
      step.key_lens = key_lens.view();
      step.page_ids = ids.view();
      step.page_starts = id_starts.view();
      REQUIRE_OK(fovea_schedule_set(made, &step));
      REQUIRE_OK(fovea_schedule_append(made, &k, nullptr, &keys, nullptr, nullptr));
      check_refusal(fovea_schedule_append(made, &k, nullptr, &keys, &values, nullptr), FOVEA_NULL_POINTER, {"value"});
      check_refusal(fovea_schedule_append(made, &k, &k, &keys, nullptr, nullptr), FOVEA_BAD_SHAPE, {"value"});
      fovea_attention_buffers buffers{};
      buffers.struct_size = sizeof buffers;
      buffers.query = q.data;
      buffers.key = buffers.value = pages.data();
      buffers.out = o.data;
      REQUIRE_OK(fovea_schedule_run(made, &buffers, nullptr, 0));
      for (size_t s = 0; s < sequences.size(); ++s) {
        CAPTURE(s);
        AttentionResult result = sequences[s].make_result(false);
        result.log_sum_exp.reset();
        const AttentionSizes &its = sequences[s].sizes;
        for_each_index({kHeads, its.query_len, kValueDim}, [&](const Shape &at) {
          result.out(0, at[0], at[1], at[2]) = out(query_starts[s] + its.key_len - its.query_len + at[1], at[0], at[2]);
        });
        check_result(sequences[s], result);
      }
    });
  }
}
