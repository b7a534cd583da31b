// Benchmarks of the matrix product [M,K] x [K,N], matmul/f32/<M>x<N>x<K>/... (one call) and matmul_packed/f32/...
// (right-hand side packed once, outside the timing); the same with bf16, all three in bfloat16, one call of few rows
// alone; matmul_packed/bf16 and <M>x<N>x<K>_weights with b alone in it, _rows with a and out;
// matmul_packed/f32/<M>x<N>x<K>_medium and _int8 with b packed at that precision.
//
// What bounds it: arithmetic, 2 M N K flops at the multiply-add peak, of which a register tile gets all but the loads
// that do not pair with a multiply-add and the edges. One call also packs, but for few rows: K N floats read and
// written, 1 / M of the arithmetic's operand traffic. With few rows each weight is used M times only, so that M = 1 to
// 16 is bound by reading the K N weights once; the limit is the larger of the two. The 768 x 768 weights (2.4 MB) lie
// in L2 and L3, the 4096 x 4096 ones (67 MB) in L3 at best. The limit is read from pages of 4 kB, packed weights lie in
// huge ones: from memory the share may exceed 1.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "harness/harness.hpp"
#include "limits/limits.hpp"
#include "products/product.hpp"

namespace fovea_bench {
namespace {

struct MatmulShape : ProductSizes {
  bool one_shot;  // measured without packing beforehand, too
};

// Linear layers of MiniLM (384, 1536), BERT base (768, 3072), BERT large (1024) and Llama 8B (4096) for 1 to 2048
// tokens, the square that libraries are compared on, and two of which no panel is full.
const std::vector<MatmulShape> &matmul_shapes() {
  static const std::vector<MatmulShape> shapes = [] {
    std::vector<MatmulShape> list = {{{2048, 2048, 2048}, true}, {{1, 768, 768}, true},    {{16, 768, 768}, false},
                                     {{128, 768, 768}, true},    {{512, 768, 768}, true},  {{16, 3072, 768}, false},
                                     {{512, 3072, 768}, true},   {{16, 4096, 4096}, true}, {{1, 4096, 4096}, true},
                                     {{512, 4096, 4096}, true},  {{33, 10, 768}, false},   {{7, 100, 300}, false}};
    const auto add = [&](int64_t n, int64_t k, std::initializer_list<int64_t> rows) {
      for (int64_t m : rows) list.push_back({{m, n, k}, false});
    };
    add(384, 384, {1, 64, 512});
    add(1536, 384, {1, 64, 512});
    add(384, 1536, {1, 64, 512});
    add(768, 768, {4, 64, 2048});
    add(3072, 768, {1, 4, 64, 128, 2048});
    add(768, 3072, {1, 4, 64, 128, 512, 2048});
    add(1024, 1024, {1, 64, 512});
    add(4096, 4096, {4, 64, 128, 2048});
    return list;
  }();
  return shapes;
}

// bfloat16 cuts numbers off here. Its products may use twice float32's multiply-add rate, so that their share may
// exceed 1. So may those with weights of 8 bits (kernels/products/byte_panel.hpp).
enum class Mix { all, weights, rows, medium, int8 };

struct MixedShape : ProductSizes {
  Mix mix;

  fovea_dtype rows_type() const { return mix == Mix::all || mix == Mix::rows ? FOVEA_BF16 : FOVEA_F32; }
  fovea_dtype weights_type() const { return mix == Mix::all || mix == Mix::weights ? FOVEA_BF16 : FOVEA_F32; }
  const char *suffix() const {
    switch (mix) {
      case Mix::all: return "";
      case Mix::weights: return "_weights";
      case Mix::rows: return "_rows";
      case Mix::medium: return "_medium";
      case Mix::int8: return "_int8";
    }
    return "";
  }
  size_t weight_size() const {  // as it is read
    return mix == Mix::rows ? sizeof(float) : mix == Mix::int8 ? sizeof(int8_t) : sizeof(uint16_t);
  }
  bool is_given_as_floats() const { return mix == Mix::medium || mix == Mix::int8; }
};

const std::vector<MixedShape> &mixed_shapes() {
  static const std::vector<MixedShape> list = [] {
    std::vector<MixedShape> shapes;
    for (const Mix mix : {Mix::all, Mix::weights, Mix::rows, Mix::medium, Mix::int8}) {
      for (const ProductSizes &sizes : std::vector<ProductSizes>{{1, 768, 768},
                                                                 {1, 4096, 4096},
                                                                 {16, 4096, 4096},
                                                                 {128, 768, 768},
                                                                 {512, 3072, 768},
                                                                 {512, 768, 3072},
                                                                 {2048, 2048, 2048},
                                                                 {33, 10, 768},
                                                                 {7, 100, 300}}) {
        shapes.push_back({sizes, mix});
      }
    }
    return shapes;
  }();
  return list;
}

struct MatmulData {
  Buffer a, b, out;
  fovea_tensor a_view, b_view, out_view;
  ReadRegion b_region;
  int32_t precision = FOVEA_PRECISION_DEFAULT;  // of packing

  explicit MatmulData(const MatmulShape &s) : MatmulData(s, FOVEA_F32, FOVEA_F32) {}
  explicit MatmulData(const MixedShape &s) : MatmulData(s, s.rows_type(), s.weights_type()) {
    if (s.mix == Mix::medium) precision = FOVEA_PRECISION_MEDIUM;
    if (s.mix == Mix::int8) precision = FOVEA_PRECISION_INT8;
  }
  // What a product reads of the matrix: of 8 bits with scales 17 bytes for 16 numbers.
  size_t weight_bytes() const { return precision == FOVEA_PRECISION_INT8 ? b.bytes() / 64 * 17 : b.bytes(); }

 private:
  template <class Shape>
  MatmulData(const Shape &s, fovea_dtype rows, fovea_dtype weights)
      : a(normals(s.m * s.k, rows)),
        b(normals(s.k * s.n, weights)),
        out(zeros(s.m * s.n, rows)),
        a_view(tensor(a.data(), {s.m, s.k}, rows)),
        b_view(tensor(b.data(), {s.k, s.n}, weights)),
        out_view(tensor(out.data(), {s.m, s.n}, rows)),
        b_region(b.data(), b.bytes()) {}
};

struct PackedDeleter {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};

std::function<void()> call(std::shared_ptr<MatmulData> data, const std::string &isa, int threads, bool packed) {
  const std::shared_ptr<fovea_context> context = make_context(isa, threads);
  if (!packed) return [=] { check(fovea_matmul(context.get(), &data->a_view, &data->b_view, &data->out_view)); };
  const fovea_matmul_pack_options options = {sizeof options, 0, data->precision};
  fovea_packed_matrix *matrix = nullptr;
  check(fovea_matmul_pack(context.get(), &data->b_view, &options, &matrix));
  const std::shared_ptr<fovea_packed_matrix> owner(matrix, PackedDeleter{});
  return [=] { check(fovea_matmul_packed(context.get(), &data->a_view, owner.get(), &data->out_view)); };
}

template <class Shape>
Prepared prepare(const Shape &shape, const Variant &variant, bool packed) {
  const auto data = data_of<MatmulData>(shape);
  Prepared prepared;
  prepared.run = call(data, variant.isa, variant.threads, packed);
  if (variant.threads > 1) prepared.run_on_one_thread = call(data, variant.isa, 1, packed);
  prepared.shortest_seconds = [=, flops = product_flops(shape)] {
    const double arithmetic = flops / multiply_add_rate(variant.isa, variant.threads, probe_seconds());
    if (product_bound(shape) == Bound::flops) return arithmetic;
    const double rate = data->b_region.rate(variant.isa, variant.threads, probe_seconds());
    return std::max(arithmetic, static_cast<double>(data->weight_bytes()) / rate);
  };
  return prepared;
}

}  // namespace

void add_matmul(Cases *list) {
  for (const MatmulShape &shape : matmul_shapes()) {
    for (bool packed : {false, true}) {
      if (!packed && !shape.one_shot) continue;
      std::vector<Parameter> parameters = product_parameters(shape);
      parameters.push_back({"packed", packed});
      list->push_back({.operation = packed ? "matmul_packed" : "matmul",
                       .model = product_name(shape),
                       .bound = product_bound(shape),
                       .work = product_work(shape),
                       .parameters = parameters,
                       .prepare = [&shape, packed](const Variant &v) { return prepare(shape, v, packed); }});
    }
  }
  for (const MixedShape &shape : mixed_shapes()) {
    for (bool packed : {false, true}) {
      if (!packed && (shape.mix != Mix::all || product_bound(shape) != Bound::bytes)) continue;
      std::vector<Parameter> parameters = product_parameters(shape);
      parameters.push_back({"packed", packed});
      list->push_back({.operation = packed ? "matmul_packed" : "matmul",
                       .model = product_name(shape) + shape.suffix(),
                       .dtype = shape.is_given_as_floats() ? FOVEA_F32 : FOVEA_BF16,
                       .bound = product_bound(shape),
                       .work = product_work(shape, shape.weight_size()),
                       .parameters = parameters,
                       .prepare = [&shape, packed](const Variant &v) { return prepare(shape, v, packed); }});
    }
  }
}

}  // namespace fovea_bench
