// Gradients of layer and RMS normalisation. With z = (y - mean) r and g = grad_out weight:
//
//   grad_y = r (g - mean(g) - z mean(g z)) + grad_sum,  without mean(g) where there is no mean
//   weight_sums += grad_out z      bias_sums += grad_out
//
// Two rows at a time: for each, mean and variance as layer_norm.hpp has them, from chunks of floats, then the sums of g
// and g z; then, for both together, all that is written. A row of one chunk is read from memory once, a longer one
// three times. A vector of a row takes 8.5 loads, 2 stores and 18.5 additions, products and multiply-adds: 5 cycles
// where a processor does two loads and four of these in one.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/prefetch.hpp"
#include "kernels/rowwise/gradient_problem.hpp"
#include "kernels/rowwise/layer_norm.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// What normalises a row, as the forward pass's kernels are given it.
FOVEA_INLINE NormRows as_norm_rows(const NormGradientRows &rows) {
  return {.row = nullptr,
          .count = 0,
          .listed = 0,
          .dim = rows.dim,
          .weight = nullptr,
          .bias = nullptr,
          .types = {.x = rows.types.x,
                    .residual = rows.types.residual,
                    .out = Dtype::f32,
                    .weight = Dtype::f32,
                    .bias = Dtype::f32},
          .epsilon = rows.epsilon,
          .traffic = NormTraffic::cached,
          .kind = rows.kind};
}

// So many rows share the loads of weights, and those and stores of sums. Rows from memory go one by one: fewer streams.
constexpr int rows_together = 2;

// Where chunks of rows and weights become floats.
struct NormGradientRoom {
  alignas(64) float y[rows_together][norm_chunk], grad[rows_together][norm_chunk], more[rows_together][norm_chunk];
  alignas(64) float weight[norm_chunk], unused_sums[norm_chunk];
};

// Weights that are not given are ones, and never raised.
FOVEA_INLINE float raise_of(const NormGradientRows &rows) {
  return rows.weight == nullptr ? weight_as_it_is : rows.weight_raise;
}

// A row on its way, and a chunk of it as floats.
struct NormGradientWork {
  const NormGradientRow *row;
  NormScale scale;
  float mean_of_g = 0, moment_of_g = 0;
  const float *y = nullptr, *grad = nullptr;
};

// Columns of a row whose turn comes later.
struct RowAhead {
  const char *x, *grad;
  int64_t x_bytes, grad_bytes;  // of an element

  FOVEA_INLINE void prefetch(int64_t first, int64_t end) const {
    for (int64_t i = first; i < end; i += line_floats) {
      __builtin_prefetch(x + i * x_bytes, 0, 2);
      __builtin_prefetch(grad + i * grad_bytes, 0, 2);
    }
  }
};

// Adds g and g z of a chunk: three chains of each, as many as registers hold.
// `next`: what row after these two is asked for meanwhile, or this one again.
FOVEA_NOINLINE void add_up_g(const NormGradientWork &work, const float *weight, float weight_raise, int64_t count,
                             const RowAhead &next, double *sum, double *moment) {
  constexpr int chains = 3;
  const Float mean = splat(work.scale.mean), factor = splat(work.scale.scale), shift = splat(work.scale.shift);
  const Float raise = splat(weight_raise);
  const float *y = work.y, *grad = work.grad;
  Float of_g[chains], of_gz[chains];
  unroll<chains>([&](auto v) FOVEA_INLINE_BODY { of_g[v] = of_gz[v] = zero(); });
  const auto add = [&](auto v, int64_t i, int64_t width) FOVEA_INLINE_BODY {
    const Float z = multiply_add(load_up_to(y + i, width) - mean, factor, shift);
    const Float g = load_up_to(grad + i, width) * (load_up_to(weight + i, width) + raise);
    of_g[v] = of_g[v] + g;
    of_gz[v] = multiply_add(g, z, of_gz[v]);
  };
  int64_t i = 0;
  for (; i + chains * lanes <= count; i += chains * lanes) {
    next.prefetch(i, i + chains * lanes);
    unroll<chains>([&](auto v) FOVEA_INLINE_BODY { add(v, i + v * lanes, lanes); });
  }
  for (; i < count; i += lanes) add(Index<0>{}, i, min_of(count - i, lanes));
  *sum += static_cast<double>(horizontal_sum(of_g[0] + of_g[1] + of_g[2]));
  *moment += static_cast<double>(horizontal_sum(of_gz[0] + of_gz[1] + of_gz[2]));
}

// Sums grow by a chunk of `count` rows, in their order, and r (g - mean - z moment) + grad_sum is written.
template <int count>
FOVEA_NOINLINE void put_norm_gradients(const NormGradientRows &rows, const NormGradientWork *work, const float *weight,
                                       int64_t begin, int64_t columns, NormGradientRoom &room) {
  float *weight_sums = rows.weight_sums == nullptr ? room.unused_sums : rows.weight_sums + begin;
  float *bias_sums = rows.bias_sums == nullptr ? room.unused_sums : rows.bias_sums + begin;
  const Float raise = splat(raise_of(rows));
  const bool writes = work[0].row->grad_x != nullptr, adds = work[0].row->grad_sum != nullptr;
  Float mean[count], factor[count], shift[count], mean_of_g[count], minus_moment[count];
  const float *more[count], *y[count], *grads[count];
  float *to[count];
  unroll<count>([&](auto r) FOVEA_INLINE_BODY {
    const NormGradientWork &its = work[r];
    mean[r] = splat(its.scale.mean), factor[r] = splat(its.scale.scale), shift[r] = splat(its.scale.shift);
    mean_of_g[r] = splat(its.mean_of_g), minus_moment[r] = splat(-its.moment_of_g);
    y[r] = its.y, grads[r] = its.grad;
    more[r] = adds ? read_piece(its.row->grad_sum, rows.types.grad_sum, begin, columns, room.more[r]) : nullptr;
    to[r] = writes ? written_piece(its.row->grad_x, rows.types.grad_x, begin, room.more[r]) : room.more[r];
  });
  for_each_register(columns, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
    const Float its_weight = load_up_to(weight + i, width) + raise;
    Float weight_sum = load_up_to(weight_sums + i, width), bias_sum = load_up_to(bias_sums + i, width);
    unroll<count>([&](auto r) FOVEA_INLINE_BODY {
      const Float z = multiply_add(load_up_to(y[r] + i, width) - mean[r], factor[r], shift[r]);
      const Float grad = load_up_to(grads[r] + i, width);
      weight_sum = multiply_add(grad, z, weight_sum);
      bias_sum = bias_sum + grad;
      const Float all = (multiply_add(z, minus_moment[r], grad * its_weight) - mean_of_g[r]) * factor[r];
      store_up_to(to[r] + i, adds ? all + load_up_to(more[r] + i, width) : all, width);
    });
    store_up_to(weight_sums + i, weight_sum, width);
    store_up_to(bias_sums + i, bias_sum, width);
  });
  if (!writes) return;
  unroll<count>([&](auto r)
                    FOVEA_INLINE_BODY { put_piece(to[r], work[r].row->grad_x, rows.types.grad_x, begin, columns); });
}

// The first one or two rows of those left, and how many: sums over each first; then chunk by chunk what needs them, for
// both. A row whose squares leave the range of float32 comes alone, and is read again. Its moments are of (y - less)
// factor, and all else is of (y - less) root and of weights times root, root^2 = factor: neither z nor what r
// multiplies leaves that range.
FOVEA_NOINLINE int64_t norm_gradients_together(const NormGradientRows &rows, const NormGradientRow *row,
                                               int64_t rows_left, const Reading *again, NormGradientRoom &room) {
  const int64_t together = rows.from_memory ? 1 : rows_together;
  int64_t count = min_of(rows_left, together);
  const double factor = again == nullptr ? 1.0 : static_cast<double>(again->factor);
  Reading by_root;
  if (again != nullptr) by_root.factor = __builtin_sqrtf(again->factor), by_root.less = again->less;
  const double share = 1.0 / static_cast<double>(rows.dim);
  const bool is_rms = rows.kind == NormKind::rms, stays = rows.dim <= norm_chunk && again == nullptr;
  const NormRows forward = as_norm_rows(rows);
  const float *weight = room.weight;
  const auto for_each_chunk = [&](const auto &body) FOVEA_INLINE_BODY {
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) body(begin, min_of(norm_chunk, rows.dim - begin));
  };
  NormGradientWork work[rows_together];
  const auto read_y = [&](const Reading &reading, int64_t i, int64_t begin, int64_t columns) FOVEA_INLINE_BODY {
    const NormRow y = {.x = work[i].row->x, .residual = work[i].row->residual, .out = nullptr};
    return read_chunk(reading, y, forward, begin, columns, room.y[i]);
  };
  const auto read = [&](int64_t i, int64_t begin, int64_t columns) FOVEA_INLINE_BODY {
    const NormGradientRow &its = *work[i].row;
    if (!stays) work[i].y = read_y(by_root, i, begin, columns);
    work[i].grad = read_piece(its.grad_out, rows.types.grad_out, begin, columns, room.grad[i]);
    if (rows.weight != nullptr) weight = read_piece(rows.weight, rows.types.weight, begin, columns, room.weight);
    if (again == nullptr) return;
    const float *its_weight = rows.weight == nullptr ? room.weight : weight;
    for (int64_t j = 0; j < columns; ++j) room.y[1][j] = its_weight[j] * by_root.factor;
    weight = room.y[1];
  };
  for (int64_t i = 0; i < count; ++i) {
    work[i].row = row + i;
    Moments moments;
    for_each_chunk([&](int64_t begin, int64_t columns) FOVEA_INLINE_BODY {
      work[i].y = read_y(again == nullptr ? Reading() : *again, i, begin, columns);
      const Moments more = float_moments(rows.kind, work[i].y, columns);
      begin == 0 ? void(moments = more) : moments.merge(more);
    });
    double spread = moments.squares * share + rows.epsilon * factor * factor;
    if (again == nullptr && !fits_floats(spread)) {
      if (i > 0) {
        count = i;  // it is the first one next time
        break;
      }
      const Reading its(moments.mean, spread);
      NormGradientRows raised = rows;
      raised.weight_raise *= __builtin_sqrtf(its.factor);
      return norm_gradients_together(raised, row, 1, &its, room);
    }
    if (again != nullptr) moments.mean /= static_cast<double>(by_root.factor), spread /= factor;
    work[i].scale = NormScale(moments, spread, rows.kind);
  }
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0.0, moment = 0.0;
    for_each_chunk([&](int64_t begin, int64_t columns) FOVEA_INLINE_BODY {
      read(i, begin, columns);
      const NormGradientRow &later = row[i + together < rows_left ? i + together : i];
      const RowAhead next = {.x = static_cast<const char *>(element_at(later.x, rows.types.x, begin)),
                             .grad = static_cast<const char *>(element_at(later.grad_out, rows.types.grad_out, begin)),
                             .x_bytes = bytes_of(rows.types.x),
                             .grad_bytes = bytes_of(rows.types.grad_out)};
      if (row->grad_x != nullptr) add_up_g(work[i], weight, raise_of(rows), columns, next, &sum, &moment);
    });
    work[i].mean_of_g = static_cast<float>(is_rms ? 0.0 : sum * share);
    work[i].moment_of_g = static_cast<float>(moment * share);
  }
  for_each_chunk([&](int64_t begin, int64_t columns) FOVEA_INLINE_BODY {
    for (int64_t i = 0; i < count && !stays; ++i) read(i, begin, columns);
    count == 2 ? put_norm_gradients<2>(rows, work, weight, begin, columns, room)
               : put_norm_gradients<1>(rows, work, weight, begin, columns, room);
  });
  return count;
}

void norm_gradient_rows(const NormGradientRows &rows) {
  NormGradientRoom room;
  if (rows.weight == nullptr) fill_run(room.weight, min_of(rows.dim, norm_chunk), 1.0f);
  fill_run(room.unused_sums, min_of(rows.dim, norm_chunk), 0.0f);
  for (int64_t r = 0; r < rows.count;) {
    r += norm_gradients_together(rows, rows.row + r, rows.count - r, nullptr, room);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
