// Reads a step: every number is looked at once, so that what was checked is what is kept.
#include <algorithm>
#include <cinttypes>

#include "ops/ragged/check.hpp"

namespace fovea {
namespace {

// One of the step's tensors, of rank 1 unless said otherwise.
struct StepTensor {
  TensorArgument tensor;
  const char *name;

  StepTensor(const fovea_tensor *given, const char *its_name) : tensor(given), name(its_name) {}
  bool given() const { return tensor != nullptr; }
  int64_t at(int64_t index) const { return integer_at(*tensor, index * tensor->strides[0]); }
};

Status check_step_tensor(const StepTensor &tensor, const char *what, int min_rank = 1, int max_rank = 1) {
  FOVEA_CHECK(expect_given(tensor.tensor, tensor.name, what));
  FOVEA_CHECK(check_integer_tensor(*tensor.tensor, tensor.name, max_rank, true));
  if (tensor.tensor->rank >= min_rank) return FOVEA_OK;
  return fail(FOVEA_BAD_RANK, "%s has rank %d, expected %d", tensor.name, tensor.tensor->rank, min_rank);
}

Status refuse(const StepTensor &tensor, const char *why) {
  if (!tensor.given()) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s", tensor.name, why);
}

// What is told of sequence s in a tensor of starts.
Status read_start(const StepTensor &starts, int64_t s, int64_t previous, int64_t most, int64_t *start) {
  *start = starts.at(s);
  if (s == 0 && *start != 0) return fail(FOVEA_BAD_VALUE, "%s[0] is %" PRId64 ", expected 0", starts.name, *start);
  if (*start < previous) {
    return fail(FOVEA_BAD_VALUE,
                "%s[%" PRId64 "] is %" PRId64 ", expected %" PRId64 " or more, where sequence %" PRId64 " begins",
                starts.name, s, *start, previous, s - 1);
  }
  if (*start <= most) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s[%" PRId64 "] is %" PRId64 ", expected at most %" PRId64, starts.name, s, *start,
              most);
}

// A sequence's pages among the ids that were given.
struct GivenIds {
  const fovea_tensor *tensor;
  int64_t offset, count;  // in elements, of ids
  int64_t stride;
};

Status bad_page(int64_t sequence, int64_t entry, int64_t id, int64_t pages) {
  return fail(FOVEA_BAD_VALUE,
              "step.page_ids of sequence %" PRId64 " has %" PRId64 " at entry %" PRId64 ", expected 0 to %" PRId64,
              sequence, id, entry, pages - 1);
}

Status copy_ids(const GivenIds &given, int64_t sequence, int64_t needed, int64_t pages, int32_t *to) {
  if (given.tensor->dtype == FOVEA_I32 && given.stride == 1) {  // by registers
    const int32_t *from = static_cast<const int32_t *>(given.tensor->data) + given.offset;
    std::copy_n(from, needed, to);
    uint32_t largest = 0;
    for (int64_t n = 0; n < needed; ++n) largest = std::max(largest, static_cast<uint32_t>(to[n]));
    if (largest < static_cast<uint32_t>(pages)) return FOVEA_OK;
    for (int64_t n = 0; n < needed; ++n) {
      if (static_cast<uint32_t>(to[n]) >= static_cast<uint32_t>(pages)) return bad_page(sequence, n, to[n], pages);
    }
  }
  for (int64_t n = 0; n < needed; ++n) {
    const int64_t id = integer_at(*given.tensor, given.offset + n * given.stride);
    if (id < 0 || id >= pages) return bad_page(sequence, n, id, pages);
    to[n] = static_cast<int32_t>(id);
  }
  return FOVEA_OK;
}

// Notes who writes into which page: the pages that this step's tokens lie in.
void note_writes(fovea_schedule *schedule, int64_t s, RaggedStep *next) {
  const RaggedSequence &sequence = next->sequences[s];
  if (sequence.query_len == 0 || sequence.query_len > sequence.key_len) return;
  const int64_t size = schedule->made.pages.size;
  const int64_t last = ceil_div(sequence.key_len, size);
  for (int64_t n = (sequence.key_len - sequence.query_len) / size; n < last; ++n) {
    const int32_t page = sequence.pages[n];
    const bool taken = schedule->writer_step[page] == schedule->step_count && schedule->writer[page] != s;
    if (taken && next->shared_page < 0) {
      next->first_writer = schedule->writer[page];
      next->second_writer = s;
      next->shared_page = page;
    }
    schedule->writer_step[page] = schedule->step_count;
    schedule->writer[page] = s;
  }
}

// Reads lengths and pages of sequences whose keys lie in pages.
class PageReader {
 public:
  PageReader(const fovea_step &step)
      : lens_(step.key_lens, "step.key_lens"),
        ids_(step.page_ids, "step.page_ids"),
        starts_(step.page_starts, "step.page_starts") {}

  Status check(int64_t sequences) const {
    FOVEA_CHECK(check_step_tensor(lens_, "a length for each sequence"));
    FOVEA_CHECK(check_size(*lens_.tensor, lens_.name, 0, sequences, "the number of sequences"));
    const int rank = starts_.given() ? 1 : 2;
    FOVEA_CHECK(check_step_tensor(ids_, "the pages of each sequence", rank, rank));
    if (!starts_.given()) return check_size(*ids_.tensor, ids_.name, 0, sequences, "the number of sequences");
    FOVEA_CHECK(check_step_tensor(starts_, "where each sequence's pages begin"));
    return check_size(*starts_.tensor, starts_.name, 0, sequences + 1, "one more than sequences");
  }

  // Called for one sequence after the other. *room: where its ids are written.
  Status read(const RaggedCall &made, int64_t s, int64_t used, int32_t *room, RaggedSequence *sequence) {
    sequence->key_len = lens_.at(s);
    if (sequence->key_len < 0 || sequence->key_len > made.limits.key_len) {
      return fail(FOVEA_BAD_VALUE, "%s[%" PRId64 "] is %" PRId64 ", expected 0 to %" PRId64, lens_.name, s,
                  sequence->key_len, made.limits.key_len);
    }
    const int64_t needed = ceil_div(sequence->key_len, made.pages.size);
    GivenIds given = {};
    FOVEA_CHECK(find(s, &given));
    if (needed > given.count) {
      return fail(FOVEA_BAD_VALUE,
                  "%s[%" PRId64 "] is %" PRId64 ", expected at most %" PRId64 ", which its %" PRId64 " pages hold",
                  lens_.name, s, sequence->key_len, given.count * made.pages.size, given.count);
    }
    if (needed > made.limits.page_ids - used) {
      return fail(FOVEA_BAD_SHAPE, "the step has more than %" PRId64 " page ids up to sequence %" PRId64,
                  made.limits.page_ids, s);
    }
    FOVEA_CHECK(copy_ids(given, s, needed, made.pages.count, room));
    sequence->pages = room;
    return FOVEA_OK;
  }

 private:
  Status find(int64_t s, GivenIds *given) {
    if (!starts_.given()) {
      *given = {ids_.tensor, s * ids_.tensor->strides[0], ids_.tensor->shape[1], ids_.tensor->strides[1]};
      return FOVEA_OK;
    }
    const int64_t most = ids_.tensor->shape[0];
    if (s == 0) FOVEA_CHECK(read_start(starts_, 0, 0, most, &begin_));
    int64_t end = 0;
    FOVEA_CHECK(read_start(starts_, s + 1, begin_, most, &end));
    const int64_t stride = ids_.tensor->strides[0];
    *given = {ids_.tensor, begin_ * stride, end - begin_, stride};
    begin_ = end;
    return FOVEA_OK;
  }

  StepTensor lens_, ids_, starts_;
  int64_t begin_ = 0;
};

Status read_pages(fovea_schedule *schedule, const fovea_step &step, RaggedStep *next) {
  FOVEA_CHECK(refuse({step.key_starts, "step.key_starts"}, "keys lie in pages"));
  PageReader reader(step);
  FOVEA_CHECK(reader.check(next->sequence_count));
  ++schedule->step_count;
  int64_t used = 0;
  for (int64_t s = 0; s < next->sequence_count; ++s) {
    RaggedSequence &sequence = next->sequences[s];
    FOVEA_CHECK(reader.read(schedule->made, s, used, next->page_ids + used, &sequence));
    used += ceil_div(sequence.key_len, schedule->made.pages.size);
    note_writes(schedule, s, next);
  }
  return FOVEA_OK;
}

Status read_packed_keys(const RaggedLimits &limits, const fovea_step &step, RaggedStep *next) {
  constexpr const char *packed = "keys are packed";
  FOVEA_CHECK(refuse({step.key_lens, "step.key_lens"}, packed));
  FOVEA_CHECK(refuse({step.page_ids, "step.page_ids"}, packed));
  FOVEA_CHECK(refuse({step.page_starts, "step.page_starts"}, packed));
  const StepTensor starts(step.key_starts, "step.key_starts");
  FOVEA_CHECK(check_step_tensor(starts, "where each sequence's keys begin"));
  FOVEA_CHECK(check_size(*starts.tensor, starts.name, 0, next->sequence_count + 1, "one more than sequences"));
  int64_t begin = 0;
  FOVEA_CHECK(read_start(starts, 0, 0, limits.keys, &begin));
  for (int64_t s = 0; s < next->sequence_count; ++s) {
    int64_t end = 0;
    FOVEA_CHECK(read_start(starts, s + 1, begin, limits.keys, &end));
    if (end - begin > limits.key_len) {
      return fail(FOVEA_BAD_SHAPE, "sequence %" PRId64 " of the step has %" PRId64 " keys, expected at most %" PRId64,
                  s, end - begin, limits.key_len);
    }
    next->sequences[s].key_start = begin;
    next->sequences[s].key_len = end - begin;
    begin = end;
  }
  next->keys = begin;
  return FOVEA_OK;
}

Status read_queries(const RaggedLimits &limits, const fovea_step &step, RaggedStep *next) {
  const StepTensor starts(step.query_starts, "step.query_starts");
  FOVEA_CHECK(check_step_tensor(starts, "where each sequence's tokens begin"));
  const int64_t count = starts.tensor->shape[0] - 1;
  if (count < 0 || count > limits.sequences) {
    return fail(FOVEA_BAD_SHAPE, "step.query_starts has %" PRId64 " elements, expected 1 to %" PRId64, count + 1,
                limits.sequences + 1);
  }
  next->sequence_count = count;
  int64_t begin = 0;
  FOVEA_CHECK(read_start(starts, 0, 0, limits.tokens, &begin));
  for (int64_t s = 0; s < count; ++s) {
    int64_t end = 0;
    FOVEA_CHECK(read_start(starts, s + 1, begin, limits.tokens, &end));
    next->sequences[s] = {};
    next->sequences[s].query_start = begin;
    next->sequences[s].query_len = end - begin;
    begin = end;
  }
  next->tokens = begin;
  return FOVEA_OK;
}

Status read_sequences(fovea_schedule *schedule, const fovea_step &step, RaggedStep *next) {
  const RaggedCall &made = schedule->made;
  FOVEA_CHECK(read_queries(made.limits, step, next));
  next->first_writer = next->second_writer = next->shared_page = -1;
  if (made.pages.size == 0) return read_packed_keys(made.limits, step, next);
  return read_pages(schedule, step, next);
}

// A token's mask over the tokens of its sequence, a byte each.
void spread_bits(uint64_t bits, uint8_t *mask) {
  for (int64_t j = 0; j < most_drafts; ++j) mask[j] = static_cast<uint8_t>(bits >> j & 1);
}

Status refuse_tree(const AttentionCall &call) {
  constexpr uint32_t others = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT | FOVEA_LEAVE_ONE_OUT;
  if ((call.options.flags & others) == 0 && !call.present[alibi_slopes_operand]) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE,
              "step.tree is given, expected NULL: the schedule was made with windows, ALiBi or leave-one-out");
}

Status read_tree_of(const StepTensor &tree, int64_t s, RaggedStep *next) {
  RaggedSequence &sequence = next->sequences[s];
  uint8_t *masks = next->tree_masks + sequence.query_start * most_drafts;
  const int64_t count = sequence.query_len;
  const int64_t known = min_of(count, most_drafts);
  const uint64_t allowed = known == 0 ? 0 : ~uint64_t{0} >> (most_drafts - known);
  uint64_t any = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t token = sequence.query_start + i;
    const auto bits = static_cast<uint64_t>(tree.at(token));
    any |= bits;
    if (any != 0 && (count > most_drafts || sequence.key_len < count)) {
      return fail(FOVEA_BAD_VALUE,
                  "%s[%" PRId64 "] is not 0, expected 0: sequence %" PRId64 " has %" PRId64 " tokens and %" PRId64
                  " keys, and a tree has up to %" PRId64 " tokens and as many keys",
                  tree.name, token, s, count, sequence.key_len, most_drafts);
    }
    if ((bits & ~allowed) != 0) {
      return fail(FOVEA_BAD_VALUE,
                  "%s[%" PRId64 "] is 0x%" PRIx64 ", expected no bits but the %" PRId64 " of sequence %" PRId64
                  "'s tokens",
                  tree.name, token, bits, count, s);
    }
    if (count <= most_drafts) spread_bits(bits, masks + i * most_drafts);
  }
  if (any != 0) sequence.tree = masks;
  return FOVEA_OK;
}

Status read_tree(const AttentionCall &call, const fovea_step &step, RaggedStep *next) {
  const StepTensor tree(step.tree, "step.tree");
  if (!tree.given()) return FOVEA_OK;
  FOVEA_CHECK(refuse_tree(call));
  FOVEA_CHECK(check_step_tensor(tree, "a number for each token"));
  FOVEA_CHECK(check_size(*tree.tensor, tree.name, 0, next->tokens, "the step's tokens"));
  for (int64_t s = 0; s < next->sequence_count; ++s) FOVEA_CHECK(read_tree_of(tree, s, next));
  return FOVEA_OK;
}

}  // namespace

Status read_step(fovea_schedule *schedule, const fovea_step *given, RaggedStep *next) {
  FOVEA_CHECK(expect_given(given, "step", "the sequences of a step"));
  fovea_step step;
  FOVEA_CHECK(read_options("step", given, &step));
  FOVEA_CHECK(read_sequences(schedule, step, next));
  FOVEA_CHECK(read_tree(schedule->made.call, step, next));
  for (int64_t s = 0; s < next->sequence_count; ++s) {
    const RaggedSequence &sequence = next->sequences[s];
    const int64_t first = max_of(sequence.key_len - sequence.query_len, 0);
    for (int64_t i = 0; i < sequence.query_len; ++i)
      next->positions[sequence.query_start + i] = static_cast<int32_t>(first + i);
  }
  return FOVEA_OK;
}

}  // namespace fovea
