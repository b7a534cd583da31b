// Rotary position embedding: equal to a product of complex numbers, in both conventions; what follows from that.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "positions.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

struct Problem {
  Shape shape;
  Shape x_strides, out_strides;
  uint32_t flags = 0;
  float base = 0;
  float position_scale = 0;
  int64_t rotary_dim = 0;
  int64_t offset = 0;
  std::optional<Tensor<int32_t>> positions_32;
  std::optional<Tensor<int64_t>> positions_64;

  explicit Problem(const Shape &s, uint32_t f = 0)
      : shape(s), x_strides(contiguous_strides(s)), out_strides(contiguous_strides(s)), flags(f) {}

  int64_t dim() const { return shape.back(); }
  int64_t length() const { return shape[shape.size() - 2]; }
  int64_t rows() const { return dim() == 0 ? 0 : element_count(shape) / dim(); }

  // The position of each row, in row-major order.
  std::vector<int64_t> row_positions() const {
    std::vector<int64_t> positions;
    const int64_t rows_per_group = shape.size() == 2 ? rows() : rows() / std::max<int64_t>(shape[0], 1);
    for (int64_t row = 0; row < rows(); ++row) {
      const int64_t group = row / rows_per_group, i = row % length();
      positions.push_back(positions_32   ? at(*positions_32, group, i)
                          : positions_64 ? at(*positions_64, group, i)
                                         : offset + i);
    }
    return positions;
  }

  reference::Rotary how() const {
    const auto usual = [this](auto number, uint32_t given) { return number == 0 && (flags & given) == 0; };
    return {.rotary_dim = usual(rotary_dim, FOVEA_ROTARY_DIM_GIVEN) ? dim() : rotary_dim,
            .base = usual(base, FOVEA_ROTARY_BASE_GIVEN) ? 10000 : static_cast<double>(base),
            .position_scale =
                usual(position_scale, FOVEA_ROTARY_POSITION_SCALE_GIVEN) ? 1 : static_cast<double>(position_scale),
            .interleaved = (flags & FOVEA_ROTARY_INTERLEAVED) != 0,
            .inverse = (flags & FOVEA_ROTARY_INVERSE) != 0};
  }

  fovea_status run(const fovea_context *context, const fovea_tensor &x, const fovea_tensor &out) const {
    fovea_tensor positions{};
    if (positions_32) positions = positions_32->view();
    if (positions_64) positions = positions_64->view();
    fovea_rotary_options options{};
    options.struct_size = sizeof options;
    options.flags = flags;
    options.base = base;
    options.position_scale = position_scale;
    options.rotary_dim = rotary_dim;
    options.offset = offset;
    options.positions = positions_32 || positions_64 ? &positions : nullptr;
    return fovea_rotary(context, &x, &out, &options);
  }

  std::vector<float> run(const fovea_context *context, const std::vector<float> &dense) const {
    Tensor<float> x(shape, x_strides);
    x.assign(dense).memory().freeze();
    const Tensor<float> out(shape, out_strides);
    REQUIRE_OK(run(context, x.view(), out.view()));
    CHECK(out.gaps_untouched());
    return out.dense();
  }

 private:
  template <typename T>
  static int64_t at(const Tensor<T> &positions, int64_t group, int64_t i) {
    return positions.shape().size() == 1 ? positions(i) : positions(group, i);
  }
};

std::vector<float> normals(int64_t count, Random &random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values) value = random.normal();
  return values;
}

// What each element may be off by: sine and cosine by 1.5 units of 2^-24 each, a product and a sum by one each.
std::vector<double> bounds_of(const Problem &problem, const std::vector<float> &x, double angle_error) {
  const reference::Rotary how = problem.how();
  std::vector<double> bounds(x.size());
  for (size_t n = 0; n < x.size(); ++n) {
    const auto dim = static_cast<size_t>(problem.dim()), turned = static_cast<size_t>(how.rotary_dim);
    const size_t c = n % dim;
    if (c >= turned) continue;
    const size_t half = turned / 2;
    const size_t other = how.interleaved ? c ^ 1 : c < half ? c + half : c - half;
    bounds[n] = (4 * kEpsilon + angle_error) * (std::abs(x[n]) + std::abs(x[n - c + other])) + 0x1p-140;
  }
  return bounds;
}

void check_problem(const Problem &problem, Random &random, double angle_error = 0) {
  CAPTURE(problem.shape);
  CAPTURE(problem.flags);
  CAPTURE(problem.rotary_dim);
  const std::vector<float> x = normals(element_count(problem.shape), random);
  const std::vector<double> truth = reference::rotary(x, problem.row_positions(), problem.how());
  const std::vector<double> bounds = bounds_of(problem, x, angle_error);
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> out = problem.run(context, x);
    REQUIRE(out.size() == truth.size());
    int64_t wrong = 0;
    for (size_t n = 0; n < out.size(); ++n) wrong += std::abs(out[n] - truth[n]) <= bounds[n] ? 0 : 1;
    CHECK(wrong == 0);
    if (problem.x_strides != problem.out_strides) return;
    Tensor<float> in_place(problem.shape, problem.x_strides);
    in_place.assign(x);
    REQUIRE_OK(problem.run(context, in_place.view(), in_place.view()));
    CHECK(same_bits(in_place.dense(), out));
  });
}

constexpr uint32_t kEveryFlag[] = {0, FOVEA_ROTARY_INTERLEAVED, FOVEA_ROTARY_INVERSE,
                                   FOVEA_ROTARY_INTERLEAVED | FOVEA_ROTARY_INVERSE};

template <typename T>
Tensor<T> random_positions(const Shape &shape, int64_t spread, int64_t largest, Random &random) {
  Shape strides = contiguous_strides(shape);
  for (int64_t &stride : strides) stride *= spread;
  Tensor<T> positions(shape, strides);
  positions.fill([&] { return static_cast<T>(random.integer(0, largest)); });
  return positions;
}

double dot(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t n = 0; n < count; ++n) sum += static_cast<double>(a[n]) * b[n];
  return sum;
}

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("rotary: one pair by hand") {
    for_each_isa([](const fovea_context *context) {
      for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
        Problem problem({3, 4}, flags);
        const std::vector<float> out = problem.run(context, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
        CHECK(std::vector<float>(out.begin(), out.begin() + 4) == std::vector<float>{1, 2, 3, 4});
        const size_t second = flags == 0 ? 6 : 5;  // of the first pair, in row 1
        const double y = flags == 0 ? 3 : 2;
        CHECK(std::abs(out[4] - (std::cos(1.0) - y * std::sin(1.0))) < 1e-6);
        CHECK(std::abs(out[second] - (std::sin(1.0) + y * std::cos(1.0))) < 1e-6);
      }
    });
  }

  TEST_CASE("rotary: every width, at both ends of a page") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      Random random(base_seed());
      for (int64_t dim = 0; dim <= 72; dim += 2) {
        for (uint32_t flags : kEveryFlag) check_problem(Problem({2, 3, dim}, flags), random);
      }
    }
  }

  TEST_CASE("rotary: part of the features, the others copied") {
    Random random(base_seed());
    for (int64_t dim : {2, 3, 17, 40, 80}) {
      for (int64_t turned = 2; turned <= dim; turned += 2) {
        for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
          Problem problem({2, 5, dim}, flags);
          problem.rotary_dim = turned;
          check_problem(problem, random);
          const std::vector<float> x = normals(10 * dim, random);
          const std::vector<float> out = problem.run(nullptr, x);
          for (size_t n = 0; n < x.size(); ++n) {
            if (static_cast<int64_t>(n) % dim >= turned) CHECK(out[n] == x[n]);
          }
        }
      }
    }
  }

  TEST_CASE("rotary: shapes") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{1, 2}, Shape{0, 4}, Shape{3, 0, 4}, Shape{0, 3, 4}, Shape{300, 64},
                               Shape{2, 3, 40, 16}, Shape{16, 8, 1, 128}, Shape{2, 1, 3, 1, 7, 30}, Shape{900, 1, 6}}) {
      for (uint32_t flags : kEveryFlag) {
        Problem problem(shape, flags);
        problem.offset = 4096;
        check_problem(problem, random);
      }
    }
  }

  TEST_CASE("rotary: strides") {
    Random random(base_seed());
    const Shape shape = {2, 3, 20, 24};
    const std::vector<Shape> layouts = {contiguous_strides(shape),
                                        permuted_strides(shape, {0, 2, 1, 3}),
                                        permuted_strides(shape, {0, 2, 1, 3}, 5),
                                        permuted_strides(shape, {2, 1, 0, 3}, 1),
                                        {-1440, -480, -24, 1}};
    for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      for (const Shape &x_strides : layouts) {
        for (const Shape &out_strides : layouts) {
          Problem problem(shape, flags);
          problem.x_strides = x_strides;
          problem.out_strides = out_strides;
          check_problem(problem, random);
          problem.positions_32 = random_positions<int32_t>({2, 20}, 1, 5000, random);
          check_problem(problem, random);
        }
      }
    }
    // An input repeated along its heads, its batch, its rows.
    for (const Shape &strides : {Shape{480, 0, 24, 1}, Shape{0, 480, 24, 1}, Shape{72, 24, 0, 1}}) {
      Tensor<float> x(shape, strides);
      x.fill_normal(random);
      const Problem problem(shape);
      const Tensor<float> out(shape);
      REQUIRE_OK(problem.run(nullptr, x.view(), out.view()));
      CHECK(same_bits(out.dense(), problem.run(nullptr, x.dense())));
    }
  }

  TEST_CASE("rotary: entries have the same bits in tensors that fit each cache and in one that fits none") {
    Random random(base_seed());
    for (const Shape &entry : {Shape{1, 5, 33, 70}, Shape{1, 33, 5, 64}}) {
      const int64_t size = element_count(entry);
      const std::vector<float> x = normals(size, random);
      for (const bool heads_last : {false, true}) {
        for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
          for (int64_t rotary_dim : {0, 34}) {
            const auto problem_of = [&](int64_t batch) {
              Problem problem({batch, entry[1], entry[2], entry[3]}, flags);
              problem.rotary_dim = rotary_dim;
              if (heads_last) {
                problem.x_strides = problem.out_strides = permuted_strides(problem.shape, {0, 2, 1, 3});
              }
              return problem;
            };
            for_each_isa([&](const fovea_context *context) {
              const std::vector<float> expected = problem_of(1).run(context, x);
              for (int64_t batch : {4, 14, 220}) {  // 0.4, 1.3 and 20 MB, x and out
                CAPTURE(batch);
                std::vector<float> all;
                for (int64_t n = 0; n < batch; ++n) all.insert(all.end(), x.begin(), x.end());
                const std::vector<float> out = problem_of(batch).run(context, all);
                bool same = true;
                for (int64_t n = 0; n < batch; ++n) {
                  same = same && std::equal(expected.begin(), expected.end(), out.begin() + n * size);
                }
                CHECK(same);
              }
            });
          }
        }
      }
    }
  }

  // In place it never is.
  TEST_CASE("rotary: an output so large that it is written past the caches") {
    const WithPlacement aligned(Placement::kBegin);
    const Shape shape = {1, 34, 2100, 128};
    const int64_t count = element_count(shape);
    const Tensor<float> x(shape), out(shape), in_place(shape);
    for (int64_t n = 0; n < count; ++n) x.data()[n] = static_cast<float>(n % 1009) * 0.01f - 5;
    for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      for (int64_t rotary_dim : {0, 40, 64}) {
        CAPTURE(rotary_dim);
        Problem problem(shape, flags);
        problem.rotary_dim = rotary_dim;
        for_each_isa([&](const fovea_context *context) {
          std::copy_n(x.data(), count, in_place.data());
          std::fill_n(out.data(), count, kNan);
          REQUIRE_OK(problem.run(context, x.view(), out.view()));
          REQUIRE_OK(problem.run(context, in_place.view(), in_place.view()));
          CHECK(std::equal(out.data(), out.data() + count, in_place.data()));
        });
      }
    }
  }

  TEST_CASE("rotary: base and scale of positions") {
    Random random(base_seed());
    for (float base : {1.25f, 500.0f, 1e6f}) {
      for (float scale : {0.5f, 0.25f, -1.0f, 3.7f}) {
        for (uint32_t flags : kEveryFlag) {
          Problem problem({2, 33, 34}, flags);
          problem.base = base;
          problem.position_scale = scale;
          problem.offset = 1000;
          check_problem(problem, random);
        }
      }
    }
  }

  // x is copied, whatever its type, its number of features and its size.
  TEST_CASE("rotary: given zeros turn nothing: a scale of positions, the number of features that turn") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{2, 33, 34}, Shape{5, 3}, Shape{3, 70, 130}}) {
      for (uint32_t given : {FOVEA_ROTARY_POSITION_SCALE_GIVEN, FOVEA_ROTARY_DIM_GIVEN}) {
        if (given == FOVEA_ROTARY_POSITION_SCALE_GIVEN && shape.back() % 2 != 0) continue;
        for (uint32_t flags : kEveryFlag) {
          CAPTURE(shape);
          CAPTURE(given);
          Problem problem(shape, flags | given);
          problem.offset = 1000;
          check_problem(problem, random);
          Tensor<float> x(shape);
          x.fill_normal(random);
          for_each_isa([&](const fovea_context *context) {
            CHECK(same_bits(problem.run(context, x.dense()), x.dense()));
            for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
              NarrowTensor narrow(x, dtype), copy(x, dtype);
              REQUIRE_OK(problem.run(context, narrow.view(), copy.view()));
              int64_t changed = 0;
              for_each_index(shape, [&](const Shape &at) { changed += copy.at(at) == narrow.at(at) ? 0 : 1; });
              CHECK(changed == 0);
            }
          });
        }
      }
    }
    Problem given({2, 9, 8}, FOVEA_ROTARY_BASE_GIVEN | FOVEA_ROTARY_POSITION_SCALE_GIVEN | FOVEA_ROTARY_DIM_GIVEN);
    given.base = 500;
    given.position_scale = 0.5f;
    given.rotary_dim = 4;
    check_problem(given, random);
  }

  TEST_CASE("rotary: a scale of 1/2 makes position 2i what i was") {
    Problem full({4, 16}), halved({4, 16});
    halved.positions_32.emplace(Shape{4}).assign({0, 2, 4, 6});
    halved.position_scale = 0.5f;
    Random random(base_seed());
    const std::vector<float> x = normals(64, random);
    for_each_isa([&](const fovea_context *context) { CHECK(same_bits(full.run(context, x), halved.run(context, x))); });
  }

  TEST_CASE("rotary: positions given, of 32 and 64 bits, one for all and for each batch entry") {
    Random random(base_seed());
    for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      for (int64_t spread : {-1, 1, 3}) {
        for (const Shape &shape :
             {Shape{3, 2, 9, 12}, Shape{3, 9, 12}, Shape{3, 2, 2, 2, 9, 12}, Shape{40, 9, 1, 64}}) {
          const int64_t length = shape[shape.size() - 2];
          Problem problem(shape, flags);
          problem.offset = 7;  // not used beside positions
          problem.positions_32 = random_positions<int32_t>({length}, spread, 3000, random);
          check_problem(problem, random);
          problem.positions_32 = random_positions<int32_t>({shape[0], length}, spread, 3000, random);
          check_problem(problem, random);
          problem.positions_32.reset();
          problem.positions_64 = random_positions<int64_t>({length}, spread, 3000, random);
          check_problem(problem, random);
          problem.positions_64 = random_positions<int64_t>({shape[0], length}, spread, 3000, random);
          check_problem(problem, random);
        }
        Problem rank_2({9, 12}, flags);
        rank_2.positions_64 = random_positions<int64_t>({1, 9}, spread, 3000, random);
        check_problem(rank_2, random);
      }
    }
  }

  TEST_CASE("rotary: far positions") {
    Random random(base_seed());
    for (uint32_t flags : kEveryFlag) {
      for (float base : {10000.0f, 500000.0f}) {
        Problem problem({50, 128}, flags);
        problem.base = base;
        problem.offset = 999960;
        check_problem(problem, random);
        problem.offset = int64_t{1} << 30;
        check_problem(problem, random, 5e-7);  // of the float64 angle
        problem.positions_64 = random_positions<int64_t>({50}, 1, int64_t{1} << 30, random);
        check_problem(problem, random, 5e-7);
        problem.positions_64 = random_positions<int64_t>({50}, 1, 1000000, random);
        check_problem(problem, random);
      }
    }
  }

  TEST_CASE("rotary: lengths stay, and turning back undoes it") {
    Random random(base_seed());
    for (uint32_t convention : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      Problem forth({4, 100, 64}, convention), back({4, 100, 64}, convention | FOVEA_ROTARY_INVERSE);
      forth.offset = back.offset = 30000;
      const std::vector<float> x = normals(4 * 100 * 64, random);
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> turned = forth.run(context, x), again = back.run(context, turned);
        double worst = 0;
        for (size_t n = 0; n < x.size(); ++n) worst = std::max(worst, double(std::abs(again[n] - x[n])));
        CHECK(worst < 2e-6);
        for (size_t row = 0; row < x.size(); row += 64) {
          CHECK(std::abs(dot(&turned[row], &turned[row], 64) / dot(&x[row], &x[row], 64) - 1) < 1e-6);
        }
      });
    }
  }

  TEST_CASE("rotary: query . key depends on the difference of their positions alone") {
    Random random(base_seed());
    const std::vector<float> query = normals(64, random), key = normals(64, random);
    for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      for_each_isa([&](const fovea_context *context) {
        const auto score = [&](int64_t query_position, int64_t key_position) {
          Problem q({1, 64}, flags), k({1, 64}, flags);
          q.offset = query_position;
          k.offset = key_position;
          const std::vector<float> turned_query = q.run(context, query), turned_key = k.run(context, key);
          return dot(turned_query.data(), turned_key.data(), 64);
        };
        for (int64_t difference : {0, 1, 17, 4000}) {
          const double expected = score(difference, 0);
          for (int64_t start : {1, 1000, 900000}) CHECK(std::abs(score(start + difference, start) - expected) < 2e-5);
        }
        CHECK(std::abs(score(5, 0) - score(9, 0)) > 1e-3);
      });
    }
  }

  TEST_CASE("rotary: both conventions compute the same, on features in another order") {
    Random random(base_seed());
    constexpr size_t dim = 46;
    const std::vector<float> x = normals(30 * dim, random);
    std::vector<float> shuffled(x.size());
    const auto place = [](size_t n) {
      const size_t row = n / dim, c = n % dim;
      return row * dim + (c < dim / 2 ? 2 * c : 2 * (c - dim / 2) + 1);
    };
    for (size_t n = 0; n < x.size(); ++n) shuffled[place(n)] = x[n];
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> halves = Problem({30, dim}).run(context, x);
      const std::vector<float> neighbours = Problem({30, dim}, FOVEA_ROTARY_INTERLEAVED).run(context, shuffled);
      int64_t wrong = 0;
      for (size_t n = 0; n < x.size(); ++n) wrong += halves[n] == neighbours[place(n)] ? 0 : 1;
      CHECK(wrong == 0);
    });
  }

  TEST_CASE("rotary: a row has the same bits alone and among others, on 1 to 8 threads") {
    Random random(base_seed());
    for (uint32_t flags : {0, int{FOVEA_ROTARY_INTERLEAVED}}) {
      Problem problem({4, 6, 130, 36}, flags);
      problem.positions_32 = random_positions<int32_t>({4, 130}, 1, 100000, random);
      const std::vector<float> x = normals(element_count(problem.shape), random);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const std::vector<float> expected = problem.run(shared_context(isa, 1), x);
        for (int threads = 2; threads <= 8; ++threads) {
          CHECK(same_bits(problem.run(shared_context(isa, threads), x), expected));
        }
        const PoolContext pool(isa, 4, 5);
        CHECK(same_bits(problem.run(pool.get(), x), expected));
        const std::vector<int64_t> positions = problem.row_positions();
        for (size_t row : {0, 129, 1000, 3119}) {
          Problem alone({1, 36}, flags);
          alone.offset = positions[row];
          const auto first = static_cast<int64_t>(row) * 36;
          CHECK(same_bits(alone.run(shared_context(isa, 1), {x.begin() + first, x.begin() + first + 36}),
                          {expected.begin() + first, expected.begin() + first + 36}));
        }
      }
    }
  }
}
