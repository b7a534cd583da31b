// Layer and RMS normalisation of rows whose tensors have one type: of floats, and of 16 bits a pair of registers at a
// time.
#pragma once

#include "kernels/rowwise/layer_norm.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// How rows pass: how results are stored, and which rows are asked for ahead, by so many floats. Those whose turn comes
// soon go to the first-level cache while a row is written; those whose turn comes later to the second-level one while
// squares are summed, when memory has nothing else to do. The ways to the first-level cache are few: where stores need
// them to fetch what they write to, rows from memory are left to the second-level one.
struct CachedPass : CachedStore {
  static constexpr int64_t soon = 1024, later = 0;
};
struct MemoryPass : CachedStore {
  static constexpr int64_t soon = 0, later = 1024;
};
struct StreamedPass : StreamedStore {
  static constexpr int64_t soon = 1024, later = 2560;
};

// Where y goes, beside what is made of it: nowhere, or to `to`, as `store` stores.
struct NoSum {
  FOVEA_INLINE void put(int64_t, const Float &) const {}
  FOVEA_INLINE void put_first(int64_t, const Float &, int64_t) const {}
};
template <class Store>
struct SumTo {
  float *to;
  const Store &store;
  FOVEA_INLINE void put(int64_t i, const Float &y) const { store(to + i, y); }
  FOVEA_INLINE void put_first(int64_t i, const Float &y, int64_t count) const { store_partial(to + i, y, count); }
};

// Stores are aligned but for the row's first and last few. `soon`: the row whose turn comes soon.
template <class Input, class Sum, class Pass>
FOVEA_INLINE void put_row(const Input &y, const Normalisation &normalise, float *out, const Sum &sum, int64_t dim,
                          const Input &soon, const Pass &pass) {
  constexpr int64_t step = lanes < line_floats ? line_floats : lanes;
  const auto put_first = [&](int64_t i, int64_t count) FOVEA_INLINE_BODY {
    Float value;
    y.template read<1>(i, count, &value);
    store_partial(out + i, normalise.first_at(value, i, count), count);
    sum.put_first(i, value, count);
  };
  const auto put = [&](auto known, int64_t i) FOVEA_INLINE_BODY {
    Float value;
    y.template read<1>(i, lanes, &value);
    pass(out + i, normalise.template at<static_cast<NormParameters>(static_cast<int>(known))>(value, i));
    sum.put(i, value);
  };
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float) % lanes);
  int64_t i = past == 0 ? 0 : min_of(lanes - past, dim);
  if (i > 0) put_first(0, i);
  const auto put_lines = [&](auto known) FOVEA_INLINE_BODY {
    for (; i + step <= dim; i += step) {
      if constexpr (Pass::soon > 0) soon.template prefetch<1>(i);
      unroll<step / lanes>([&](auto v) FOVEA_INLINE_BODY { put(known, i + v * lanes); });
    }
  };
  switch (normalise.parameters()) {
    case NormParameters::weight_and_bias: put_lines(Index<static_cast<int>(NormParameters::weight_and_bias)>{}); break;
    case NormParameters::weight: put_lines(Index<static_cast<int>(NormParameters::weight)>{}); break;
    default: put_lines(Index<static_cast<int>(NormParameters::any)>{});
  }
  for (; i + lanes <= dim; i += lanes) put(Index<static_cast<int>(NormParameters::any)>{}, i);
  if (i < dim) put_first(i, dim - i);
}

// Asks for the lines of a later row.
template <class Input>
struct AskFor {
  Input later;
  template <class Held>
  FOVEA_INLINE void operator()(Held held, int64_t i, const Float *) const {
    if (held == 1) return;
    for (int64_t line = 0; line < held * lanes; line += line_floats) later.template prefetch<2>(i + line);
  }
};

template <class Residual, class Pass>
FOVEA_NOINLINE void norm_rows_with(const NormRows &rows) {
  using Input = NormInput<float, Residual>;
  const Pass pass;
  const int64_t soon = ceil_div(Pass::soon, rows.dim), later = ceil_div(Pass::later, rows.dim);
  const auto input = [&](int64_t r) FOVEA_INLINE_BODY {
    const NormRow &row = rows.row[min_of(r, rows.listed - 1)];
    return Input(row.x, row.residual);
  };
  const auto moments_of = [&](int64_t r) FOVEA_INLINE_BODY {
    if constexpr (Pass::later == 0) return row_moments<1>(rows.kind, input(r), rows.dim, NothingElse());
    return row_moments<1>(rows.kind, input(r), rows.dim, AskFor<Input>{input(r + later)});
  };
  const auto put = [&](int64_t r, const Moments &moments, double spread) FOVEA_INLINE_BODY {
    const Normalisation normalise(NormScale(moments, spread, rows.kind), rows, static_cast<const float *>(rows.weight),
                                  static_cast<const float *>(rows.bias));
    auto *out = static_cast<float *>(rows.row[r].out), *sum = static_cast<float *>(rows.row[r].sum);
    const auto put_with = [&](const auto &its_sum) FOVEA_INLINE_BODY {
      put_row(input(r), normalise, out, its_sum, rows.dim, input(r + soon), pass);
    };
    if constexpr (Input::has_residual) {
      constexpr CachedStore cached;
      const bool alike = Pass::reads_first || (sum - out) % lanes == 0;  // both aligned where out is
      if (sum != nullptr) return alike ? put_with(SumTo<Pass>{sum, pass}) : put_with(SumTo<CachedStore>{sum, cached});
    }
    put_with(NoSum{});
  };
  norm_each_row(rows, moments_of, put);
}

template <class Residual>
FOVEA_INLINE void norm_rows_of(const NormRows &rows) {
  if (rows.traffic == NormTraffic::past_caches) return norm_rows_with<Residual, StreamedPass>(rows);
  if (rows.traffic == NormTraffic::from_memory) return norm_rows_with<Residual, MemoryPass>(rows);
  norm_rows_with<Residual, CachedPass>(rows);
}

// ---- rows of 16 bits throughout -------------------------------------------------------------------------------------

#if defined(__AVX2__)

constexpr int64_t longest_row_of_pairs = 16384;

// Floats in the order of pairs of registers.
struct FloatPairs {
  const float *y;
  template <int registers>
  FOVEA_INLINE void read(int64_t i, int64_t, Float *value) const {
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(y + i + v * lanes); });
  }
};

struct KeepPairs {
  float *y;
  template <class Held>
  FOVEA_INLINE void operator()(Held, int64_t i, const Float *value) const {
    store(y + i, value[0]);
    store(y + i + lanes, value[1]);
  }
};

// Weights and biases; missing ones are 1 or 0. Those of up to one chunk are widened once for all rows (is_long: not).
template <class Element, bool is_long>
class PairedWeights {
 public:
  FOVEA_NOINLINE explicit PairedWeights(const NormRows &rows)
      : any(rows.weight != nullptr || rows.bias != nullptr),
        from_{static_cast<const Element *>(rows.weight), static_cast<const Element *>(rows.bias)},
        raise_(rows.weight == nullptr ? weight_as_it_is : rows.weight_raise) {
    for (int64_t i = 0; !is_long && any && i < rows.dim; i += pair_lanes) {
      Float weight[2], bias[2];
      read(i, min_of(rows.dim - i, pair_lanes), weight, bias);
      unroll<2>([&](auto v) FOVEA_INLINE_BODY {
        store(floats_[0] + i + v * lanes, weight[v]);
        store(floats_[1] + i + v * lanes, bias[v]);
      });
    }
  }

  const bool any;

  FOVEA_INLINE void load_pairs(int64_t i, int64_t count, Float *weight, Float *bias) const {
    if constexpr (is_long) return read(i, count, weight, bias);
    FloatPairs{floats_[0]}.read<2>(i, count, weight);
    FloatPairs{floats_[1]}.read<2>(i, count, bias);
  }

 private:
  FOVEA_INLINE void read(int64_t i, int64_t count, Float *weight, Float *bias) const {
    weight[0] = weight[1] = splat(1.0f);
    bias[0] = bias[1] = zero();
    if (from_[0] != nullptr) read_or_zeros<2>(from_[0] + i, count, weight);
    if (from_[1] != nullptr) read_or_zeros<2>(from_[1] + i, count, bias);
    unroll<2>([&](auto v) FOVEA_INLINE_BODY { weight[v] = weight[v] + splat(raise_); });
  }

  const Element *from_[2];
  const float raise_;
  alignas(64) float floats_[2][is_long ? 1 : norm_chunk];
};

template <class Element, class Input, class Weights>
FOVEA_INLINE void put_pairs(const Input &y, const Normalisation &normalise, const Weights &weights, Element *out,
                            Element *sum, int64_t dim) {
  // (y - mean) scale as y scale - mean scale, whose rounding is 2^-25 at most where |mean scale| is.
  const Float offset = normalise.shift - normalise.mean * normalise.scale;
  const auto put = [&](auto affine, auto centred, int64_t i, int64_t count) FOVEA_INLINE_BODY {
    Float value[2], weight[2], bias[2];
    y.template read<2>(i, count, value);
    if (sum != nullptr) store_up_to_pair_exactly(sum + i, value[0], value[1], count);
    if constexpr (affine != 0) weights.load_pairs(i, count, weight, bias);
    unroll<2>([&](auto v) FOVEA_INLINE_BODY {
      if constexpr (centred != 0) {
        value[v] = multiply_add(value[v], normalise.scale, offset);
      } else {
        value[v] = multiply_add(value[v] - normalise.mean, normalise.scale, normalise.shift);
      }
      if constexpr (affine != 0) value[v] = multiply_add(value[v], weight[v], bias[v]);
    });
    write_up_to<2>(out + i, count, value);
  };
  const auto put_all = [&](auto affine, auto centred) FOVEA_INLINE_BODY {
    int64_t i = 0;
    for (; i + pair_lanes <= dim; i += pair_lanes) put(affine, centred, i, pair_lanes);
    if (i < dim) put(affine, centred, i, dim - i);
  };
  constexpr Index<0> no;
  constexpr Index<1> yes;
  if (__builtin_fabsf(offset.get(0)) <= 1.0f) return weights.any ? put_all(yes, yes) : put_all(no, yes);
  weights.any ? put_all(yes, no) : put_all(no, no);
}

// Up to one chunk a row waits on the stack as float32 where it has a residual or is binary16; bfloat16 is widened
// again, which takes no longer than loads. Longer rows are read and widened again.
template <class Element, class Residual, bool is_long>
FOVEA_NOINLINE void norm_rows_of_pairs(const NormRows &rows) {
  using Input = NormInput<Element, Residual>;
  constexpr bool waits = !is_long && (Input::has_residual || same_type<Element, Float16>);
  alignas(64) float y[2][waits ? norm_chunk : 1];
  const PairedWeights<Element, is_long> weights(rows);
  const auto moments_of = [&](int64_t r) FOVEA_INLINE_BODY {
    const Input input(rows.row[r].x, rows.row[r].residual);
    if constexpr (waits) return row_moments<2>(rows.kind, input, rows.dim, KeepPairs{y[r % 2]});
    return row_moments<2>(rows.kind, input, rows.dim, NothingElse());
  };
  norm_each_row(rows, moments_of, [&](int64_t r, const Moments &moments, double spread) FOVEA_INLINE_BODY {
    const NormRow &row = rows.row[r];
    const Normalisation normalise(NormScale(moments, spread, rows.kind), rows, nullptr, nullptr);
    auto *out = static_cast<Element *>(row.out), *sum = Input::has_residual ? static_cast<Element *>(row.sum) : nullptr;
    if constexpr (waits) {
      put_pairs(FloatPairs{y[r % 2]}, normalise, weights, out, sum, rows.dim);
    } else {
      put_pairs(Input(row.x, row.residual), normalise, weights, out, sum, rows.dim);
    }
  });
}
#endif

// ---- which way ------------------------------------------------------------------------------------------------------

// False where rows are not of one type throughout.
FOVEA_INLINE bool normed_in_one_type(const NormRows &rows) {
  const Dtype type = rows.types.x;
  const NormRow &row = rows.row[0];
  const auto fits = [&](const void *data, Dtype its) { return data == nullptr || its == type; };
  if (rows.types.out != type || !fits(row.residual, rows.types.residual) || !fits(rows.weight, rows.types.weight) ||
      !fits(rows.bias, rows.types.bias) || !fits(row.sum, rows.types.sum)) {
    return false;
  }
  if (type == Dtype::f32) {
    row.residual != nullptr ? norm_rows_of<float>(rows) : norm_rows_of<void>(rows);
    return true;
  }
#if defined(__AVX2__)
  if (rows.dim > longest_row_of_pairs) return false;
  const auto norm = [&]<class Element, class Residual>(Type<Element>, Type<Residual>) FOVEA_INLINE_BODY {
    rows.dim <= norm_chunk ? norm_rows_of_pairs<Element, Residual, false>(rows)
                           : norm_rows_of_pairs<Element, Residual, true>(rows);
  };
  const auto norm_type = [&]<class Element>(Type<Element> its)
                             FOVEA_INLINE_BODY { row.residual != nullptr ? norm(its, its) : norm(its, Type<void>{}); };
  with_widened_element(type, norm_type);
  return true;
#else
  return false;
#endif
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
