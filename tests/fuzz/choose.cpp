// Which structs, handles and tensors a call is given.
#include <algorithm>
#include <cstring>

#include "choose.hpp"

namespace fuzz {
namespace {

bool holds(const StructRow &row, const SlotRow *slot) {
  for (size_t n = 0; n < row.slot_count; ++n) {
    if (&row.slots[n] == slot) return true;
    if (row.slots[n].structure != nullptr && holds(*row.slots[n].structure, slot)) return true;
  }
  return false;
}

class Chooser {
 public:
  Chooser(const Maker &maker, Frame &frame, const Counted *wanted)
      : maker_(maker), choices_(maker.choices), frame_(frame), wanted_(wanted) {}

  std::vector<const int *> choose() {
    frame_.arguments = make_nodes(frame_.function->slots, frame_.function->slot_count);
    choose_structs(frame_.arguments, nullptr);
    find_set();
    return std::move(equal_);
  }

 private:
  static std::vector<Node> make_nodes(const SlotRow *slots, size_t count) {
    std::vector<Node> nodes(count);
    for (size_t n = 0; n < count; ++n) nodes[n].slot = &slots[n];
    return nodes;
  }

  // The instruction set of the context that was chosen, if it is none of ours.
  void find_set() {
    const fovea_context *context = nullptr;
    for (const Node &node : frame_.arguments) {
      static const int contexts = handle_kind("fovea_context_destroy");
      if (node.slot->kind != Kind::handle || node.slot->handle != contexts) continue;
      if (node.given && frame_.context == nullptr) return;
      if (node.given) context = static_cast<const fovea_context *>(frame_.context->pointer);
      const char *name = fovea_isa_name(context);
      for (size_t n = 0; n < sets().names.size(); ++n) {
        if (sets().names[n] == name) frame_.set = static_cast<int>(n);
      }
    }
  }
  void choose_structs(std::vector<Node> &nodes, Struct *in) {
    for (Node &node : nodes) {
      const SlotRow &slot = *node.slot;
      const bool is_wanted = wanted_ != nullptr && wanted_->slot == &slot;
      switch (slot.kind) {
        case Kind::structure: {
          const bool inside = wanted_ != nullptr && holds(*slot.structure, wanted_->slot);
          node.given = inside || is_wanted || (in == nullptr ? !choices_.chance(32) : choices_.chance(64));
          if (!node.given) break;
          node.structure = std::make_unique<Struct>();
          node.structure->row = slot.structure;
          node.structure->struct_size = slot.structure->size;
          node.structure->members = make_nodes(slot.structure->slots, slot.structure->slot_count);
          choose_structs(node.structure->members, node.structure.get());
          choose_kind(*node.structure);
          break;
        }
        case Kind::handle:
        case Kind::changed_handle:
          node.given = in == nullptr ? maker_.plain || !choices_.chance(8) : is_wanted || choices_.chance(64);
          if (node.given) choose_handle(node, slot);
          break;
        case Kind::tensor:
          node.given = in != nullptr   ? is_wanted || is_needed(slot, *in) || choices_.chance(32)
                       : slot.optional ? !choices_.chance(96)
                                       : !choices_.chance(8);
          break;
        case Kind::text:
        case Kind::callback:
        case Kind::address: node.given = is_wanted || choices_.chance(in == nullptr ? 250 : 64); break;
        default: node.given = true; break;
      }
    }
    if (in != nullptr) choose_group(*in, nodes);
  }

  // Of options a backward pass has to have what the forward call left.
  bool is_needed(const SlotRow &slot, const Struct &in) {
    return std::strcmp(slot.name, "log_sum_exp") == 0 && !is_written(frame_, &in) && !choices_.chance(16);
  }

  // Gives one member of each list of which exactly one has to be given.
  void choose_group(Struct &structure, std::vector<Node> &nodes) {
    const StructRow &row = *structure.row;
    if (row.group_count == 0) return;
    size_t chosen = choices_.below(row.group_count);
    for (size_t g = 0; g < row.group_count; ++g) {
      for (size_t n = 0; n < row.groups[g].count; ++n) {
        if (wanted_ != nullptr && wanted_->slot == &row.slots[row.groups[g].slots[n]]) chosen = g;
      }
    }
    for (size_t g = 0; g < row.group_count; ++g) {
      for (size_t n = 0; n < row.groups[g].count; ++n) {
        nodes[static_cast<size_t>(row.groups[g].slots[n])].given = g == chosen;
      }
    }
  }

  // The members of one kind, given; those of other kinds not.
  void choose_kind(Struct &structure) {
    const StructRow &row = *structure.row;
    if (row.kind_slot < 0) return;
    size_t chosen = choices_.below(row.kind_count);
    for (size_t k = 0; k < row.kind_count; ++k) {
      for (size_t m = 0; m < row.kinds[k].member_count; ++m) {
        if (wanted_ != nullptr && wanted_->slot == &row.slots[row.kinds[k].members[m].slot] &&
            (chosen >= row.kind_count || !has_member(row.kinds[chosen], row.kinds[k].members[m].slot))) {
          chosen = k;
        }
      }
      if (wanted_ != nullptr && wanted_->slot == &row.slots[row.kind_slot] && wanted_->value >= 0 &&
          row.kinds[k].value == wanted_->slot->values[wanted_->value].value) {
        chosen = k;
      }
    }
    const KindRow &kind = row.kinds[chosen];
    for (size_t n = 0; n < row.slot_count; ++n) {
      Node &member = structure.members[n];
      if (member.slot->kind == Kind::tensor) member.given = false;
    }
    structure.members[static_cast<size_t>(row.kind_slot)].integer = kind.value;
    for (size_t m = 0; m < kind.member_count; ++m) {
      Node &member = structure.members[static_cast<size_t>(kind.members[m].slot)];
      if (member.slot->kind != Kind::tensor) continue;
      const bool is_wanted = wanted_ != nullptr && wanted_->slot == member.slot;
      member.given = is_wanted || (kind.members[m].shape_count != 0 ? !choices_.chance(16) : choices_.chance(128));
    }
    if (kind.equal[0] >= 0) equal_.push_back(kind.equal);
  }

  void choose_handle(Node &node, const SlotRow &slot) {
    static const int contexts = handle_kind("fovea_context_destroy");
    if (slot.handle == contexts) {
      const std::vector<Handle *> own = maker_.state.alive(contexts);
      const bool destroys = slot.kind == Kind::changed_handle;
      if (!own.empty() && (destroys || choices_.chance(16))) frame_.context = own[choices_.below(own.size())];
      if (destroys && frame_.context == nullptr)
        frame_.context = maker_.make(maker_.state, choices_, contexts, maker_.depth);
      node.handle = frame_.context;
      node.given = node.handle != nullptr || (!destroys && !choices_.chance(8));
      return;
    }
    const std::vector<Handle *> alive = maker_.state.alive(slot.handle);
    const bool another = alive.empty() || choices_.chance(32);
    node.handle =
        another ? maker_.make(maker_.state, choices_, slot.handle, maker_.depth) : alive[choices_.below(alive.size())];
    node.given = node.handle != nullptr;
    if (node.handle == nullptr) return;
    for (size_t n = 0; n < max_symbols; ++n) {
      if (node.handle->sizes.bound[n]) frame_.sizes.bind(n, node.handle->sizes.value[n]);
    }
    bind_length(*node.handle, slot);
    if (node.handle->set >= 0 && (maker_.plain || !choices_.chance(8))) frame_.set = node.handle->set;
  }

  // K is what the handle holds, where a function tells that.
  void bind_length(const Handle &handle, const SlotRow &slot) {
    std::string name = tables.destroyers[slot.handle];
    name.replace(name.rfind("_destroy"), std::string::npos, "_length");
    for (size_t n = 0; n < tables.function_count; ++n) {
      if (name != tables.functions[n].name) continue;
      Word word;
      word.pointer = handle.pointer;
      Result result;
      tables.functions[n].call(&word, result);
      if (const int keys = symbol_named("K"); keys >= 0) {
        frame_.sizes.bind(static_cast<size_t>(keys), static_cast<uint64_t>(result.number));
      }
    }
  }
  const Maker &maker_;
  Choices &choices_;
  Frame &frame_;
  const Counted *wanted_;
  std::vector<const int *> equal_;
};

}  // namespace

std::vector<const int *> choose_arguments(const Maker &maker, Frame &frame, const Counted *wanted) {
  return Chooser(maker, frame, wanted).choose();
}

}  // namespace fuzz
