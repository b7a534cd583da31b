// Additive and concat attention that keeps its projections, forwards and backwards: the calls with and without them, each kept
// alone or both, have to give the same bits. The tables do not describe these calls, of which one reads what the other wrote.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "by_hand.hpp"
#include "compare.hpp"
#include "numbers.hpp"
#include "placing.hpp"

namespace fuzz {
namespace {

constexpr fovea_dtype float_types[] = {FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_BF16},
                      other_types[] = {FOVEA_F16, FOVEA_BF16, FOVEA_I32, 0, 99};

struct DestroyPlan {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
};

// What goes with an operand: its own tensor, and that of its gradient.
struct Operand {
  Placed its, gradient;
};

// How a call is made.
struct Way {
  bool keeps;
  size_t turn = 0;
  bool planned = false;
};

using Results = std::vector<std::vector<uint8_t>>;

class Keeping {
 public:
  Keeping(Memory &memory, Choices &choices) : choices_(choices), placer_(memory, choices) {}

  void run() {
    choose_sizes();
    make_tensors();
    const Results without = attend({false});
    const Results with = attend({true});
    expect_same(kept_and_not, without, {with.begin(), with.begin() + 2}, "results with and without kept projections");
    check_projections();
    const Way other = {true, choices_.below(turns), choices_.chance(128)};
    expect_same(with_other_threads, with, attend(other), "results of other threads or a plan");
    spoil_unwritten();
    if (is_exact()) {
      const Results gradients = go_back({true});
      expect_same(kept_gradients, go_back({false}), gradients, "gradients with and without kept projections");
      expect_same(with_other_threads, gradients, go_back(other), "gradients of other threads or a plan");
    }
    refuse();
    if (inputs() != before_) wrong("an argument that is only read was changed");
    if (!placer_.marks_intact()) wrong("memory beside a tensor was changed");
  }

 private:
  [[noreturn]] void wrong(const std::string &what) const {
    std::ostringstream text;
    text << what << "\n  " << sets().names[set_] << ", " << (concat_ ? "concat" : "additive") << " of " << units_
         << " units, B" << batch_ << " H" << kv_heads_ * group_ << '/' << kv_heads_ << " Q" << queries_ << " K" << keys_
         << " D" << query_dim_ << ' ' << key_dim_ << ' ' << value_dim_ << ", axes left out " << axes_left_out()
         << ", kept " << (keeps_[0] ? "queries " : "") << (keeps_[1] ? "keys" : "") << ", types "
         << query_.its.view.dtype << ' ' << key_.its.view.dtype << ' ' << value_.its.view.dtype << ", flags " << flags_
         << ", dropout " << dropout_ << ", softcap " << softcap_ << "\n  valid_lens";
    for (const int64_t length : valid_lens_) text << ' ' << length;
    std::fflush(stdout);
    std::fprintf(stderr, "\nFAILED: kept projections: %s\n%s\n", text.str().c_str(), fovea_last_error());
    abort();
  }
  void expect(fovea_status status, const char *what) const {
    if (status != FOVEA_OK) wrong(std::string(what) + " is refused");
  }
  void expect_same(Comparison kind, const Results &one, const Results &other, const char *what) const {
    ++tally->compared[kind];
    if (one != other) wrong(std::string("other bits: ") + what);
  }

  // ---- tensors ------------------------------------------------------------------------------------------------------

  void choose_sizes() {
    constexpr int64_t units[] = {8, 1, 3, 16, 17, 33, 64, 70}, dims[] = {8, 1, 3, 16, 20, 33, 64},
                      queries[] = {5, 0, 1, 2, 17, 33}, keys[] = {7, 0, 1, 31, 32, 40, 70};
    form_ = choices_.pick({0, 0, 1, 2});
    batch_ = form_ == 2 ? 1 : 1 + static_cast<int64_t>(choices_.below(3));
    kv_heads_ = form_ == 0 ? 1 + static_cast<int64_t>(choices_.below(2)) : 1;
    group_ = form_ == 0 ? 1 + static_cast<int64_t>(choices_.below(3)) : 1;
    units_ = choices_.pick(units);
    query_dim_ = choices_.pick(dims);
    key_dim_ = choices_.pick(dims);
    value_dim_ = choices_.pick(dims);
    queries_ = choices_.pick(queries);
    keys_ = choices_.pick(keys);
    const int64_t widest = std::max({units_, query_dim_, key_dim_, value_dim_}) + 4;
    const int64_t most = static_cast<int64_t>(block_capacity / sizeof(float)) / (batch_ * kv_heads_ * widest);
    queries_ = std::min(queries_, most / group_);
    keys_ = std::min(keys_, most);
    set_ = choices_.below(sets().names.size());
    concat_ = choices_.chance(128);
    flags_ = choices_.pick({0u, 0u, 1u * FOVEA_CAUSAL, 1u * FOVEA_QUERY_INVARIANT, 1u * FOVEA_LEAVE_ONE_OUT});
    dropout_ = choices_.chance(48) ? 0.25f : 0;
    softcap_ = choices_.chance(48) ? 2.0f : 0;
    const size_t kept = 1 + choices_.below(3);
    keeps_[0] = (kept & 1) != 0;
    keeps_[1] = (kept & 2) != 0;
  }
  int64_t axes_left_out() const { return form_; }

  Operand operand(const std::vector<int64_t> &shape, bool turned = false) {
    const auto order = [&] {
      return turned && choices_.chance(64) ? std::vector<size_t>{0, 2, 1, 3} : std::vector<size_t>{};
    };
    Operand made = {placer_.place(shape, choices_.pick(float_types), order()), {}};
    made.gradient = placer_.place(shape, choices_.pick(float_types), order());
    return made;
  }

  void make_tensors() {
    const int64_t heads = kv_heads_ * group_;
    query_ = operand({batch_, heads, queries_, query_dim_}, true);
    key_ = operand({batch_, kv_heads_, keys_, key_dim_}, true);
    value_ = operand({batch_, kv_heads_, keys_, value_dim_}, true);
    out_ = operand({batch_, heads, queries_, value_dim_}, true);
    log_sum_exp_ = placer_.place({batch_, heads, queries_}, FOVEA_F32);
    projected_[0] = placer_.place({batch_, heads, queries_, units_}, FOVEA_F32);
    projected_[1] = placer_.place({batch_, kv_heads_, keys_, units_}, FOVEA_F32);
    if (concat_) {
      weights_[0] = operand({units_, query_dim_ + key_dim_});
      if (choices_.chance(128)) bias_ = operand({units_});
    } else {
      weights_[0] = operand({units_, query_dim_});
      weights_[1] = operand({units_, key_dim_});
    }
    score_vector_ = operand({units_});
    const size_t lengths = choices_.below(3);
    if (lengths > 0 && form_ != 2) {
      const int64_t count = lengths == 1 ? batch_ : batch_ * queries_;
      for (int64_t n = 0; n < count; ++n)
        valid_lens_.push_back(static_cast<int64_t>(choices_.below(static_cast<size_t>(keys_) + 1)));
      lens_view_ = fovea_tensor_contiguous(nullptr, FOVEA_I64, lengths == 1 ? 1 : 2, shape_of_lens());
      lens_view_.data = valid_lens_.data();
    }
    has_lens_ = lengths > 0 && form_ != 2;
    before_ = inputs();
  }
  const int64_t *shape_of_lens() {
    lens_shape_[0] = batch_;
    lens_shape_[1] = queries_;
    return lens_shape_;
  }

  // All bytes that no call may change.
  Results inputs() const {
    Results bytes;
    for (const Operand *operand : {&query_, &key_, &value_, &weights_[0], &weights_[1], &bias_, &score_vector_})
      bytes.emplace_back(operand->its.block.data, operand->its.block.data + operand->its.block.size);
    bytes.emplace_back(out_.gradient.block.data, out_.gradient.block.data + out_.gradient.block.size);
    return bytes;
  }

  // Without its axis of heads, or those of batch and heads.
  fovea_tensor shown(const Placed &placed) const {
    const fovea_tensor &view = placed.view;
    fovea_tensor less = view;
    less.rank = 0;
    for (int axis = 0; axis < view.rank; ++axis) {
      if ((form_ >= 1 && axis == 1) || (form_ == 2 && axis == 0)) continue;
      less.shape[less.rank] = view.shape[axis];
      less.strides[less.rank++] = view.strides[axis];
    }
    return less;
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  // Descriptors of all arguments, and the buffers of a plan.
  struct Arguments {
    fovea_tensor query, key, value, out, log_sum_exp, projected[2];
    fovea_score score{};
    fovea_attention_options options{};
    fovea_attention_buffers buffers{};
  };

  Arguments arguments(bool keeps) const {
    Arguments a{shown(query_.its), shown(key_.its),     shown(value_.its),
                shown(out_.its),   shown(log_sum_exp_), {shown(projected_[0]), shown(projected_[1])}};
    a.score.struct_size = sizeof a.score;
    a.score.kind = concat_ ? FOVEA_SCORE_CONCAT : FOVEA_SCORE_ADDITIVE;
    (concat_ ? a.score.weight : a.score.query_weight) = &weights_[0].its.view;
    if (!concat_) a.score.key_weight = &weights_[1].its.view;
    if (bias_.its.block.data != nullptr) a.score.bias = &bias_.its.view;
    a.score.score_vector = &score_vector_.its.view;
    a.options.struct_size = sizeof a.options;
    a.options.flags = flags_;
    a.options.dropout = dropout_;
    a.options.dropout_seed = 5;
    a.options.softcap = softcap_;
    if (has_lens_) a.options.valid_lens = &lens_view_;
    fovea_attention_buffers &b = a.buffers;
    b.struct_size = sizeof b;
    b.query = a.query.data;
    b.key = a.key.data;
    b.value = a.value.data;
    b.out = a.out.data;
    b.log_sum_exp = a.log_sum_exp.data;
    b.valid_lens = has_lens_ ? lens_view_.data : nullptr;
    (concat_ ? b.weight : b.query_weight) = weights_[0].its.view.data;
    b.key_weight = weights_[1].its.view.data;
    b.score_bias = bias_.its.view.data;
    b.score_vector = score_vector_.its.view.data;
    b.projected_query = keeps && keeps_[0] ? a.projected[0].data : nullptr;
    b.projected_key = keeps && keeps_[1] ? a.projected[1].data : nullptr;
    return a;
  }
  // Those of options point into the arguments.
  void point(Arguments &a, bool keeps) const {
    a.options.log_sum_exp = &a.log_sum_exp;
    if (keeps && keeps_[0]) a.options.projected_query = &a.projected[0];
    if (keeps && keeps_[1]) a.options.projected_key = &a.projected[1];
  }

  void run_plan(fovea_plan *made, const fovea_attention_buffers &buffers) {
    const std::unique_ptr<fovea_plan, DestroyPlan> plan(made);
    std::vector<uint8_t> workspace(fovea_plan_workspace_size(made) + 64);
    expect(fovea_attention_run(made, &buffers, workspace.data(), workspace.size()), "a run of a plan");
  }

  Results take(const std::vector<const Placed *> &outputs) const {
    Results results;
    for (const Placed *placed : outputs) {
      if (!is_blank_beside_elements(*placed)) wrong("what is no output's was changed");
      results.push_back(elements_of(*placed));
    }
    return results;
  }

  fovea_status attend(const Arguments &a, size_t turn) const {
    return fovea_attention(sets().contexts[set_][turn], &a.score, &a.query, &a.key, &a.value, &a.out, &a.options);
  }

  // out, log-sum-exp and what was kept.
  Results attend(const Way &way) {
    std::vector<const Placed *> outputs = {&out_.its, &log_sum_exp_};
    for (int n = 0; n < 2; ++n) {
      if (way.keeps && keeps_[n]) outputs.push_back(&projected_[n]);
    }
    for (const Placed *placed : outputs) make_blank(*placed);
    Arguments a = arguments(way.keeps);
    point(a, way.keeps);
    if (!way.planned) {
      expect(attend(a, way.turn), "attention");
      return take(outputs);
    }
    fovea_plan *plan = nullptr;
    expect(fovea_attention_plan_create(sets().contexts[set_][way.turn], &a.score, &a.query, &a.key, &a.value, &a.out,
                                       &a.options, &plan),
           "a plan");
    run_plan(plan, a.buffers);
    return take(outputs);
  }

  struct Gradients {
    fovea_tensor out, query, key, value;
    fovea_attention_gradients all{};
  };
  void point(Gradients &g, fovea_attention_buffers &b) const {
    g.all.struct_size = sizeof g.all;
    g.all.out = &g.out;
    g.all.query = &g.query;
    g.all.key = &g.key;
    g.all.value = &g.value;
    (concat_ ? g.all.weight : g.all.query_weight) = &weights_[0].gradient.view;
    if (!concat_) g.all.key_weight = &weights_[1].gradient.view;
    if (bias_.its.block.data != nullptr) g.all.score_bias = &bias_.gradient.view;
    g.all.score_vector = &score_vector_.gradient.view;
    b.grad_out = g.out.data;
    b.grad_query = g.query.data;
    b.grad_key = g.key.data;
    b.grad_value = g.value.data;
    (concat_ ? b.grad_weight : b.grad_query_weight) = weights_[0].gradient.view.data;
    b.grad_key_weight = weights_[1].gradient.view.data;
    b.grad_score_bias = bias_.gradient.view.data;
    b.grad_score_vector = score_vector_.gradient.view.data;
  }

  Results go_back(const Way &way) {
    std::vector<const Placed *> outputs;
    for (const Operand *operand : {&query_, &key_, &value_, &weights_[0], &weights_[1], &bias_, &score_vector_}) {
      if (operand->gradient.block.data != nullptr) outputs.push_back(&operand->gradient);
    }
    for (const Placed *placed : outputs) make_blank(*placed);
    const Results read = {elements_of(out_.its), elements_of(log_sum_exp_), elements_of(projected_[0]),
                          elements_of(projected_[1])};
    Arguments a = arguments(way.keeps);
    point(a, way.keeps);
    Gradients g{shown(out_.gradient), shown(query_.gradient), shown(key_.gradient), shown(value_.gradient)};
    point(g, a.buffers);
    const fovea_context *context = sets().contexts[set_][way.turn];
    if (way.planned) {
      fovea_plan *plan = nullptr;
      expect(fovea_attention_backward_plan_create(context, &a.score, &a.query, &a.key, &a.value, &a.out, &a.options,
                                                  &g.all, &plan),
             "a plan of the backward pass");
      run_plan(plan, a.buffers);
    } else {
      expect(fovea_attention_backward(context, &a.score, &a.query, &a.key, &a.value, &a.out, &a.options, &g.all),
             "the backward pass");
    }
    const Results after = {elements_of(out_.its), elements_of(log_sum_exp_), elements_of(projected_[0]),
                           elements_of(projected_[1])};
    if (after != read) wrong("the backward pass changed what it reads");
    return take(outputs);
  }

  // ---- what was kept ------------------------------------------------------------------------------------------------

  // Where tiles project numbers of 16 bits, gradients are those of what was kept.
  bool is_exact() const { return sets().names[set_] != "amx"; }

  static double number(const Placed &placed, std::initializer_list<int64_t> index) {
    int64_t at = 0;
    int axis = 0;
    for (const int64_t n : index) at += n * placed.view.strides[axis++];
    const uint8_t *element =
        static_cast<const uint8_t *>(placed.view.data) + at * static_cast<int64_t>(element_size(placed.view.dtype));
    uint32_t bits = 0;
    std::memcpy(&bits, element, element_size(placed.view.dtype));
    if (is_narrow(placed.view.dtype)) bits = widened(static_cast<uint16_t>(bits), placed.view.dtype);
    return std::bit_cast<float>(bits);
  }

  // Keys that some query of a batch entry may attend by the valid lengths.
  int64_t longest(int64_t b) const {
    if (queries_ == 0) return 0;
    if (!has_lens_) return keys_;
    const auto each = static_cast<int64_t>(valid_lens_.size()) / batch_;
    return *std::max_element(valid_lens_.begin() + b * each, valid_lens_.begin() + (b + 1) * each);
  }

  // f(side, batch entry, head, row, whether it has to be there), of all rows that were kept.
  template <typename F>
  void for_each_kept_row(F f) const {
    for (int side = 0; side < 2; ++side) {
      const fovea_tensor &view = projected_[side].view;
      for (int64_t b = 0; keeps_[side] && b < view.shape[0]; ++b) {
        const int64_t rows = side == 0 ? queries_ : longest(b);
        for (int64_t h = 0; h < view.shape[1]; ++h) {
          for (int64_t n = 0; n < view.shape[2]; ++n) f(side, b, h, n, n < rows);
        }
      }
    }
  }

  // The formula in float64 beside rows that are there; those that are not are as they were.
  void check_projections() const {
    for_each_kept_row([&](int side, int64_t b, int64_t h, int64_t n, bool there) {
      for (int64_t unit = 0; unit < units_; ++unit) {
        const double kept = number(projected_[side], {b, h, n, unit});
        if (!there) {
          constexpr uint32_t untouched = 0x01010101u * blank;
          if (std::bit_cast<uint32_t>(static_cast<float>(kept)) != untouched)
            wrong("a row behind all lengths was written");
        } else if (const auto [sum, size] = projection(side, b, h, n, unit);
                   is_exact() && !(std::abs(kept - sum) <= std::ldexp(size, -17))) {
          wrong("row " + std::to_string(n) + ", unit " + std::to_string(unit) + " is " + std::to_string(kept) +
                ", expected " + std::to_string(sum));
        }
      }
    });
  }

  // A sum, and that of its terms' magnitudes.
  std::pair<double, double> projection(int side, int64_t b, int64_t h, int64_t n, int64_t unit) const {
    const Placed &rows = side == 0 ? query_.its : key_.its, &weight = weights_[concat_ ? 0 : side].its;
    const int64_t first = concat_ && side == 1 ? query_dim_ : 0;
    double sum = side == 0 && bias_.its.block.data != nullptr ? number(bias_.its, {unit}) : 0, size = std::abs(sum);
    for (int64_t d = 0; d < rows.view.shape[3]; ++d) {
      const double term = number(rows, {b, h, n, d}) * number(weight, {unit, first + d});
      sum += term;
      size += std::abs(term);
    }
    return {sum, size};
  }

  // NaN where the backward pass may not read.
  void spoil_unwritten() {
    for_each_kept_row([&](int side, int64_t b, int64_t h, int64_t n, bool there) {
      if (there) return;
      const fovea_tensor &view = projected_[side].view;
      float *row = static_cast<float *>(view.data) + b * view.strides[0] + h * view.strides[1] + n * view.strides[2];
      std::fill_n(row, units_, std::nanf(""));
    });
  }

  // ---- what is refused ----------------------------------------------------------------------------------------------

  void refuse() {
    Arguments a = arguments(true);
    point(a, true);
    fovea_tensor &odd = a.projected[keeps_[0] ? 0 : 1];
    switch (choices_.below(8)) {
      case 0: ++odd.shape[odd.rank - 1]; break;
      case 1: ++odd.shape[odd.rank - 2]; break;
      case 2: odd.dtype = choices_.pick(other_types); break;
      case 3: odd.rank = choices_.pick({-1, 0, 1, 7}); break;
      case 4: ++odd.rank; break;
      case 5: odd.shape[odd.rank - 1] = choices_.pick({int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40}); break;
      case 6:  // where that matters
        odd.strides[odd.rank - 1] = 2;
        if (units_ > 1 && queries_ > 0 && keys_ > 0) break;
        [[fallthrough]];
      default:
        a.score = {};
        a.score.struct_size = sizeof a.score;
        a.score.kind = choices_.pick({FOVEA_SCORE_DOT, FOVEA_SCORE_GAUSSIAN});
        a.score.sigma = a.score.kind == FOVEA_SCORE_GAUSSIAN ? 1.0f : 0.0f;
    }
    const std::vector<const Placed *> outputs = {&out_.its, &log_sum_exp_, &projected_[0], &projected_[1]};
    for (const Placed *placed : outputs) make_blank(*placed);
    const fovea_status status = attend(a, 0);
    if (status == FOVEA_OK) wrong("a projection that does not fit is not refused");
    if (status < 0 || status > FOVEA_POOL_EXHAUSTED || status == FOVEA_INTERNAL_ERROR || *fovea_last_error() == '\0')
      wrong("status " + std::to_string(status));
    for (const Placed *placed : outputs) {
      const uint8_t *data = placed->block.data;
      if (!std::all_of(data, data + placed->block.size, [](uint8_t byte) { return byte == blank; }))
        wrong("refused, but an output is changed");
    }
  }

  Choices &choices_;
  Placer placer_;
  int form_ = 0;  // 1: without heads, 2: without batch and heads
  int64_t batch_ = 1, kv_heads_ = 1, group_ = 1, queries_ = 1, keys_ = 1;
  int64_t query_dim_ = 1, key_dim_ = 1, value_dim_ = 1, units_ = 1;
  bool concat_ = false, keeps_[2] = {}, has_lens_ = false;
  uint32_t flags_ = 0;
  float dropout_ = 0, softcap_ = 0;
  size_t set_ = 0;
  Operand query_, key_, value_, out_, weights_[2], bias_, score_vector_;
  Placed log_sum_exp_, projected_[2];
  std::vector<int64_t> valid_lens_;
  fovea_tensor lens_view_{};
  int64_t lens_shape_[2] = {};
  Results before_;
};

}  // namespace

void keep_projections(Memory &memory, Choices &choices) {
  Keeping(memory, choices).run();
  memory.release_all();
}

}  // namespace fuzz
