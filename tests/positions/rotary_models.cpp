// Rotary embedding as today's models have it: frequencies and an attention factor that are given, positions of several
// sections, tables of cosines and sines. Each alone and with the others, against complex numbers in float64.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <span>
#include <thread>

#include "positions.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

struct Problem {
  Shape shape;
  uint32_t flags = 0;
  int64_t rotary_dim = 0, offset = 0;
  float base = 0, position_scale = 0, attention_factor = 0;
  std::optional<Tensor<float>> frequencies = {}, cosines = {}, sines = {};
  std::optional<Tensor<int32_t>> positions = {}, sections = {};
  fovea_dtype table_type = FOVEA_F32;  // of cosines and sines

  int64_t dim() const { return shape.back(); }
  int64_t pairs() const { return (rotary_dim == 0 ? dim() : rotary_dim) / 2; }
  int64_t length() const { return shape[shape.size() - 2]; }
  int64_t rows() const { return element_count(shape) / dim(); }
  int64_t batch() const { return shape.size() == 2 ? 1 : shape[0]; }

  reference::Rotary how() const {
    reference::Rotary how{.rotary_dim = 2 * pairs()};
    if (base != 0) how.base = static_cast<double>(base);
    if (position_scale != 0) how.position_scale = static_cast<double>(position_scale);
    if (attention_factor != 0) how.attention_factor = static_cast<double>(attention_factor);
    if (frequencies) how.frequencies = frequencies->dense();
    how.interleaved = (flags & FOVEA_ROTARY_INTERLEAVED) != 0;
    how.inverse = (flags & FOVEA_ROTARY_INVERSE) != 0;
    return how;
  }

  int64_t position(int64_t group, int64_t i, int64_t pair) const {
    if (!positions) return offset + i;
    Shape index = {i};
    if (positions->shape().size() > (sections ? 2u : 1u)) index.insert(index.begin(), group);
    if (sections) index.insert(index.begin(), (*sections)(pair));
    return positions->at(index);
  }

  std::complex<double> turn(int64_t group, int64_t i, int64_t pair) const {
    const int64_t p = position(group, i, pair);
    if (!cosines) return std::polar(1.0, reference::rotary_angle(how(), p, pair));
    const Shape index = cosines->shape().size() == 3 ? Shape{group, i, pair} : Shape{p, pair};
    return {rounded_to(cosines->at(index), table_type), rounded_to(sines->at(index), table_type)};
  }

  std::vector<std::complex<double>> turns() const {
    std::vector<std::complex<double>> turns;
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t j = 0; j < pairs(); ++j) turns.push_back(turn(row / (rows() / batch()), row % length(), j));
    }
    return turns;
  }

  fovea_status run(const fovea_context *context, const fovea_tensor &x, const fovea_tensor &out) const {
    fovea_tensor view[5] = {};
    const auto at = [&](int n, const auto &tensor) -> const fovea_tensor * {
      if (!tensor) return nullptr;
      view[n] = tensor->view();
      return &view[n];
    };
    fovea_rotary_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.base = base;
    options.position_scale = position_scale;
    options.rotary_dim = rotary_dim;
    options.offset = offset;
    options.attention_factor = attention_factor;
    options.positions = at(0, positions);
    options.frequencies = at(1, frequencies);
    options.sections = at(2, sections);
    options.cosines = at(3, cosines);
    options.sines = at(4, sines);
    if (!cosines || table_type == FOVEA_F32) return fovea_rotary(context, &x, &out, &options);
    const NarrowTensor narrow_cosines(*cosines, table_type), narrow_sines(*sines, table_type);
    view[3] = narrow_cosines.view();
    view[4] = narrow_sines.view();
    return fovea_rotary(context, &x, &out, &options);
  }

  std::vector<float> run(const fovea_context *context, const std::vector<float> &dense) const {
    Tensor<float> x(shape);
    x.assign(dense).memory().freeze();
    const Tensor<float> out(shape);
    REQUIRE_OK(run(context, x.view(), out.view()));
    return out.dense();
  }
};

std::vector<float> normals(int64_t count, Random &random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) value = random.normal();
  return values;
}

// Within 4 units of 2^-24 of (|x| + |y|), or of (|x cos| + |y sin|) where these are given, and one more for a factor.
void check_problem(const Problem &problem, Random &random) {
  CAPTURE(problem.shape);
  CAPTURE(problem.flags);
  CAPTURE(problem.rotary_dim);
  const std::vector<float> x = normals(element_count(problem.shape), random);
  const reference::Rotary how = problem.how();
  const std::vector<std::complex<double>> turns = problem.turns();
  const std::vector<double> truth = reference::turned(x, turns, how);
  std::vector<double> bounds(x.size());
  const auto dim = static_cast<size_t>(problem.dim()), pairs = static_cast<size_t>(problem.pairs());
  for (size_t n = 0; n < x.size(); ++n) {
    const size_t c = n % dim;
    if (c >= 2 * pairs) continue;
    const size_t other = how.interleaved ? c ^ 1 : c < pairs ? c + pairs : c - pairs;
    const size_t pair = how.interleaved ? c / 2 : c % pairs;
    const std::complex<double> turn = problem.cosines ? turns[n / dim * pairs + pair] : std::complex<double>(1, 1);
    const double size = std::abs(x[n] * turn.real()) + std::abs(x[n - c + other] * turn.imag());
    const int units = problem.attention_factor != 0 && !problem.cosines ? 5 : 4;
    bounds[n] = units * kEpsilon * std::abs(how.attention_factor) * size + 0x1p-140;
  }
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> out = problem.run(context, x);
    int64_t wrong = 0;
    for (size_t n = 0; n < out.size(); ++n) wrong += std::abs(out[n] - truth[n]) <= bounds[n] ? 0 : 1;
    CHECK(wrong == 0);
    Tensor<float> in_place(problem.shape);
    in_place.assign(x);
    REQUIRE_OK(problem.run(context, in_place.view(), in_place.view()));
    CHECK(same_bits(in_place.dense(), out));
  });
}

constexpr uint32_t kEveryFlag[] = {0, FOVEA_ROTARY_INTERLEAVED, FOVEA_ROTARY_INVERSE,
                                   FOVEA_ROTARY_INTERLEAVED | FOVEA_ROTARY_INVERSE};

Shape spread_strides(const Shape &shape, int64_t spread) {
  Shape strides = contiguous_strides(shape);
  for (int64_t &stride : strides) stride *= spread;
  return strides;
}

Tensor<int32_t> integers(const Shape &shape, int32_t largest, Random &random, int64_t spread = 1) {
  Tensor<int32_t> tensor(shape, spread_strides(shape, spread));
  tensor.fill([&] { return static_cast<int32_t>(random.integer(0, largest)); });
  return tensor;
}

Tensor<float> floats(const Shape &shape, Random &random, int64_t spread = 1) {
  Tensor<float> tensor(shape, spread_strides(shape, spread));
  tensor.fill_normal(random);
  return tensor;
}

// [rows, pairs] or [batch, rows, pairs], each row apart from the next.
Tensor<float> table(const Shape &shape, Random &random) {
  std::vector<int> order(shape.size());
  for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = static_cast<int>(axis);
  Tensor<float> made(shape, permuted_strides(shape, order, 3));
  made.fill_normal(random);
  return made;
}

void give_table(Problem *problem, const Shape &shape, Random &random) {
  problem->cosines.emplace(table(shape, random));
  problem->sines.emplace(table(shape, random));
}

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("rotary: frequencies given, at both ends of a page, with everything that says where rows stand") {
    for (const Placement placement : {Placement::kEnd, Placement::kBegin}) {
      const WithPlacement here(placement);
      Random random(base_seed());
      for (const int64_t pairs : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33}) {
        for (const uint32_t flags : kEveryFlag) {
          for (const int64_t spread : {1, -1, 3}) {
            Problem problem{.shape = {2, 3, 2 * pairs + 1}, .flags = flags, .rotary_dim = 2 * pairs, .offset = 500};
            problem.frequencies.emplace(floats({pairs}, random, spread));
            check_problem(problem, random);
            problem.position_scale = 0.25f;
            problem.positions.emplace(integers({2, 3}, 3000, random));
            check_problem(problem, random);
          }
        }
      }
    }
  }

  TEST_CASE("rotary: frequencies of zero leave their pairs, one frequency may serve all") {
    Random random(base_seed());
    Problem problem{{4, 24}, 0, 0, 1000};
    problem.frequencies.emplace(Shape{12}).fill([] { return 0.0f; });
    const std::vector<float> x = normals(96, random);
    for_each_isa([&](const fovea_context *context) { CHECK(problem.run(context, x) == x); });
    problem.frequencies.emplace(Shape{12}, Shape{0}).fill([] { return 0.37f; });
    check_problem(problem, random);
  }

  TEST_CASE("rotary: an attention factor") {
    Random random(base_seed());
    for (const float factor : {0.5f, 1.1902381f, -3.0f, 1e-3f, 12345.0f}) {
      for (const uint32_t flags : kEveryFlag) {
        for (const int64_t pairs : {1, 5, 16, 19}) {
          Problem problem{{2, 5, 2 * pairs + 4}, flags, 2 * pairs, 77};
          problem.attention_factor = factor;
          check_problem(problem, random);
          problem.frequencies.emplace(floats({pairs}, random));
          check_problem(problem, random);
          problem.frequencies.reset();
          give_table(&problem, {82, pairs}, random);
          check_problem(problem, random);
        }
      }
    }
    Problem plain{{3, 30}, 0, 0, 9}, one{{3, 30}, 0, 0, 9};
    one.attention_factor = 1;
    const std::vector<float> x = normals(90, random);
    for_each_isa([&](const fovea_context *context) { CHECK(same_bits(plain.run(context, x), one.run(context, x))); });
  }

  TEST_CASE("rotary: positions of sections, in blocks, interleaved and in any order") {
    for (const Placement placement : {Placement::kEnd, Placement::kBegin}) {
      const WithPlacement here(placement);
      Random random(base_seed());
      for (const int64_t pairs : {1, 3, 8, 17, 32}) {
        for (const uint32_t flags : kEveryFlag) {
          for (const int64_t spread : {1, -2}) {
            for (const Shape &shape : {Shape{2, 3, 4, 2 * pairs + 2}, Shape{7, 2 * pairs + 2}}) {
              Problem problem{shape, flags, 2 * pairs, 3};  // offset: not used
              for (const bool each : {false, true}) {
                const int64_t batch = problem.batch(), length = problem.length();
                problem.positions.emplace(
                    integers(each ? Shape{3, batch, length} : Shape{3, length}, 4000, random, spread));
                problem.sections.emplace(Shape{pairs}, spread_strides({pairs}, spread));
                int32_t next = 0;
                problem.sections->fill([&] { return static_cast<int32_t>(next++ * 3 / pairs); });
                check_problem(problem, random);
                problem.sections->fill([&] { return next++ % 3; });
                check_problem(problem, random);
                problem.frequencies.emplace(floats({pairs}, random));
                problem.attention_factor = 1.5f;
                problem.position_scale = 0.5f;
                problem.sections.emplace(integers({pairs}, 2, random));
                check_problem(problem, random);
                problem.frequencies.reset();
                problem.attention_factor = problem.position_scale = 0;
              }
            }
          }
        }
      }
    }
  }

  TEST_CASE("rotary: sections that all stand at one place have the bits of plain positions") {
    Random random(base_seed());
    for (const uint32_t flags : kEveryFlag) {
      Problem plain{{2, 3, 40, 34}, flags};
      plain.positions.emplace(integers({2, 40}, 1000000, random));
      Problem sections{plain.shape, flags};
      sections.sections.emplace(integers({17}, 2, random));
      sections.positions.emplace(Shape{3, 2, 40}, Shape{0, 40, 1}).assign([&] {
        std::vector<int32_t> all;
        for (int n = 0; n < 3; ++n) {
          const std::vector<int32_t> once = plain.positions->dense();
          all.insert(all.end(), once.begin(), once.end());
        }
        return all;
      }());
      const std::vector<float> x = normals(element_count(plain.shape), random);
      for_each_isa([&](const fovea_context *context) {
        CHECK(same_bits(plain.run(context, x), sections.run(context, x)));
      });
    }
  }

  TEST_CASE("rotary: cosines and sines given, by position and for each row") {
    for (const Placement placement : {Placement::kEnd, Placement::kBegin}) {
      const WithPlacement here(placement);
      Random random(base_seed());
      for (const int64_t pairs : {1, 2, 4, 7, 16, 17, 40}) {
        for (const uint32_t flags : kEveryFlag) {
          for (const fovea_dtype type : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
            Problem problem{{2, 3, 5, 2 * pairs + 1}, flags, 2 * pairs, 4};
            problem.table_type = type;
            give_table(&problem, {9, pairs}, random);  // just enough: rows 4 ... 8
            check_problem(problem, random);
            problem.offset = 0;
            problem.positions.emplace(integers({5}, 8, random));
            check_problem(problem, random);
            problem.positions.emplace(integers({2, 5}, 8, random, -3));
            check_problem(problem, random);
            problem.positions.emplace(integers({3, 2, 5}, 8, random));
            problem.sections.emplace(integers({pairs}, 2, random));
            check_problem(problem, random);
            problem.positions.reset();
            problem.sections.reset();
            give_table(&problem, {2, 5, pairs}, random);
            check_problem(problem, random);
          }
        }
      }
      Problem long_row{{2, 2100}, 0};
      give_table(&long_row, {1, 2, 1050}, random);
      check_problem(long_row, random);
      long_row.flags = FOVEA_ROTARY_INTERLEAVED;
      check_problem(long_row, random);
    }
  }

  TEST_CASE("rotary: rows of a table that no row stands at change nothing") {
    Random random(base_seed());
    Problem problem{{3, 16}};
    give_table(&problem, {6, 8}, random);
    problem.positions.emplace(Shape{3}).assign({1, 3, 4});
    for (const int64_t row : {0, 2, 5}) {
      for (int64_t j = 0; j < 8; ++j) (*problem.cosines)(row, j) = (*problem.sines)(row, j) = kNan;
    }
    check_problem(problem, random);
  }

  TEST_CASE("rotary: models' options have the same bits on 1 to 8 threads, and in 16 bits what floats give, rounded") {
    Random random(base_seed());
    const Shape shape = {4, 6, 130, 36};
    std::vector<Problem> problems;
    for (const uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      for (int way = 0; way < 4; ++way) {
        Problem &problem = problems.emplace_back(Problem{shape, flags, 34});
        problem.attention_factor = 1.25f;
        if (way < 2) problem.frequencies.emplace(floats({17}, random));
        if (way == 2) give_table(&problem, {5001, 17}, random);
        if (way == 3) give_table(&problem, {4, 130, 17}, random);
        if (way != 1 && way != 2) continue;
        problem.positions.emplace(integers({2, 4, 130}, 5000, random));
        problem.sections.emplace(integers({17}, 1, random));
      }
    }
    const std::vector<float> x = normals(element_count(shape), random);
    for (const Problem &problem : problems) {
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const std::vector<float> expected = problem.run(shared_context(isa, 1), x);
        for (int threads = 2; threads <= 8; threads += 3) {
          CHECK(same_bits(problem.run(shared_context(isa, threads), x), expected));
        }
        for (const fovea_dtype type : {FOVEA_F16, FOVEA_BF16}) {
          Tensor<float> dense(shape);
          dense.assign(x);
          for (float &value : std::span(dense.data(), x.size())) value = rounded_to(value, type);
          const std::vector<float> wide = problem.run(shared_context(isa, 1), dense.dense());
          const NarrowTensor narrow(dense, type), out(dense, type);
          REQUIRE_OK(problem.run(shared_context(isa, 1), narrow.view(), out.view()));
          int64_t wrong = 0;
          size_t n = 0;
          for_each_index(shape, [&](const Shape &index) { wrong += out.at(index) != narrowed(wide[n++], type); });
          CHECK(wrong == 0);
        }
      }
    }
  }

  // Wrong numbers or a refusal, never memory outside the tensors, all of which end at a page that cannot be read.
  TEST_CASE("rotary: integers that another thread changes during a call") {
    const WithPlacement here(Placement::kEnd);
    Random random(base_seed());
    Problem problem{{1, 1, 4, 16}};
    give_table(&problem, {5, 8}, random);
    problem.positions.emplace(integers({2, 1, 4}, 4, random));
    problem.sections.emplace(integers({8}, 1, random));
    const Tensor<float> x(problem.shape), out(problem.shape);
    std::fill_n(x.data(), x.count(), 1.0f);
    for (const bool section : {true, false}) {
      CAPTURE(section);
      int32_t *const changed = section ? problem.sections->data() + 7 : problem.positions->data() + 7;
      std::atomic<bool> stop = false;
      std::thread other([&] {
        while (!stop) {
          for (const int32_t value : {1, INT32_MAX, 0, INT32_MIN}) std::atomic_ref<int32_t>(*changed).store(value);
        }
      });
      int done = 0;
      for (int n = 0; n < 100000; ++n) {
        const fovea_status status = problem.run(nullptr, x.view(), out.view());
        done += status == FOVEA_OK ? 1 : 0;
        if (status != FOVEA_OK && status != FOVEA_BAD_VALUE) FAIL_CHECK(status);
      }
      stop = true;
      other.join();
      *changed = 0;
      CHECK(done > 0);
    }
  }
}
