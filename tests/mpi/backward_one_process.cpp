// Ring attention's backward pass by one process: the calls that fovea/mpi.h lists, in their order.
#include "backward_one_process.hpp"

#include "one_process_calls.hpp"

namespace testing {
namespace {

// Sums of [B,H,L,D], an element at its position of the whole.
struct Sums {
  Sums(int64_t batch, int64_t its_heads, int64_t its_length, int64_t its_dim)
      : heads(its_heads),
        length(its_length),
        dim(its_dim),
        values(static_cast<size_t>(batch * its_heads * its_length * its_dim)) {}

  float &at(int64_t b, int64_t h, int64_t position, int64_t d) {
    return values[static_cast<size_t>(((b * heads + h) * length + position) * dim + d)];
  }
  // terms [heads from `head` on][positions][dim]
  void add(const std::vector<float> &terms, int64_t b, int64_t head, const Positions &positions) {
    const auto per_head = static_cast<int64_t>(positions.size()) * dim;
    for (int64_t i = 0; i < static_cast<int64_t>(terms.size()); ++i) {
      at(b, head + i / per_head, positions[static_cast<size_t>(i % per_head / dim)], i % dim) +=
          terms[static_cast<size_t>(i)];
    }
  }

  int64_t heads, length, dim;
  std::vector<float> values;
};

// A sum that is one for all queries and keys, in float64.
struct Parameter {
  const fovea_tensor *fovea_attention_gradients::*member;
  std::optional<Tensor<float>> GradientTensors::*tensor;
  bool of_score;
};
constexpr Parameter kParameters[] = {
    {&fovea_attention_gradients::alibi_slopes, &GradientTensors::alibi_slopes, false},
    {&fovea_attention_gradients::query_weight, &GradientTensors::query_weight, true},
    {&fovea_attention_gradients::key_weight, &GradientTensors::key_weight, true},
    {&fovea_attention_gradients::weight, &GradientTensors::weight, true},
    {&fovea_attention_gradients::score_bias, &GradientTensors::score_bias, true},
    {&fovea_attention_gradients::score_vector, &GradientTensors::score_vector, true},
    {&fovea_attention_gradients::sigmas, &GradientTensors::sigmas, true},
};
constexpr size_t kParameterCount = std::size(kParameters);

using Totals = std::vector<double>;

void add_in_order(const Totals &more, Totals *sum) {
  for (size_t i = 0; i < more.size(); ++i) (*sum)[i] += more[i];
}

class Backward {
 public:
  Backward(const AttentionProblem &whole, const GradientTensors &given, const AttentionResult &forward,
           const fovea_context *context)
      : whole_(whole),
        parts_(whole),
        given_(given),
        forward_(forward),
        log_sum_exp_(with_last_axis(*forward.log_sum_exp)),
        context_(context) {
    if (given.log_sum_exp) grad_log_sum_exp_ = with_last_axis(*given.log_sum_exp);
  }

  // What the queries of a rank give, block after block.
  struct Share {
    Share(const AttentionSizes &s, const GradientTensors &given)
        : key(s.batch, s.kv_heads, s.key_len, s.key_size()),
          value(s.batch, s.kv_heads, s.key_len, s.value_dim),
          sinks(static_cast<size_t>(s.heads)) {
      for (size_t p = 0; p < kParameterCount; ++p) {
        const std::optional<Tensor<float>> &tensor = given.*kParameters[p].tensor;
        if (tensor) parameters[p].resize(static_cast<size_t>(tensor->count()));
      }
    }
    Sums key, value;
    Totals parameters[kParameterCount], sinks;
  };

  Share attend(const RankPositions &mine, const std::vector<RankPositions> &blocks, Sums *query) const {
    Share share(whole_.sizes, given_);
    for (const RankPositions &block : blocks) {
      for (int64_t b = 0; b < whole_.sizes.batch; ++b) {
        for (const Positions &piece : pieces_of(mine)) {
          for (const Positions &run : block.runs) attend_run(b, piece, run, query, &share);
        }
      }
    }
    if (given_.sinks && !mine.all().empty()) add_sinks(mine.all(), &share.sinks);
    return share;
  }

 private:
  static Tensor<float> with_last_axis(const Tensor<float> &tensor) {
    Shape shape = tensor.shape();
    shape.push_back(1);
    Tensor<float> wider(shape);
    wider.assign(tensor.dense());
    return wider;
  }

  void attend_run(int64_t b, const Positions &piece, const Positions &run, Sums *query, Share *share) const {
    Tensor<uint8_t> mask(Shape{static_cast<int64_t>(piece.size()), static_cast<int64_t>(run.size())});
    if (!parts_.set_mask(b, piece, run, &mask)) return;
    for (int64_t head = 0; head < whole_.sizes.kv_heads; ++head) {
      call_core(head, b, piece, run, mask, query, share);
    }
  }

  void call_core(int64_t head, int64_t b, const Positions &piece, const Positions &run, const Tensor<uint8_t> &mask,
                 Sums *query_sums, Share *share) const {
    const AttentionSizes &s = whole_.sizes;
    const int64_t group = s.heads / s.kv_heads;
    const auto q = static_cast<int64_t>(piece.size()), k = static_cast<int64_t>(run.size());
    // Rows of the heads of one key/value head.
    const auto of_head = [&](const Tensor<float> &tensor, const Positions &positions, int64_t heads) {
      const std::vector<float> all = OneProcess::rows_of(tensor, b, positions);
      const auto count = static_cast<int64_t>(all.size()) / s.kv_heads;
      CHECK_EQ(count % heads, 0);
      return std::vector<float>(all.begin() + head * count, all.begin() + (head + 1) * count);
    };
    const auto view = [](const std::vector<float> &rows, int64_t heads, int64_t length, int64_t dim) {
      const int64_t shape[] = {1, heads, length, dim};
      return fovea_tensor_contiguous(rows.data(), FOVEA_F32, 4, shape);
    };
    const auto sums_view = [](const std::vector<float> &rows, int64_t heads, int64_t length) {
      const int64_t shape[] = {1, heads, length};
      return fovea_tensor_contiguous(rows.data(), FOVEA_F32, 3, shape);
    };
    const std::vector<float> query = of_head(whole_.query, piece, group), key = of_head(whole_.key, run, 1),
                             value = of_head(whole_.value, run, 1), out = of_head(forward_.out, piece, group),
                             sums = of_head(log_sum_exp_, piece, group), grad_out = of_head(given_.out, piece, group);
    std::vector<float> grad_sums, grad_query(query.size()), grad_key(key.size()), grad_value(value.size());
    if (grad_log_sum_exp_) grad_sums = of_head(*grad_log_sum_exp_, piece, group);
    const fovea_tensor views[] = {view(query, group, q, s.head_dim),  view(key, 1, k, s.key_size()),
                                  view(value, 1, k, s.value_dim),     view(out, group, q, s.value_dim),
                                  sums_view(sums, group, q),          view(grad_out, group, q, s.value_dim),
                                  sums_view(grad_sums, group, q),     view(grad_query, group, q, s.head_dim),
                                  view(grad_key, 1, k, s.key_size()), view(grad_value, 1, k, s.value_dim)};
    HeadCall call;
    parts_.set(head, b, piece, run, mask, &call);
    call.options.log_sum_exp = &views[4];
    fovea_attention_gradients gradients = {};
    gradients.struct_size = sizeof gradients;
    gradients.out = &views[5];
    if (grad_log_sum_exp_) gradients.log_sum_exp = &views[6];
    gradients.query = &views[7];
    gradients.key = &views[8];
    gradients.value = &views[9];
    Tensor<float> terms[kParameterCount];
    fovea_tensor term_views[kParameterCount];
    for (size_t p = 0; p < kParameterCount; ++p) {
      const std::optional<Tensor<float>> &tensor = given_.*kParameters[p].tensor;
      if (!tensor) continue;
      terms[p] = Tensor<float>(is_by_head(p) ? Shape{group} : tensor->shape());
      term_views[p] = terms[p].view();
      gradients.*kParameters[p].member = &term_views[p];
    }
    REQUIRE_OK(fovea_attention_backward(context_, call.its_score(), &views[0], &views[1], &views[2], &views[3],
                                        &call.options, &gradients));
    query_sums->add(grad_query, b, head * group, piece);
    share->key.add(grad_key, b, head, run);
    share->value.add(grad_value, b, head, run);
    for (size_t p = 0; p < kParameterCount; ++p) {
      const std::vector<float> more = (given_.*kParameters[p].tensor) ? terms[p].dense() : std::vector<float>();
      const auto first = static_cast<size_t>(is_by_head(p) ? head * group : 0);
      for (size_t i = 0; i < more.size(); ++i) share->parameters[p][first + i] += static_cast<double>(more[i]);
    }
  }

  bool is_by_head(size_t parameter) const {
    if (kParameters[parameter].tensor == &GradientTensors::sigmas) return whole_.score->sigmas.has_value();
    return !kParameters[parameter].of_score;
  }

  // One call, of all queries of the rank and no keys.
  void add_sinks(const Positions &positions, Totals *sums) const {
    const AttentionSizes &s = whole_.sizes;
    const auto q = static_cast<int64_t>(positions.size());
    const auto rows = [&](const Tensor<float> &tensor) {
      std::vector<float> all;
      for (int64_t b = 0; b < s.batch; ++b) {
        const std::vector<float> entry = OneProcess::rows_of(tensor, b, positions);
        all.insert(all.end(), entry.begin(), entry.end());
      }
      return all;
    };
    const auto view = [&](const std::vector<float> &all, int64_t heads, int64_t length, int64_t dim) {
      const int64_t shape[] = {s.batch, heads, length, dim};
      return fovea_tensor_contiguous(all.data(), FOVEA_F32, dim == 0 ? 3 : 4, shape);
    };
    const std::vector<float> nothing, query = rows(whole_.query), out = rows(forward_.out), lse = rows(log_sum_exp_),
                                      grad_out = rows(given_.out);
    const std::vector<float> grad_lse = grad_log_sum_exp_ ? rows(*grad_log_sum_exp_) : nothing;
    const int64_t key_shape[] = {s.batch, s.kv_heads, 0, s.head_dim};
    const int64_t value_shape[] = {s.batch, s.kv_heads, 0, s.value_dim};
    const fovea_tensor query_view = view(query, s.heads, q, s.head_dim), out_view = view(out, s.heads, q, s.value_dim),
                       key = fovea_tensor_contiguous(nullptr, FOVEA_F32, 4, key_shape),
                       value = fovea_tensor_contiguous(nullptr, FOVEA_F32, 4, value_shape),
                       sums_view = view(lse, s.heads, q, 0), grad_view = view(grad_out, s.heads, q, s.value_dim),
                       grad_sums = view(grad_lse, s.heads, q, 0), sinks = whole_.sinks->view();
    fovea_attention_options options = {};
    options.struct_size = sizeof options;
    options.sinks = &sinks;
    options.log_sum_exp = &sums_view;
    Tensor<float> result(Shape{s.heads});
    const fovea_tensor result_view = result.view();
    fovea_attention_gradients gradients = {};
    gradients.struct_size = sizeof gradients;
    gradients.out = &grad_view;
    if (grad_log_sum_exp_) gradients.log_sum_exp = &grad_sums;
    gradients.sinks = &result_view;
    REQUIRE_OK(fovea_attention_backward(context_, nullptr, &query_view, &key, &value, &out_view, &options, &gradients));
    for (int64_t h = 0; h < s.heads; ++h) (*sums)[static_cast<size_t>(h)] += static_cast<double>(result(h));
  }

  const AttentionProblem &whole_;
  const OneProcess parts_;
  const GradientTensors &given_;
  const AttentionResult &forward_;
  const Tensor<float> log_sum_exp_;
  std::optional<Tensor<float>> grad_log_sum_exp_;
  const fovea_context *context_;
};

// Sums for the keys of each rank: its own part, and then the others' as they come after it, added up before.
void gather(const std::vector<RankPositions> &keys, std::vector<Backward::Share> &shares, Sums Backward::Share::*which,
            Sums *sums) {
  const size_t ranks = keys.size();
  const auto batch =
      static_cast<int64_t>(sums->values.size()) / std::max<int64_t>(1, sums->heads * sums->length * sums->dim);
  for (size_t owner = 0; owner < ranks; ++owner) {
    for (const int64_t position : keys[owner].all()) {
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t h = 0; h < sums->heads; ++h) {
          for (int64_t d = 0; d < sums->dim; ++d) {
            float others = 0;
            for (size_t step = 1; step < ranks; ++step) {
              others += (shares[(owner + step) % ranks].*which).at(b, h, position, d);
            }
            sums->at(b, h, position, d) = (shares[owner].*which).at(b, h, position, d) + others;
          }
        }
      }
    }
  }
}

void assign_floats(const Totals &totals, std::optional<Tensor<float>> *tensor) {
  std::vector<float> floats;
  for (const double total : totals) floats.push_back(static_cast<float>(total));
  (*tensor)->assign(floats);
}

}  // namespace

GradientTensors backward_in_one_process(const AttentionProblem &whole, const GradientTensors &given,
                                        const AttentionResult &forward, const std::vector<RankPositions> &queries,
                                        const std::vector<RankPositions> &keys, const fovea_context *context) {
  const AttentionSizes &s = whole.sizes;
  const auto ranks = static_cast<int>(keys.size());
  const Backward backward(whole, given, forward, context);
  Sums query(s.batch, s.heads, s.query_len, s.head_dim);
  std::vector<Backward::Share> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<RankPositions> blocks;  // as they come round
    for (int step = 0; step < ranks; ++step) blocks.push_back(keys[static_cast<size_t>((rank - step + ranks) % ranks)]);
    shares.push_back(backward.attend(queries[static_cast<size_t>(rank)], blocks, &query));
  }
  Sums key(s.batch, s.kv_heads, s.key_len, s.key_size()), value(s.batch, s.kv_heads, s.key_len, s.value_dim);
  gather(keys, shares, &Backward::Share::key, &key);
  gather(keys, shares, &Backward::Share::value, &value);
  GradientTensors result = unwritten(given);
  result.query.assign(query.values);
  result.key.assign(key.values);
  result.value.assign(value.values);
  for (int rank = 1; rank < ranks; ++rank) {
    const Backward::Share &more = shares[static_cast<size_t>(rank)];
    for (size_t p = 0; p < kParameterCount; ++p) add_in_order(more.parameters[p], &shares[0].parameters[p]);
    add_in_order(more.sinks, &shares[0].sinks);
  }
  for (size_t p = 0; p < kParameterCount; ++p) {
    if (given.*kParameters[p].tensor) assign_floats(shares[0].parameters[p], &(result.*kParameters[p].tensor));
  }
  if (given.sinks) assign_floats(shares[0].sinks, &result.sinks);
  return result;
}

}  // namespace testing
