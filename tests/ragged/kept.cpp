// What pages keep of what is appended: bit by bit where the types are the same, else rounded once; turned by rotary on
// the way; and one schedule that many threads run at once.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

#include "support/errors.hpp"
#include "support/multi_head.hpp"
#include "support/paged_layer.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr fovea_dtype kTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

size_t size_of(fovea_dtype dtype) { return dtype == FOVEA_F32 ? 4 : 2; }

// Elements of one type, contiguous.
struct Elements {
  fovea_dtype dtype;
  std::vector<unsigned char> bytes;

  void add(uint32_t bits) {
    for (size_t n = 0; n < size_of(dtype); ++n) bytes.push_back(static_cast<unsigned char>(bits >> (8 * n)));
  }
  size_t count() const { return bytes.size() / size_of(dtype); }
  static uint32_t bits_at(const void *data, fovea_dtype dtype, size_t at) {
    uint32_t bits = 0;
    std::memcpy(&bits, static_cast<const char *>(data) + at * size_of(dtype), size_of(dtype));
    return bits;
  }
};

float number_of(uint32_t bits, fovea_dtype dtype) {
  return dtype == FOVEA_F32 ? std::bit_cast<float>(bits) : widened(static_cast<uint16_t>(bits), dtype);
}

// Every number of 16 bits; of float32 what is hard to round, subnormal and infinite ones, NaN, and random bits.
Elements hard_elements(fovea_dtype dtype, size_t count) {
  Elements all{dtype, {}};
  if (dtype != FOVEA_F32) {
    for (uint32_t bits = 0; bits < count; ++bits) all.add(bits);
    return all;
  }
  for (const float number : {0.0f, -0.0f, kInfinity, -kInfinity, kNan, 65504.0f, 65519.9f, 65520.0f, 0x1p-24f, 0x1p-25f,
                             0x1.8p-25f, 0x1p-133f, 0x1p-134f, 0x1.8p-134f, 0x1p-149f, 3.3895e38f, 3.39e38f}) {
    all.add(std::bit_cast<uint32_t>(number));
  }
  for (uint32_t step = 0; all.count() + 6 < count / 2; ++step) {
    for (const uint32_t half : {0x1000u, 0x8000u}) {  // of float16's last place, of bfloat16's
      for (const uint32_t off : {0u, 1u, 2u}) all.add(0x3f800000u + step * 2 * half + half - 1 + off);
    }
  }
  for (uint32_t bits = 1; all.count() < count;) all.add(bits = bits * 2654435761u + 7);
  return all;
}

// Elements of one page that are not what was given, rounded once.
int64_t wrongly_kept(const Elements &given, const fovea_tensor &page) {
  int64_t wrong = 0;
  for (size_t at = 0; at < given.count(); ++at) {
    const uint32_t bits = Elements::bits_at(given.bytes.data(), given.dtype, at);
    const uint32_t kept = Elements::bits_at(page.data, page.dtype, at);
    const float number = number_of(bits, given.dtype);
    if (given.dtype == page.dtype) {
      wrong += kept != bits;
    } else if (std::isnan(number)) {
      wrong += !std::isnan(number_of(kept, page.dtype));
    } else {
      wrong += kept != (page.dtype == FOVEA_F32 ? std::bit_cast<uint32_t>(number) : narrowed(number, page.dtype));
    }
  }
  return wrong;
}

// Tokens of two sequences, [T,Hkv,D], and pages for them.
struct Turned {
  static constexpr int64_t tokens = 9, heads = 2, dim = 16;
  MultiHeadSizes sizes = {.heads = heads, .kv_heads = heads, .head_dim = dim, .value_dim = dim};
  PagedLayer paged{nullptr, sizes, {.sequences = 2, .tokens = tokens, .positions = 20, .page_size = 4}};
  Tensor<float> key{Shape{tokens, heads, dim}}, expected{Shape{tokens, heads, dim}};
  fovea_tensor key_view = key.view(), expected_view = expected.view();

  explicit Turned(Random &random) {
    key.fill_normal(random);
    paged.grow({3, 1});
    append(nullptr, 4);
    paged.grow({2, 7});
  }
  fovea_status append(const fovea_rotary_options *rotary, int64_t count) {
    fovea_tensor rows = key_view;
    rows.shape[0] = count;
    auto options = sized_options<fovea_append_options>();
    options.rotary = rotary;
    return fovea_schedule_append(paged.schedule(), &rows, &rows, &paged.keys(), &paged.values(), &options);
  }
  // [T,H,D] as [1,H,T,D].
  static fovea_tensor heads_of(const fovea_tensor &rows) {
    return {rows.data,
            rows.dtype,
            4,
            {1, rows.shape[1], rows.shape[0], rows.shape[2]},
            {0, rows.strides[1], rows.strides[0], 1}};
  }
  // The last rows of both sequences' pages are these keys as rotary turns them, and values as they were.
  void check(fovea_rotary_options rotary) {
    const fovea_tensor x = heads_of(key_view), to = heads_of(expected_view);
    const fovea_tensor positions = fovea_schedule_positions(paged.schedule());
    if (rotary.positions == nullptr && rotary.cosines == nullptr) rotary.positions = &positions;
    REQUIRE_OK(fovea_rotary(nullptr, &x, &to, &rotary));
    int64_t token = 0;
    for (const auto &[s, first, count] : {std::array<int64_t, 3>{0, 3, 2}, {1, 1, 7}}) {
      const std::vector<float> keys = paged.kept(static_cast<size_t>(s), paged.keys());
      const std::vector<float> values = paged.kept(static_cast<size_t>(s), paged.values());
      const int64_t length = first + count;
      for_each_index({count, heads, dim}, [&](const Shape &at) {
        const auto place = static_cast<size_t>((at[1] * length + first + at[0]) * dim + at[2]);
        REQUIRE_EQ(keys[place], expected(token + at[0], at[1], at[2]));
        REQUIRE_EQ(values[place], key(token + at[0], at[1], at[2]));
      });
      token += count;
    }
  }
};

}  // namespace

TEST_SUITE("ragged append") {
  TEST_CASE("numbers of any type in pages of any type: bit by bit, or rounded once; NaNs' payloads too") {
    constexpr int64_t tokens = 64, dim = 1024;
    const MultiHeadSizes sizes = {.head_dim = dim, .value_dim = dim};
    for (const fovea_dtype given : kTypes) {
      const Elements all = hard_elements(given, size_t{tokens} * dim);
      const int64_t shape[] = {tokens, 1, dim};
      const fovea_tensor rows = fovea_tensor_contiguous(all.bytes.data(), given, 3, shape);
      for (const fovea_dtype kept : kTypes) {
        CAPTURE(given);
        CAPTURE(kept);
        for_each_isa([&](const fovea_context *context) {
          PagedLayer paged(context, sizes, {.tokens = tokens, .positions = tokens, .page_size = tokens, .kept = kept});
          paged.grow({tokens});
          REQUIRE_OK(fovea_schedule_append(paged.schedule(), &rows, &rows, &paged.keys(), &paged.values(), nullptr));
          CHECK_EQ(wrongly_kept(all, paged.keys()), 0);
          CHECK_EQ(wrongly_kept(all, paged.values()), 0);
        });
      }
    }
  }

  TEST_CASE("keys turned on the way: where tokens stand, at given positions, by rows of one's own") {
    Random random(base_seed());
    Tensor<int32_t> places({Turned::tokens});
    places.fill([&] { return static_cast<int32_t>(random.integer(0, 500)); });
    Tensor<float> rows({1, Turned::tokens, Turned::dim / 2});
    rows.fill_normal(random);
    const fovea_tensor places_view = places.view(), rows_view = rows.view();
    for (int way = 0; way < 3; ++way) {
      Turned turned(random);
      auto rotary = sized_options<fovea_rotary_options>();
      if (way == 1) rotary.positions = &places_view;
      if (way == 2) rotary.cosines = rotary.sines = &rows_view;
      REQUIRE_OK(turned.append(&rotary, Turned::tokens));
      turned.check(rotary);
    }
  }

  TEST_CASE("turning that is refused leaves pages as they were") {
    Random random(base_seed());
    Turned turned(random);
    REQUIRE_OK(turned.append(nullptr, Turned::tokens));  // memory that nobody wrote may hold NaN, which equals nothing
    const auto held = [&] {
      return std::pair(turned.paged.kept(0, turned.paged.keys()), turned.paged.kept(1, turned.paged.values()));
    };
    const auto before = held();
    auto rotary = sized_options<fovea_rotary_options>();
    rotary.base = 0.5f;
    check_refusal(turned.append(&rotary, Turned::tokens), FOVEA_BAD_VALUE, {"options.rotary", "base"});
    CHECK(before == held());
    rotary.base = 0;
    rotary.offset = 3;
    check_refusal(turned.append(&rotary, Turned::tokens), FOVEA_BAD_VALUE, {"options.rotary.offset is 3", "0"});
    CHECK(before == held());
  }
}

TEST_SUITE("ragged") {
  TEST_CASE("many threads run one schedule at once, each with a workspace of its own") {
    Random random(base_seed());
    std::vector<AttentionProblem> sequences;
    for (const auto &[query_len, key_len] : {std::pair<int64_t, int64_t>{1, 900}, {40, 130}, {1, 20}}) {
      sequences.push_back(make_attention(
          {.heads = 4, .kv_heads = 2, .query_len = query_len, .key_len = key_len, .head_dim = 16, .value_dim = 16},
          random));
    }
    const Ragged step(sequences, {.page_size = 16});
    const fovea_context *context = shared_context(instruction_sets().back());
    OwnSchedule schedule;
    REQUIRE_OK(step.create(context, &schedule));
    REQUIRE_OK(fovea_schedule_set(schedule.get(), &step.step()));
    step.run(schedule.get());
    const std::vector<float> expected = step.out();
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n) {
      threads.emplace_back([&] {
        const size_t size = fovea_schedule_workspace_size(schedule.get());
        std::vector<char> workspace(size);
        std::vector<float> out(expected.size()), log_sum_exp(step.log_sum_exp().size());
        fovea_attention_buffers buffers = step.buffers();
        buffers.out = out.data();
        buffers.log_sum_exp = log_sum_exp.data();
        for (int run = 0; run < 20; ++run) {
          const bool own = run % 2 == 0;
          const fovea_status status =
              fovea_schedule_run(schedule.get(), &buffers, own ? workspace.data() : nullptr, own ? size : 0);
          wrong += status != FOVEA_OK || !same_bits(out, expected) ? 1 : 0;
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK_EQ(wrong, 0);
  }
}
