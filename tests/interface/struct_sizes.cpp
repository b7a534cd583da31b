// Every struct that begins with struct_size, given with every size: the sizes it has had in a header are accepted, and
// larger ones whose end is zero; one that ends anywhere else, as within a member, is refused and nothing behind it is
// read. Half a pointer was read where a size ended in one.
#include <cstring>
#include <functional>

#include "errors.hpp"
#include "support/contexts.hpp"
#include "support/guarded_memory.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

// The bytes of a struct, cut to or followed by zeros up to `size`, before a page that may not be read.
class SizedStruct {
 public:
  template <typename Struct>
  SizedStruct(const Struct &whole, size_t size) : memory_((std::max(size, sizeof size) + 7) / 8 * 8) {
    std::memset(memory_.data(), 0xA7, memory_.size());
    std::memset(memory_.data(), 0, size);
    std::memcpy(memory_.data(), &whole, std::min(size, sizeof whole));
    std::memcpy(memory_.data(), &size, sizeof size);
  }
  std::byte *bytes() const { return memory_.data(); }
  template <typename Struct>
  const Struct *as() const {
    return reinterpret_cast<const Struct *>(memory_.data());
  }

 private:
  GuardedMemory memory_;
};

// call(struct) with every size; `first`: the size of the first version, where that is not the present one.
template <typename Struct>
void check_sizes(const std::string &name, const Struct &whole, const std::function<fovea_status(const Struct *)> &call,
                 size_t first = sizeof(Struct)) {
  CAPTURE(name);
  for (size_t size = 0; size <= sizeof whole + 64; ++size) {
    CAPTURE(size);
    const SizedStruct given(whole, size);
    const bool newer = size > sizeof whole && size % alignof(Struct) == 0;
    if (size == first || size == sizeof whole || newer) {
      REQUIRE_OK(call(given.as<Struct>()));
    } else {
      check_refusal(call(given.as<Struct>()), FOVEA_BAD_OPTION,
                    {name + ".struct_size is " + std::to_string(size), std::to_string(sizeof whole)});
    }
    for (size_t set = sizeof whole; newer && set < size; ++set) {
      given.bytes()[set] = std::byte{1};
      check_refusal(call(given.as<Struct>()), FOVEA_BAD_OPTION, {name, std::to_string(set)});
      given.bytes()[set] = std::byte{0};
    }
  }
}

template <typename Struct>
Struct sized() {
  Struct made{};
  made.struct_size = sizeof made;
  return made;
}

// Tensors of two by two.
struct Small {
  Small() {
    for (Tensor<float> *tensor : {&a, &b, &c, &vector}) tensor->fill([] { return 0.5f; });
  }
  Tensor<float> a{{2, 2}}, b{{2, 2}}, c{{2, 2}}, vector{{2}};
  Tensor<float> first{{2, 2}}, second{{2, 2}}, per_query{{2}};
  fovea_tensor x = a.view(), y = b.view(), z = c.view(), v = vector.view();
  fovea_tensor out = first.view(), weights = second.view(), log_sum_exp = per_query.view();
};

// A schedule of one sequence, whose key lies in a page.
void check_schedule_sizes() {
  Tensor<float> rows({1, 1, 2}), pages({1, 1, 2, 2}), others({1, 1, 2, 2});
  rows.fill([] { return 0.5f; });
  const fovea_tensor row = rows.view(), keys = pages.view(), values = others.view();
  auto limits = sized<fovea_schedule_limits>();
  limits.sequences = 1;
  const auto create = [&](const fovea_schedule_limits *given, fovea_schedule **made) {
    return fovea_schedule_create(nullptr, nullptr, &row, &keys, &values, &row, nullptr, given, made);
  };
  check_sizes<fovea_schedule_limits>("limits", limits, [&](const fovea_schedule_limits *given) {
    fovea_schedule *made = nullptr;
    const fovea_status status = create(given, &made);
    fovea_schedule_destroy(made);
    return status;
  });
  fovea_schedule *schedule = nullptr;
  REQUIRE_OK(create(&limits, &schedule));
  Tensor<int32_t> starts({2}), lens({1}), ids({1, 1});
  starts.assign({0, 1});
  lens.assign({1});
  ids.assign({0});
  const fovea_tensor starts_view = starts.view(), lens_view = lens.view(), ids_view = ids.view();
  auto step = sized<fovea_step>();
  step.query_starts = &starts_view;
  step.key_lens = &lens_view;
  step.page_ids = &ids_view;
  check_sizes<fovea_step>("step", step, [&](const fovea_step *given) { return fovea_schedule_set(schedule, given); });
  const auto rotary = sized<fovea_rotary_options>();
  auto append = sized<fovea_append_options>();
  append.rotary = &rotary;
  check_sizes<fovea_append_options>("options", append, [&](const fovea_append_options *given) {
    return fovea_schedule_append(schedule, &row, &row, &keys, &values, given);
  });
  fovea_schedule_destroy(schedule);
}

}  // namespace

TEST_SUITE("errors") {
  TEST_CASE("struct sizes: contexts") {
    auto options = sized<fovea_context_options>();
    options.max_isa = "base";
    check_sizes<fovea_context_options>("options", options, [](const fovea_context_options *given) {
      fovea_context *context = nullptr;
      const fovea_status status = fovea_context_create(given, &context);
      fovea_context_destroy(context);
      return status;
    });
  }

  TEST_CASE("struct sizes: attention") {
    const Small t;
    auto options = sized<fovea_attention_options>();
    options.log_sum_exp = &t.log_sum_exp;
    options.weights = &t.weights;
    options.bias = &t.x;
    options.dropout = 0.5f;
    check_sizes<fovea_attention_options>(
        "options", options,
        [&](const fovea_attention_options *given) { return fovea_sdpa(nullptr, &t.x, &t.y, &t.z, &t.out, given); },
        offsetof(fovea_attention_options, dropout));
    auto score = sized<fovea_score>();
    score.kind = FOVEA_SCORE_ADDITIVE;
    score.query_weight = score.key_weight = &t.x;
    score.score_vector = &t.v;
    check_sizes<fovea_score>("score", score, [&](const fovea_score *given) {
      return fovea_attention(nullptr, given, &t.x, &t.y, &t.z, &t.out, nullptr);
    });
  }

  TEST_CASE("struct sizes: runs of plans") {
    const Small t;
    fovea_plan *plan = nullptr;
    REQUIRE_OK(fovea_sdpa_plan_create(nullptr, &t.x, &t.y, &t.z, &t.out, nullptr, &plan));
    std::vector<char> workspace(fovea_plan_workspace_size(plan));
    auto buffers = sized<fovea_attention_buffers>();
    buffers.query = t.a.data();
    buffers.key = t.b.data();
    buffers.value = t.c.data();
    buffers.out = t.first.data();
    check_sizes<fovea_attention_buffers>(
        "buffers", buffers,
        [&](const fovea_attention_buffers *given) {
          return fovea_attention_run(plan, given, workspace.data(), workspace.size());
        },
        offsetof(fovea_attention_buffers, query_weight));
    fovea_plan_destroy(plan);
  }

  TEST_CASE("struct sizes: regression, masked softmax") {
    const Small t;
    auto regression = sized<fovea_kernel_regression_options>();
    regression.weights = &t.weights;
    check_sizes<fovea_kernel_regression_options>(
        "options", regression, [&](const fovea_kernel_regression_options *given) {
          return fovea_kernel_regression(nullptr, &t.x, &t.y, &t.z, &t.out, given);
        });
    check_sizes<fovea_masked_softmax_options>("options", sized<fovea_masked_softmax_options>(),
                                              [&](const fovea_masked_softmax_options *given) {
                                                return fovea_masked_softmax(nullptr, &t.x, nullptr, &t.out, given);
                                              });
  }

  TEST_CASE("struct sizes: positions") {
    const Small t;
    check_sizes<fovea_positional_encoding_options>(
        "options", sized<fovea_positional_encoding_options>(),
        [&](const fovea_positional_encoding_options *given) {
          return fovea_add_positional_encoding(nullptr, &t.x, &t.out, given);
        },
        offsetof(fovea_positional_encoding_options, flags));
    Tensor<int32_t> positions({2});
    positions.assign({1, 2});
    const fovea_tensor view = positions.view();
    auto rotary = sized<fovea_rotary_options>();
    rotary.positions = &view;
    check_sizes<fovea_rotary_options>(
        "options", rotary,
        [&](const fovea_rotary_options *given) { return fovea_rotary(nullptr, &t.x, &t.out, given); },
        offsetof(fovea_rotary_options, frequencies));
    auto frequencies = sized<fovea_rotary_frequencies_options>();
    frequencies.base = 500;
    check_sizes<fovea_rotary_frequencies_options>("options", frequencies,
                                                  [&](const fovea_rotary_frequencies_options *given) {
                                                    return fovea_rotary_frequencies(&t.log_sum_exp, nullptr, given);
                                                  });
  }

  TEST_CASE("struct sizes: linear layers, layer normalisation") {
    const Small t;
    fovea_packed_matrix *packed = nullptr;
    REQUIRE_OK(fovea_matmul_pack(nullptr, &t.y, nullptr, &packed));
    auto linear = sized<fovea_linear_options>();
    linear.bias = &t.v;
    linear.residual = &t.z;
    check_sizes<fovea_linear_options>("options", linear, [&](const fovea_linear_options *given) {
      return fovea_linear(nullptr, &t.x, packed, &t.out, given);
    });
    fovea_packed_matrix_destroy(packed);
    const auto pack = sized<fovea_matmul_pack_options>();
    check_sizes<fovea_matmul_pack_options>("options", pack, [&](const fovea_matmul_pack_options *given) {
      fovea_packed_matrix *made = nullptr;
      const fovea_status status = fovea_matmul_pack(nullptr, &t.y, given, &made);
      fovea_packed_matrix_destroy(made);
      return status;
    });
    auto layout = sized<fovea_linear_pack_options>();
    layout.layout = FOVEA_WEIGHT_IN_OUT;
    check_sizes<fovea_linear_pack_options>("options", layout, [&](const fovea_linear_pack_options *given) {
      fovea_packed_matrix *made = nullptr;
      const fovea_status status = fovea_linear_pack(nullptr, &t.y, given, &made);
      fovea_packed_matrix_destroy(made);
      return status;
    });
    auto norm = sized<fovea_layer_norm_options>();
    norm.weight = norm.bias = &t.v;
    norm.residual = &t.y;
    check_sizes<fovea_layer_norm_options>("options", norm, [&](const fovea_layer_norm_options *given) {
      return fovea_layer_norm(nullptr, &t.x, &t.out, given);
    });
    auto rms = sized<fovea_rms_norm_options>();
    rms.weight = &t.v;
    rms.residual = &t.y;
    rms.sum = &t.weights;
    rms.inverse_deviation = &t.log_sum_exp;
    check_sizes<fovea_rms_norm_options>("options", rms, [&](const fovea_rms_norm_options *given) {
      return fovea_rms_norm(nullptr, &t.x, &t.out, given);
    });
    auto gemm = sized<fovea_gemm_options>();
    gemm.c = &t.v;
    check_sizes<fovea_gemm_options>("options", gemm, [&](const fovea_gemm_options *given) {
      return fovea_gemm(nullptr, &t.x, &t.y, &t.out, given);
    });
  }

  TEST_CASE("struct sizes: prepared keys, pools, schedules, multi-head attention") {
    const Small small;
    auto bilinear = sized<fovea_score>();
    bilinear.kind = FOVEA_SCORE_BILINEAR;
    bilinear.weight = &small.x;
    const fovea_prepared_keys_sizes key_sizes = {sizeof key_sizes, 1, 1, 2, 2, 2, 0, 0};
    check_sizes<fovea_prepared_keys_sizes>("sizes", key_sizes, [&](const fovea_prepared_keys_sizes *given) {
      fovea_prepared_keys *keys = nullptr;
      const fovea_status status = fovea_prepared_keys_create(nullptr, &bilinear, given, &keys);
      fovea_prepared_keys_destroy(keys);
      return status;
    });
    const fovea_kv_pool_sizes pool_sizes = {sizeof pool_sizes, 1, 1, 2, 2, 4, 2, 1, FOVEA_F32, FOVEA_F32, 0};
    check_sizes<fovea_kv_pool_sizes>("sizes", pool_sizes, [](const fovea_kv_pool_sizes *given) {
      fovea_kv_pool *pool = nullptr;
      const fovea_status status = fovea_kv_pool_create(given, &pool);
      fovea_kv_pool_destroy(pool);
      return status;
    });
    check_schedule_sizes();
    const Small t;
    auto parameters = sized<fovea_mha_parameters>();
    parameters.heads = 1;
    parameters.query_weight = parameters.key_weight = parameters.value_weight = parameters.out_weight = &t.x;
    parameters.query_bias = parameters.key_bias = parameters.value_bias = parameters.out_bias = &t.v;
    const auto options = sized<fovea_mha_options>();
    check_sizes<fovea_mha_parameters>("parameters", parameters, [&](const fovea_mha_parameters *given) {
      return fovea_multi_head_attention_once(nullptr, given, &t.y, nullptr, nullptr, &t.out, &options);
    });
    auto of_norm = sized<fovea_norm_gradients>();
    of_norm.out = of_norm.x = &t.out;
    check_sizes<fovea_norm_gradients>("gradients", of_norm, [&](const fovea_norm_gradients *given) {
      return fovea_rms_norm_backward(nullptr, &t.y, nullptr, given);
    });
    auto of_linear = sized<fovea_linear_gradients>();
    of_linear.out = &t.x;
    of_linear.x = &t.out;
    check_sizes<fovea_linear_gradients>("gradients", of_linear, [&](const fovea_linear_gradients *given) {
      return fovea_linear_backward(nullptr, &t.y, &t.z, FOVEA_WEIGHT_OUT_IN, nullptr, given);
    });
    auto of_merge = sized<fovea_merge_gradients>();
    of_merge.out = &t.v;
    of_merge.outs = &t.out;
    check_sizes<fovea_merge_gradients>("gradients", of_merge, [&](const fovea_merge_gradients *given) {
      return fovea_merge_states_backward(nullptr, &t.x, &t.v, given);
    });
    auto of_layer = sized<fovea_mha_gradients>();
    of_layer.out = &t.x;
    of_layer.query = &t.out;
    check_sizes<fovea_mha_gradients>("gradients", of_layer, [&](const fovea_mha_gradients *given) {
      return fovea_multi_head_attention_backward(nullptr, &parameters, &t.y, nullptr, nullptr, &options, given);
    });
    const auto rotary = sized<fovea_rotary_options>();
    auto with_rotary = options;
    with_rotary.rotary = &rotary;
    check_sizes<fovea_mha_options>("options", with_rotary, [&](const fovea_mha_options *given) {
      return fovea_multi_head_attention_once(nullptr, &parameters, &t.y, nullptr, nullptr, &t.out, given);
    });
  }
}
