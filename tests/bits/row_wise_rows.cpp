// What works row by row or element by element: exp, tanh, activations, softmax, normalisation, merging.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/narrow.hpp"

namespace testing {
namespace {

using Call = std::function<fovea_status(const fovea_context *, const fovea_tensor &x, const fovea_tensor &out)>;
using Fill = std::function<void(const Tensor<float> &, Numbers &)>;

// x and an output of its shape; x itself is the output where the call is in place.
void add_call(const std::string &name, const Shape &shape, const Fill &fill, const Call &call, BitsRows &rows,
              bool in_place = false) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(shape));
    if (fill) fill(*x, numbers);
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(shape);
      if (in_place) std::memcpy(out.data(), x->data(), static_cast<size_t>(x->count()) * sizeof(float));
      REQUIRE_OK(call(context, in_place ? out.view() : x->view(), out.view()));
      digest.add(out);
    };
  };
  rows.push_back({name, make});
}

// ---- exp, tanh ------------------------------------------------------------------------------------------------------

// Every sign and exponent with every value of the upper seven bits of the mantissa, infinities and NaN among them.
void fill_with_all_sizes(const Tensor<float> &x, Numbers &numbers) {
  for (int64_t n = 0; n < x.count(); ++n) {
    const uint32_t word = static_cast<uint32_t>(n) << 16 | static_cast<uint32_t>(numbers.word() & 0xffff);
    std::memcpy(x.data() + n, &word, sizeof word);
  }
}

void add_elementwise(BitsRows &rows) {
  const Call functions[] = {
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_exp(c, &x, &out); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_tanh(c, &x, &out); }};
  const char *const names[] = {"exp.", "tanh."};
  for (const int f : {0, 1}) {
    const std::string name = names[f];
    add_call(name + "all-sizes", {65536}, fill_with_all_sizes, functions[f], rows);
    const Fill widen = [](const Tensor<float> &x, Numbers &numbers) {
      for (int64_t n = 0; n < x.count(); ++n) x.data()[n] = numbers.next() * 16;
    };
    const Sweep counts = {{1, 2, 3, 4, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {63, 64, 65}, {100}};
    add_sweep(
        name + "count", counts,
        [&](const std::string &full, int64_t count, BitsRows &some) {
          add_call(full, {count}, widen, functions[f], some);
        },
        rows);
    add_call(name + "in-place", {5, 333}, widen, functions[f], rows, true);
  }
}

// ---- masked softmax -------------------------------------------------------------------------------------------------

struct Softmax {
  Shape shape;
  int64_t most = -1;  // lengths up to this one in turn; -1: none
  bool per_query = false;
  int32_t empty_rows = FOVEA_EMPTY_ROWS_ZERO;
  Fill fill = {};
  bool in_place = false;
};

void add_softmax(const std::string &name, const Softmax &s, BitsRows &rows) {
  const Call call = [s](const fovea_context *context, const fovea_tensor &x, const fovea_tensor &out) {
    const int64_t batch = x.rank == 2 ? 1 : x.shape[0];
    const Shape shape = s.per_query ? Shape{batch, x.shape[x.rank - 2]} : Shape{batch};
    std::vector<int64_t> lens(static_cast<size_t>(element_count(shape)));
    for (size_t n = 0; s.most >= 0 && n < lens.size(); ++n) {
      lens[n] = (static_cast<int64_t>(n) * 5 + s.most) % (s.most + 1);
    }
    const fovea_tensor view =
        fovea_tensor_contiguous(lens.data(), FOVEA_I64, static_cast<int32_t>(shape.size()), shape.data());
    const fovea_masked_softmax_options options = {sizeof options, s.empty_rows, 0};
    return fovea_masked_softmax(context, &x, s.most < 0 ? nullptr : &view, &out, &options);
  };
  add_call(name, s.shape, s.fill, call, rows, s.in_place);
}

void add_softmaxes(BitsRows &rows) {
  const Sweep keys = {{1, 2, 3}, {4, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {63, 64, 65}, {130}, {1000}};
  add_sweep(
      "masked-softmax.keys", keys,
      [](const std::string &full, int64_t k, BitsRows &some) {
        add_softmax(full, {.shape = {6, k}}, some);
        add_softmax(full + ".lens", {.shape = {7, 3, k}, .most = k}, some);
      },
      rows);
  add_softmax("masked-softmax.lens-each-query", {.shape = {3, 9, 40}, .most = 40, .per_query = true}, rows);
  add_softmax("masked-softmax.uniform", {.shape = {4, 2, 40}, .most = 3, .empty_rows = FOVEA_EMPTY_ROWS_UNIFORM}, rows);
  add_softmax("masked-softmax.nan-rows", {.shape = {4, 2, 40}, .most = 3, .empty_rows = FOVEA_EMPTY_ROWS_NAN}, rows);
  add_softmax("masked-softmax.rank-5", {.shape = {2, 2, 2, 3, 20}, .most = 20}, rows);
  add_softmax("masked-softmax.in-place", {.shape = {3, 9, 40}, .most = 40, .in_place = true}, rows);
  add_softmax("masked-softmax.many", {.shape = {4, 100, 300}, .most = 300}, rows);
  const Fill odd = [](const Tensor<float> &x, Numbers &) {
    for (int64_t j = 0; j < 40; ++j) x(0, 1, j) = -kInfinity;
    x(0, 2, 30) = kNan;
    x(1, 0, 3) = kNan;
    x(1, 1, 3) = kInfinity;
    x(1, 2, 4) = -kInfinity;
    for (int64_t j = 0; j < 40; ++j) x(2, 0, j) = static_cast<float>(-3 * j);
    for (int64_t j = 0; j < 40; ++j) x(2, 1, j) = 3e38F;
  };
  add_softmax("masked-softmax.odd-numbers", {.shape = {3, 3, 40}, .fill = odd}, rows);
  add_softmax("masked-softmax.odd-numbers-behind", {.shape = {3, 3, 40}, .most = 29, .fill = odd}, rows);
}

// ---- layer normalisation --------------------------------------------------------------------------------------------

struct Norm {
  Shape shape;
  bool affine = false, residual = false;
  float epsilon = 0;
  Fill fill = {};
};

void add_norm(const std::string &name, const Norm &n, BitsRows &rows) {
  const Call call = [n, name](const fovea_context *context, const fovea_tensor &x, const fovea_tensor &out) {
    Numbers numbers(name + " parameters");
    const Tensor<float> weight = numbers.tensor({n.shape.back()}), bias = numbers.tensor({n.shape.back()});
    const Tensor<float> residual = numbers.tensor(n.residual ? n.shape : Shape{0});
    const fovea_tensor w = weight.view(), b = bias.view(), r = residual.view();
    fovea_layer_norm_options options{};
    options.struct_size = sizeof options;
    options.epsilon = n.epsilon;
    options.weight = n.affine ? &w : nullptr;
    options.bias = n.affine ? &b : nullptr;
    options.residual = n.residual ? &r : nullptr;
    return fovea_layer_norm(context, &x, &out, &options);
  };
  add_call(name, n.shape, n.fill, call, rows);
}

void add_norms(BitsRows &rows) {
  const Sweep features = {{1, 2, 3},    {4, 5}, {7, 8, 9}, {15, 16, 17},       {31, 32, 33},
                          {63, 64, 65}, {100},  {768},     {2047, 2048, 2049}, {5000}};
  add_sweep(
      "layer-norm.features", features,
      [](const std::string &full, int64_t e, BitsRows &some) {
        add_norm(full, {.shape = {5, e}}, some);
        add_norm(full + ".residual", {.shape = {5, e}, .affine = true, .residual = true}, some);
      },
      rows);
  add_norm("layer-norm.many", {.shape = {3, 100, 300}, .affine = true}, rows);
  add_norm("layer-norm.epsilon", {.shape = {5, 40}, .affine = true, .epsilon = 0.5F}, rows);
  const auto add_filled = [&](const char *name, float mean, float factor) {
    const Fill fill = [=](const Tensor<float> &x, Numbers &numbers) {
      for (int64_t i = 0; i < x.count(); ++i) x.data()[i] = mean + numbers.next() * factor;
    };
    add_norm(name, {.shape = {5, 100}, .affine = true, .fill = fill}, rows);
  };
  add_filled("layer-norm.large-mean", 1e6F, 1);
  add_filled("layer-norm.huge", 0, 0x1p100F);
  add_filled("layer-norm.tiny", 0, 0x1p-120F);
  add_filled("layer-norm.constant", 3, 0);
  const Fill odd = [](const Tensor<float> &x, Numbers &) {
    x(0, 3) = kNan;
    x(1, 3) = kInfinity;
    x(2, 3) = -kInfinity;
  };
  add_norm("layer-norm.odd-numbers", {.shape = {5, 40}, .affine = true, .fill = odd}, rows);
}

// Both, with all that they give.
void add_norm_outputs(const std::string &name, const Shape &shape, bool rms, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(shape)),
               residual = std::make_shared<Tensor<float>>(numbers.tensor(shape)),
               weight = std::make_shared<Tensor<float>>(numbers.tensor({shape.back()}));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(shape), sum(shape), mean({shape[0]}), inverse({shape[0]});
      const fovea_tensor from = x->view(), more = residual->view(), w = weight->view(), to = out.view(),
                         added = sum.view(), means = mean.view(), inverses = inverse.view();
      const auto set = [&](auto &options) {
        options.struct_size = sizeof options;
        options.weight = &w;
        options.residual = &more;
        options.sum = &added;
        options.inverse_deviation = &inverses;
      };
      if (rms) {
        fovea_rms_norm_options options{};
        set(options);
        REQUIRE_OK(fovea_rms_norm(context, &from, &to, &options));
        options.flags = FOVEA_NORM_WEIGHT_FROM_ONE;
        digest.add(out);
        REQUIRE_OK(fovea_rms_norm(context, &from, &to, &options));
      } else {
        fovea_layer_norm_options options{};
        set(options);
        options.mean = &means;
        REQUIRE_OK(fovea_layer_norm(context, &from, &to, &options));
        digest.add(mean);
      }
      for (const Tensor<float> *tensor : {&out, &sum, &inverse}) digest.add(*tensor);
    };
  };
  rows.push_back({name, make});
}

void add_rms_norms(BitsRows &rows) {
  const Sweep features = {{1, 2, 3},    {4, 5}, {7, 8, 9}, {15, 16, 17},       {31, 32, 33},
                          {63, 64, 65}, {100},  {768},     {2047, 2048, 2049}, {5000}};
  add_sweep(
      "rms-norm.features", features,
      [](const std::string &full, int64_t e, BitsRows &some) {
        add_call(
            full, {5, e}, {},
            [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
              return fovea_rms_norm(c, &x, &out, nullptr);
            },
            some);
        add_norm_outputs(full + ".outputs", {5, e}, true, some);
        add_norm_outputs(full + ".of-layer-norm", {5, e}, false, some);
      },
      rows);
}

// ---- softmax over an axis, activations ------------------------------------------------------------------------------

void add_softmax_over(const std::string &name, const Shape &shape, int32_t axis, BitsRows &rows) {
  for (const bool log : {false, true}) {
    add_call(
        name + (log ? ".log" : ""), shape, {},
        [=](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
          return log ? fovea_log_softmax(c, &x, axis, &out) : fovea_softmax(c, &x, axis, &out);
        },
        rows);
  }
}

void add_softmaxes_over_axes(BitsRows &rows) {
  add_sweep(
      "softmax.columns", {{1, 2, 3}, {4, 5}, {7, 8, 9}, {15, 16, 17}, {31, 32, 33}, {63, 64, 65}, {130}},
      [](const std::string &full, int64_t n, BitsRows &some) {
        add_softmax_over(full, {2, 9, n}, 1, some);
      },
      rows);
  add_softmax_over("softmax.long", {300, 70}, 0, rows);
  add_softmax_over("softmax.last", {7, 133}, -1, rows);
}

void add_activations(BitsRows &rows) {
  for (const int32_t kind : {FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_RELU, FOVEA_ACTIVATION_GELU,
                             FOVEA_ACTIVATION_GELU_TANH, FOVEA_ACTIVATION_SILU}) {
    add_call(
        "activation." + number(kind), {65536}, fill_with_all_sizes,
        [=](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
          return fovea_activation(c, kind, &x, &out);
        },
        rows);
  }
}

// ---- merging --------------------------------------------------------------------------------------------------------

void add_merge(const std::string &name, int64_t parts, int64_t rows_of, int64_t value_dim, const Fill &spoil,
               BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto outs = std::make_shared<Tensor<float>>(numbers.tensor({parts, rows_of, value_dim}));
    const auto lses = std::make_shared<Tensor<float>>(numbers.tensor({parts, rows_of}, 4));
    if (spoil) spoil(*lses, numbers);
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> out(Shape{rows_of, value_dim}), lse(Shape{rows_of});
      const fovea_tensor from = outs->view(), sums = lses->view(), to = out.view(), sum = lse.view();
      REQUIRE_OK(fovea_merge_states(context, &from, &sums, &to, &sum));
      digest.add(out);
      digest.add(lse);
    };
  };
  rows.push_back({name, make});
}

void add_merges(BitsRows &rows) {
  add_sweep(
      "merge-states.features", {{1, 3}, {7, 8, 9}, {15, 16, 17}, {64}, {100}},
      [](const std::string &full, int64_t dim, BitsRows &some) { add_merge(full, 3, 9, dim, {}, some); }, rows);
  add_sweep(
      "merge-states.parts", {{1}, {2}, {16}},
      [](const std::string &full, int64_t parts, BitsRows &some) { add_merge(full, parts, 9, 20, {}, some); }, rows);
  add_merge("merge-states.many", 5, 700, 50, {}, rows);
  add_merge(
      "merge-states.odd-numbers", 3, 9, 20,
      [](const Tensor<float> &lses, Numbers &) {
        lses(0, 0) = lses(1, 1) = lses(2, 2) = -kInfinity;
        for (int64_t part = 0; part < 3; ++part) lses(part, 3) = -kInfinity;
        lses(1, 4) = kNan;
        lses(1, 5) = kInfinity;
        lses(1, 6) = -1000;
      },
      rows);
}

// ---- 16 bits --------------------------------------------------------------------------------------------------------

// The same calls on elements of 16 bits, from one type to another too: what comes out, widened.
void add_typed(const std::string &name, const Shape &shape, fovea_dtype x_type, fovea_dtype out_type, const Call &call,
               BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto x = std::make_shared<NarrowTensor>(numbers.tensor(shape, 4), x_type);
    return [=](const fovea_context *context, Digest &digest) {
      const NarrowTensor out(Tensor<float>(shape), out_type);
      REQUIRE_OK(call(context, x->view(), out.view()));
      for_each_index(shape, [&](const Shape &index) { digest.add(widened(out.at(index), out_type)); });
    };
  };
  rows.push_back({name, make});
}

void add_types(BitsRows &rows) {
  const Call calls[] = {
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_exp(c, &x, &out); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) { return fovea_tanh(c, &x, &out); },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_masked_softmax(c, &x, nullptr, &out, nullptr);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_layer_norm(c, &x, &out, nullptr);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        fovea_rms_norm_options options{};
        options.struct_size = sizeof options;
        options.residual = &x;
        return fovea_rms_norm(c, &x, &out, &options);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_softmax(c, &x, 1, &out);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_log_softmax(c, &x, -1, &out);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_activation(c, FOVEA_ACTIVATION_SILU, &x, &out);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_rotary(c, &x, &out, nullptr);
      },
      [](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &out) {
        return fovea_add_positional_encoding(c, &x, &out, nullptr);
      }};
  const char *const names[] = {"exp",         "tanh", "masked-softmax", "layer-norm",    "rms-norm", "softmax-over-1",
                               "log-softmax", "silu", "rotary",         "encoding-added"};
  for (size_t n = 0; n < std::size(names); ++n) {
    const std::string name = std::string(names[n]) + ".16-bits.";
    add_typed(name + "half", {3, 9, 70}, FOVEA_F16, FOVEA_F16, calls[n], rows);
    add_typed(name + "brain", {3, 9, 70}, FOVEA_BF16, FOVEA_BF16, calls[n], rows);
    add_typed(name + "brain-to-half", {2, 3, 2100}, FOVEA_BF16, FOVEA_F16, calls[n], rows);
  }
}

}  // namespace

void add_row_wise_rows(BitsRows &rows) {
  add_elementwise(rows);
  add_softmaxes(rows);
  add_norms(rows);
  add_rms_norms(rows);
  add_softmaxes_over_axes(rows);
  add_activations(rows);
  add_merges(rows);
  add_types(rows);
}

}  // namespace testing
