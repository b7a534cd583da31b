// "An output must not overlap an input or another output": tried for every output of every function with everything
// else it takes, wherever that is given, as the description of the interface has it. A new option or output is among
// them by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "errors.hpp"
#include "operand_call.hpp"

using namespace testing;

namespace {

bool same_layout(const fovea_tensor &a, const fovea_tensor &b) {
  return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Where an output of these sizes would lie to share the other's first element, its second, or its last elements.
std::vector<std::byte *> places(const Slot &output, const Slot &other) {
  auto *const at = static_cast<std::byte *>(other.tensor.data);
  std::vector<std::byte *> all = {at - (output.bytes() - 4)};
  if (other.bytes() > 4) all.push_back(at + 4);
  if (!same_layout(output.tensor, other.tensor)) all.push_back(at);  // else it may be allowed: in place
  return all;
}

void check_pair(OperandCall &call, const std::vector<std::byte> &before, Slot &output, const Slot &other) {
  CAPTURE(output.path);
  CAPTURE(other.path);
  void *const own = output.tensor.data;
  for (std::byte *place : places(output, other)) {
    output.tensor.data = place;
    check_refusal(call.run(), FOVEA_OVERLAP, {output.leaf(), other.leaf()});
    CHECK(call.unchanged(before));
  }
  output.tensor.data = own;
}

// Every byte of a tensor's elements, counted from `begin`.
std::set<int64_t> bytes_of(const fovea_tensor &tensor, const std::byte *begin) {
  std::set<int64_t> bytes;
  const int64_t size = tensor.dtype == FOVEA_BF16 ? 2 : 4, first = static_cast<const std::byte *>(tensor.data) - begin;
  for_each_index(Shape(tensor.shape, tensor.shape + tensor.rank), [&](const Shape &at) {
    int64_t element = first;
    for (size_t axis = 0; axis < at.size(); ++axis) element += at[axis] * tensor.strides[axis] * size;
    for (int64_t n = 0; n < size; ++n) bytes.insert(element + n);
  });
  return bytes;
}

bool meet(const std::set<int64_t> &a, const std::set<int64_t> &b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t byte) { return b.count(byte) == 1; });
}

const std::set<std::string> kNotForSchedules = {
    "options.valid_lens", "options.query_offsets",   "options.mask",         "options.bias", "options.weights",
    "options.scores",     "options.projected_query", "options.projected_key"};

// What only score functions with hidden units have.
bool is_projected(const std::string &path) {
  return path.ends_with(".projected_query") || path.ends_with(".projected_key");
}

// What a function refuses, whatever else it is given.
bool has_no_place(const std::string &function, const std::string &path) {
  if (function == "fovea_prepared_keys_create") return path == "score.sigmas";  // keys are projected: no Gaussian
  const bool scales = path.ends_with("key_scales") || path.ends_with("value_scales");
  if (function.starts_with("fovea_sdpa")) return is_projected(path);
  if (function.starts_with("fovea_attention_prepared")) return scales || is_projected(path);
  if (function.starts_with("fovea_attention_backward")) return scales;  // numbers of 8 bits have no gradient
  if (function == "fovea_rms_norm_backward") return path == "gradients.bias";
  if (function == "fovea_multi_head_attention_backward") {
    const bool of_heads = path == "gradients.attention.out" || path == "gradients.attention.query" ||
                          path == "gradients.attention.key" || path == "gradients.attention.value";
    return scales || of_heads || path.ends_with("_pages");
  }
  if (function == "fovea_mha_plan_create" && path == "options.kept") return true;
  if (function.starts_with("fovea_multi_head") || function == "fovea_mha_plan_create")
    return scales && path.starts_with("options.attention.");
  return function == "fovea_schedule_create" && kNotForSchedules.count(path) == 1;
}

// The score functions that have such a parameter, or its gradient: a bit for each.
int kinds_with(const std::string &function, const std::string &path) {
  const bool layer = function.starts_with("fovea_multi_head") || function == "fovea_mha_plan_create";
  const std::string score = layer ? "options.score." : "score.";
  const std::string gradients = layer ? "gradients.attention." : "gradients.";
  if (is_projected(path)) return 1 | 4;
  if (path == "options.key_scales" || path == "options.value_scales") return 16;  // the dot product's
  if (function != "fovea_multi_head_attention_backward" && !function.starts_with("fovea_attention_backward")) {
    if (!path.starts_with(score)) return ~0;
  } else if (!path.starts_with(score) && !path.starts_with(gradients)) {
    return ~0;
  }
  const std::string name = path.substr(path.rfind('.') + 1);
  if (name == "query_weight" || name == "key_weight") return 1;
  if (name == "weight") return 2 | 4;
  if (name == "score_vector") return 1 | 4;
  if (name == "score_bias" || path == score + "bias") return 4;
  return name == "sigmas" ? 8 : ~0;
}

// With a schedule's pages there are no outputs of attention, and nothing is kept; 8 bits are for the dot product.
bool exclude_each_other(const std::string &function, const std::string &output, const std::string &path) {
  if ((kinds_with(function, output) & kinds_with(function, path)) == 0) return true;
  // A layer has one weight for queries, keys and values, or three.
  const auto of_inputs = [](const std::string &given, bool one) {
    const bool of_layer = given.starts_with("gradients.") || given.starts_with("parameters.");
    const std::string name = given.substr(given.rfind('.') + 1);
    if (!of_layer || given.starts_with("gradients.attention.")) return false;
    if (one) return name == "in_weight" || name == "in_bias";
    for (const char *three : {"query", "key", "value"}) {
      if (name == std::string(three) + "_weight" || name == std::string(three) + "_bias") return true;
    }
    return false;
  };
  if (function == "fovea_multi_head_attention_backward" &&
      ((of_inputs(output, true) && of_inputs(path, false)) || (of_inputs(output, false) && of_inputs(path, true)))) {
    return true;
  }
  const auto of_pages = [](const std::string &given) {
    return given == "options.key_pages" || given == "options.value_pages" || given == "options.key_scales" ||
           given == "options.value_scales";
  };
  if (path == "options.kept" && of_pages(output)) return true;
  return of_pages(path) && (output.starts_with("options.attention.") || output == "options.kept");
}

}  // namespace

TEST_SUITE("operands") {
  TEST_CASE("every place that takes a tensor has been given one, and every output beside everything else") {
    for (const TableFunction &function : table_functions) {
      const std::string name = function.name;
      CAPTURE(name);
      std::set<std::pair<std::string_view, std::string_view>> together;  // of `paths`
      std::set<std::string> paths, outputs;
      for (const auto &call : good_calls(function)) {
        std::vector<std::string_view> given;
        for (const Slot &slot : call->slots()) {
          const std::string_view path = *paths.insert(slot.path).first;
          if (slot.given) given.push_back(path);
          if (slot.output && !has_no_place(name, slot.path)) outputs.insert(slot.path);
        }
        for (const std::string_view path : given) {
          for (const std::string_view other : given) together.emplace(path, other);
        }
      }
      CHECK(!paths.empty());  // else base_calls.cpp has no good call
      for (const std::string &path : paths) {
        CAPTURE(path);
        if (has_no_place(name, path)) continue;
        CHECK(together.count({path, path}) == 1);
        for (const std::string &output : outputs) {
          CAPTURE(output);
          if (exclude_each_other(name, output, path)) continue;
          CHECK(together.count({output, path}) == 1);
        }
      }
    }
  }

  TEST_CASE("an output over anything else is refused, names both and writes nothing") {
    for (const TableFunction &function : table_functions) {
      const std::string name = function.name;
      CAPTURE(name);
      if (name == "fovea_schedule_create" || name == "fovea_mha_plan_create") continue;  // do not look at data
      for (const auto &call : good_calls(function)) {
        const std::vector<std::byte> before = call->memory();
        for (Slot &output : call->slots()) {
          for (const Slot &other : call->slots()) {
            if (!output.output || !output.given || !other.given || &other == &output) continue;
            check_pair(*call, before, output, other);
          }
        }
        CHECK(call->run() == FOVEA_OK);
      }
    }
  }

  TEST_CASE("tensors that interleave overlap if they share a byte, and else not") {
    constexpr int64_t middle = 4096, most_stride = 40;
    const GuardedMemory memory(4 * middle);
    std::memset(memory.data(), 0, memory.size());
    Random random(base_seed());
    int64_t refused = 0, taken = 0;
    const auto random_tensor = [&](const Shape &shape, bool contiguous, fovea_dtype dtype) {
      const int64_t size = dtype == FOVEA_BF16 ? 2 : 4;
      fovea_tensor tensor = fovea_tensor_contiguous(
          memory.data() + 2 * middle + 4 * random.integer(-40, 40) + (size == 2 ? 2 * random.integer(0, 1) : 0), dtype,
          3, shape.data());
      for (int axis = 0; axis < (contiguous ? 2 : 3); ++axis) {
        tensor.strides[axis] = random.chance(0.1) ? 0 : random.integer(-most_stride, most_stride);
      }
      return tensor;
    };
    for (int64_t n = 0; n < case_count(20000); ++n) {
      const int64_t batch = random.integer(1, 3), rows = random.integer(1, 5), depth = random.integer(1, 4),
                    columns = random.integer(1, 4);
      const auto type = [&] { return random.chance(0.5) ? FOVEA_BF16 : FOVEA_F32; };
      const fovea_tensor a = random_tensor({batch, rows, depth}, false, type()),
                         b = random_tensor({batch, depth, columns}, false, type()),
                         out = random_tensor({batch, rows, columns}, true, type());
      const std::set<int64_t> written = bytes_of(out, memory.data());
      const int64_t size = out.dtype == FOVEA_BF16 ? 2 : 4;
      const fovea_status status = fovea_matmul(nullptr, &a, &b, &out);
      if (static_cast<int64_t>(written.size()) != batch * rows * columns * size) continue;  // repeats itself
      if (status == FOVEA_BAD_STRIDE) continue;  // an order of axes that outputs may not have
      const bool shares = meet(written, bytes_of(a, memory.data())) || meet(written, bytes_of(b, memory.data()));
      CAPTURE(n);
      CHECK(status == (shares ? FOVEA_OVERLAP : FOVEA_OK));
      ++(shares ? refused : taken);
    }
    CHECK(refused > 100);
    CHECK(taken > 100);
  }
}
