// Schedules and steps that are refused: the code, the words of the message, and that nothing has changed.
#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {.heads = 4, .kv_heads = 2, .head_dim = 8, .value_dim = 8};

std::vector<AttentionProblem> make_sequences() {
  Random random(base_seed());
  std::vector<AttentionProblem> sequences;
  for (const auto &[query_len, key_len] : {std::pair{1, 20}, {3, 5}, {2, 40}}) {
    AttentionSizes sizes = kSizes;
    sizes.query_len = query_len;
    sizes.key_len = key_len;
    sequences.push_back(make_attention(sizes, random));
  }
  return sequences;
}

const fovea_context *any_context() { return shared_context(instruction_sets().back()); }

// A schedule made with one argument spoilt.
template <class Spoil>
void refuse_making(const RaggedLayout &layout, fovea_status status, std::initializer_list<std::string> words,
                   Spoil spoil) {
  const auto sequences = make_sequences();
  const Ragged ragged(sequences, layout);
  const auto given = ragged.arguments();
  spoil(*given);
  fovea_schedule *made = nullptr;
  check_refusal(fovea_schedule_create(any_context(), given->score ? &given->score->score : nullptr, &given->query,
                                      &given->key, &given->value, &given->out, &given->options, &given->limits, &made),
                status, words);
  CHECK(made == nullptr);
}

// The integers of a step, to be spoilt one by one.
struct Numbers {
  std::vector<int64_t> query_starts = {0, 1, 4, 6};
  std::vector<int64_t> key_lens = {20, 5, 40};
  std::vector<int64_t> page_ids = {0, 1, -1, 2, -1, -1, 3, 4, 5};  // [3,3]
  std::vector<int64_t> page_starts = {0, 2, 3, 6};                 // of {0, 1, 2, 3, 4, 5}
  std::vector<int64_t> key_starts = {0, 20, 25, 65};
};

enum class Form { kPacked, kTable, kStarts };

template <class Spoil>
void refuse_step(Form form, fovea_status status, std::initializer_list<std::string> words, Spoil spoil,
                 void (*spoil_step)(fovea_step &) = nullptr) {
  const auto sequences = make_sequences();
  for (const bool wide : {false, true}) {
    CAPTURE(wide);
    const Ragged ragged(sequences, {.page_size = form == Form::kPacked ? 0 : 16});
    const Ragged again(sequences, {.page_size = form == Form::kPacked ? 0 : 16});
    OwnSchedule schedule;
    REQUIRE_OK(ragged.create(any_context(), &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &ragged.step()));
    ragged.run(schedule.get());
    Numbers numbers;
    if (form == Form::kStarts) numbers.page_ids = {0, 1, 2, 3, 4, 5};
    spoil(numbers);
    const auto vector = [&](const std::vector<int64_t> &values) {
      return Integers({static_cast<int64_t>(values.size())}, values, wide);
    };
    const Integers query_starts = vector(numbers.query_starts), key_lens = vector(numbers.key_lens),
                   page_starts = vector(numbers.page_starts), key_starts = vector(numbers.key_starts),
                   ids = form == Form::kStarts ? vector(numbers.page_ids) : Integers({3, 3}, numbers.page_ids, wide);
    fovea_step step{};
    step.struct_size = sizeof step;
    step.query_starts = query_starts.view();
    if (form == Form::kPacked) step.key_starts = key_starts.view();
    if (form != Form::kPacked) step.key_lens = key_lens.view();
    if (form != Form::kPacked) step.page_ids = ids.view();
    if (form == Form::kStarts) step.page_starts = page_starts.view();
    if (spoil_step != nullptr) spoil_step(step);
    check_refusal(fovea_schedule_set(schedule.get(), &step), status, words);
    again.run(schedule.get());  // the step before
    CHECK(same_bits(ragged.out(), again.out()));
  }
}

constexpr auto kNothing = [](auto &) {};

}  // namespace

TEST_SUITE("ragged errors") {
  TEST_CASE("what a schedule is made with") {
    using Arguments = Ragged::Arguments;
    const RaggedLayout packed = {}, paged = {.page_size = 16};
    refuse_making(packed, FOVEA_BAD_RANK, {"query has rank 4"}, [](Arguments &a) { a.query.rank = 4; });
    refuse_making(packed, FOVEA_BAD_RANK, {"key has rank 2"}, [](Arguments &a) { a.key.rank = 2; });
    refuse_making(paged, FOVEA_BAD_RANK, {"value has rank 3"}, [](Arguments &a) { a.value.rank = 3; });
    refuse_making(packed, FOVEA_BAD_RANK, {"out has rank 2"}, [](Arguments &a) { a.out.rank = 2; });
    refuse_making(packed, FOVEA_BAD_SHAPE, {"out has 5 positions", "6"}, [](Arguments &a) { a.out.shape[0] = 5; });
    refuse_making(packed, FOVEA_BAD_SHAPE, {"query has 3 heads", "2"}, [](Arguments &a) {
      a.query.shape[1] = a.out.shape[1] = 3;
      a.options.log_sum_exp = nullptr;
    });
    refuse_making(paged, FOVEA_BAD_SHAPE, {"value", "pages", "as key"}, [](Arguments &a) { a.value.shape[0] = 1; });
    refuse_making(paged, FOVEA_BAD_SHAPE, {"value", "positions of a page", "8", "16"},
                  [](Arguments &a) { a.value.shape[2] = 8; });
    refuse_making(paged, FOVEA_BAD_SHAPE, {"key has 0 pages"}, [](Arguments &a) { a.key.shape[0] = 0; });
    refuse_making(paged, FOVEA_BAD_SHAPE, {"key has 0 positions of a page"}, [](Arguments &a) { a.key.shape[2] = 0; });
    refuse_making(packed, FOVEA_BAD_DTYPE, {"key", "FOVEA_I32"}, [](Arguments &a) { a.key.dtype = FOVEA_I32; });
    refuse_making(packed, FOVEA_BAD_SHAPE, {"log_sum_exp"}, [](Arguments &a) { a.log_sum_exp.shape[0] = 7; });
    refuse_making(packed, FOVEA_BAD_RANK, {"log_sum_exp has rank 3"}, [](Arguments &a) { a.log_sum_exp.rank = 3; });
    refuse_making(packed, FOVEA_BAD_OPTION, {"options.dropout", "0.5"}, [](Arguments &a) { a.options.dropout = 0.5F; });
    refuse_making(packed, FOVEA_BAD_VALUE, {"options.softcap"}, [](Arguments &a) { a.options.softcap = -1; });
    refuse_making(packed, FOVEA_BAD_VALUE, {"limits.sequences is 0"}, [](Arguments &a) { a.limits.sequences = 0; });
    refuse_making(packed, FOVEA_BAD_VALUE, {"limits.page_ids is 1"}, [](Arguments &a) { a.limits.page_ids = 1; });
    refuse_making(packed, FOVEA_BAD_VALUE, {"limits.key_len is -1"}, [](Arguments &a) { a.limits.key_len = -1; });
    refuse_making(packed, FOVEA_BAD_VALUE, {"limits.workers is 5000"}, [](Arguments &a) { a.limits.workers = 5000; });
    refuse_making(packed, FOVEA_BAD_OPTION, {"limits.struct_size"}, [](Arguments &a) { a.limits.struct_size = 3; });
    for (const auto &[name, member] : {std::pair{"valid_lens", &fovea_attention_options::valid_lens},
                                       {"query_offsets", &fovea_attention_options::query_offsets},
                                       {"mask", &fovea_attention_options::mask},
                                       {"bias", &fovea_attention_options::bias},
                                       {"weights", &fovea_attention_options::weights},
                                       {"scores", &fovea_attention_options::scores}}) {
      refuse_making(packed, FOVEA_BAD_OPTION, {std::string("options.") + name},
                    [member = member](Arguments &a) { a.options.*member = &a.query; });
    }
    fovea_schedule *made = nullptr;
    check_refusal(fovea_schedule_create(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &made),
                  FOVEA_NULL_POINTER, {"query"});
    check_refusal(
        fovea_schedule_create(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
        FOVEA_NULL_POINTER, {"schedule"});
  }

  TEST_CASE("pages take the dot product alone") {
    Random random(base_seed());
    for (const int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      const ScoreFunction score = make_score(kind, 8, 8, 5, random);
      refuse_making({.page_size = 16}, FOVEA_BAD_VALUE, {"score.kind", "pages"},
                    [&](Ragged::Arguments &a) { a.score.emplace(score); });
    }
  }

  TEST_CASE("sizes that no machine has") {
    const RaggedLayout packed = {};
    refuse_making(packed, FOVEA_SIZE_OVERFLOW, {"limits", "tokens"}, [](Ragged::Arguments &a) {
      for (fovea_tensor *tensor : {&a.query, &a.out}) {
        tensor->shape[0] = int64_t{1} << 30;
        tensor->shape[1] = int64_t{1} << 20;
        tensor->shape[2] = 1;
        tensor->strides[0] = int64_t{1} << 20;
        tensor->strides[1] = 1;
      }
      a.key.shape[2] = a.value.shape[2] = 1;
      a.options.log_sum_exp = nullptr;
    });
  }

  TEST_CASE("steps: starts") {
    for (const Form form : {Form::kPacked, Form::kTable, Form::kStarts}) {
      refuse_step(form, FOVEA_BAD_VALUE, {"step.query_starts[0] is 1", "0"}, [](Numbers &n) { n.query_starts[0] = 1; });
      refuse_step(form, FOVEA_BAD_VALUE, {"step.query_starts[2] is 0", "1 or more"},
                  [](Numbers &n) { n.query_starts[2] = 0; });
      refuse_step(form, FOVEA_BAD_SHAPE, {"step.query_starts[3] is 7", "6"}, [](Numbers &n) { n.query_starts[3] = 7; });
      refuse_step(form, FOVEA_BAD_VALUE, {"step.query_starts[3] is -2147483648"},
                  [](Numbers &n) { n.query_starts[3] = INT32_MIN; });
      refuse_step(form, FOVEA_BAD_SHAPE, {"step.query_starts has 5 elements", "4"},
                  [](Numbers &n) { n.query_starts.push_back(6); });
      refuse_step(form, FOVEA_BAD_SHAPE, {"step.query_starts has 0 elements"},
                  [](Numbers &n) { n.query_starts.clear(); });
      refuse_step(form, FOVEA_NULL_POINTER, {"step.query_starts"}, kNothing,
                  [](fovea_step &step) { step.query_starts = nullptr; });
      refuse_step(form, FOVEA_BAD_OPTION, {"step.struct_size"}, kNothing,
                  [](fovea_step &step) { step.struct_size = 1; });
    }
    refuse_step(Form::kPacked, FOVEA_BAD_VALUE, {"step.key_starts[2] is 3", "20"},
                [](Numbers &n) { n.key_starts[2] = 3; });
    refuse_step(Form::kPacked, FOVEA_BAD_SHAPE, {"step.key_starts[3] is 66", "65"},
                [](Numbers &n) { n.key_starts[3] = 66; });
    refuse_step(Form::kPacked, FOVEA_BAD_SHAPE, {"step.key_starts", "3", "4"},
                [](Numbers &n) { n.key_starts.pop_back(); });
    refuse_step(Form::kPacked, FOVEA_NULL_POINTER, {"step.key_starts"}, kNothing,
                [](fovea_step &step) { step.key_starts = nullptr; });
    refuse_step(Form::kPacked, FOVEA_BAD_VALUE, {"step.page_ids is given"}, kNothing,
                [](fovea_step &step) { step.page_ids = step.query_starts; });
    refuse_step(Form::kTable, FOVEA_BAD_VALUE, {"step.key_starts is given"}, kNothing,
                [](fovea_step &step) { step.key_starts = step.query_starts; });
  }

  TEST_CASE("steps: lengths and pages name the sequence and the entry") {
    for (const Form form : {Form::kTable, Form::kStarts}) {
      refuse_step(form, FOVEA_BAD_VALUE, {"step.key_lens[1] is -1"}, [](Numbers &n) { n.key_lens[1] = -1; });
      refuse_step(form, FOVEA_BAD_VALUE, {"step.key_lens[2] is 49"}, [](Numbers &n) { n.key_lens[2] = 49; });
      refuse_step(form, FOVEA_BAD_SHAPE, {"step.key_lens", "2", "3"}, [](Numbers &n) { n.key_lens.pop_back(); });
      refuse_step(form, FOVEA_NULL_POINTER, {"step.key_lens"}, kNothing,
                  [](fovea_step &step) { step.key_lens = nullptr; });
      refuse_step(form, FOVEA_NULL_POINTER, {"step.page_ids"}, kNothing,
                  [](fovea_step &step) { step.page_ids = nullptr; });
      for (const int64_t bad : {int64_t{-1}, int64_t{8}, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
        refuse_step(form, FOVEA_BAD_VALUE, {"sequence 2", std::to_string(bad), "entry 1", "0 to 7"},
                    [&](Numbers &n) { n.page_ids[n.page_ids.size() - 2] = bad; });
      }
    }
    refuse_step(Form::kTable, FOVEA_BAD_RANK, {"step.page_ids has rank 1"}, kNothing,
                [](fovea_step &step) { step.page_ids = step.key_lens; });
    refuse_step(Form::kStarts, FOVEA_BAD_VALUE, {"step.key_lens[0] is 20", "16", "1 pages"},
                [](Numbers &n) { n.page_starts[1] = 1; });
    refuse_step(Form::kStarts, FOVEA_BAD_SHAPE, {"step.page_starts[3] is 7", "6"},
                [](Numbers &n) { n.page_starts[3] = 7; });
    refuse_step(Form::kStarts, FOVEA_BAD_VALUE, {"step.page_starts[2] is 0"}, [](Numbers &n) { n.page_starts[2] = 0; });
  }

  TEST_CASE("a table of more page ids than the schedule has room for") {
    const auto sequences = make_sequences();
    const Ragged ragged(sequences, {.page_size = 16});
    OwnSchedule schedule;
    REQUIRE_OK(ragged.create(any_context(), &schedule));
    const Integers ids({3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0}, false), lens({3}, {48, 48, 48}, false);
    fovea_step step = ragged.step();
    step.page_ids = ids.view();
    step.key_lens = lens.view();
    check_refusal(fovea_schedule_set(schedule.get(), &step), FOVEA_BAD_SHAPE, {"page ids", "6", "sequence 2"});
  }

  TEST_CASE("runs: buffers, workspaces, shares") {
    const auto sequences = make_sequences();
    const Ragged ragged(sequences, {.page_size = 16});
    OwnSchedule schedule;
    REQUIRE_OK(ragged.create(any_context(), &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &ragged.step()));
    fovea_attention_buffers buffers = ragged.buffers();
    const GuardedMemory workspace(fovea_schedule_workspace_size(schedule.get()));
    const auto run = [&](size_t size) { return fovea_schedule_run(schedule.get(), &buffers, workspace.data(), size); };
    check_refusal(run(workspace.size() - 1), FOVEA_WORKSPACE_TOO_SMALL, {"workspace_size"});
    check_refusal(fovea_schedule_run(schedule.get(), nullptr, nullptr, 0), FOVEA_NULL_POINTER, {"buffers"});
    check_refusal(fovea_schedule_run(nullptr, &buffers, nullptr, 0), FOVEA_NULL_POINTER, {"schedule"});
    buffers.key = nullptr;
    check_refusal(run(workspace.size()), FOVEA_NULL_POINTER, {"buffers.key"});
    buffers.key = ragged.keys().data;
    buffers.out = ragged.keys().data;
    check_refusal(run(workspace.size()), FOVEA_OVERLAP, {"buffers.out", "buffers.key"});
    buffers = ragged.buffers();
    buffers.mask = buffers.query;
    check_refusal(run(workspace.size()), FOVEA_BAD_VALUE, {"buffers.mask"});
    buffers = ragged.buffers();
    const auto share = [&](int64_t phase, int64_t begin, int64_t end, int64_t worker) {
      return fovea_schedule_run_tasks(schedule.get(), &buffers, workspace.data(), workspace.size(), phase, begin, end,
                                      worker);
    };
    check_refusal(share(-1, 0, 0, 0), FOVEA_BAD_VALUE, {"phase"});
    check_refusal(share(3, 0, 0, 0), FOVEA_BAD_VALUE, {"phase"});
    check_refusal(share(1, -1, 0, 0), FOVEA_BAD_VALUE, {"begin"});
    check_refusal(share(1, 0, 1000, 0), FOVEA_BAD_VALUE, {"end"});
    check_refusal(share(1, 1, 0, 0), FOVEA_BAD_VALUE, {"end"});
    check_refusal(share(1, 0, 1, -1), FOVEA_BAD_VALUE, {"worker"});
    check_refusal(share(1, 0, 1, 5000), FOVEA_BAD_VALUE, {"worker"});
    CHECK(ragged.untouched());
    CHECK_EQ(fovea_schedule_tasks(schedule.get(), 7), 0);
    CHECK_EQ(fovea_schedule_tasks(nullptr, 0), 0);
    CHECK_EQ(fovea_schedule_phases(nullptr), 0);
    CHECK_EQ(fovea_schedule_workspace_size(nullptr), 0);
    CHECK_EQ(fovea_schedule_describe(nullptr, nullptr, 0), 0);
    fovea_schedule_destroy(nullptr);
  }

  TEST_CASE("shares are for the dot product") {
    Random random(base_seed());
    auto sequences = make_sequences();
    for (AttentionProblem &sequence : sequences) {
      Random same(3);
      sequence.score = make_score(FOVEA_SCORE_ADDITIVE, 8, 8, 5, same);
    }
    const Ragged ragged(sequences, {});
    OwnSchedule schedule;
    REQUIRE_OK(ragged.create(any_context(), &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &ragged.step()));
    CHECK_EQ(fovea_schedule_phases(schedule.get()), 0);
    const fovea_attention_buffers buffers = ragged.buffers();
    check_refusal(fovea_schedule_run_tasks(schedule.get(), &buffers, nullptr, 0, 0, 0, 0, 0), FOVEA_BAD_OPTION,
                  {"score function"});
  }

  TEST_CASE("descriptions") {
    const auto sequences = make_sequences();
    const Ragged ragged(sequences, {.page_size = 16});
    OwnSchedule schedule;
    REQUIRE_OK(ragged.create(any_context(), &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &ragged.step()));
    std::string text(fovea_schedule_describe(schedule.get(), nullptr, 0) + 1, '\0');
    fovea_schedule_describe(schedule.get(), text.data(), text.size());
    CHECK_NE(text.find("op=ragged score=sdpa"), std::string::npos);
    CHECK_NE(text.find("sequences=3 "), std::string::npos);
    CHECK_NE(text.find("tokens=6 "), std::string::npos);
    CHECK_NE(text.find("page=16 "), std::string::npos);
  }
}
