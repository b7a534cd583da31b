// The rows of schedules: sequences of different lengths, packed or in pages, prompts and single steps in one call.
#include "bits.hpp"

namespace testing {

void add_ragged(const std::string &name, const RaggedRow &row, BitsRows &rows) {
  const auto make = [name, row] {
    Numbers numbers(name);
    const auto sequences = std::make_shared<std::vector<AttentionProblem>>();
    for (const auto &[query_len, key_len] : row.lengths) {
      AttentionRow one = row.attention;
      one.sizes.query_len = query_len;
      one.sizes.key_len = key_len;
      sequences->push_back(make_problem(one, numbers));
    }
    const auto ragged = std::make_shared<Ragged>(*sequences, row.layout);
    return [sequences, ragged](const fovea_context *context, Digest &digest) {
      ragged->run(context);
      for (size_t n = 0; n < sequences->size(); ++n) digest.add(ragged->result(n));
    };
  };
  rows.push_back({name, make, projects_scores(row.attention.kind)});
}

namespace {

AttentionRow with_flags(uint32_t flags, int64_t window_left = 0) {
  AttentionRow row = RaggedRow().attention;
  row.options = [=](AttentionProblem &problem, Numbers &) {
    problem.flags = flags;
    problem.window_left = window_left;
  };
  return row;
}

AttentionRow of_score(int32_t kind) {
  AttentionRow row = RaggedRow().attention;
  row.kind = kind;
  row.sizes.value_dim = row.sizes.head_dim;
  return row;
}

}  // namespace

void add_ragged_rows(BitsRows &rows) {
  const std::vector<std::pair<int64_t, int64_t>> mixed = {{1, 700}, {0, 9}, {37, 37}, {4, 130}, {1, 1}, {5, 1400}};
  const RaggedLayout pages = {.page_size = 16};
  add_ragged("ragged.packed", {.lengths = mixed}, rows);
  add_ragged("ragged.pages", {.lengths = mixed, .layout = pages}, rows);
  add_ragged("ragged.pages.odd-size", {.lengths = mixed, .layout = {.page_size = 7}}, rows);
  add_ragged("ragged.pages.halves",
             {.lengths = mixed, .layout = {.page_size = 16, .key = FOVEA_F16, .value = FOVEA_BF16}}, rows);
  add_ragged("ragged.pages.causal", {mixed, pages, with_flags(FOVEA_CAUSAL)}, rows);
  add_ragged("ragged.pages.window", {mixed, pages, with_flags(FOVEA_CAUSAL | FOVEA_WINDOW_LEFT, 50)}, rows);
  add_ragged("ragged.pages.query-invariant", {mixed, pages, with_flags(FOVEA_CAUSAL | FOVEA_QUERY_INVARIANT)}, rows);
  add_ragged("ragged.packed.gaussian", {.lengths = mixed, .attention = of_score(FOVEA_SCORE_GAUSSIAN)}, rows);
  add_ragged("ragged.packed.additive", {.lengths = mixed, .attention = of_score(FOVEA_SCORE_ADDITIVE)}, rows);
}

}  // namespace testing
