// Layout of the bytes: for each call its function, whether and what is wrong with it, then what build.cpp asks for; or a
// number behind the functions', then what those calls ask for that are made by hand. Up to twelve calls share their handles.
#include "fuzz.hpp"

#include <cstdio>
#include <cstring>

#include "build.hpp"
#include "by_hand.hpp"
#include "compare.hpp"
#include "scaled.hpp"

namespace fuzz {
namespace {

constexpr int most_calls = 12, most_depth = 3;
constexpr size_t most_saved = 8;

Memory &memory() {
  static Memory only;
  return only;
}

bool is_destroyer(const FunctionRow &function) { return handle_kind(function.name) >= 0; }

bool changes_handle(const FunctionRow &function, int kind) {
  if (is_destroyer(function)) return false;
  for (size_t n = 0; n < function.slot_count; ++n) {
    if (function.slots[n].kind == Kind::changed_handle && function.slots[n].handle == kind) return true;
  }
  return false;
}

bool takes_tensors(const FunctionRow &function) {
  for (size_t n = 0; n < function.slot_count; ++n) {
    if (function.slots[n].kind == Kind::tensor) return true;
  }
  return false;
}

// What a changed handle holds, to be compared after an error.
std::vector<uint8_t> contents(const Handle &handle) {
  static const int keys = handle_kind("fovea_prepared_keys_destroy");
  std::vector<uint8_t> bytes;
  if (handle.destroyed || handle.kind != keys) return bytes;
  bytes.push_back(
      static_cast<uint8_t>(fovea_prepared_keys_length(static_cast<const fovea_prepared_keys *>(handle.pointer))));
  return bytes;
}

std::vector<Handle *> changed_handles(const Frame &frame) {
  std::vector<Handle *> found;
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    if (node.slot->kind == Kind::changed_handle && node.given && node.handle != nullptr) found.push_back(node.handle);
  });
  return found;
}

void count_members(const Frame &frame) {
  for_each_node(frame.arguments, [](const Node &node, const Struct *in) {
    if (in == nullptr || !node.given) return;
    const bool there = node.tensor >= 0 || node.structure != nullptr || node.handle != nullptr ||
                       node.text != nullptr || node.integer != 0 || node.real != 0 ||
                       node.slot->kind == Kind::address || node.slot->kind == Kind::callback;
    if (there && number_of(node.slot) >= 0) ++tally->members[number_of(node.slot)];
    for (size_t v = 0; v < node.slot->value_count; ++v) {
      const int64_t value = node.slot->values[v].value;
      const bool has = node.slot->bits ? (node.integer & value) != 0 : node.integer == value;
      if (has) ++tally->members[number_of(node.slot, static_cast<int>(v))];
    }
  });
}

bool is_narrow_frame(const Frame &frame) {
  bool narrow = false;
  for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
    narrow = narrow || (node.handle != nullptr && node.handle->narrow) ||
             (std::strcmp(node.slot->name, "dtype") == 0 && is_narrow(static_cast<fovea_dtype>(node.integer)));
  });
  for (const Tensor &tensor : frame.tensors) narrow = narrow || is_narrow(tensor.view.dtype);
  return narrow;
}

class Interpreter {
 public:
  void run(Choices &choices) {
    for (int n = 0; n < most_calls && !choices.empty(); ++n) {
      const size_t function = choices.below(tables.function_count + std::size(by_hand));
      if (function >= tables.function_count) {
        by_hand[function - tables.function_count](memory(), choices);
        continue;
      }
      const uint8_t what = choices.byte();
      call(choices, function, what < 160, 0);
    }
  }

 private:
  // Returns the handle that was made, if any.
  Handle *call(Choices &choices, size_t number, bool plain, int depth) {
    const FunctionRow &function = tables.functions[number];
    make_bytes(choices, function, depth);
    std::optional<Frame> built =
        build(state_, choices, number, plain, depth,
              [](State &, Choices &chosen, int kind, int deep) { return current_->make(chosen, kind, deep + 1); });
    if (!built.has_value()) {
      ++tally->too_large;
      return nullptr;
    }
    auto frame = std::make_shared<Frame>(std::move(*built));
    if (!plan_tensors(*frame)) return nullptr;
    if (!plain && !frame->huge) spoil(state_, choices, *frame);
    if (talkative) std::fprintf(stderr, "%s\n", describe(*frame).c_str());
    if (is_destroyer(function)) return destroy(*frame, number);
    return perform(choices, frame, number);
  }

  Handle *perform(Choices &choices, const std::shared_ptr<Frame> &frame, size_t number) {
    const std::vector<Handle *> changed = changed_handles(*frame);
    std::vector<std::vector<uint8_t>> before;
    for (const Handle *handle : changed) before.push_back(contents(*handle));
    const Outcome outcome = execute(memory(), *frame, {});
    const fovea_status status = outcome.result.status;
    ++tally->calls[number][status];
    if (talkative && status != FOVEA_OK) std::fprintf(stderr, "  -> %d: %s\n\n", status, fovea_last_error());
    if (status != FOVEA_OK) {
      for (size_t n = 0; n < changed.size(); ++n) {
        if (contents(*changed[n]) != before[n]) fail(*frame, "an error, but a handle holds another thing than before");
      }
      return nullptr;
    }
    count_members(*frame);
    if (!outcome.written_bytes.empty() && frame->function->result == ResultKind::status &&
        state_.saved.size() < most_saved) {
      const Node &first = frame->arguments[0];
      state_.saved.push_back({outcome.written_bytes, first.handle != nullptr ? first.handle->sizes : Sizes{}});
    }
    if (outcome.made != nullptr) return keep(frame, outcome);
    if (!changed.empty()) {
      change_twins(*frame, outcome, changed);
    } else if (is_pure(*frame)) {
      compare(memory(), *frame, outcome, choices);
    }
    return nullptr;
  }

  // ---- handles ------------------------------------------------------------------------------------------------------

  Handle *make(Choices &choices, int kind, int depth) {
    if (depth > most_depth) return nullptr;
    std::vector<size_t> makers, changers;
    for (size_t n = 0; n < tables.function_count; ++n) {
      const FunctionRow &function = tables.functions[n];
      for (size_t s = 0; s < function.slot_count; ++s) {
        if (function.slots[s].kind == Kind::new_handle && function.slots[s].handle == kind) makers.push_back(n);
      }
      if (changes_handle(function, kind) && takes_tensors(function)) changers.push_back(n);
    }
    Handle *made = nullptr;
    for (int turn = 0; turn < 3 && made == nullptr && !makers.empty(); ++turn) {
      made = call(choices, makers[choices.below(makers.size())], true, depth);
    }
    if (made != nullptr && !changers.empty() && !choices.chance(64)) {
      call(choices, changers[choices.below(changers.size())], true, depth);
    }
    return made;
  }

  Handle *keep(const std::shared_ptr<Frame> &frame, const Outcome &outcome) {
    Handle handle;
    for (const Node &node : frame->arguments) {
      if (node.slot->kind == Kind::new_handle) handle.kind = node.slot->handle;
    }
    handle.pointer = outcome.made;
    handle.sizes = frame->sizes;
    handle.narrow = is_narrow_frame(*frame);
    bind_sizes(*frame, handle);
    for_each_node(frame->arguments, [&](const Node &node, const Struct *) {
      if (node.slot->kind == Kind::handle && node.given) handle.set = frame->set;
      if (node.handle != nullptr && node.given) handle.uses.push_back(node.handle);
    });
    if (frame->context != nullptr) handle.uses.push_back(frame->context);
    handle.made_by = frame;
    if (!may_be_floats(*frame)) return state_.add(std::move(handle));
    Variant widened;
    widened.widened = widened.apart = true;
    const Outcome twin = execute(memory(), *frame, widened);
    if (twin.result.status != FOVEA_OK && !frame->spoiled)
      fail(*frame, std::string("refused as float32: ") + fovea_last_error());
    handle.twin = twin.made;
    return state_.add(std::move(handle));
  }

  // Calls that use the handle take its sizes: those that stand in the shapes and numbers it was made of.
  static void bind_sizes(const Frame &frame, Handle &handle) {
    handle.sizes.bound.fill(false);
    if (std::strstr(frame.function->name, "_plan_create") != nullptr) return;
    for_each_node(frame.arguments, [&](const Node &node, const Struct *) {
      if (!node.given) return;
      if (node.slot->kind == Kind::bytes) handle.sizes = frame.saved_sizes;
      if (node.slot->symbol >= 0) handle.sizes.bound[static_cast<size_t>(node.slot->symbol)] = true;
      for (size_t n = 0; n < node.slot->shape_count; ++n) {
        const Shape &shape = node.slot->shapes[n];
        for (size_t axis = 0; axis < shape.count; ++axis) {
          for (size_t symbol = 0; symbol < tables.symbol_count; ++symbol) {
            if ((shape.axes[axis].symbols >> symbol & 1) != 0) handle.sizes.bound[symbol] = true;
          }
        }
      }
    });
  }

  void change_twins(const Frame &frame, const Outcome &outcome, const std::vector<Handle *> &changed) {
    for (const Handle *handle : changed) {
      if (handle->destroyed || handle->twin == nullptr) return;
    }
    if (!may_be_floats(frame)) return;
    Variant widened;
    widened.widened = widened.apart = true;
    const Outcome wide = execute(memory(), frame, widened);
    if (wide.result.status != FOVEA_OK && !frame.spoiled)
      fail(frame, std::string("refused as float32: ") + fovea_last_error());
    if (wide.result.status == FOVEA_OK && is_narrow_frame(frame)) compare_widened(frame, outcome, wide);
  }

  Handle *destroy(const Frame &frame, size_t number) {
    const Node &node = frame.arguments[0];
    ++tally->calls[number][FOVEA_OK];
    if (!node.given || node.handle == nullptr) {
      execute(memory(), frame, {});
    } else {
      state_.destroy(node.handle);
    }
    return nullptr;
  }

  // ---- what a call needs of earlier ones ----------------------------------------------------------------------------

  // A function that reads bytes gets those that another wrote.
  void make_bytes(Choices &choices, const FunctionRow &function, int depth) {
    if (!state_.saved.empty() || depth >= most_depth) return;
    for (size_t s = 0; s < function.slot_count; ++s) {
      if (function.slots[s].kind != Kind::bytes) continue;
      for (size_t n = 0; n < tables.function_count; ++n) {
        for (size_t other = 0; other < tables.functions[n].slot_count; ++other) {
          const SlotRow &slot = tables.functions[n].slots[other];
          if (slot.kind == Kind::written_bytes && std::strcmp(slot.name, function.slots[s].name) == 0) {
            call(choices, n, true, depth + 1);
          }
        }
      }
    }
  }

  // A run of a plan takes the tensors that were planned. False where those have no memory.
  static bool plan_tensors(Frame &frame) {
    const Frame *plan = nullptr;
    for (const Node &node : frame.arguments) {
      if (node.handle != nullptr && node.handle->made_by != nullptr) plan = node.handle->made_by.get();
    }
    bool fits = true;
    for_each_node(frame.arguments, [&](Node &node, Struct *in) {
      if (in == nullptr || !in->row->buffers) return;
      if (plan == nullptr) {
        node.given = false;
        return;
      }
      node.given = false;
      for_each_node(plan->arguments, [&](const Node &planned, const Struct *of) {
        if (planned.tensor < 0 || !planned.given || !is_buffer_of(planned, of, *in->row, node.slot->name)) return;
        const Tensor &tensor = plan->tensors[static_cast<size_t>(planned.tensor)];
        fits = fits && tensor.data == DataKind::own && tensor.shares < 0 && tensor.skew == 0 && within(tensor);
        node.given = true;
        node.tensor = static_cast<int>(frame.tensors.size());
        frame.tensors.push_back(tensor);
      });
    });
    if (plan != nullptr) {
      frame.dropout = frame.dropout || plan->dropout;
      frame.medium = frame.medium || plan->medium;
      // A run has no context of its own.
      if (std::strstr(plan->function->name, "_plan_create") != nullptr) frame.set = plan->set;
    }
    return fits;
  }

  static bool within(const Tensor &tensor) {
    int64_t low = 0, high = 0;
    return reach(tensor.view, &low, &high) && tensor.first + low >= 0 &&
           tensor.first + high <= static_cast<int64_t>(tensor.bytes.size());
  }

  // A tensor's buffer has its name; that of a struct's member the struct's before it where two would have one name.
  static bool is_buffer_of(const Node &planned, const Struct *of, const StructRow &buffers, const std::string &name) {
    const std::string own = planned.slot->name;
    if (of != nullptr && std::strcmp(of->row->name, "fovea_attention_gradients") == 0) return name == "grad_" + own;
    if (of != nullptr) {
      const std::string prefix = std::string(of->row->name).substr(std::strlen("fovea_"));
      for (size_t n = 0; n < buffers.slot_count; ++n) {
        if (buffers.slots[n].name == prefix + "_" + own) return name == prefix + "_" + own;
      }
    }
    return name == own;
  }

  State state_;

 public:
  static inline Interpreter *current_ = nullptr;
};

}  // namespace

bool talkative = false;

void fuzz_one(const uint8_t *data, size_t size) {
  Choices choices(data, size);
  Interpreter interpreter;
  Interpreter::current_ = &interpreter;
  interpreter.run(choices);
}

}  // namespace fuzz
