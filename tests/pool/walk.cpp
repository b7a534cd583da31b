// Random walks of a key/value pool beside a plain model.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "errors.hpp"
#include "support/kv_pool.hpp"
#include "support/pool_model.hpp"

using namespace testing;

namespace {

class Walk {
 public:
  Walk(const PoolSizes &sizes, uint64_t seed)
      : sizes_(sizes),
        pool_(make_pool(sizes)),
        rows_(pool_.get()),
        model_(sizes.positions, sizes.page_size, sizes.sequences),
        random_(seed) {}

  void run(int64_t operations) {
    for (int64_t n = 0; n < operations; ++n) {
      do_something(random_.integer(0, 99));
      REQUIRE(fovea_kv_pool_free_pages(pool_.get()) == model_.free_pages());
      if (n % 40 == 0) verify();
    }
    verify();
    while (!model_.live.empty()) close();
    CHECK(fovea_kv_pool_free_pages(pool_.get()) == model_.page_count());
    CHECK((copied_ > 0) == (sizes_.page_size > 1));  // the walk went everywhere
    CHECK(exhausted_ > 0);
    CHECK(restored_ > 0);
    CHECK(without_room_ > 0);
  }

 private:
  void do_something(int64_t choice) {
    if (choice < 6 || model_.live.empty()) return open();
    if (choice < 16) return fork();
    if (choice < 26) return truncate();
    if (choice < 32) return drop();
    if (choice < 37) return close();
    if (choice < 39) return save_and_restore();
    step_some();
  }

  auto pick() {
    auto at = model_.live.begin();
    std::advance(at, random_.integer(0, static_cast<int64_t>(model_.live.size()) - 1));
    return at;
  }

  // A sequence that was opened, or not where there are as many as there may be.
  bool add(fovea_status status, int64_t number, const ModelSequence &sequence) {
    if (model_.is_full()) {
      ++without_room_;
      REQUIRE(status == FOVEA_POOL_EXHAUSTED);
      REQUIRE(number == -7);
      return false;
    }
    REQUIRE_OK(status);
    REQUIRE(number > 0);
    REQUIRE(numbers_.insert(number).second);  // never used before
    model_.live[number] = sequence;
    return true;
  }

  void open() {
    int64_t number = -7;
    const fovea_status status = fovea_kv_pool_open(pool_.get(), &number);
    add(status, number, {});
  }

  void fork() {
    const auto source = pick();
    const int64_t length = random_.integer(source->second.first, source->second.length());
    int64_t number = -7;
    const fovea_status status = fovea_kv_pool_fork(pool_.get(), source->first, length, &number);
    add(status, number, model_.beginning(source->second, length));
  }

  void truncate() {
    auto &[number, sequence] = *pick();
    const int64_t first = sequence.first;
    const int64_t length = random_.chance(0.7) ? random_.integer(first, sequence.length()) : first - 1;
    const fovea_status status = fovea_kv_pool_truncate(pool_.get(), number, length);
    REQUIRE(status == (length >= first ? FOVEA_OK : FOVEA_BAD_VALUE));
    if (status == FOVEA_OK) sequence = model_.beginning(sequence, length);
  }

  void drop() {
    auto &[number, sequence] = *pick();
    const int64_t first = random_.integer(0, sequence.length());
    REQUIRE_OK(fovea_kv_pool_drop(pool_.get(), number, first));
    model_.drop(&sequence, first);
  }

  void close() {
    const auto closed = pick();
    REQUIRE_OK(fovea_kv_pool_close(pool_.get(), closed->first));
    REQUIRE(fovea_kv_pool_length(pool_.get(), closed->first) == -1);
    REQUIRE(fovea_kv_pool_close(pool_.get(), closed->first) == FOVEA_BAD_VALUE);
    model_.live.erase(closed);
  }

  void save_and_restore() {
    const auto source = pick();
    const std::vector<unsigned char> bytes = save(pool_, source->first);
    const int64_t free = model_.free_pages();
    int64_t number = -7;
    const fovea_status status = fovea_kv_pool_restore(pool_.get(), bytes.data(), bytes.size(), &number);
    int64_t needed = 0;
    const ModelSequence restored = model_.copy_of(source->second, &needed);
    if (needed > free) {
      ++exhausted_;
      REQUIRE(status == FOVEA_POOL_EXHAUSTED);
      REQUIRE(number == -7);
    } else if (add(status, number, restored)) {
      ++restored_;
    }
  }

  int64_t some_tokens() {
    if (random_.chance(0.1)) return 0;
    if (random_.chance(0.02)) return random_.integer(0, sizes_.positions * 2);
    return random_.chance(0.6) ? random_.integer(1, 3) : random_.integer(1, 2 * sizes_.page_size + 1);
  }

  void step_some() {
    std::vector<int64_t> numbers, tokens;
    for (const auto &[number, sequence] : model_.live) {
      if (!random_.chance(0.4)) continue;
      numbers.insert(numbers.begin() + random_.integer(0, static_cast<int64_t>(numbers.size())), number);
      tokens.push_back(some_tokens());
    }
    const int64_t needed = model_.pages_needed(numbers, tokens), free = model_.free_pages();
    fovea_step made;
    const fovea_status status = step_status(pool_, numbers, tokens, &made);
    if (needed > free) {
      ++exhausted_;
      const std::string said = fovea_last_error();
      REQUIRE(status == FOVEA_POOL_EXHAUSTED);
      REQUIRE(said.find("needs " + std::to_string(needed) + ", and " + std::to_string(free) + " of") !=
              std::string::npos);
      return;
    }
    REQUIRE_OK(status);
    const StepNumbers step = numbers_of(made);
    for (size_t s = 0; s < numbers.size(); ++s) {
      copied_ += model_.grow(&model_.live.at(numbers[s]), tokens[s], next_stamp_) ? 1 : 0;
      REQUIRE(step.query_starts[s + 1] - step.query_starts[s] == tokens[s]);
      write_new(rows_, step, s, next_stamp_);
      next_stamp_ += static_cast<uint32_t>(tokens[s]);
    }
    for (size_t s = 0; s < numbers.size(); ++s) check_table(step, s, model_.live.at(numbers[s]));
  }

  // Pages are where they were, and new ones anywhere.
  void check_table(const StepNumbers &step, size_t s, const ModelSequence &sequence) {
    REQUIRE(step.key_lens[s] == sequence.length());
    const std::vector<int64_t> ids = step.pages(s);
    REQUIRE(ids.size() == sequence.pages.size());
    for (size_t n = 0; n < ids.size(); ++n) {
      REQUIRE(ids[n] >= 0);
      REQUIRE(ids[n] < model_.page_count());
      if (sequence.pages[n] == page_given_back) continue;
      REQUIRE(ids_.insert({sequence.pages[n], ids[n]}).first->second == ids[n]);
    }
  }

  void verify() {
    std::vector<int64_t> numbers;
    for (const auto &[number, sequence] : model_.live) numbers.push_back(number);
    const StepNumbers step = testing::step(pool_, numbers, std::vector<int64_t>(numbers.size(), 0));
    std::set<int64_t> used;
    for (size_t s = 0; s < numbers.size(); ++s) {
      const ModelSequence &sequence = model_.live.at(numbers[s]);
      REQUIRE(fovea_kv_pool_length(pool_.get(), numbers[s]) == sequence.length());
      check_table(step, s, sequence);
      bool same = true;
      for (int64_t at = sequence.first; at < sequence.length(); ++at) {
        same = same && rows_.holds(step.page(s, at / sizes_.page_size), at % sizes_.page_size,
                                   sequence.stamps[static_cast<size_t>(at)]);
      }
      REQUIRE(same);
    }
    const PoolModel::Holders held = model_.holders();
    for (const auto &[page, count] : held) used.insert(ids_.at(page));
    REQUIRE(used.size() == held.size());  // no page stands for two
    std::erase_if(ids_, [&](const auto &page) { return !held.contains(page.first); });
  }

  const PoolSizes sizes_;
  const KvPool pool_;
  const PoolRows rows_;
  PoolModel model_;
  Random random_;
  std::set<int64_t> numbers_;       // all that there have been
  std::map<int64_t, int64_t> ids_;  // of the model's pages, in the pool
  uint32_t next_stamp_ = 1;
  int64_t copied_ = 0, exhausted_ = 0, restored_ = 0, without_room_ = 0;
};

void walk(int64_t operations) {
  uint64_t seed = base_seed();
  for (const int64_t page_size : {4, 1, 5, 16}) {
    CAPTURE(page_size);
    Walk({.positions = 30 * page_size - page_size / 2, .page_size = page_size, .sequences = 8}, seed++).run(operations);
  }
}

}  // namespace

TEST_SUITE("kv pool") {
  TEST_CASE("a random walk beside a model") { walk(case_count(5000)); }
}

TEST_SUITE("long") {
  TEST_CASE("a random walk of a pool beside a model, a million steps of it") { walk(case_count(250000)); }
}
