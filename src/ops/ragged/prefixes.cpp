// Sequences that begin with the same pages read them once: what stands next to each other in a step and has equal page
// ids at the beginning becomes an entry of its own, all their queries beside the splits that all of them have. Splits
// are the same cells with it and without, and a row is merged from the same partials in the same order, so no bit
// depends on it. That takes kernels whose bits do not depend on how many rows there are, which is what
// FOVEA_QUERY_INVARIANT asks for.
#include "ops/ragged/schedule.hpp"

namespace fovea {
namespace {

// Splits of the keys that two sequences begin with alike.
int64_t common_splits(const RaggedSequence &a, const RaggedSequence &b, int64_t page_size) {
  const int64_t most = ceil_div(min_of(a.key_len, b.key_len), page_size);
  int64_t pages = 0;
  while (pages < most && a.pages[pages] == b.pages[pages]) ++pages;
  return pages * page_size / split_positions;
}

// Splits before any of its queries, so that all of them attend all of those keys. 0 for what cannot share.
int64_t splits_before(const RaggedCall &made, const RaggedSequence &sequence) {
  const bool one_block = sequence.kernels != nullptr && sequence.rows <= sequence.kernels->kernels->tile_rows;
  if (!one_block || sequence.tree != nullptr) return 0;
  const int64_t first = min_of(positions_of(made, sequence).first, sequence.key_len - sequence.query_len);
  return max_of(first, 0) / split_positions;
}

// How many sequences from `first` on share, and how many splits: at least half of what the first two do.
int64_t extend(const RaggedCall &made, const RaggedStep &step, int64_t first, int64_t *splits) {
  const RaggedSequence &begin = step.sequences[first];
  int64_t shared = splits_before(made, begin), count = 1;
  while (first + count < step.sequence_count) {
    const RaggedSequence &next = step.sequences[first + count];
    int64_t common = min_of(shared, splits_before(made, next));
    if (common > 0) common = min_of(common, common_splits(begin, next, made.pages.size));
    if (common == 0 || (count > 1 && common < *splits / 2)) break;
    shared = common;
    if (count == 1) *splits = common;
    ++count;
  }
  *splits = shared;
  return count;
}

void add_prefix(int64_t first, int64_t count, int64_t splits, RaggedStep *step) {
  const int64_t entry = step->entry_count();
  RaggedSequence &prefix = step->sequences[entry];
  prefix = step->sequences[first];
  prefix.query_len = prefix.rows = 0;
  for (int64_t s = first; s < first + count; ++s) {
    RaggedSequence &member = step->sequences[s];
    prefix.query_len += member.query_len;
    prefix.rows += member.rows;
    member.splits -= splits;
    member.first_split = splits;
    member.prefix = entry;
  }
  prefix.key_len = splits * split_positions;
  prefix.splits = splits;
  prefix.is_prefix = true;
  ++step->prefix_count;
}

}  // namespace

void find_prefixes(const RaggedCall &made, const AttentionProblem &problem, RaggedStep *step) {
  if (made.pages.size == 0 || problem.pattern.has_window_left || problem.pattern.leave_one_out) return;
  for (int64_t first = 0; first < step->sequence_count;) {
    int64_t splits = 0;
    const int64_t count = extend(made, *step, first, &splits);
    if (count > 1) add_prefix(first, count, splits, step);
    first += count;
  }
}

}  // namespace fovea
