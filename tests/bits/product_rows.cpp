// Matrix products and linear layers: edges of blocks, panels and of depth, strides, activations.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/linear_layer.hpp"

namespace testing {
namespace {

struct Product {
  std::string name;
  Shape a, b;
  Shape a_strides = {}, b_strides = {};
};

// In one go; where b has rank 2, packed too, which has to give the same.
void add_product(const Product &p, BitsRows &rows) {
  const auto make = [p] {
    Numbers numbers(p.name);
    const auto strides = [](const Shape &given, const Shape &shape) {
      return given.empty() ? contiguous_strides(shape) : given;
    };
    const auto a = std::make_shared<Tensor<float>>(numbers.tensor(p.a, strides(p.a_strides, p.a)));
    const auto b = std::make_shared<Tensor<float>>(numbers.tensor(p.b, strides(p.b_strides, p.b)));
    return [=](const fovea_context *context, Digest &digest) {
      Shape shape = p.a.size() >= p.b.size() ? p.a : Shape{p.b[0], p.a[0], 0};
      shape.back() = p.b.back();
      const Tensor<float> out(shape), by_packed(shape);
      const fovea_tensor x = a->view(), y = b->view(), to = out.view(), packed_to = by_packed.view();
      REQUIRE_OK(fovea_matmul(context, &x, &y, &to));
      digest.add(out);
      if (y.rank == 3) return;
      const Packed packed = pack(context, *b);
      REQUIRE_OK(fovea_matmul_packed(context, &x, packed.get(), &packed_to));
      CHECK_MESSAGE(same_bits(out, by_packed), "a packed matrix gives other bits");
    };
  };
  rows.push_back({p.name, make});
}

void add_products(BitsRows &rows) {
  const auto sweep = [&](const std::string &name, const Sweep &sizes,
                         const std::function<Product(const std::string &name, int64_t size)> &product) {
    add_sweep(
        "matmul." + name, sizes,
        [&](const std::string &full, int64_t size, BitsRows &some) { add_product(product(full, size), some); }, rows);
  };
  sweep("rows", {{1, 2, 3}, {4, 5}, {6, 7}, {11, 12, 13}, {24, 25}, {49}, {97}},
        [](const std::string &name, int64_t m) {
          return Product{name, {m, 40}, {40, 70}};
        });
  const Sweep columns = {{1, 3}, {4, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {48}, {63, 64, 65}, {129}, {257}};
  const Sweep depths = {{0}, {1, 2, 3}, {4, 5}, {31, 32, 33}, {47, 48, 49}, {63, 64, 65}, {767, 768, 769}, {1540}};
  for (const int64_t m : {1, 9}) {
    const std::string one = m == 1 ? "one-row." : "";
    sweep(one + "columns", columns, [m](const std::string &name, int64_t n) {
      return Product{name, {m, 21}, {21, n}};
    });
    sweep(one + "depth", depths, [m](const std::string &name, int64_t k) { return Product{name, {m, k}, {k, 37}}; });
  }
  add_product({"matmul.batch", {3, 8, 20}, {3, 20, 18}}, rows);
  add_product({"matmul.batch-of-a", {3, 8, 20}, {20, 18}}, rows);
  add_product({"matmul.batch-of-b", {8, 20}, {3, 20, 18}}, rows);
  add_product({"matmul.pieces", {200, 600}, {600, 90}}, rows);
  add_product({"matmul.transposed-a", {50, 33}, {33, 40}, {1, 50}}, rows);
  add_product({"matmul.transposed-a-deep", {14, 800}, {800, 70}, {1, 14}}, rows);
  add_product({"matmul.transposed-b", {10, 33}, {33, 70}, {}, {1, 33}}, rows);
  add_product({"matmul.strided", {10, 33}, {33, 70}, {70, 2}, {140, 2}}, rows);
}

void add_layer(const std::string &name, const std::function<Layer(Numbers &)> &make_layer, BitsRows &rows) {
  const auto make = [name, make_layer] {
    Numbers numbers(name);
    const auto layer = std::make_shared<Layer>(make_layer(numbers));
    return [layer](const fovea_context *context, Digest &digest) {
      const Packed packed = pack(context, layer->weight, layer->out_in ? FOVEA_WEIGHT_OUT_IN : FOVEA_WEIGHT_IN_OUT);
      const Tensor<float> out = layer->make_out();
      REQUIRE_OK(layer->run(context, packed.get(), out));
      digest.add(out);
    };
  };
  rows.push_back({name, make});
}

Layer plain_layer(Numbers &numbers, const Shape &x, int64_t columns, bool out_in = false) {
  Layer layer;
  layer.x = numbers.tensor(x);
  layer.out_in = out_in;
  layer.weight = numbers.tensor(out_in ? Shape{columns, x.back()} : Shape{x.back(), columns}, weight_factor(x.back()));
  return layer;
}

void add_layers(BitsRows &rows) {
  const char *const names[] = {"none", "relu", "gelu", "gelu-tanh", "silu"};
  for (const int32_t activation : kActivations) {
    const std::string name = std::string("linear.") + names[activation];
    add_layer(
        name,
        [activation](Numbers &numbers) {
          Layer layer = plain_layer(numbers, {23, 30}, 75);
          layer.activation = activation;
          return layer;
        },
        rows);
    add_layer(
        name + ".bias-residual",
        [activation](Numbers &numbers) {
          Layer layer = plain_layer(numbers, {2, 13, 30}, 75, true);
          layer.activation = activation;
          layer.has_bias = layer.has_residual = true;
          layer.bias = numbers.tensor({75});
          layer.residual = numbers.tensor({2, 13, 75});
          return layer;
        },
        rows);
    add_layer(
        name + ".large-arguments",
        [activation](Numbers &numbers) {
          Layer layer = plain_layer(numbers, {23, 1}, 75);
          layer.x = numbers.tensor({23, 1}, 16);
          layer.x(3, 0) = kNan;
          layer.x(4, 0) = kInfinity;
          layer.x(5, 0) = -0x1p-120F;
          layer.activation = activation;
          return layer;
        },
        rows);
  }
  add_layer(
      "linear.in-place",
      [](Numbers &numbers) {
        Layer layer = plain_layer(numbers, {9, 800}, 33);
        layer.has_residual = layer.in_place = true;
        layer.residual = numbers.tensor({9, 33});
        return layer;
      },
      rows);
  add_layer(
      "linear.strided",
      [](Numbers &numbers) {
        Layer layer = plain_layer(numbers, {2, 9, 20}, 33);
        layer.x = numbers.tensor({2, 9, 20}, Shape{400, 1, 9});
        layer.out_strides = {500, 40, 1};
        layer.has_bias = true;
        layer.bias = numbers.tensor({33}, Shape{2});
        return layer;
      },
      rows);
}

// alpha a b + beta c, c of any shape that is repeated.
void add_gemm(const std::string &name, const Shape &a_shape, const Shape &b_shape, const Shape &c_shape,
              const Shape &shape, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto a = std::make_shared<Tensor<float>>(numbers.tensor(a_shape)),
               b = std::make_shared<Tensor<float>>(numbers.tensor(b_shape)),
               c = std::make_shared<Tensor<float>>(numbers.tensor(c_shape));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(shape);
      const fovea_tensor x = a->view(), y = b->view(), added = c->view(), to = out.view();
      REQUIRE_OK(fovea_matmul(context, &x, &y, &to));
      digest.add(out);
      fovea_gemm_options options{};
      options.struct_size = sizeof options;
      options.alpha = 0.3F;
      options.beta = -1.7F;
      options.c = &added;
      REQUIRE_OK(fovea_gemm(context, &x, &y, &to, &options));
      digest.add(out);
    };
  };
  rows.push_back({name, make});
}

void add_gemms(BitsRows &rows) {
  add_gemm("gemm.row", {9, 40}, {40, 37}, {37}, {9, 37}, rows);
  add_gemm("gemm.column", {9, 40}, {40, 37}, {9, 1}, {9, 37}, rows);
  add_gemm("gemm.few-rows", {2, 40}, {40, 37}, {2, 37}, {2, 37}, rows);
  add_gemm("gemm.two-axes", {2, 3, 9, 20}, {2, 3, 20, 18}, {3, 1, 1}, {2, 3, 9, 18}, rows);
  add_gemm("gemm.repeated", {2, 1, 9, 20}, {1, 3, 20, 18}, {9, 18}, {2, 3, 9, 18}, rows);
}

}  // namespace

void add_product_rows(BitsRows &rows) {
  add_products(rows);
  add_gemms(rows);
  add_layers(rows);
}

}  // namespace testing
