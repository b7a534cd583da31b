// A plain model of a key/value pool: a stamp for each position of a sequence, and numbers of its own for pages, counted by
// who holds them. It foretells which calls succeed, how many pages a step needs, how many are free, and which stay.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace testing {

constexpr int64_t page_given_back = -1;

struct ModelSequence {
  int64_t first = 0;
  std::vector<uint32_t> stamps;
  std::vector<int64_t> pages;

  int64_t length() const { return static_cast<int64_t>(stamps.size()); }
};

class PoolModel {
 public:
  using Holders = std::map<int64_t, int64_t>;  // of each page, how many

  PoolModel(int64_t positions, int64_t page_size, int64_t sequences)
      : positions_(positions), page_size_(page_size), sequences_(sequences) {}

  std::map<int64_t, ModelSequence> live;

  int64_t pages_for(int64_t length) const { return (length + page_size_ - 1) / page_size_; }
  int64_t page_count() const { return pages_for(positions_); }
  bool is_full() const { return static_cast<int64_t>(live.size()) == sequences_; }

  Holders holders() const {
    Holders held;
    for (const auto &[number, sequence] : live) {
      for (const int64_t page : sequence.pages) {
        if (page != page_given_back) ++held[page];
      }
    }
    return held;
  }
  int64_t free_pages() const { return page_count() - static_cast<int64_t>(holders().size()); }

  // The first positions, on the same pages.
  ModelSequence beginning(const ModelSequence &sequence, int64_t length) const {
    ModelSequence cut = sequence;
    cut.stamps.resize(static_cast<size_t>(length));
    cut.pages.resize(static_cast<size_t>(pages_for(length)));
    return cut;
  }

  void drop(ModelSequence *sequence, int64_t first) const {
    sequence->first = std::max(sequence->first, first);
    std::fill_n(sequence->pages.begin(), sequence->first / page_size_, page_given_back);
  }

  // The same positions on pages of its own, as many as are needed.
  ModelSequence copy_of(const ModelSequence &sequence, int64_t *needed) {
    ModelSequence copy = sequence;
    *needed = 0;
    for (int64_t &page : copy.pages) {
      if (page == page_given_back) continue;
      page = next_page_++;
      ++*needed;
    }
    return copy;
  }

  // What a step needs, each sequence letting go of what it copies before the next one is looked at.
  int64_t pages_needed(const std::vector<int64_t> &numbers, const std::vector<int64_t> &tokens) const {
    Holders held = holders();
    int64_t needed = 0;
    for (size_t s = 0; s < numbers.size(); ++s) {
      const ModelSequence &sequence = live.at(numbers[s]);
      needed += pages_for(sequence.length() + tokens[s]) - static_cast<int64_t>(sequence.pages.size());
      if (!copies(sequence, tokens[s], held)) continue;
      --held.at(sequence.pages.back());
      ++needed;
    }
    return needed;
  }

  // Positions with stamps from first_stamp on. Whether its last page was copied.
  bool grow(ModelSequence *sequence, int64_t tokens, uint32_t first_stamp) {
    const bool copied = copies(*sequence, tokens, holders());
    if (copied) sequence->pages.back() = next_page_++;
    for (int64_t n = 0; n < tokens; ++n) sequence->stamps.push_back(first_stamp + static_cast<uint32_t>(n));
    while (static_cast<int64_t>(sequence->pages.size()) < pages_for(sequence->length())) {
      sequence->pages.push_back(next_page_++);
    }
    return copied;
  }

 private:
  bool copies(const ModelSequence &sequence, int64_t tokens, const Holders &held) const {
    return tokens > 0 && sequence.length() % page_size_ != 0 && held.at(sequence.pages.back()) > 1;
  }

  int64_t positions_, page_size_, sequences_, next_page_ = 0;
};

}  // namespace testing
