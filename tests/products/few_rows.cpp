// Products of few rows, which read b where it lies: every element is bit by bit that of the packed matrix, whatever the
// element types, the sizes around the edges of registers, panels and groups of rows, strides, batches and threads.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <optional>

#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

constexpr fovea_dtype kTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
constexpr int64_t kMostRows = 18;  // more than are read in place anywhere

// Memory of its own in that type, filled with numbers it can hold.
struct Operand {
  Tensor<float> floats;
  fovea_dtype dtype;
  std::optional<NarrowTensor> narrow;

  Operand(Random &random, const Shape &shape, fovea_dtype type, const Shape &strides = {})
      : floats(shape, strides.empty() ? contiguous_strides(shape) : strides), dtype(type) {
    floats.fill([&] { return rounded_to(random.normal(), type); });
    if (type != FOVEA_F32) narrow.emplace(floats, type);
  }
  fovea_tensor view() const { return narrow ? narrow->view() : floats.view(); }
  bool gaps_untouched() const { return narrow ? narrow->gaps_untouched() : floats.gaps_untouched(); }
  std::vector<float> dense() const {
    if (!narrow) return floats.dense();
    std::vector<float> values;
    for_each_index(floats.shape(), [&](const Shape &at) { values.push_back(widened(narrow->at(at), dtype)); });
    return values;
  }
};

// A matrix, or one entry of a batch of them.
fovea_tensor entry(const Operand &operand, int64_t n) {
  fovea_tensor view = operand.view();
  if (view.rank == 2) return view;
  const int64_t size = view.dtype == FOVEA_F32 ? 4 : 2;
  view.data = static_cast<char *>(view.data) + n * view.strides[0] * size;
  view.rank = 2;
  for (int axis = 0; axis < 2; ++axis) {
    view.shape[axis] = view.shape[axis + 1];
    view.strides[axis] = view.strides[axis + 1];
  }
  return view;
}

void multiply_packed(const fovea_context *context, const fovea_tensor &a, const fovea_tensor &b,
                     const fovea_tensor &out) {
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(fovea_matmul_pack(context, &b, nullptr, &packed));
  const fovea_status status = fovea_matmul_packed(context, &a, packed, &out);
  fovea_packed_matrix_destroy(packed);
  REQUIRE_OK(status);
}

// The whole against each entry alone and packed.
void check_same(Random &random, const Operand &a, const Operand &b, const Shape &out_shape, fovea_dtype of_out,
                const Shape &out_strides = {}) {
  CAPTURE(a.floats.shape());
  CAPTURE(b.floats.shape());
  CAPTURE(a.dtype);
  CAPTURE(b.dtype);
  CAPTURE(of_out);
  for_each_isa([&](const fovea_context *context) {
    const Operand out(random, out_shape, of_out, out_strides), packed(random, out_shape, of_out);
    const fovea_tensor x = a.view(), y = b.view(), z = out.view();
    REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
    const int64_t entries = out_shape.size() == 3 ? out_shape[0] : 1;
    for (int64_t n = 0; n < entries; ++n) multiply_packed(context, entry(a, n), entry(b, n), entry(packed, n));
    CHECK(same_bits(out.dense(), packed.dense()));
    CHECK(out.gaps_untouched());
  });
}

void check_sizes(Random &random, int64_t m, int64_t n, int64_t k, fovea_dtype of_a, fovea_dtype of_b,
                 fovea_dtype of_out) {
  check_same(random, Operand(random, {m, k}, of_a), Operand(random, {k, n}, of_b), {m, n}, of_out);
}

}  // namespace

TEST_SUITE("matmul of few rows") {
  TEST_CASE("rows and columns around the edges of registers and panels, at both ends of a page") {
    Random random(base_seed());
    for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t m = 1; m <= kMostRows; ++m) {
        for (const int64_t n : {1, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 129}) {
          const fovea_dtype type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
          check_sizes(random, m, n, random.integer(1, 40), type, type, type);
        }
      }
    }
  }

  TEST_CASE("depths around the edges of groups of rows and of chains, of each type") {
    Random random(base_seed());
    for (const fovea_dtype of_a : kTypes) {
      for (const fovea_dtype of_b : kTypes) {
        for (const int64_t k : {0,  1,  2,   3,   7,   8,   9,   15,   16,   17,   31,   32,   33,  63,
                                64, 65, 767, 768, 769, 800, 801, 1535, 1536, 1537, 1567, 1569, 3073}) {
          const int64_t m = random.pick({1, 2, 3, 5, 6, 7, 12, 16});
          check_sizes(random, m, 70, k, of_a, of_b, random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}));
        }
      }
    }
  }

  TEST_CASE("so many columns or so much of b that it is read in runs or from memory") {
    Random random(base_seed());
    for (const fovea_dtype type : kTypes) {
      check_sizes(random, 1, 4300, 300, type, type, FOVEA_F32);
      check_sizes(random, 1, 2100, 1701, type, type, FOVEA_F32);
      check_sizes(random, 2, 1100, 3100, type, type, type);
      check_sizes(random, 7, 2500, 1101, type, type, type);
      check_sizes(random, 16, 3000, 901, type, type, type);
    }
  }

  TEST_CASE("strides of a, b and out") {
    Random random(base_seed());
    for (const fovea_dtype type : kTypes) {
      const std::vector<Shape> strides_of_a = {{29, 1}, {33, 1}, {1, 9}, {0, 1}, {-29, 1}, {60, 2}, {31, -1}};
      const std::vector<Shape> strides_of_b = {{75, 1}, {80, 1}, {1, 29}, {0, 1}, {-75, 1}, {150, 2}, {77, -1}};
      for (const Shape &of_a : strides_of_a) {
        for (const Shape &of_b : strides_of_b) {
          const Operand a(random, {5, 29}, type, of_a), b(random, {29, 75}, type, of_b);
          check_same(random, a, b, {5, 75}, type, {90, 1});
          check_same(random, a, b, {5, 75}, type, {-75, 1});
        }
      }
      check_same(random, Operand(random, {6, 1701}, type, {1703, 1}), Operand(random, {1701, 40}, type), {6, 40}, type);
    }
  }

  TEST_CASE("batches: a and b of each entry, either shared, at any distance") {
    Random random(base_seed());
    for (const fovea_dtype type : kTypes) {
      for (const int64_t m : {1, 3, 7}) {
        const Operand a(random, {4, m, 37}, type), b(random, {4, 37, 70}, type), one_a(random, {m, 37}, type),
            one_b(random, {37, 70}, type);
        check_same(random, a, b, {4, m, 70}, type);
        check_same(random, one_a, b, {4, m, 70}, type);
        check_same(random, a, one_b, {4, m, 70}, type);
        check_same(random, a, one_b, {4, m, 70}, type, {70 * m + 5, 70, 1});
        const Operand apart(random, {4, m, 37}, type, {37, 4 * 37, 1}), turned(random, {4, 37, 70}, type, {70, 280, 1});
        check_same(random, apart, turned, {4, m, 70}, type);
      }
    }
  }

  TEST_CASE("NaN and infinity reach exactly their rows and columns") {
    Random random(base_seed());
    Operand a(random, {3, 30}, FOVEA_F32), b(random, {30, 70}, FOVEA_F32);
    a.floats(1, 3) = kNan;
    b.floats(29, 65) = kInfinity;
    for_each_isa([&](const fovea_context *context) {
      const Tensor<float> out({3, 70});
      const fovea_tensor x = a.view(), y = b.view(), z = out.view();
      REQUIRE_OK(fovea_matmul(context, &x, &y, &z));
      int64_t wrong = 0;
      for_each_index(out.shape(), [&](const Shape &at) {
        wrong += std::isfinite(out.at(at)) == (at[0] == 1 || at[1] == 65) ? 1 : 0;
      });
      CHECK_EQ(wrong, 0);
    });
  }

  TEST_CASE("the same bits on 1 to 8 threads") {
    Random random(base_seed());
    for (const fovea_dtype type : kTypes) {
      for (const int64_t m : {1, 4, 16}) {
        const Operand a(random, {m, 1000}, type), b(random, {1000, 1500}, type);
        const fovea_tensor x = a.view(), y = b.view();
        for (const std::string &isa : instruction_sets()) {
          CAPTURE(isa);
          std::vector<float> expected;
          for (int threads = 1; threads <= 8; ++threads) {
            const Operand out(random, {m, 1500}, type);
            const fovea_tensor z = out.view();
            REQUIRE_OK(fovea_matmul(shared_context(isa, threads), &x, &y, &z));
            if (threads == 1) expected = out.dense();
            CHECK(same_bits(out.dense(), expected));
          }
        }
      }
    }
  }

  // By strides of 0 one element is as deep as one likes; panels of it fit no address space.
  TEST_CASE("a depth that no memory holds is refused as packing refuses it, not multiplied for hours") {
    const float one = 1;
    float out = 7;
    const int64_t depth = int64_t{1} << 45;
    fovea_tensor a{}, b{}, to{};
    for (fovea_tensor *tensor : {&a, &b, &to}) {
      tensor->rank = 2;
      tensor->dtype = FOVEA_F32;
      tensor->data = tensor == &to ? &out : const_cast<float *>(&one);
      tensor->shape[0] = tensor == &b ? depth : 1;
      tensor->shape[1] = tensor == &a ? depth : 1;
      tensor->strides[0] = tensor->strides[1] = 0;
    }
    to.strides[0] = to.strides[1] = 1;
    for_each_isa([&](const fovea_context *context) {
      const fovea_status status = fovea_matmul(context, &a, &b, &to);
      CHECK((status == FOVEA_OUT_OF_MEMORY || status == FOVEA_SIZE_OVERFLOW));
      CHECK(out == 7);
    });
  }
}
