// Gradients: of attention by every score function, of layers.
#include "bits.hpp"

#include "support/contexts.hpp"
#include "support/gradient_problem.hpp"
#include "support/kept_projections.hpp"

namespace testing {
namespace {

using Options = std::function<void(AttentionProblem &, Numbers &)>;

void add(Digest &digest, const std::optional<Tensor<float>> &tensor) {
  if (tensor) digest.add(*tensor);
}

void add(Digest &digest, const GradientTensors &found) {
  for (const Tensor<float> *tensor : {&found.query, &found.key, &found.value}) digest.add(*tensor);
  for (const auto *tensor : {&found.bias, &found.alibi_slopes, &found.query_weight, &found.key_weight, &found.weight,
                             &found.score_bias, &found.score_vector, &found.sigmas}) {
    add(digest, *tensor);
  }
}

// The forward call and the backward one, of all that the problem has.
void add_backward(const std::string &name, const AttentionRow &row, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto problem = std::make_shared<AttentionProblem>(make_problem(row, numbers));
    Random unused(1);
    const auto given = std::make_shared<GradientTensors>(make_gradients(*problem, unused));
    given->out.fill([&] { return numbers.next(); });
    return [=](const fovea_context *context, Digest &digest) {
      const AttentionResult result = problem->make_result(false);
      REQUIRE_OK(problem->run(context, result));
      const GradientTensors found = unwritten(*given);
      REQUIRE_OK(run_backward(context, *problem, result, found));
      add(digest, found);
    };
  };
  rows.push_back({name, make, projects_scores(row.kind), has_hidden(row.kind)});
}

// The projections that the forward call keeps, and what the backward one makes of them.
void add_kept(const std::string &name, const AttentionRow &row, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto problem = std::make_shared<AttentionProblem>(make_problem(row, numbers));
    problem->set_valid_lens({problem->sizes.key_len, 60});
    Random unused(1);
    const auto given = std::make_shared<GradientTensors>(make_gradients(*problem, unused));
    given->out.fill([&] { return numbers.next(); });
    return [=](const fovea_context *context, Digest &digest) {
      const KeptProjections kept(*problem);
      const AttentionResult result = problem->make_result(false);
      REQUIRE_OK(kept.attend(context, *problem, result));
      digest.add(kept.query);
      digest.add(kept.key);
      const GradientTensors found = unwritten(*given);
      REQUIRE_OK(kept.go_back(context, *problem, result, found));
      add(digest, found);
    };
  };
  rows.push_back({name, make, projects_scores(row.kind), has_hidden(row.kind)});
}

void add_attention_gradients(BitsRows &rows) {
  const std::pair<const char *, Options> options[] = {
      {"plain", {}},
      {"causal-alibi",
       [](AttentionProblem &p, Numbers &) {
         p.flags = FOVEA_CAUSAL;
         float slope = 0.5F;
         p.alibi_slopes.emplace(Shape{p.sizes.heads}).fill([&] { return slope *= 0.75F; });
       }},
      {"mask-dropout",
       [](AttentionProblem &p, Numbers &n) {
         p.set_mask([&](auto, auto, auto, auto) { return !n.chance(3); });
         p.dropout = 0.2F;
         p.dropout_seed = 99;
       }},
      {"bias-softcap",
       [](AttentionProblem &p, Numbers &n) {
         p.bias.emplace(n.tensor({1, 1, p.sizes.query_len, p.sizes.key_len}));
         p.softcap = 5;
       }},
      {"invariant", [](AttentionProblem &p, Numbers &) { p.flags = FOVEA_QUERY_INVARIANT; }}};
  for (const int32_t kind : kScoreKinds) {
    const std::string name = "gradients." + score_name(kind) + ".";
    for (const auto &[what, set] : options) {
      for (const int64_t q : {1, 37}) {
        const AttentionSizes sizes = {
            .batch = 2, .heads = 4, .kv_heads = 2, .query_len = q, .key_len = 75, .head_dim = 20, .value_dim = 12};
        add_backward(name + what + ".queries." + number(q),
                     {.sizes = sizes, .options = set, .kind = kind, .hidden = 36}, rows);
      }
    }
    for (const int64_t q : {1, 37}) {
      if (!has_hidden(kind)) continue;
      const AttentionSizes sizes = {
          .batch = 2, .heads = 4, .kv_heads = 2, .query_len = q, .key_len = 75, .head_dim = 20, .value_dim = 12};
      add_kept(name + "kept.queries." + number(q), {.sizes = sizes, .kind = kind, .hidden = 36}, rows);
    }
    // Split by keys, and by rows.
    for (const auto &[what, q, k] : {std::tuple{"keys", 70, 900}, {"rows", 1100, 70}}) {
      const AttentionSizes sizes = {.query_len = q, .key_len = k, .head_dim = 8, .value_dim = 8};
      add_backward(name + "split." + what, {.sizes = sizes, .kind = kind, .hidden = 20}, rows);
    }
  }
}

// ---- layers ---------------------------------------------------------------------------------------------------------

// call(x, gradient of the result, gradient of x) of tensors of that shape.
using Call = std::function<fovea_status(const fovea_context *, const fovea_tensor &, const fovea_tensor &,
                                        const fovea_tensor &)>;

void add_call(const std::string &name, const Shape &shape, const Call &call, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(shape));
    const auto grad = std::make_shared<Tensor<float>>(numbers.tensor(shape));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> to(shape);
      REQUIRE_OK(call(context, x->view(), grad->view(), to.view()));
      digest.add(to);
    };
  };
  rows.push_back({name, make});
}

// Gradients of x, and of a weight and a bias of its last axis.
void add_norm(const std::string &name, const Shape &shape, bool rms, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    const auto x = std::make_shared<Tensor<float>>(numbers.tensor(shape)),
               grad = std::make_shared<Tensor<float>>(numbers.tensor(shape));
    const auto weight = std::make_shared<Tensor<float>>(numbers.tensor({shape.back()}));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> to(shape), to_weight({shape.back()}), to_bias({shape.back()});
      const fovea_tensor views[] = {x->view(), grad->view(),     weight->view(),
                                    to.view(), to_weight.view(), to_bias.view()};
      const fovea_norm_gradients gradients = {sizeof gradients, &views[1], nullptr,
                                              &views[3],        &views[4], rms ? nullptr : &views[5]};
      fovea_layer_norm_options layer = {};
      layer.struct_size = sizeof layer;
      layer.weight = layer.bias = &views[2];
      fovea_rms_norm_options mean_square = {};
      mean_square.struct_size = sizeof mean_square;
      mean_square.weight = &views[2];
      REQUIRE_OK(rms ? fovea_rms_norm_backward(context, &views[0], &mean_square, &gradients)
                     : fovea_layer_norm_backward(context, &views[0], &layer, &gradients));
      digest.add(to);
      digest.add(to_weight);
      if (!rms) digest.add(to_bias);
    };
  };
  rows.push_back({name, make});
}

void add_linear(const std::string &name, const Shape &x_shape, int64_t columns, int32_t activation, BitsRows &rows) {
  const auto make = [=] {
    Numbers numbers(name);
    Shape out_shape = x_shape;
    out_shape.back() = columns;
    const Shape weight_shape = {columns, x_shape.back()};
    const auto tensor = [&](const Shape &shape, float factor = 1) {
      return std::make_shared<Tensor<float>>(numbers.tensor(shape, factor));
    };
    const auto x = tensor(x_shape), grad = tensor(out_shape), bias = tensor({columns});
    const auto weight = tensor(weight_shape, weight_factor(x_shape.back()));
    return [=](const fovea_context *context, Digest &digest) {
      const Tensor<float> to(x_shape), to_weight(weight_shape), to_bias({columns});
      const fovea_tensor views[] = {x->view(), weight->view(),   bias->view(),  grad->view(),
                                    to.view(), to_weight.view(), to_bias.view()};
      fovea_linear_options options = {};
      options.struct_size = sizeof options;
      options.activation = activation;
      options.bias = &views[2];
      const fovea_linear_gradients gradients = {sizeof gradients, &views[3], &views[4], &views[5], &views[6], nullptr};
      REQUIRE_OK(fovea_linear_backward(context, &views[0], &views[1], FOVEA_WEIGHT_OUT_IN, &options, &gradients));
      digest.add(to);
      digest.add(to_weight);
      digest.add(to_bias);
    };
  };
  rows.push_back({name, make});
}

}  // namespace

void add_gradient_rows(BitsRows &rows) {
  add_attention_gradients(rows);
  for (int32_t kind = FOVEA_ACTIVATION_RELU; kind <= FOVEA_ACTIVATION_SILU; ++kind) {
    add_call(
        "gradients.activation." + number(kind), {3, 1500},
        [kind](const fovea_context *c, const fovea_tensor &x, const fovea_tensor &grad, const fovea_tensor &to) {
          return fovea_activation_backward(c, kind, &x, &grad, &to);
        },
        rows);
  }
  for (const int32_t axis : {0, 1}) {
    const auto add_softmax = [&](const std::string &name, const auto &function) {
      add_call(
          "gradients." + name + ".axis." + number(axis), {130, 1100},
          [=](const fovea_context *c, const fovea_tensor &out, const fovea_tensor &grad, const fovea_tensor &to) {
            return function(c, &out, axis, &grad, &to);
          },
          rows);
    };
    add_softmax("softmax", fovea_softmax_backward);
    add_softmax("log-softmax", fovea_log_softmax_backward);
  }
  for (const bool rms : {false, true}) {
    const std::string name = rms ? "gradients.rms-norm." : "gradients.layer-norm.";
    add_norm(name + "small", {5, 7, 33}, rms, rows);
    add_norm(name + "long", {3, 5000}, rms, rows);
    add_norm(name + "many", {700, 40}, rms, rows);
  }
  add_linear("gradients.linear.small", {2, 7, 13}, 21, FOVEA_ACTIVATION_SILU, rows);
  add_linear("gradients.linear.large", {150, 70}, 130, FOVEA_ACTIVATION_GELU, rows);
  add_linear("gradients.linear.many", {3000, 9}, 7, FOVEA_ACTIVATION_NONE, rows);
}

}  // namespace testing
