// A pool of pages beside a plain model: sequences are opened, forked, cut, dropped from the front, closed, stepped, saved and
// restored, with and without what has to be refused; saved bytes come back whole, cut off or altered. The tables do not
// describe these calls, whose numbers only the pool knows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "build.hpp"
#include "by_hand.hpp"
#include "compare.hpp"
#include "placing.hpp"
#include "pool.hpp"
#include "pool_model.hpp"

namespace fuzz {
namespace {

using testing::ModelSequence;
using testing::page_given_back;
using testing::PoolModel;

constexpr int most_operations = 40;
constexpr int64_t unwritten = -7;
constexpr int64_t no_sequences[] = {0, -1, INT64_MAX, INT64_MIN, int64_t{1} << 32};
constexpr fovea_dtype other_types[] = {FOVEA_I32, FOVEA_BOOL, FOVEA_F8_E4M3, 99, -1};
constexpr int64_t odd_numbers[] = {-1, INT64_MIN, INT64_MAX, int64_t{1} << 31, int64_t{1} << 40};

class Pooling {
 public:
  Pooling(Memory &memory, Choices &choices)
      : memory_(memory),
        choices_(choices),
        sizes_(choose_pool_sizes(choices)),
        pool_(make_pool(sizes_)),
        positions_(pool_.get(), sizes_.layers),
        model_(sizes_.positions, sizes_.page_size, sizes_.sequences),
        set_(choices.below(sets().names.size())) {}

  void run() {
    refuse_layers();
    refuse_sizes();
    for (int n = 0; n < most_operations && !choices_.empty(); ++n) {
      do_something(choices_.below(16));
      memory_.release_all();
      if (fovea_kv_pool_free_pages(pool_.get()) != model_.free_pages()) wrong("another number of pages is free");
    }
    verify();
    while (!model_.live.empty()) close(model_.live.begin()->first);
    if (fovea_kv_pool_free_pages(pool_.get()) != model_.page_count()) wrong("a page was lost");
  }

 private:
  [[noreturn]] void wrong(const std::string &what) const {
    std::fflush(stdout);
    std::fprintf(
        stderr,
        "\nFAILED: pool: %s\n  %d layers, %d heads of %d and %d, types %d and %d, groups of %d, %d positions in "
        "pages of %d, %d sequences\n%s%s\n",
        what.c_str(), static_cast<int>(sizes_.layers), static_cast<int>(sizes_.kv_heads),
        static_cast<int>(sizes_.head_dim), static_cast<int>(sizes_.value_dim), sizes_.key_dtype, sizes_.value_dtype,
        static_cast<int>(sizes_.scale_group), static_cast<int>(sizes_.positions), static_cast<int>(sizes_.page_size),
        static_cast<int>(sizes_.sequences), log_.str().c_str(), fovea_last_error());
    abort();
  }
  template <typename... Parts>
  void note(const Parts &...parts) {
    log_ << "  ";
    (log_ << ... << parts) << '\n';
  }

  // ---- pools --------------------------------------------------------------------------------------------------------

  void refuse_layers() const {
    for (const int64_t layer : {sizes_.layers, int64_t{-1}, INT64_MAX}) {
      if (fovea_kv_pool_keys(pool_.get(), layer).rank != -1 || fovea_kv_pool_values(pool_.get(), layer).rank != -1)
        wrong("a layer that there is not");
    }
  }

  void refuse_sizes() {
    fovea_kv_pool_sizes odd = sizes_;
    int64_t *const numbers[] = {&odd.layers,    &odd.kv_heads,  &odd.head_dim,  &odd.value_dim,
                                &odd.positions, &odd.page_size, &odd.sequences, &odd.scale_group};
    const size_t which = choices_.below(std::size(numbers) + 1);
    if (which < std::size(numbers)) {
      *numbers[which] = choices_.chance(128) ? -1 : INT64_MAX;
    } else {
      odd.value_dtype = choices_.pick(other_types);
    }
    auto *const before = static_cast<fovea_kv_pool *>(Memory::forbidden());
    fovea_kv_pool *made = before;
    check_refused(fovea_kv_pool_create(&odd, &made), "a pool of odd sizes");
    if (made != before) wrong("refused, but a pool is there");
  }

  // ---- operations ---------------------------------------------------------------------------------------------------

  void do_something(size_t choice) {
    if (choice == 0 || model_.live.empty()) return open();
    if (choice == 1) return fork();
    if (choice == 2) return truncate();
    if (choice == 3) return drop();
    if (choice == 4) return close(some());
    if (choice < 7) return save_and_restore();
    if (choice == 7) return refuse();
    if (choice == 8) return verify();
    step_some();
  }

  // The number of a sequence.
  int64_t some() {
    auto at = model_.live.begin();
    std::advance(at, choices_.below(model_.live.size()));
    return at->first;
  }

  // One that there is not: never was, or was closed.
  int64_t no_sequence() {
    if (!closed_.empty() && choices_.chance(128)) return closed_[choices_.below(closed_.size())];
    return choices_.pick(no_sequences);
  }

  // Where a call writes a sequence's number.
  int64_t *room() {
    auto *number = reinterpret_cast<int64_t *>(memory_.take(sizeof(int64_t), true).data);
    *number = unwritten;
    return number;
  }

  void check_refused(fovea_status status, const char *what) const {
    if (status == FOVEA_OK) wrong(std::string(what) + " is not refused");
    if (status < 0 || status > FOVEA_POOL_EXHAUSTED || status == FOVEA_INTERNAL_ERROR || *fovea_last_error() == '\0')
      wrong(std::string(what) + " gives status " + std::to_string(status));
  }

  // A call that opens a sequence, if there is room for one more and for so many pages.
  bool add(fovea_status status, int64_t number, int64_t pages, const ModelSequence &sequence) {
    if (model_.is_full() || pages > model_.free_pages()) {
      if (status != FOVEA_POOL_EXHAUSTED) wrong("no room, but status " + std::to_string(status));
      if (number != unwritten) wrong("no room, but a number is written");
      return false;
    }
    if (status != FOVEA_OK) wrong("room for a sequence, but status " + std::to_string(status));
    if (number <= 0 || !numbers_.insert(number).second) wrong("number " + std::to_string(number) + " was there before");
    model_.live[number] = sequence;
    return true;
  }

  void open() {
    note("open");
    int64_t *number = room();
    const fovea_status status = fovea_kv_pool_open(pool_.get(), number);
    add(status, *number, 0, {});
  }

  // In [its first position kept, its length], or out of it.
  int64_t some_length(const ModelSequence &sequence) {
    if (choices_.chance(40)) return choices_.chance(128) ? sequence.first - 1 : choices_.pick(odd_numbers);
    return sequence.first +
           static_cast<int64_t>(choices_.below(static_cast<size_t>(sequence.length() - sequence.first) + 1));
  }
  static bool is_length_of(const ModelSequence &sequence, int64_t length) {
    return length >= sequence.first && length <= sequence.length();
  }

  void fork() {
    const int64_t source = some();
    const ModelSequence &sequence = model_.live.at(source);
    const int64_t length = some_length(sequence);
    note("fork ", source, " at ", length);
    int64_t *number = room();
    const fovea_status status = fovea_kv_pool_fork(pool_.get(), source, length, number);
    if (!is_length_of(sequence, length)) return check_refused(status, "a length");
    add(status, *number, 0, model_.beginning(sequence, length));
  }

  void truncate() {
    const int64_t number = some();
    ModelSequence &sequence = model_.live.at(number);
    const int64_t length = some_length(sequence);
    note("truncate ", number, " at ", length);
    const fovea_status status = fovea_kv_pool_truncate(pool_.get(), number, length);
    if (!is_length_of(sequence, length)) return check_refused(status, "a length");
    if (status != FOVEA_OK) wrong("a length is refused");
    sequence = model_.beginning(sequence, length);
  }

  void drop() {
    const int64_t number = some();
    ModelSequence &sequence = model_.live.at(number);
    const bool odd = choices_.chance(40);
    const int64_t first = odd ? choices_.pick(odd_numbers)
                              : static_cast<int64_t>(choices_.below(static_cast<size_t>(sequence.length()) + 1));
    note("drop ", number, " before ", first);
    const fovea_status status = fovea_kv_pool_drop(pool_.get(), number, first);
    if (odd) return check_refused(status, "a first position");
    if (status != FOVEA_OK) wrong("a first position is refused");
    model_.drop(&sequence, first);
  }

  void close(int64_t number) {
    note("close ", number);
    if (fovea_kv_pool_close(pool_.get(), number) != FOVEA_OK) wrong("closing is refused");
    model_.live.erase(number);
    closed_.push_back(number);
  }

  // Calls on sequences that there are not.
  void refuse() {
    const int64_t number = no_sequence();
    note("calls on ", number);
    fovea_kv_pool *pool = pool_.get();
    int64_t *forked = room();
    check_refused(fovea_kv_pool_fork(pool, number, 0, forked), "forking what there is not");
    check_refused(fovea_kv_pool_truncate(pool, number, 0), "cutting what there is not");
    check_refused(fovea_kv_pool_drop(pool, number, 0), "dropping of what there is not");
    check_refused(fovea_kv_pool_close(pool, number), "closing what there is not");
    const Block bytes = memory_.take(64, true);
    check_refused(fovea_kv_pool_save(pool, number, bytes.data, bytes.size), "saving what there is not");
    check_refused(fovea_kv_pool_restore(pool, nullptr, 64, forked), "no bytes");
    check_refused(fovea_kv_pool_open(nullptr, forked), "no pool");
    check_refused(fovea_kv_pool_open(pool, nullptr), "no room for a number");
    if (*forked != unwritten) wrong("refused, but a number is written");
    if (fovea_kv_pool_length(pool, number) != -1) wrong("a length of what there is not");
    if (fovea_kv_pool_saved_size(pool, number) != 0) wrong("a size of what there is not");
  }

  // ---- steps --------------------------------------------------------------------------------------------------------

  int64_t some_tokens() {
    if (choices_.chance(8)) return static_cast<int64_t>(choices_.below(static_cast<size_t>(sizes_.positions) * 2 + 1));
    return static_cast<int64_t>(
        choices_.below(choices_.chance(128) ? 4 : static_cast<size_t>(2 * sizes_.page_size + 2)));
  }

  // Numbers as I32 or I64, side by side or not.
  fovea_tensor listed(const std::vector<int64_t> &numbers) {
    const bool wide = choices_.chance(160);
    const int64_t stride = choices_.chance(64) ? 2 : 1, count = static_cast<int64_t>(numbers.size());
    const size_t size = wide ? 8 : 4;
    const Block block = memory_.take(size * static_cast<size_t>(std::max<int64_t>((count - 1) * stride + 1, 1)), true);
    for (size_t n = 0; n < numbers.size(); ++n)
      std::memcpy(block.data + n * static_cast<size_t>(stride) * size, &numbers[n], size);
    fovea_tensor view{block.data, wide ? FOVEA_I64 : FOVEA_I32, 1, {count}, {stride}};
    return view;
  }

  void step_some() {
    std::vector<int64_t> numbers, tokens;
    for (const auto &[number, sequence] : model_.live) {
      if (choices_.chance(128)) continue;
      numbers.insert(numbers.begin() + static_cast<ptrdiff_t>(choices_.below(numbers.size() + 1)), number);
      tokens.push_back(some_tokens());
    }
    if (choices_.chance(48)) return refuse_step(numbers, tokens);
    note_step("step", numbers, tokens);
    step(numbers, tokens);
  }
  void note_step(const char *what, const std::vector<int64_t> &numbers, const std::vector<int64_t> &tokens) {
    std::ostringstream text;
    text << what << " of";
    for (size_t s = 0; s < numbers.size(); ++s)
      text << ' ' << numbers[s] << '+' << (s < tokens.size() ? tokens[s] : -1);
    note(text.str());
  }

  fovea_status call_step(const fovea_tensor &numbers, const fovea_tensor &tokens, fovea_step *made) {
    return fovea_kv_pool_step(sets().contexts[set_][choices_.below(turns)], pool_.get(), &numbers, &tokens, made);
  }

  void step(const std::vector<int64_t> &numbers, const std::vector<int64_t> &tokens) {
    const bool fits = model_.pages_needed(numbers, tokens) <= model_.free_pages();
    fovea_step made;
    std::memset(&made, blank, sizeof made);
    const fovea_status status = call_step(listed(numbers), listed(tokens), &made);
    if (!fits) {
      if (status != FOVEA_POOL_EXHAUSTED) wrong("pages lack, but status " + std::to_string(status));
      return check_not_made(made);
    }
    if (status != FOVEA_OK) wrong("a step is refused");
    const std::vector<int64_t> starts = numbers_in(made.query_starts, numbers.size() + 1);
    for (size_t s = 0; s < numbers.size(); ++s) {
      if (starts[s + 1] - starts[s] != tokens[s]) wrong("another number of tokens");
      ModelSequence &sequence = model_.live.at(numbers[s]);
      const int64_t before = sequence.length();
      model_.grow(&sequence, tokens[s], next_stamp_);
      next_stamp_ += static_cast<uint32_t>(tokens[s]);
      const std::vector<int64_t> pages = pages_in(made, s, sequence);
      for (int64_t at = before; at < sequence.length(); ++at) {
        positions_.write(pages[static_cast<size_t>(at / sizes_.page_size)], at % sizes_.page_size,
                         sequence.stamps[static_cast<size_t>(at)]);
      }
    }
  }

  void check_not_made(const fovea_step &made) const {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&made);
    if (!std::all_of(bytes, bytes + sizeof made, [](uint8_t byte) { return byte == blank; }))
      wrong("refused, but a step is written");
  }

  void refuse_step(std::vector<int64_t> numbers, std::vector<int64_t> tokens) {
    const size_t what = choices_.below(6);
    if (numbers.empty() || what == 0) {
      numbers.push_back(no_sequence());
      tokens.push_back(0);
    } else if (what == 1) {
      numbers.push_back(numbers[choices_.below(numbers.size())]);
      tokens.push_back(0);
    } else if (what == 2) {
      tokens[choices_.below(tokens.size())] = choices_.pick(odd_numbers);
    } else if (what == 3) {
      tokens.push_back(1);
    }
    note_step("wrong step", numbers, tokens);
    fovea_tensor which = listed(numbers), by = listed(tokens);
    if (what == 2) by = fovea_tensor{tokens.data(), FOVEA_I64, 1, {static_cast<int64_t>(tokens.size())}, {1}};
    if (what == 0) which = fovea_tensor{numbers.data(), FOVEA_I64, 1, {static_cast<int64_t>(numbers.size())}, {1}};
    if (what == 4) (choices_.chance(128) ? which : by).dtype = choices_.chance(128) ? FOVEA_F32 : 99;
    if (what == 5) (choices_.chance(128) ? which : by).rank = choices_.chance(128) ? 2 : -1;
    fovea_step made;
    std::memset(&made, blank, sizeof made);
    check_refused(call_step(which, by, &made), "a step");
    check_not_made(made);
    for (const auto &[number, sequence] : model_.live) {
      if (fovea_kv_pool_length(pool_.get(), number) != sequence.length()) wrong("refused, but a sequence has grown");
    }
  }

  std::vector<int64_t> numbers_in(const fovea_tensor *tensor, size_t count) const {
    const bool fits = tensor != nullptr && tensor->rank == 1 && tensor->shape[0] >= static_cast<int64_t>(count) &&
                      (tensor->dtype == FOVEA_I32 || tensor->dtype == FOVEA_I64);
    if (!fits) wrong("a step's tensor is none, or too small");
    std::vector<int64_t> numbers;
    for (int64_t n = 0; n < static_cast<int64_t>(count); ++n) {
      const int64_t at = n * tensor->strides[0];
      numbers.push_back(tensor->dtype == FOVEA_I32 ? static_cast<const int32_t *>(tensor->data)[at]
                                                   : static_cast<const int64_t *>(tensor->data)[at]);
    }
    return numbers;
  }

  // A sequence's pages: where they were, and new ones anywhere.
  std::vector<int64_t> pages_in(const fovea_step &made, size_t s, const ModelSequence &sequence) {
    if (numbers_in(made.key_lens, s + 1)[s] != sequence.length()) wrong("a sequence has another length");
    const std::vector<int64_t> starts = numbers_in(made.page_starts, s + 2);
    const std::vector<int64_t> ids = numbers_in(made.page_ids, static_cast<size_t>(starts[s + 1]));
    const std::vector<int64_t> pages(ids.begin() + starts[s], ids.end());
    if (pages.size() != sequence.pages.size()) wrong("a sequence has another number of pages");
    for (size_t n = 0; n < pages.size(); ++n) {
      if (pages[n] < 0 || pages[n] >= model_.page_count()) wrong("a page that there is not");
      if (sequence.pages[n] != page_given_back && ids_.insert({sequence.pages[n], pages[n]}).first->second != pages[n])
        wrong("a page has moved");
    }
    return pages;
  }

  // Whether all positions hold what was written there, and no page stands for two.
  void verify() {
    std::vector<int64_t> numbers;
    for (const auto &[number, sequence] : model_.live) numbers.push_back(number);
    note("verify");
    fovea_step made;
    const std::vector<int64_t> none(numbers.size(), 0);
    if (call_step(listed(numbers), listed(none), &made) != FOVEA_OK) wrong("a step of no tokens is refused");
    for (size_t s = 0; s < numbers.size(); ++s) {
      const ModelSequence &sequence = model_.live.at(numbers[s]);
      if (fovea_kv_pool_length(pool_.get(), numbers[s]) != sequence.length()) wrong("another length");
      check_positions(positions_, pages_in(made, s, sequence), sizes_.page_size, sequence);
    }
    std::set<int64_t> used;
    const PoolModel::Holders held = model_.holders();
    std::erase_if(ids_, [&](const auto &page) { return !held.contains(page.first); });
    for (const auto &[page, id] : ids_) used.insert(id);
    if (used.size() != held.size()) wrong("a page stands for two");
    memory_.release_all();
  }
  void check_positions(const Positions &positions, const std::vector<int64_t> &pages, int64_t page_size,
                       const ModelSequence &sequence) const {
    ++tally->compared[pool_and_model];
    for (int64_t at = sequence.first; at < sequence.length(); ++at) {
      if (!positions.hold(pages[static_cast<size_t>(at / page_size)], at % page_size,
                          sequence.stamps[static_cast<size_t>(at)]))
        wrong("position " + std::to_string(at) + " holds another thing");
    }
  }

  // ---- bytes --------------------------------------------------------------------------------------------------------

  // At any address, in as many bytes as it says.
  std::vector<uint8_t> save(const fovea_kv_pool *pool, int64_t number) {
    const size_t size = fovea_kv_pool_saved_size(pool, number);
    const Block block = memory_.take(size, choices_.chance(128));
    std::memset(block.data, blank, size);
    check_refused(fovea_kv_pool_save(pool, number, block.data, size - 1), "too little room");
    if (!std::all_of(block.data, block.data + size, [](uint8_t byte) { return byte == blank; }))
      wrong("refused, but bytes are written");
    if (fovea_kv_pool_save(pool, number, block.data, size) != FOVEA_OK) wrong("saving is refused");
    if (!memory_.marks_intact(block)) wrong("memory beside saved bytes was changed");
    return {block.data, block.data + size};
  }

  fovea_status restore(fovea_kv_pool *pool, const std::vector<uint8_t> &bytes, int64_t *number) {
    const Block block = memory_.take(bytes.size(), choices_.chance(192));
    if (!bytes.empty()) std::memcpy(block.data, bytes.data(), bytes.size());
    const fovea_status status = fovea_kv_pool_restore(pool, block.data, bytes.size(), number);
    if (!bytes.empty() && std::memcmp(block.data, bytes.data(), bytes.size()) != 0)
      wrong("restoring changed the bytes");
    return status;
  }

  void save_and_restore() {
    const int64_t source = some();
    if (fovea_kv_pool_saved_size(pool_.get(), source) > block_capacity) return;
    const std::vector<uint8_t> bytes = save(pool_.get(), source);
    if (choices_.chance(128)) return restore_altered(bytes);
    if (choices_.chance(64)) return restore_elsewhere(source, bytes);
    note("restore ", source);
    int64_t needed = 0;
    const ModelSequence restored = model_.copy_of(model_.live.at(source), &needed);
    int64_t *number = room();
    const fovea_status status = restore(pool_.get(), bytes, number);
    if (add(status, *number, needed, restored)) expect_bytes(pool_.get(), *number, bytes);
  }
  void expect_bytes(const fovea_kv_pool *pool, int64_t number, const std::vector<uint8_t> &bytes) {
    ++tally->compared[restored_and_saved];
    if (save(pool, number) != bytes) wrong("what was restored is saved as other bytes");
  }

  // In a pool of pages of another size.
  void restore_elsewhere(int64_t source, const std::vector<uint8_t> &bytes) {
    const ModelSequence &sequence = model_.live.at(source);
    fovea_kv_pool_sizes sizes = sizes_;
    sizes.page_size = 1 + static_cast<int64_t>(choices_.below(9));
    sizes.positions = sequence.length() + sizes.page_size;
    note("restore ", source, " in pages of ", sizes.page_size);
    const Pool other = make_pool(sizes);
    int64_t *number = room();
    if (restore(other.get(), bytes, number) != FOVEA_OK) wrong("restoring in another pool is refused");
    expect_bytes(other.get(), *number, bytes);
  }

  // What is refused leaves the pool as it was; what is not has become what the bytes say.
  void restore_altered(std::vector<uint8_t> bytes) {
    const std::vector<uint8_t> good = bytes;
    spoil_bytes(choices_, bytes);
    note("restore altered bytes, ", bytes.size(), " of ", good.size());
    int64_t *number = room();
    const fovea_status status = restore(pool_.get(), bytes, number);
    if (status != FOVEA_OK) {
      check_refused(status, "altered bytes");
      if (*number != unwritten) wrong("refused, but a number is written");
      return;
    }
    if (model_.is_full() || !numbers_.insert(*number).second) wrong("a number that there cannot be");
    expect_bytes(pool_.get(), *number, bytes);
    if (fovea_kv_pool_close(pool_.get(), *number) != FOVEA_OK) wrong("closing is refused");
    closed_.push_back(*number);
  }

  Memory &memory_;
  Choices &choices_;
  const fovea_kv_pool_sizes sizes_;
  const Pool pool_;
  const Positions positions_;
  PoolModel model_;
  size_t set_;
  std::set<int64_t> numbers_;  // all that there have been
  std::vector<int64_t> closed_;
  std::map<int64_t, int64_t> ids_;  // of the model's pages, in the pool
  uint32_t next_stamp_ = 1;
  std::ostringstream log_;
};

}  // namespace

void use_pool(Memory &memory, Choices &choices) {
  Pooling(memory, choices).run();
  memory.release_all();
}

}  // namespace fuzz
