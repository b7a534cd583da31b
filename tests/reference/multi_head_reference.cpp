#include "multi_head_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reference {
namespace {

template <typename Real>
struct Projected {
  std::vector<Real> rows;       // [rows][outputs]
  std::vector<Real> magnitude;  // the same, of magnitudes
};

template <typename Real>
Projected<Real> project(const std::vector<Real> &x, const std::vector<Real> &x_magnitude, int64_t inputs,
                        const std::vector<float> &weight, const std::vector<float> &bias) {
  const auto width = static_cast<size_t>(inputs);
  const size_t rows = x.size() / width, outputs = weight.size() / width;
  Projected<Real> result{std::vector<Real>(rows * outputs), std::vector<Real>(rows * outputs)};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t o = 0; o < outputs; ++o) {
      Real sum = 0, magnitude = 0;
      for (size_t i = 0; i < width; ++i) {
        const Real w = static_cast<Real>(weight[o * width + i]);
        sum += x[r * width + i] * w;
        magnitude += x_magnitude[r * width + i] * std::abs(w);
      }
      if (!bias.empty()) {
        sum += static_cast<Real>(bias[o]);
        magnitude += std::abs(static_cast<Real>(bias[o]));
      }
      result.rows[r * outputs + o] = sum;
      result.magnitude[r * outputs + o] = magnitude;
    }
  }
  return result;
}

template <typename Real>
Projected<Real> project_input(const std::vector<float> &x, int64_t inputs, const std::vector<float> &weight,
                              const std::vector<float> &bias) {
  const std::vector<Real> rows(x.begin(), x.end());
  std::vector<Real> magnitude(rows);
  for (Real &m : magnitude) m = std::abs(m);
  return project(rows, magnitude, inputs, weight, bias);
}

// Softmax weights of one query of one head; all zero if there is nothing to attend.
template <typename Real>
std::vector<Real> weights_of(const MultiHeadInputs &in, const Real *query, const Real *keys, int64_t key_stride,
                             int64_t b, int64_t i) {
  std::vector<Real> weights(static_cast<size_t>(in.key_len), 0);
  Real largest = -std::numeric_limits<Real>::infinity();
  const int64_t length = in.valid_lens ? (*in.valid_lens)[static_cast<size_t>(b)] : in.key_len;
  const int64_t position = in.key_len >= in.query_len ? in.key_len - in.query_len + i : i;
  const auto attended = [&](int64_t j) { return j < length && (!in.causal || j <= position); };
  for (int64_t j = 0; j < in.key_len; ++j) {
    Real sum = 0;
    for (int64_t d = 0; d < in.head_dim; ++d) sum += query[d] * keys[j * key_stride + d];
    Real &score = weights[static_cast<size_t>(j)] = sum / std::sqrt(static_cast<Real>(in.head_dim));
    if (attended(j)) largest = std::max(largest, score);
  }
  Real total = 0;
  for (int64_t j = 0; j < in.key_len; ++j) {
    Real &weight = weights[static_cast<size_t>(j)];
    weight = attended(j) ? std::exp(weight - largest) : Real(0);
    total += weight;
  }
  if (total > 0) {
    for (Real &weight : weights) weight /= total;
  }
  return weights;
}

// The largest score of a query, were all its terms positive.
template <typename Real>
Real largest_product(const Real *query, const Real *keys, int64_t key_stride, const MultiHeadInputs &in) {
  Real largest = 0;
  for (int64_t j = 0; j < in.key_len; ++j) {
    Real sum = 0;
    for (int64_t d = 0; d < in.head_dim; ++d) sum += query[d] * keys[j * key_stride + d];
    largest = std::max(largest, sum / std::sqrt(static_cast<Real>(in.head_dim)));
  }
  return largest;
}

}  // namespace

template <typename Real>
MultiHeadOutputs<Real> multi_head(const MultiHeadInputs &in) {
  const auto q = project_input<Real>(in.query, in.query_inputs, in.query_weight, in.query_bias);
  const auto k = project_input<Real>(in.key, in.key_inputs, in.key_weight, in.key_bias);
  const auto v = project_input<Real>(in.value, in.value_inputs, in.value_weight, in.value_bias);
  const int64_t concat_width = in.heads * in.value_dim, key_width = in.kv_heads * in.head_dim;
  const int64_t value_width = in.kv_heads * in.value_dim;
  const auto concat_size = static_cast<size_t>(in.batch * in.query_len * concat_width);
  std::vector<Real> concat(concat_size), concat_magnitude(concat_size), moved(concat_size);
  for (int64_t b = 0; b < in.batch; ++b) {
    for (int64_t i = 0; i < in.query_len; ++i) {
      for (int64_t h = 0; h < in.heads; ++h) {
        const int64_t g = h / (in.heads / in.kv_heads);
        const Real *query = q.rows.data() + (b * in.query_len + i) * in.heads * in.head_dim + h * in.head_dim;
        const Real *keys = k.rows.data() + b * in.key_len * key_width + g * in.head_dim;
        const std::vector<Real> weights = weights_of(in, query, keys, key_width, b, i);
        const Real score_magnitude = largest_product(q.magnitude.data() + (query - q.rows.data()),
                                                     k.magnitude.data() + (keys - k.rows.data()), key_width, in);
        for (int64_t d = 0; d < in.value_dim; ++d) {
          const auto at = static_cast<size_t>((b * in.query_len + i) * concat_width + h * in.value_dim + d);
          for (int64_t j = 0; j < in.key_len; ++j) {
            const auto from = static_cast<size_t>((b * in.key_len + j) * value_width + g * in.value_dim + d);
            concat[at] += weights[static_cast<size_t>(j)] * v.rows[from];
            concat_magnitude[at] += weights[static_cast<size_t>(j)] * v.magnitude[from];
          }
          for (int64_t j = 0; j < in.key_len; ++j) {
            const auto from = static_cast<size_t>((b * in.key_len + j) * value_width + g * in.value_dim + d);
            moved[at] += score_magnitude * weights[static_cast<size_t>(j)] * std::abs(v.rows[from] - concat[at]);
          }
        }
      }
    }
  }
  Projected<Real> out{concat, concat_magnitude}, out_moved{moved, moved};
  if (in.outputs > 0) {
    out = project(concat, concat_magnitude, concat_width, in.out_weight, in.out_bias);
    out_moved = project(moved, moved, concat_width, in.out_weight, {});
  }
  MultiHeadOutputs<Real> result{out.rows, 0, 0};
  for (Real magnitude : out.magnitude) result.magnitude = std::max(result.magnitude, magnitude);
  for (Real magnitude : out_moved.magnitude) result.sensitivity = std::max(result.sensitivity, magnitude);
  return result;
}

template MultiHeadOutputs<float> multi_head<float>(const MultiHeadInputs &inputs);
template MultiHeadOutputs<double> multi_head<double>(const MultiHeadInputs &inputs);

}  // namespace reference
