// A call from bytes: first which structs and handles there are, then the sizes that the letters of the headers stand for,
// then tensors and numbers.
#include "build.hpp"

#include <algorithm>
#include <cstring>

namespace fuzz {
namespace {

constexpr int64_t whole_numbers[] = {2, 8, 1, 4, 16, 3, 5, 0};
constexpr float plain_numbers[] = {0.5f, 2.0f, 1.0f, 0.125f, 1e-3f, 10000.0f, 30.0f, 0.0f};

bool is_named(const SlotRow &slot, const char *name) { return std::strcmp(slot.name, name) == 0; }

int symbol_named(const char *name) {
  for (size_t n = 0; n < tables.symbol_count; ++n) {
    if (std::strcmp(tables.symbols[n], name) == 0) return static_cast<int>(n);
  }
  return -1;
}

bool holds(const StructRow &row, const SlotRow *slot) {
  for (size_t n = 0; n < row.slot_count; ++n) {
    if (&row.slots[n] == slot) return true;
    if (row.slots[n].structure != nullptr && holds(*row.slots[n].structure, slot)) return true;
  }
  return false;
}

class Builder {
 public:
  Builder(State &state, Choices &choices, bool plain, int depth, MakeHandle make)
      : state_(state), choices_(choices), plain_(plain), depth_(depth), make_(make) {}

  std::optional<Frame> build(const FunctionRow &function) {
    frame_.function = &function;
    const std::vector<Counted> &options = counted();
    const size_t wanted = choices_.two_bytes() % (options.size() + 1);
    if (wanted > 0) wanted_ = &options[wanted - 1];
    const uint8_t layout = choices_.byte();
    noise_ = Noise(choices_.two_bytes());
    frame_.at_end = (layout & 1) == 0;
    strides_ = (layout & 6) == 6;
    frame_.environment = (layout & 24) == 24 ? layout >> 5 : 0;
    choose_set();
    frame_.arguments = make_nodes(function.slots, function.slot_count);
    choose_structs(frame_.arguments, nullptr);
    find_set();
    choose_sizes();
    for (int turn = 0; turn < 12; ++turn) {
      frame_.tensors.clear();
      if (fill(frame_.arguments, true)) {
        if (size_class_ == huge_class && !may_be_huge()) break;
        return std::move(frame_);
      }
      for (uint64_t &size : frame_.sizes.value) size = (size + 1) / 2;  // a handle's sizes then differ from it
    }
    return std::nullopt;
  }

 private:
  static std::vector<Node> make_nodes(const SlotRow *slots, size_t count) {
    std::vector<Node> nodes(count);
    for (size_t n = 0; n < count; ++n) nodes[n].slot = &slots[n];
    return nodes;
  }

  void choose_set() {
    frame_.set = static_cast<int>(choices_.below(sets().names.size()));
    frame_.turn = static_cast<int>(choices_.below(turns));
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

  // ---- which structs, handles and tensors there are ------------------------------------------------------------------

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
          node.given = in == nullptr ? plain_ || !choices_.chance(8) : is_wanted || choices_.chance(64);
          if (node.given) choose_handle(node, slot);
          break;
        case Kind::tensor:
          node.given = in != nullptr    ? is_wanted || choices_.chance(32)
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

  // Of lists of members of which one is to be given.
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

  static bool has_member(const KindRow &kind, int slot) {
    for (size_t m = 0; m < kind.member_count; ++m) {
      if (kind.members[m].slot == slot) return true;
    }
    return false;
  }

  void choose_handle(Node &node, const SlotRow &slot) {
    static const int contexts = handle_kind("fovea_context_destroy");
    if (slot.handle == contexts) {
      const std::vector<Handle *> own = state_.alive(contexts);
      const bool destroys = slot.kind == Kind::changed_handle;
      if (!own.empty() && (destroys || choices_.chance(16))) frame_.context = own[choices_.below(own.size())];
      if (destroys && frame_.context == nullptr) frame_.context = make_(state_, choices_, contexts, depth_);
      node.handle = frame_.context;
      node.given = node.handle != nullptr || (!destroys && !choices_.chance(8));
      return;
    }
    const std::vector<Handle *> alive = state_.alive(slot.handle), dead = state_.dead(slot.handle);
    static const int caches = handle_kind("fovea_kv_cache_destroy");
    if (slot.handle == caches && !dead.empty() && !plain_ && choices_.chance(16)) {
      node.handle = dead[choices_.below(dead.size())];  // of these handles alone a stale one is allowed
      frame_.spoiled = true;
      return;
    }
    const bool another = alive.empty() || choices_.chance(32);
    node.handle = another ? make_(state_, choices_, slot.handle, depth_) : alive[choices_.below(alive.size())];
    node.given = node.handle != nullptr;
    if (node.handle == nullptr) return;
    for (size_t n = 0; n < max_symbols; ++n) {
      if (node.handle->sizes.bound[n]) frame_.sizes.bind(n, node.handle->sizes.value[n]);
    }
    bind_length(*node.handle, slot);
    if (node.handle->set >= 0 && (plain_ || !choices_.chance(8))) frame_.set = node.handle->set;
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

  // ---- sizes ---------------------------------------------------------------------------------------------------------

  uint64_t one_size() {
    switch (size_class_) {
      case 0: return 1 + choices_.below(4);
      case 1: return choices_.below(9);
      case 2: return 1 + choices_.below(24);
      case 4: return choices_.chance(24) ? 33 + choices_.below(130) : 1 + choices_.below(3);
      case huge_class: {
        constexpr uint64_t sizes[] = {0, 1, 2, 0, 1, uint64_t{1} << 30, uint64_t{1} << 40, uint64_t{1} << 56};
        return choices_.pick(sizes);
      }
      default: return 2 * (1 + choices_.below(3));
    }
  }
  static constexpr int huge_class = 5;

  // Sizes beyond any memory are for plans, which read no data, and for calls that have nothing to compute.
  bool may_be_huge() const {
    if (std::strstr(frame_.function->name, "_plan_create") != nullptr) {
      return std::none_of(frame_.tensors.begin(), frame_.tensors.end(),
                          [](const Tensor &tensor) { return is_named(*tensor.slot, "sigmas"); });
    }
    bool outputs = false, computes = false, changes = false;
    for (const Tensor &tensor : frame_.tensors) {
      int64_t low = 0, high = 0;
      if (!tensor.output) continue;
      outputs = true;
      computes = computes || !reach(tensor.view, &low, &high) || high != 0;
    }
    for_each_node(frame_.arguments, [&](const Node &node, const Struct *) {
      changes = changes || node.slot->kind == Kind::new_handle ||
                (node.slot->kind == Kind::changed_handle && node.handle != nullptr);
    });
    return outputs && !computes && !changes;
  }

  // Which sizes are the same: 0: those that begin with the same letter; 1: none has to be; 2: all.
  void choose_sizes() {
    size_class_ = static_cast<int>(choices_.below(plain_ ? 5 : 6));
    const uint8_t alike = choices_.byte();
    const size_t how = alike < 128 ? 0 : alike < 192 ? 1 : 2;
    Sizes &sizes = frame_.sizes;
    const uint64_t common = one_size();
    for (size_t n = 0; n < tables.symbol_count; ++n) {
      if (sizes.bound[n]) continue;
      uint64_t size = how == 2 ? common : one_size();
      for (size_t other = 0; how == 0 && other < tables.symbol_count; ++other) {
        if (tables.symbols[other][0] == tables.symbols[n][0] && (other < n || sizes.bound[other])) {
          size = sizes.value[other];
          break;
        }
      }
      sizes.value[n] = size;
    }
    const int heads = symbol_named("H"), shared = symbol_named("Hkv"), batch = symbol_named("B");
    if (heads >= 0 && shared >= 0) {
      const auto h = static_cast<size_t>(heads), k = static_cast<size_t>(shared);
      if (!sizes.bound[k] && !sizes.bound[h]) sizes.value[k] = std::max<uint64_t>(sizes.value[k], 1);
      if (!sizes.bound[h]) sizes.value[h] = sizes.value[k] * (how == 2 ? 1 : 1 + choices_.below(3));  // may wrap around
    }
    for (const int *equal : equal_) sizes.value[static_cast<size_t>(equal[1])] = sizes.value[static_cast<size_t>(equal[0])];
    for (size_t more = choices_.below(4); more-- > 0;) {
      sizes.more.push_back(static_cast<int64_t>(size_class_ == 1 ? choices_.below(4) : 1 + choices_.below(3)));
    }
    choose_form(batch, heads, shared);
    alternative_ = choices_.below(3);
    types_ = choices_.below(8);
    style_ = choices_.byte();
  }

  // Attention's tensors may come without heads, or without batch and heads.
  void choose_form(int batch, int heads, int shared) {
    bool ellipsis = false;
    for (const Node &node : frame_.arguments) {
      for (size_t n = 0; n < node.slot->shape_count; ++n) {
        const Shape &shape = node.slot->shapes[n];
        with_heads_ = with_heads_ || begins(shape, batch, heads);
        for (size_t axis = 0; axis < shape.count; ++axis) ellipsis = ellipsis || shape.axes[axis].size == nullptr;
      }
    }
    Sizes &sizes = frame_.sizes;
    if (batch < 0) return;
    if (ellipsis) {
      sizes.value[static_cast<size_t>(batch)] = sizes.more.empty() ? 1 : static_cast<uint64_t>(sizes.more[0]);
      return;
    }
    const uint8_t form = choices_.byte();
    form_ = form < 176 ? 0 : form < 208 && with_heads_ ? 1 : 2;
    if (form_ != 0 && with_heads_) sizes.value[static_cast<size_t>(heads)] = sizes.value[static_cast<size_t>(shared)] = 1;
    if (form_ == 2) sizes.value[static_cast<size_t>(batch)] = 1;
  }

  static bool begins(const Shape &shape, int first, int second) {
    return shape.count >= 2 && shape.axes[0].symbol == first && shape.axes[1].symbol == second;
  }

  // ---- tensors and numbers -------------------------------------------------------------------------------------------

  bool fill(std::vector<Node> &nodes, bool direct, const Struct *in = nullptr) {
    for (Node &node : nodes) {
      if (!node.given) continue;
      if (node.slot->kind == Kind::tensor && !fill_tensor(node, direct, in)) return false;
      if (node.structure != nullptr && !fill(node.structure->members, false, node.structure.get())) return false;
      fill_number(node, direct, in);
    }
    return true;
  }

  const Shape *shapes_of(const SlotRow &slot, const Struct *in, size_t *count) const {
    *count = slot.shape_count;
    if (in != nullptr && in->row->kind_slot >= 0) {
      const int64_t value = in->members[static_cast<size_t>(in->row->kind_slot)].integer;
      for (size_t k = 0; k < in->row->kind_count; ++k) {
        const KindRow &kind = in->row->kinds[k];
        for (size_t m = 0; kind.value == value && m < kind.member_count; ++m) {
          if (&in->row->slots[kind.members[m].slot] == &slot && kind.members[m].shape_count != 0) {
            *count = kind.members[m].shape_count;
            return kind.members[m].shapes;
          }
        }
      }
    }
    return slot.shapes;
  }

  bool fill_tensor(Node &node, bool direct, const Struct *in) {
    const SlotRow &slot = *node.slot;
    Tensor tensor;
    tensor.slot = &slot;
    tensor.output = slot.output;
    size_t count = 0;
    const Shape *shapes = shapes_of(slot, in, &count);
    if (count == 0 && copy_shape(slot, tensor)) {
    } else if (count == 0) {
      tensor.view.rank = static_cast<int32_t>(std::min<size_t>(frame_.sizes.more.size() + 1, FOVEA_MAX_RANK));
      for (int axis = 0; axis < tensor.view.rank; ++axis) {
        tensor.view.shape[axis] = axis + 1 < tensor.view.rank ? frame_.sizes.more[static_cast<size_t>(axis)]
                                                              : static_cast<int64_t>(frame_.sizes.value[0]);
      }
    } else {
      const bool other = choices_.chance(32);
      evaluate(shapes[std::min(other ? choices_.below(count) : alternative_, count - 1)], direct, tensor);
    }
    choose_type(slot, direct, tensor);
    choose_strides(tensor);
    if (size_class_ == huge_class) {
      tensor.data = DataKind::forbidden;
      frame_.spoiled = true;
      node.tensor = static_cast<int>(frame_.tensors.size());
      frame_.tensors.push_back(std::move(tensor));
      return true;
    }
    const uint64_t most = slot.bound == nullptr ? 3 : slot.bound(frame_.sizes.value.data());
    if (!give_memory(tensor, noise_, style_, std::min<uint64_t>(most, INT32_MAX))) return false;
    if (tensor.output && choices_.chance(16)) place_in_input(tensor);
    node.tensor = static_cast<int>(frame_.tensors.size());
    frame_.tensors.push_back(std::move(tensor));
    return true;
  }

  // The shape of the tensor that the headers name, else of the first one.
  bool copy_shape(const SlotRow &slot, Tensor &tensor) const {
    const Tensor *from = nullptr;
    for (const Tensor &other : frame_.tensors) {
      if (slot.shape_of != nullptr ? is_named(*other.slot, slot.shape_of) : from == nullptr) from = &other;
    }
    if (from == nullptr) return false;
    tensor.view.rank = from->view.rank;
    std::copy(std::begin(from->view.shape), std::end(from->view.shape), tensor.view.shape);
    tensor.batch_axis = from->batch_axis;
    return true;
  }

  void evaluate(const Shape &shape, bool direct, Tensor &tensor) const {
    static const int batch = symbol_named("B"), heads = symbol_named("H"), shared = symbol_named("Hkv");
    size_t from = 0;
    bool skip_heads = false;
    if (form_ != 0 && (begins(shape, batch, heads) || begins(shape, batch, shared)) && (direct || with_heads_)) {
      from = form_ == 2 ? 2 : 0;
      skip_heads = form_ == 1;
    } else if (form_ == 2 && direct && shape.count == 3 && shape.axes[0].symbol == batch) {
      from = 1;
    }
    int rank = 0;
    const auto add = [&](int64_t size) {
      if (rank < FOVEA_MAX_RANK) tensor.view.shape[rank++] = size;
    };
    for (size_t axis = from; axis < shape.count; ++axis) {
      if (skip_heads && axis == 1) continue;
      if (shape.axes[axis].size == nullptr) {
        if (!frame_.sizes.more.empty()) tensor.batch_axis = rank;
        for (const int64_t size : frame_.sizes.more) add(size);
        continue;
      }
      if (shape.axes[axis].symbol == batch && batch >= 0) tensor.batch_axis = rank;
      add(static_cast<int64_t>(shape.axes[axis].size(frame_.sizes.value.data())));
    }
    tensor.view.rank = rank;
  }

  void choose_type(const SlotRow &slot, bool direct, Tensor &tensor) {
    constexpr fovea_dtype mixed[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};
    fovea_dtype dtype = types_ < 4 ? FOVEA_F32 : types_ == 4 ? FOVEA_F16 : types_ == 5 ? FOVEA_BF16 : choices_.pick(mixed);
    if (!direct && choices_.chance(128)) dtype = FOVEA_F32;
    if (slot.elements == Elements::integers) dtype = choices_.chance(128) ? FOVEA_I64 : FOVEA_I32;
    if (slot.elements == Elements::truth) dtype = FOVEA_BOOL;
    tensor.view.dtype = dtype;
  }

  void choose_strides(Tensor &tensor) {
    fovea_tensor &view = tensor.view;
    const int last = view.rank - 1;
    const uint8_t how = strides_ ? choices_.byte() : 0;
    int64_t stride = how > 240 ? 2 : 1;
    for (int axis = last; axis >= 0; --axis) {
      view.strides[axis] = stride;
      stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * std::max<uint64_t>(static_cast<uint64_t>(view.shape[axis]), 1));
      if (how % 2 == 1 && axis == last) stride += how % 5;
    }
    if (how % 8 == 2 && last >= 2 && size_class_ != huge_class) {  // [B,L,H,D] seen as [B,H,L,D]
      view.strides[last - 2] = std::max<int64_t>(view.shape[last], 1);
      view.strides[last - 1] = std::max<int64_t>(view.shape[last], 1) * std::max<int64_t>(view.shape[last - 2], 1);
    }
    if (how % 8 == 4 && last >= 1 && !tensor.output) view.strides[choices_.below(static_cast<size_t>(last))] = 0;
    if (how % 8 == 6 && last >= 1 && size_class_ != huge_class) view.strides[last - 1] = -view.strides[last - 1];
    for (int axis = 0; how % 16 == 3 && axis <= last; ++axis) {
      if (view.shape[axis] == 1) view.strides[axis] = static_cast<int64_t>(noise_.next());
    }
  }

  // In place, as far as types, shapes and strides are those of an input.
  void place_in_input(Tensor &tensor) {
    for (size_t n = 0; n < frame_.tensors.size(); ++n) {
      const Tensor &other = frame_.tensors[n];
      if (other.output || other.shares >= 0 || other.view.dtype != tensor.view.dtype ||
          other.view.rank != tensor.view.rank ||
          std::memcmp(other.view.shape, tensor.view.shape, sizeof(int64_t) * static_cast<size_t>(other.view.rank)) != 0) {
        continue;
      }
      tensor.view = other.view;
      tensor.bytes.clear();
      tensor.first = other.first;
      tensor.shares = static_cast<int>(n);
      return;
    }
  }

  void fill_number(Node &node, bool direct, const Struct *in) {
    const SlotRow &slot = *node.slot;
    const bool is_wanted = wanted_ != nullptr && wanted_->slot == &slot;
    const bool number = slot.kind == Kind::i32 || slot.kind == Kind::u32 || slot.kind == Kind::i64 ||
                        slot.kind == Kind::u64 || slot.kind == Kind::size;
    if (slot.kind == Kind::text) {
      node.text = slot.word_count == 0 ? "" : slot.words[choices_.below(slot.word_count)];
    } else if (slot.kind == Kind::callback || slot.kind == Kind::address) {
      node.integer = static_cast<int64_t>(choices_.below(3));
    } else if (slot.kind == Kind::bytes || slot.kind == Kind::written_bytes) {
      fill_bytes(node);
    } else if (slot.kind == Kind::integers) {
      for (int n = 0; n < FOVEA_MAX_RANK; ++n) node.bytes.push_back(static_cast<uint8_t>(choices_.below(5)));
    } else if (slot.kind == Kind::dl_tensor) {
      for (int n = 0; n < 24; ++n) node.bytes.push_back(choices_.byte());
    } else if (slot.reserved || (!number && slot.kind != Kind::f32)) {
      return;
    } else if (in != nullptr && in->row->kind_slot >= 0 && &in->row->slots[in->row->kind_slot] == &slot) {
      return;  // chosen before
    } else if (slot.value_count != 0) {
      if (!is_wanted && !direct && !choices_.chance(48)) return;
      node.integer = slot.values[choices_.below(slot.value_count)].value;
      if (is_wanted && wanted_->value >= 0) node.integer = slot.values[wanted_->value].value;
      if (slot.bits && choices_.chance(96)) node.integer |= slot.values[choices_.below(slot.value_count)].value;
    } else if (slot.symbol >= 0) {
      node.integer = static_cast<int64_t>(frame_.sizes.value[static_cast<size_t>(slot.symbol)]);
    } else if (number) {
      if (is_wanted || direct || choices_.chance(200)) node.integer = choices_.pick(whole_numbers);
    } else if (is_wanted || direct || choices_.chance(40)) {
      const KindRow *kind = nullptr;
      for (size_t k = 0; in != nullptr && k < in->row->kind_count; ++k) {
        const KindRow &row = in->row->kinds[k];
        if (row.value == in->members[static_cast<size_t>(in->row->kind_slot)].integer) kind = &row;
      }
      if (kind != nullptr && !has_member(*kind, static_cast<int>(&slot - in->row->slots))) return;
      node.real = choices_.pick(plain_numbers);
    }
    if (slot.kind == Kind::f32 && node.real == 0 && in != nullptr && in->row->kind_slot >= 0) fill_width(node, *in);
    if (is_named(slot, "dropout") && node.real != 0) frame_.dropout = true;
    if (is_named(slot, "precision") && node.integer == FOVEA_PRECISION_MEDIUM) frame_.medium = true;
  }

  // A number that its kind needs where no tensor stands for it.
  void fill_width(Node &node, const Struct &in) {
    for (size_t k = 0; k < in.row->kind_count; ++k) {
      const KindRow &kind = in.row->kinds[k];
      if (kind.value != in.members[static_cast<size_t>(in.row->kind_slot)].integer) continue;
      bool tensors = false;
      for (size_t m = 0; m < kind.member_count; ++m) {
        tensors = tensors || in.members[static_cast<size_t>(kind.members[m].slot)].tensor >= 0 ||
                  (in.members[static_cast<size_t>(kind.members[m].slot)].slot->kind == Kind::tensor &&
                   in.members[static_cast<size_t>(kind.members[m].slot)].given);
      }
      if (!tensors && has_member(kind, static_cast<int>(node.slot - in.row->slots))) node.real = 1.5f;
    }
  }

  // Room of a size that some function tells of a handle among the arguments, or of any; or bytes that were written before.
  void fill_bytes(Node &node) {
    if (node.slot->kind == Kind::bytes) {
      if (!state_.saved.empty()) node.bytes = state_.saved[choices_.below(state_.saved.size())];
      return;
    }
    std::vector<size_t> sizes;
    for (const Node &argument : frame_.arguments) {
      if (argument.handle == nullptr || argument.handle->destroyed) continue;
      for (size_t n = 0; n < tables.function_count; ++n) {
        const FunctionRow &function = tables.functions[n];
        if (function.result != ResultKind::size || function.slot_count != 1 ||
            function.slots[0].handle != argument.slot->handle) {
          continue;
        }
        Word word;
        word.pointer = argument.handle->pointer;
        Result result;
        function.call(&word, result);
        sizes.push_back(result.size);
      }
    }
    if (sizes.empty() || choices_.chance(24)) sizes = {choices_.below(256)};
    node.bytes.assign(std::min(sizes[choices_.below(sizes.size())], block_capacity_for_bytes), 0x5A);
  }
  static constexpr size_t block_capacity_for_bytes = size_t{1} << 17;

  State &state_;
  Choices &choices_;
  Noise noise_{0};
  Frame frame_;
  const Counted *wanted_ = nullptr;
  std::vector<const int *> equal_;
  const bool plain_;
  const int depth_;
  const MakeHandle make_;
  bool strides_ = false, with_heads_ = false;
  int size_class_ = 0, form_ = 0;
  size_t alternative_ = 0, types_ = 0;
  int style_ = 0;
};

}  // namespace

std::optional<Frame> build(State &state, Choices &choices, size_t function, bool plain, int depth, MakeHandle make) {
  return Builder(state, choices, plain, depth, make).build(tables.functions[function]);
}

}  // namespace fuzz
