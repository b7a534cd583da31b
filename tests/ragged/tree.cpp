// Draft tokens that form a tree: each attends what came before and those of its own step that its bits name.
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

struct Draft {
  std::vector<AttentionProblem> sequences;
  std::vector<int64_t> tree;  // of all tokens
};

// Sequences of query_len and key_len; those with `drafts` are trees, whose tokens attend a chain of their ancestors.
Draft make_drafts(const std::vector<std::array<int64_t, 3>> &lengths, Random &random, int64_t group = 3) {
  Draft draft;
  for (const auto &[query_len, key_len, is_tree] : lengths) {
    const AttentionSizes sizes = {
        .heads = 2 * group, .kv_heads = 2, .query_len = query_len, .key_len = key_len, .head_dim = 24, .value_dim = 16};
    draft.sequences.push_back(make_attention(sizes, random));
    AttentionProblem &problem = draft.sequences.back();
    problem.flags = FOVEA_CAUSAL;
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < query_len; ++i) {
      const int64_t parent = random.integer(-1, static_cast<int>(i) - 1);
      bits.push_back((parent < 0 ? 0 : bits[static_cast<size_t>(parent)]) | uint64_t{1} << (i % 64));
    }
    if (is_tree == 2) bits[0] = 0;  // attends nothing of its step
    for (const uint64_t its : bits) draft.tree.push_back(is_tree != 0 ? static_cast<int64_t>(its) : 0);
    if (is_tree == 0) continue;
    problem.flags = 0;
    problem.set_mask([&, query_len = query_len, key_len = key_len](int64_t, int64_t, int64_t i, int64_t j) {
      const int64_t own = j - (key_len - query_len);
      return own < 0 || (bits[static_cast<size_t>(i)] >> own & 1) != 0;
    });
  }
  return draft;
}

void run(const fovea_context *context, const Ragged &ragged, const std::vector<int64_t> &tree) {
  OwnSchedule schedule;
  REQUIRE_OK(ragged.create(context, &schedule));
  const Integers numbers({static_cast<int64_t>(tree.size())}, tree, true);
  fovea_step step = ragged.step();
  step.tree = numbers.view();
  REQUIRE_OK(fovea_schedule_set(schedule.get(), &step));
  ragged.run(schedule.get());
}

}  // namespace

TEST_SUITE("ragged trees") {
  TEST_CASE("trees beside steps and prompts, packed and in pages") {
    Random random(base_seed());
    const Draft draft = make_drafts({{1, 30, 0},
                                     {5, 40, 1},
                                     {64, 64, 1},
                                     {7, 700, 1},
                                     {4, 580, 1},
                                     {40, 40, 0},
                                     {64, 1300, 1},
                                     {3, 90, 2},
                                     {1, 1, 1}},
                                    random);
    for_each_isa([&](const fovea_context *context) {
      const Ragged packed(draft.sequences, {}), paged(draft.sequences, {.page_size = 16});
      run(context, packed, draft.tree);
      run(context, paged, draft.tree);
      CHECK(same_bits(packed.out(), paged.out()));
      CHECK(same_bits(packed.log_sum_exp(), paged.log_sum_exp()));
      for (size_t s = 0; s < draft.sequences.size(); ++s) {
        CAPTURE(s);
        check_result(draft.sequences[s], packed.result(s));
      }
    });
  }

  TEST_CASE("what a tree does not attend is not read into its result, NaN neither") {
    Random random(base_seed());
    Draft draft = make_drafts({{1, 30, 0}, {6, 50, 1}}, random);
    for_each_isa([&](const fovea_context *context) {
      const Ragged before(draft.sequences, {.page_size = 16});
      run(context, before, draft.tree);
      AttentionProblem &tree = draft.sequences[1];
      // Token 5 is attended by itself alone.
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t d = 0; d < 24; ++d) tree.key(0, h, 49, d) = kNan;
        for (int64_t d = 0; d < 16; ++d) tree.value(0, h, 49, d) = kNan;
      }
      const Ragged after(draft.sequences, {.page_size = 16});
      run(context, after, draft.tree);
      const AttentionResult a = before.result(1), b = after.result(1);
      for_each_index({6, 5, 16}, [&](const Shape &at) {
        REQUIRE_EQ(a.out(0, at[0], at[1], at[2]), b.out(0, at[0], at[1], at[2]));
      });
      CHECK(std::isnan(b.out(0, 0, 5, 0)));
      Random again(base_seed());
      draft = make_drafts({{1, 30, 0}, {6, 50, 1}}, again);
    });
  }

  TEST_CASE("trees that are refused") {
    Random random(base_seed());
    const Draft draft = make_drafts({{1, 30, 0}, {3, 40, 1}, {65, 70, 0}, {2, 1, 0}}, random);
    const Ragged ragged(draft.sequences, {});
    const auto refuse = [&](fovea_status status, std::initializer_list<std::string> words, auto spoil) {
      OwnSchedule schedule;
      REQUIRE_OK(ragged.create(nullptr, &schedule));
      std::vector<int64_t> tree = draft.tree;
      spoil(tree);
      const Integers numbers({static_cast<int64_t>(tree.size())}, tree, true);
      fovea_step step = ragged.step();
      step.tree = numbers.view();
      check_refusal(fovea_schedule_set(schedule.get(), &step), status, words);
    };
    refuse(FOVEA_BAD_SHAPE, {"step.tree", "70", "71"}, [](auto &tree) { tree.pop_back(); });
    refuse(FOVEA_BAD_VALUE, {"step.tree[2] is 0x8", "sequence 1", "3"}, [](auto &tree) { tree[2] = 8; });
    refuse(FOVEA_BAD_VALUE, {"step.tree[1]", "sequence 1"}, [](auto &tree) { tree[1] = -1; });
    refuse(FOVEA_BAD_VALUE, {"step.tree[10]", "sequence 2", "65 tokens"}, [](auto &tree) { tree[10] = 1; });
    refuse(FOVEA_BAD_VALUE, {"step.tree[70]", "sequence 3", "1 keys"}, [](auto &tree) { tree[70] = 1; });
    for (const uint32_t flags : {FOVEA_WINDOW_LEFT, FOVEA_WINDOW_RIGHT, FOVEA_LEAVE_ONE_OUT}) {
      std::vector<AttentionProblem> sequences = make_drafts({{1, 30, 0}}, random).sequences;
      sequences[0].flags = flags;
      const Ragged other(sequences, {});
      OwnSchedule schedule;
      REQUIRE_OK(other.create(nullptr, &schedule));
      const Integers numbers({1}, {1}, true);
      fovea_step step = other.step();
      step.tree = numbers.view();
      check_refusal(fovea_schedule_set(schedule.get(), &step), FOVEA_BAD_VALUE, {"step.tree", "windows"});
    }
  }
}
