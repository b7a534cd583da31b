// Judges what attention gave by the reference: its accuracy, exact zeros where a key is masked, nothing written outside
// the elements. What the reference gives is evaluated once for a problem.
#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "accuracy.hpp"
#include "attention_problem.hpp"

namespace testing {
namespace {

template <typename Real>
double largest(const std::vector<Real> &values) {
  double most = 0;
  for (double value : values) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

// What the outputs may be off by because each score of a row is off by at most d, the row's score_allowance
// (reference.hpp) and so many roundings of its largest score. With e_j the error of score j, and sum_j weight_j
// (value_j - out) = 0,
//   out' - out = sum_j weight_j exp(e_j) (value_j - out) / sum_j weight_j exp(e_j)
//              = sum_j weight_j (exp(e_j) - 1) (value_j - out) / sum_j weight_j exp(e_j),
// at most exp(d) (exp(d) - 1) times the row's deviation, about d times. A weight is the output of values that are 1 at
// its key and 0 elsewhere: their deviation is 2 weight (1 - weight). Log-sum-exp moves by d at most.
struct ScoreEffects {
  std::vector<double> out, weights;  // as many as outputs.out and outputs.weights
  double log_sum_exp = 0;
};

ScoreEffects effects_of_scores(const reference::AttentionOutputs<double> &truth, int roundings) {
  ScoreEffects effects;
  const size_t rows = truth.score_allowance.size();
  for (size_t row = 0; row < rows; ++row) {
    const double d = truth.score_allowance[row] + roundings * kEpsilon * truth.score_size[row];
    const double of_deviation = std::exp(d) * std::expm1(d);
    const size_t value_dim = truth.deviation.size() / rows, key_len = truth.weights.size() / rows;
    for (size_t n = row * value_dim; n < (row + 1) * value_dim; ++n) {
      effects.out.push_back(of_deviation * truth.deviation[n]);
    }
    for (size_t n = row * key_len; n < (row + 1) * key_len; ++n) {
      effects.weights.push_back(of_deviation * (2 * truth.weights[n] * (1 - truth.softmax[n])));
    }
  }
  effects.log_sum_exp = largest(truth.score_allowance);
  return effects;
}

// A score is rounded once as it is and once in units of log 2; so is the maximum it is taken from.
constexpr int kScoreRoundings = 4;

// 8 (1 + K) 2^-24 sum_j weight_j |value_j|, and what the roundings of the scores amount to, which that leaves out: of a
// row whose weights are all about e^-d, because a sink or a dropped key stands a distance d above the others, float32
// knows them to a relative d * 2^-24 at best. Exponentials of scores 125.5 log 2 below the largest, whose own is 1, are
// 0 (fovea.h); and below the smallest normal number a product loses bits however it is computed.
std::vector<double> elementwise_bounds(const reference::AttentionInputs &inputs,
                                       const reference::AttentionOutputs<double> &truth) {
  std::vector<double> bounds;
  constexpr double kSmallest = 0x1p-126;
  constexpr double kVanishing = 0x1.6a1p-126;  // 2^-125.5, and what the distance of the scores is rounded by
  const double underflow = static_cast<double>(inputs.key_len) * kVanishing * largest(inputs.value);
  const double per_magnitude = 8 * (1 + static_cast<double>(inputs.key_len)) * kEpsilon;
  const ScoreEffects effects = effects_of_scores(truth, kScoreRoundings);
  for (size_t n = 0; n < truth.weighted_magnitude.size(); ++n) {
    const double roundings = per_magnitude * std::max(truth.weighted_magnitude[n], kSmallest);
    bounds.push_back(roundings + underflow + effects.out[n]);
  }
  return bounds;
}

void check_weight_rows(const AttentionProblem &problem, const reference::AttentionInputs &inputs,
                       const Tensor<float> &weights) {
  const AttentionSizes &s = problem.sizes;
  const bool average = (problem.flags & FOVEA_AVERAGE_WEIGHTS) != 0;
  const std::vector<float> dense = weights.dense();
  if (average || problem.empty_rows != FOVEA_EMPTY_ROWS_ZERO) return;
  for (int64_t row = 0; row < s.batch * s.heads * s.query_len; ++row) {
    const std::vector<bool> attended =
        reference::attended_keys(inputs, row / (s.heads * s.query_len), row / s.query_len % s.heads, row % s.query_len);
    int64_t leaked = 0;
    for (int64_t j = 0; j < s.key_len; ++j) {
      const float weight = dense[static_cast<size_t>(row * s.key_len + j)];
      if (!attended[static_cast<size_t>(j)] && !(weight == 0 && !std::signbit(weight))) ++leaked;
    }
    if (leaked != 0) {
      CAPTURE(row);
      CHECK_MESSAGE(leaked == 0, "weights of masked keys that are not exactly 0");
      return;
    }
  }
}

// What was evaluated last, found again by what it was made of. NaN equals nothing, so what is made of one is not. For one
// thread: results that several have made are judged when these have ended.
template <typename Made>
class Recent {
 public:
  // is_it(made) says whether it is wanted, make() evaluates it if none is; made.numbers() says how large it is.
  template <typename IsIt, typename Make>
  const Made &find(const IsIt &is_it, const Make &make) {
    for (const Made &made : kept_) {
      if (is_it(made)) return made;
    }
    numbers_ += kept_.emplace_back(make()).numbers();
    for (; kept_.size() > kCount || (kept_.size() > 1 && numbers_ > kNumbers); kept_.pop_front()) {
      numbers_ -= kept_.front().numbers();
    }
    return kept_.back();
  }

 private:
  static constexpr size_t kCount = 64, kNumbers = 1 << 20;  // some tens of megabytes
  std::deque<Made> kept_;                                   // the newest last
  size_t numbers_ = 0;
};

// Scores depend on queries, keys and the score function: the same under every mask and option.
template <typename Real>
struct Scores {
  reference::AttentionInputs inputs;
  reference::RawScores<Real> raw = reference::raw_scores<Real>(inputs);

  size_t numbers() const {
    return inputs.query.size() + inputs.key.size() + inputs.score.weight.size() + inputs.score.query_weight.size() +
           inputs.score.key_weight.size() + raw.values.size();
  }
};

template <typename Real>
const reference::RawScores<Real> &scores_of(const reference::AttentionInputs &given) {
  reference::AttentionInputs inputs;
  inputs.batch = given.batch;
  inputs.heads = given.heads;
  inputs.kv_heads = given.kv_heads;
  inputs.query_len = given.query_len;
  inputs.key_len = given.key_len;
  inputs.query_dim = given.query_dim;
  inputs.key_dim = given.key_dim;
  inputs.query = given.query;
  inputs.key = given.key;
  inputs.score = given.score;
  inputs.order = given.order;
  static Recent<Scores<Real>> recent;
  return recent
      .find([&](const Scores<Real> &scores) { return scores.inputs == inputs; },
            [&] { return Scores<Real>{std::move(inputs)}; })
      .raw;
}

class Expected {
 public:
  // What the results are compared with.
  struct Plain {
    std::vector<float> out, log_sum_exp, weights;
  };

  Expected(reference::AttentionInputs given, bool averaged)
      : inputs(std::move(given)), truth(reference::attention(inputs, scores_of<double>(inputs))), average(averaged) {}

  const reference::AttentionInputs inputs;
  const reference::AttentionOutputs<double> truth;
  const bool average;
  const ScoreEffects effects = effects_of_scores(truth, 0);
  const std::vector<double> bounds = elementwise_bounds(inputs, truth);

  size_t numbers() const {
    return inputs.query.size() + inputs.key.size() + inputs.value.size() + truth.weights.size() + truth.out.size();
  }

  // Evaluated when it is first asked for: few problems need any order but the first.
  const Plain &plain(int order) const {
    while (plain_.size() <= static_cast<size_t>(order)) {
      reference::AttentionInputs in = inputs;
      in.order = static_cast<int>(plain_.size());
      reference::AttentionOutputs<float> all = reference::attention(in, scores_of<float>(in));
      plain_.push_back(
          {std::move(all.out), std::move(all.log_sum_exp), std::move(average ? all.average_weights : all.weights)});
    }
    return plain_[static_cast<size_t>(order)];
  }

 private:
  mutable std::deque<Plain> plain_;  // whose elements stay where they are
};

// What is expected of the problem: the same for every instruction set, layout and number of threads.
const Expected &expected_of(const AttentionProblem &problem) {
  const reference::AttentionInputs inputs = problem.reference_inputs();
  const bool average = (problem.flags & FOVEA_AVERAGE_WEIGHTS) != 0;
  static Recent<Expected> recent;
  return recent.find([&](const Expected &expected) { return expected.average == average && expected.inputs == inputs; },
                     [&] { return Expected(inputs, average); });
}

void check_result(const AttentionProblem &problem, const Expected &expected, const AttentionResult &result,
                  double floors) {
  const reference::AttentionInputs &inputs = expected.inputs;
  const reference::AttentionOutputs<double> &truth = expected.truth;
  // Floors, for small problems (see accuracy.hpp). A weight is exp(score - maximum) over a sum of such: two exps, each
  // allowed 1.6 ulp (3.2 * 2^-24), a quotient and a product; and a score carries its roundings.
  const double relative = floors * kEpsilon * (8 + kScoreRoundings * truth.largest_score);
  const std::vector<float> out = result.out.dense();
  const ScoreEffects &effects = expected.effects;
  const auto check = [&](const std::vector<float> &actual, const std::vector<double> &exact,
                         std::vector<float> Expected::Plain::*tensor, double floor) {
    const auto plain = [&](int order) -> const std::vector<float> & { return expected.plain(order).*tensor; };
    CHECK_EQ(floors == 0 ? judge_closely(actual, exact, plain(0)) : judge_in_orders(actual, exact, plain, floor), "");
  };
  check(out, truth.out, &Expected::Plain::out,
        relative * largest(truth.weighted_magnitude) + floors * largest(effects.out));
  CHECK_EQ(judge_elements(out, truth.out, expected.plain(0).out, expected.bounds), "");
  CHECK(result.out.gaps_untouched());
  if (result.log_sum_exp) {
    const double floor = relative + floors * (2 * kEpsilon * largest(truth.log_sum_exp) + effects.log_sum_exp);
    check(result.log_sum_exp->dense(), truth.log_sum_exp, &Expected::Plain::log_sum_exp, floor);
    CHECK(result.log_sum_exp->gaps_untouched());
  }
  if (result.weights) {
    const std::vector<double> &weights = expected.average ? truth.average_weights : truth.weights;
    check(result.weights->dense(), weights, &Expected::Plain::weights,
          relative * largest(weights) + floors * largest(effects.weights));
    CHECK(result.weights->gaps_untouched());
    check_weight_rows(problem, inputs, *result.weights);
  }
}

void check_attention(const AttentionProblem &problem, double floors) {
  const std::string what = problem.describe();
  CAPTURE(what);
  const Expected &expected = expected_of(problem);
  for_each_isa([&](const fovea_context *context) {
    for (const bool weights : {false, true}) {
      CAPTURE(weights);
      const AttentionResult result = problem.make_result(weights);
      REQUIRE_OK(problem.run(context, result));
      check_result(problem, expected, result, floors);
    }
  });
}

}  // namespace

void check_attention(const AttentionProblem &problem) { check_attention(problem, 1); }
void check_attention_strictly(const AttentionProblem &problem) { check_attention(problem, 0); }

void check_result(const AttentionProblem &problem, const AttentionResult &result) {
  const std::string what = problem.describe();
  CAPTURE(what);
  check_result(problem, expected_of(problem), result, 1);
}

}  // namespace testing
