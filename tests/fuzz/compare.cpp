#include "compare.hpp"

#include <algorithm>
#include <cstring>

#include "numbers.hpp"
#include "scaled.hpp"

namespace fuzz {
namespace {

template <typename Unsigned>
Unsigned element(const std::vector<uint8_t> &elements, size_t n) {
  Unsigned bits = 0;
  std::memcpy(&bits, elements.data() + n * sizeof bits, sizeof bits);
  return bits;
}

bool same_element(const Output &a, size_t at, const Output &b, size_t n) {
  if (is_scaled(a.dtype)) return a.elements[at] == b.elements[n];
  if (is_narrow(a.dtype) && is_narrow(b.dtype)) {
    const auto x = element<uint16_t>(a.elements, at), y = element<uint16_t>(b.elements, n);
    return x == y || (is_nan(x, a.dtype) && is_nan(y, b.dtype));
  }
  if (is_narrow(a.dtype)) {  // b is the float32 that is to be rounded
    const auto x = element<uint16_t>(a.elements, at);
    const auto y = element<uint32_t>(b.elements, n);
    return x == narrowed(y, a.dtype) || (is_nan(x, a.dtype) && is_nan(y));
  }
  const auto x = element<uint32_t>(a.elements, at), y = element<uint32_t>(b.elements, n);
  return x == y || (is_nan(x) && is_nan(y));
}

size_t count(const Output &output) { return output.elements.size() / std::max<size_t>(element_size(output.dtype), 1); }

[[noreturn]] void differ(const Frame &frame, Comparison kind, const Output &a, size_t at, const Output &b, size_t n) {
  const auto bits = [](const Output &o, size_t i) {
    char text[32];
    std::snprintf(text, sizeof text, "%#x",
                  is_scaled(o.dtype)   ? element<uint8_t>(o.elements, i)
                  : is_narrow(o.dtype) ? element<uint16_t>(o.elements, i)
                                       : element<uint32_t>(o.elements, i));
    return std::string(text);
  };
  fail(frame, std::string("not the same bits: ") + comparison_names[kind] + ", element " + std::to_string(at) + " of " +
                  a.name + ": " + bits(a, at) + " and " + bits(b, n));
}

void expect_same(const Frame &frame, Comparison kind, const Outcome &a, const Outcome &b) {
  ++tally->compared[kind];
  if (a.result.status != b.result.status) {
    fail(frame, std::string(comparison_names[kind]) + ": status " + std::to_string(a.result.status) + " and " +
                    std::to_string(b.result.status) + ", " + fovea_last_error());
  }
  for (const Output &output : a.outputs) {
    for (const Output &other : b.outputs) {
      if (std::strcmp(output.name, other.name) != 0) continue;
      for (size_t n = 0; n < count(output); ++n) {
        if (!same_element(output, n, other, n)) differ(frame, kind, output, n, other, n);
      }
    }
  }
}

// Where an element of one entry stands in the whole, for an output whose batch is an axis.
void expect_entry(const Frame &frame, const Outcome &all, const Outcome &one, int64_t entry) {
  ++tally->compared[entry_of_batch];
  if (one.result.status != FOVEA_OK) fail(frame, std::string("an entry of the batch alone: ") + fovea_last_error());
  for (size_t o = 0; o < all.outputs.size(); ++o) {
    const Output &whole = all.outputs[o], &part = one.outputs[o];
    size_t inner = 1;
    for (size_t axis = static_cast<size_t>(whole.entry_axis) + 1; axis < whole.shape.size(); ++axis) {
      inner *= static_cast<size_t>(whole.shape[axis]);
    }
    const auto entries = static_cast<size_t>(whole.shape[static_cast<size_t>(whole.entry_axis)]);
    for (size_t n = 0; n < count(part); ++n) {
      const size_t at = (n / inner * entries + static_cast<size_t>(entry)) * inner + n % inner;
      if (!same_element(whole, at, part, n)) differ(frame, entry_of_batch, whole, at, part, n);
    }
  }
}

bool has_batch(const Frame &frame, const Outcome &outcome) {
  if (frame.dropout || frame.spoiled || outcome.outputs.empty()) return false;
  const Output &first = outcome.outputs.front();
  for (const Output &output : outcome.outputs) {
    if (output.entry_axis < 0) return false;
    if (output.shape[static_cast<size_t>(output.entry_axis)] != first.shape[static_cast<size_t>(first.entry_axis)]) {
      return false;
    }
  }
  bool apart = true;
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    if (node.slot->kind == Kind::buffer) apart = false;  // of a plan for the whole batch
    // Rotary's positions then begin with an axis of sections, where the shape that was read has the batch.
    if (node.tensor >= 0 && node.given && std::strcmp(node.slot->name, "sections") == 0) apart = false;
    // And those of each section pass for those of each entry where there are as many.
    if (node.tensor >= 0 && node.given && std::strcmp(node.slot->name, "positions") == 0) {
      const Tensor &positions = frame.tensors[static_cast<size_t>(node.tensor)];
      if (positions.view.rank > 1 && positions.batch_axis < 0) apart = false;
    }
    if (node.handle == nullptr) return;
    const FunctionRow *maker = node.handle->made_by == nullptr ? nullptr : node.handle->made_by->function;
    for (size_t n = 0; maker != nullptr && n < maker->slot_count; ++n) {
      if (maker->slots[n].kind == Kind::bytes) apart = false;  // whatever those say
    }
    for (size_t n = 0; n < tables.symbol_count; ++n) {
      if (std::strcmp(tables.symbols[n], "B") == 0 && node.handle->sizes.bound[n]) apart = false;
    }
  });
  return apart && first.shape[static_cast<size_t>(first.entry_axis)] > 1;
}

bool reads_scales(const Frame &frame) {
  return std::any_of(frame.tensors.begin(), frame.tensors.end(), [&frame](const Tensor &t) {
    return t.slot->elements == Elements::scales && !t.output && !is_of_rows(frame, t);
  });
}

bool is_bilinear(const Frame &frame) {
  bool found = false;
  for_each_node(frame.arguments, [&found](const Node &node, const Struct *in) {
    found = found || (in != nullptr && std::strcmp(in->row->name, "fovea_score") == 0 &&
                      std::strcmp(node.slot->name, "kind") == 0 && node.integer == FOVEA_SCORE_BILINEAR);
    found = found || (node.handle != nullptr && node.handle->made_by != nullptr && is_bilinear(*node.handle->made_by));
  });
  return found;
}

// Whether the headers promise float32's bits, rounded once: not where processors multiply pairs of 16 bits.
bool promises_float32(const Frame &frame) {
  if (sets().names[static_cast<size_t>(frame.set)] == "amx") return false;
  int counts[2] = {}, others = 0;
  bool holds = false, lacks_twin = false, scaled = false;
  for (const Tensor &tensor : frame.tensors) {
    scaled = scaled || scales_of(frame, tensor) >= 0;
    // Then queries are projected, and not keys.
    if (is_scaled(tensor.view.dtype) && std::strcmp(tensor.slot->name, "key") == 0 && is_bilinear(frame)) return false;
    // What is dequantised to F16 is cut to its largest number, and not infinite.
    if (tensor.output && tensor.view.dtype == FOVEA_F16 && reads_scales(frame)) return false;
    if (tensor.slot->elements != Elements::floats) continue;
    if (!is_narrow(tensor.view.dtype) && !tensor.slot->float32) ++others;
    if (tensor.view.dtype == FOVEA_F16) ++counts[0];
    if (tensor.view.dtype == FOVEA_BF16) ++counts[1];
  }
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    if (node.handle == nullptr || !node.handle->narrow) return;
    holds = true;
    lacks_twin = lacks_twin || node.handle->twin == nullptr;
  });
  if (lacks_twin) return false;
  const bool one_type = others == 0 && (counts[0] == 0 || counts[1] == 0);
  if (frame.function->inexact_narrow && one_type) return false;
  if (!sets().has_pairs(frame.set)) return true;
  if (scaled) return false;  // beside a query of 16 bits, or 8 bits beside 8
  // A layer's query may be its key and value as well.
  const std::string name = frame.function->name;
  const bool meets_itself = name.find("_mha_") != std::string::npos || name.find("multi_head") != std::string::npos;
  const int fewest = meets_itself ? 1 : 2;
  return !holds && !frame.medium && counts[0] < fewest && counts[1] < fewest;
}

bool is_narrow_frame(const Frame &frame) {
  bool narrow =
      std::any_of(frame.tensors.begin(), frame.tensors.end(), [](const Tensor &t) { return is_narrow(t.view.dtype); });
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    narrow = narrow || (node.handle != nullptr && node.handle->narrow);
  });
  return narrow;
}

const FunctionRow *function_named(const std::string &name) {
  for (size_t n = 0; n < tables.function_count; ++n) {
    if (name == tables.functions[n].name) return &tables.functions[n];
  }
  return nullptr;
}

// The call that a plan was made of, on the same numbers.
void compare_with_plan(Memory &memory, const Frame &frame, const Outcome &outcome) {
  for (const Node &node : frame.arguments) {
    if (node.handle == nullptr || node.handle->made_by == nullptr) continue;
    const Frame &made_by = *node.handle->made_by;
    std::string name = made_by.function->name;
    const size_t suffix = name.rfind("_plan_create");
    if (suffix == std::string::npos) continue;
    const FunctionRow *function = function_named(name.substr(0, suffix));
    if (function == nullptr || function->slot_count + 1 != made_by.function->slot_count) continue;
    const bool whole = std::all_of(made_by.tensors.begin(), made_by.tensors.end(), [](const Tensor &t) {
      return t.data == DataKind::own && t.shares < 0 && t.skew == 0;
    });
    if (!whole) continue;
    Variant variant;
    variant.function = function;
    const Outcome other = execute(memory, made_by, variant);
    if (other.result.status == FOVEA_OK) expect_same(frame, without_plan, outcome, other);
  }
}

}  // namespace

bool is_pure(const Frame &frame) {
  bool pure = frame.function->result == ResultKind::status;
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    if (node.slot->kind == Kind::new_handle || node.slot->kind == Kind::written_tensor) pure = false;
    if (node.slot->kind == Kind::changed_handle && node.handle != nullptr) pure = false;
  });
  return pure;
}

void compare_widened(const Frame &frame, const Outcome &outcome, const Outcome &wide) {
  if (!promises_float32(frame)) return;
  Comparison kind = as_float32;
  for (const Tensor &tensor : frame.tensors) {
    if (kind == fours_as_float32 || scales_of(frame, tensor) < 0) continue;
    kind = tensor.view.dtype == FOVEA_U8 ? fours_as_float32 : eights_as_float32;
  }
  expect_same(frame, kind, outcome, wide);
}

void compare(Memory &memory, const Frame &frame, const Outcome &outcome, Choices &choices) {
  if (outcome.outputs.empty()) return;
  Variant threads;
  const size_t turn = choices.below(turns);
  if (frame.context == nullptr) threads.context = sets().contexts[static_cast<size_t>(frame.set)][turn];
  threads.environment = static_cast<int>(choices.below(8));
  expect_same(frame, with_other_threads, outcome, execute(memory, frame, threads));
  if (std::any_of(frame.tensors.begin(), frame.tensors.end(), [](const Tensor &t) { return t.shares >= 0; })) {
    Variant apart;
    apart.apart = true;
    expect_same(frame, in_memory_apart, outcome, execute(memory, frame, apart));
  }
  if (is_narrow_frame(frame) && may_be_floats(frame) && promises_float32(frame)) {
    Variant widened;
    widened.widened = widened.apart = true;
    compare_widened(frame, outcome, execute(memory, frame, widened));
  }
  if (has_batch(frame, outcome)) {
    const Output &first = outcome.outputs.front();
    Variant one;
    one.apart = true;
    one.entry =
        static_cast<int64_t>(choices.below(static_cast<size_t>(first.shape[static_cast<size_t>(first.entry_axis)])));
    expect_entry(frame, outcome, execute(memory, frame, one), one.entry);
  }
  compare_with_plan(memory, frame, outcome);
}

}  // namespace fuzz
