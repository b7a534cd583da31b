// What multi-head attention refuses with a schedule: by name, leaving pages and output as they were.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "errors.hpp"
#include "support/multi_head.hpp"
#include "support/paged_layer.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr MultiHeadSizes kSizes = {.query_len = 5,
                                   .key_len = 5,
                                   .query_inputs = 6,
                                   .key_inputs = 6,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 8,
                                   .value_dim = 4,
                                   .outputs = 6};
constexpr PagedSizes kPaged = {.sequences = 2, .tokens = 9, .positions = 9, .page_size = 4};

std::vector<char> bytes_of(const fovea_tensor &pages) {
  const char *begin = static_cast<const char *>(pages.data);
  return {begin, begin + pages.shape[0] * pages.strides[0] * (pages.dtype == FOVEA_F32 ? 4 : 2)};
}

// A call that is right until it is spoiled: two sequences of 2 and 3 tokens.
struct Call {
  MultiHead layer;
  MhaWeights weights;
  PagedLayer paged;
  Tensor<float> x{Shape{5, 6}}, out{Shape{5, 6}};
  Tensor<float> slopes{Shape{4}}, sinks{Shape{4}};
  fovea_tensor query = x.view(), result = out.view(), slopes_view = slopes.view(), sinks_view = sinks.view();
  fovea_tensor key_pages, value_pages;
  const fovea_tensor *key = nullptr, *value = nullptr;
  fovea_attention_options attention = sized_options<fovea_attention_options>();
  fovea_rotary_options rotary = sized_options<fovea_rotary_options>();
  fovea_mha_options options = sized_options<fovea_mha_options>();

  explicit Call(const PagedSizes &sizes = kPaged, const fovea_attention_options *made_with = nullptr,
                const MultiHeadSizes &of_schedule = kSizes)
      : layer(make()), weights(layer.make_weights(nullptr)), paged(nullptr, of_schedule, sizes, made_with) {
    Random random(base_seed());
    for (Tensor<float> *tensor : {&x, &slopes, &sinks}) tensor->fill_normal(random);
    paged.grow({2, 3});
    paged.give(&options);
    if (options.key_pages == nullptr) return;
    key_pages = paged.keys(), value_pages = paged.values();
    options.key_pages = &key_pages, options.value_pages = &value_pages;
  }

  static MultiHead make() {
    Random random(base_seed());
    return make_multi_head(kSizes, Inputs::kOne, random);
  }

  fovea_status run(const fovea_context *context = nullptr) const {
    return fovea_multi_head_attention(context, weights.get(), &query, key, value, &result, &options);
  }
};

void refuse(Call &call, fovea_status status, std::initializer_list<std::string> words) {
  const bool pages = call.paged.pool() != nullptr;
  const auto held = [&] {
    return pages ? std::pair(bytes_of(call.paged.keys()), bytes_of(call.paged.values()))
                 : std::pair<std::vector<char>, std::vector<char>>();
  };
  const auto before = held();
  check_refusal(call.run(), status, words);
  CHECK(held() == before);
  CHECK(call.out.untouched());
}

void refuse(fovea_status status, std::initializer_list<std::string> words, const std::function<void(Call &)> &spoil,
            const PagedSizes &sizes = kPaged) {
  Call call(sizes);
  spoil(call);
  refuse(call, status, words);
}

constexpr std::pair<const char *, const fovea_tensor * fovea_mha_options::*> kPageOptions[] = {
    {"key_pages", &fovea_mha_options::key_pages},
    {"value_pages", &fovea_mha_options::value_pages},
    {"key_scales", &fovea_mha_options::key_scales},
    {"value_scales", &fovea_mha_options::value_scales}};

PagedSizes packed() {
  PagedSizes sizes = kPaged;
  sizes.page_size = 0;
  return sizes;
}

}  // namespace

TEST_SUITE("multi head") {
  TEST_CASE("the call that is spoiled below is right") {
    for (const PagedSizes &sizes : {kPaged, packed()}) {
      Call call(sizes);
      REQUIRE_OK(call.run());
      CHECK(!call.out.untouched());
    }
  }

  TEST_CASE("schedules: pages without one") {
    for (const auto &[name, member] : kPageOptions) {
      refuse(FOVEA_BAD_VALUE,
             {"options." + std::string(name) + " is given, expected NULL: there is no options.schedule"}, [&](Call &c) {
               c.options.schedule = nullptr;
               c.options.key_pages = c.options.value_pages = nullptr;
               c.options.*member = &c.key_pages;
             });
    }
    refuse(FOVEA_NULL_POINTER, {"options.key_pages is NULL, expected pages to keep"},
           [](Call &c) { c.options.flags = FOVEA_MHA_KEEP_PAGES, c.options.key_pages = nullptr; });
    refuse(FOVEA_BAD_OPTION, {"options.flags is 0x2", "FOVEA_MHA_KEEP_PAGES"}, [](Call &c) { c.options.flags = 2; });
  }

  TEST_CASE("schedules: pages that are kept take no keys") {
    for (const bool value : {false, true}) {
      refuse(FOVEA_BAD_VALUE, {value ? "value is set" : "key is set", "FOVEA_MHA_KEEP_PAGES"}, [&](Call &c) {
        c.options.flags = FOVEA_MHA_KEEP_PAGES;
        (value ? c.value : c.key) = &c.query;
      });
    }
  }

  TEST_CASE("schedules: of another score function, set, or type") {
    auto gaussian = sized_options<fovea_score>();
    gaussian.kind = FOVEA_SCORE_GAUSSIAN;
    gaussian.sigma = 1;
    const Tensor<float> kept({1});
    const fovea_tensor kept_view = kept.view();
    refuse(FOVEA_BAD_VALUE, {"options.kept is given, expected NULL with options.schedule"},
           [&](Call &c) { c.options.kept = &kept_view; });
    CHECK(kept.untouched());
    refuse(FOVEA_BAD_VALUE, {"options.score is given, expected NULL with options.schedule"},
           [&](Call &c) { c.options.score = &gaussian; });
    OwnSchedule of_gaussian;
    MultiHeadSizes same_dims = kSizes;
    REQUIRE_OK(create_schedule_for(nullptr, same_dims, packed(), nullptr, nullptr, &of_gaussian, &gaussian));
    refuse(
        FOVEA_BAD_VALUE, {"options.schedule has another score function", "dot product"},
        [&](Call &c) { c.options.schedule = of_gaussian.get(); }, packed());
    for (const std::string &isa : instruction_sets()) {
      if (isa == fovea_isa_name(nullptr)) continue;
      OwnSchedule other;
      REQUIRE_OK(create_schedule_for(shared_context(isa), kSizes, packed(), nullptr, nullptr, &other));
      refuse(
          FOVEA_BAD_VALUE, {"options.schedule was made for " + isa, fovea_isa_name(nullptr)},
          [&](Call &c) { c.options.schedule = other.get(); }, packed());
    }
  }

  TEST_CASE("schedules: element types") {
    const int64_t shape[] = {9, 4, 8}, out_shape[] = {9, 4, 4}, key_shape[] = {9, 2, 8}, value_shape[] = {9, 2, 4};
    for (int n = 0; n < 3; ++n) {
      const auto dtype = [&](int which) { return which == n ? FOVEA_BF16 : FOVEA_F32; };
      const fovea_tensor query = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, shape);
      const fovea_tensor key = fovea_tensor_contiguous(nullptr, dtype(0), 3, key_shape);
      const fovea_tensor value = fovea_tensor_contiguous(nullptr, dtype(1), 3, value_shape);
      const fovea_tensor out = fovea_tensor_contiguous(nullptr, dtype(2), 3, out_shape);
      auto limits = sized_options<fovea_schedule_limits>();
      limits.sequences = 2;
      const auto refused = [&](const PagedSizes &sizes, const fovea_tensor &keys, const fovea_tensor &values,
                               const char *which) {
        fovea_schedule *made = nullptr;
        REQUIRE_OK(fovea_schedule_create(nullptr, nullptr, &query, &keys, &values, &out, nullptr, &limits, &made));
        const OwnSchedule owner(made);
        refuse(
            FOVEA_BAD_DTYPE,
            {"options.schedule was made for queries of FOVEA_F32 and other types", "one type for", which},
            [&](Call &c) { c.options.schedule = made; }, sizes);
      };
      refused(packed(), key, value, "queries, keys, values and out");
      if (n < 2) continue;
      const Call paged;
      refused(kPaged, paged.paged.keys(), paged.paged.values(), "queries and out");
    }
  }

  TEST_CASE("schedules: attention's options") {
    const auto more = [&](const std::function<void(fovea_attention_options &)> &set) {
      refuse(FOVEA_BAD_VALUE, {"options.attention has more than alibi_slopes and sinks"}, [&](Call &c) {
        set(c.attention);
        c.options.attention = &c.attention;
      });
    };
    more([](auto &o) { o.flags = FOVEA_CAUSAL; });
    more([](auto &o) { o.softcap = 1; });
    more([](auto &o) { o.precision = FOVEA_PRECISION_HIGHEST; });
    const Tensor<float> lse({5, 4});
    const fovea_tensor lse_view = lse.view();
    more([&](auto &o) { o.log_sum_exp = &lse_view; });
    refuse(FOVEA_BAD_OPTION, {"options.attention", "struct_size"}, [](Call &c) {
      c.attention.struct_size = 3;
      c.options.attention = &c.attention;
    });
    for (const bool sinks : {false, true}) {
      const std::string name = sinks ? "options.attention.sinks" : "options.attention.alibi_slopes";
      const auto member = sinks ? &fovea_attention_options::sinks : &fovea_attention_options::alibi_slopes;
      const auto view = sinks ? &Call::sinks_view : &Call::slopes_view;
      refuse(FOVEA_BAD_VALUE, {name + " is given, expected it NULL, as the schedule was made"}, [&](Call &c) {
        c.attention.*member = &(c.*view);
        c.options.attention = &c.attention;
      });
      const int64_t four = 4;
      const fovea_tensor described = fovea_tensor_contiguous(nullptr, FOVEA_F32, 1, &four);
      auto made_with = sized_options<fovea_attention_options>();
      made_with.*member = &described;
      const auto spoiled = [&](fovea_status status, std::initializer_list<std::string> words,
                               const std::function<void(Call &)> &spoil) {
        Call call(kPaged, &made_with);
        call.attention.*member = &(call.*view);
        call.options.attention = &call.attention;
        spoil(call);
        refuse(call, status, words);
      };
      spoiled(FOVEA_BAD_VALUE, {name + " is NULL, expected it given, as the schedule was made"},
              [](Call &c) { c.options.attention = nullptr; });
      spoiled(FOVEA_BAD_SHAPE, {name, "3", "4", "the number of query heads"}, [&](Call &c) { (c.*view).shape[0] = 3; });
      spoiled(FOVEA_BAD_RANK, {name}, [&](Call &c) { (c.*view).rank = 2; });
      spoiled(FOVEA_BAD_DTYPE, {name}, [&](Call &c) { (c.*view).dtype = FOVEA_F16; });
      spoiled(FOVEA_NULL_POINTER, {name}, [&](Call &c) { (c.*view).data = nullptr; });
      spoiled(FOVEA_OVERLAP, {name, "out"}, [&](Call &c) { (c.*view).data = c.out.data(); });
    }
  }

  TEST_CASE("schedules: sizes") {
    const auto of_schedule = [](std::initializer_list<std::string> words, int64_t MultiHeadSizes::*member,
                                int64_t size) {
      for (const PagedSizes &sizes : {kPaged, packed()}) {
        MultiHeadSizes other = kSizes;
        other.*member = size;
        Call call(sizes, nullptr, other);
        refuse(call, FOVEA_BAD_SHAPE, words);
      }
    };
    of_schedule({"query_weight has 4 heads, expected 2 (as the schedule was made)"}, &MultiHeadSizes::heads, 2);
    of_schedule({"key_weight has 2 heads, expected 4 (as the schedule was made)"}, &MultiHeadSizes::kv_heads, 4);
    of_schedule({"query_weight has 8 features of a head, expected 7 (as the schedule was made)"},
                &MultiHeadSizes::head_dim, 7);
    of_schedule({"value_weight has 4 features of a head, expected 5 (as the schedule was made)"},
                &MultiHeadSizes::value_dim, 5);
    for (const PagedSizes &sizes : {kPaged, packed()}) {
      refuse(
          FOVEA_BAD_SHAPE, {"query has 4 positions, expected 5 (the tokens of options.schedule's step"},
          [](Call &c) { c.query.shape[0] = c.result.shape[0] = 4; }, sizes);
      fovea_tensor fewer{};
      refuse(
          FOVEA_BAD_SHAPE, {"key has 4 positions, expected 5 (as query, with a schedule"},
          [&](Call &c) {
            fewer = c.query;
            fewer.shape[0] = 4;
            c.key = &fewer;
          },
          sizes);
    }
    const std::vector<int64_t> tokens = {0, 2, 5}, keys = {0, 2, 6};
    const fovea_tensor token_view = vector_of(tokens), key_view = vector_of(keys);
    auto step = sized_options<fovea_step>();
    step.query_starts = &token_view, step.key_starts = &key_view;
    refuse(
        FOVEA_BAD_SHAPE, {"options.schedule has 6 packed keys, expected 5 (as tokens"},
        [&](Call &c) { REQUIRE_OK(fovea_schedule_set(c.paged.schedule(), &step)); }, packed());
    MultiHeadSizes key_dims = kSizes;
    key_dims.key_dim = 6;
    Random random(base_seed());
    const MhaWeights narrower = make_multi_head(key_dims, Inputs::kOne, random).make_weights(nullptr);
    Call call;
    std::swap(call.weights, const_cast<MhaWeights &>(narrower));
    refuse(call, FOVEA_BAD_SHAPE, {"key_weight has 6 features of a head, expected 8"});
  }

  TEST_CASE("schedules: one batch entry") {
    for (const int64_t batch : {0, 1, 2}) {
      for (const PagedSizes &sizes : {kPaged, packed()}) {
        Call call(sizes);
        const Tensor<float> x({batch, 5, 6}), out({batch, 5, 6});
        call.query = x.view();
        call.result = out.view();
        if (batch == 1) {
          std::memcpy(x.data(), call.x.data(), call.x.memory().size());
          REQUIRE_OK(call.run());
          call.query = call.x.view();
          call.result = call.out.view();
          REQUIRE_OK(call.run());
          CHECK(same_bits(out, call.out));
          continue;
        }
        refuse(call, FOVEA_BAD_SHAPE,
               {"query has " + std::to_string(batch) + " batch entries, expected 1 (with options.schedule)"});
        CHECK(out.untouched());
      }
    }
  }

  TEST_CASE("schedules: pages") {
    for (const auto &[name, member] : kPageOptions) {
      const std::string words = " is given, expected NULL: the schedule was made for packed keys";
      refuse(
          FOVEA_BAD_VALUE, {"options." + std::string(name) + words},
          [&](Call &c) { c.options.*member = &c.slopes_view; }, packed());
    }
    refuse(FOVEA_NULL_POINTER, {"key_pages"}, [](Call &c) { c.options.key_pages = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"value_pages"}, [](Call &c) { c.options.value_pages = nullptr; });
    refuse(FOVEA_BAD_SHAPE, {"key_pages.shape[0]"}, [](Call &c) { c.key_pages.shape[0] -= 1; });
    refuse(FOVEA_BAD_STRIDE, {"value_pages.strides[0]"}, [](Call &c) { c.value_pages.strides[0] += 1; });
    refuse(FOVEA_BAD_DTYPE, {"value_pages", "FOVEA_BF16", "FOVEA_F32"},
           [](Call &c) { c.value_pages.dtype = FOVEA_BF16; });
    refuse(FOVEA_OVERLAP, {"key_pages", "value_pages"}, [](Call &c) { c.value_pages.data = c.key_pages.data; });
    refuse(FOVEA_OVERLAP, {"options.key_pages", "query"}, [](Call &c) { c.query.data = c.key_pages.data; });
    refuse(FOVEA_OVERLAP, {"options.value_pages", "out"}, [](Call &c) { c.result.data = c.value_pages.data; });
  }

  TEST_CASE("schedules: places for what is new") {
    const std::vector<int64_t> starts = {0, 2, 5}, lens = {2, 2}, longer = {2, 3}, ids = {0, 1}, shared = {0, 0};
    const fovea_tensor starts_view = vector_of(starts), lens_view = vector_of(lens), longer_view = vector_of(longer);
    const auto table = [](const std::vector<int64_t> &pages) {
      const int64_t shape[] = {2, 1};
      return fovea_tensor_contiguous(pages.data(), FOVEA_I64, 2, shape);
    };
    const fovea_tensor ids_view = table(ids), shared_view = table(shared);
    auto step = sized_options<fovea_step>();
    step.query_starts = &starts_view;
    step.key_lens = &lens_view, step.page_ids = &ids_view;
    refuse(FOVEA_BAD_VALUE, {"sequence 1 of the step has 3 tokens and 2 keys"},
           [&](Call &c) { REQUIRE_OK(fovea_schedule_set(c.paged.schedule(), &step)); });
    step.key_lens = &longer_view, step.page_ids = &shared_view;
    refuse(FOVEA_BAD_VALUE, {"sequences 0 and 1 of the step both write into page 0"},
           [&](Call &c) { REQUIRE_OK(fovea_schedule_set(c.paged.schedule(), &step)); });
    // What is only read may be shared, and may be less.
    step.key_lens = &lens_view;
    Call call;
    REQUIRE_OK(fovea_schedule_set(call.paged.schedule(), &step));
    call.options.flags = FOVEA_MHA_KEEP_PAGES;
    REQUIRE_OK(call.run());
  }

  TEST_CASE("schedules: rotary") {
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "position_scale"}, [](Call &c) {
      c.options.rotary = &c.rotary;
      c.rotary.position_scale = kInfinity;
    });
    refuse(FOVEA_BAD_VALUE, {"options.rotary", "offset", "expected 0"}, [](Call &c) {
      c.options.rotary = &c.rotary;
      c.rotary.offset = 1;
    });
  }
}
