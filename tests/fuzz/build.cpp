// A call from bytes: first which arguments there are (choose.cpp), then the sizes that the letters of the headers stand
// for (sizes.cpp), then tensors and numbers.
#include "build.hpp"

#include <algorithm>
#include <cstring>

#include "choose.hpp"
#include "scaled.hpp"

namespace fuzz {
namespace {

constexpr int64_t whole_numbers[] = {2, 8, 1, 4, 16, 3, 5, 0};
constexpr float plain_numbers[] = {0.5f, 2.0f, 1.0f, 0.125f, 1e-3f, 10000.0f, 30.0f, 0.0f};
constexpr size_t most_bytes = size_t{1} << 17;

bool is_named(const SlotRow &slot, const char *name) { return std::strcmp(slot.name, name) == 0; }

class Builder {
 public:
  explicit Builder(const Maker &maker) : state_(maker.state), choices_(maker.choices), maker_(maker) {}

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
    frame_.set = static_cast<int>(choices_.below(sets().names.size()));
    frame_.turn = static_cast<int>(choices_.below(turns));
    sizes_ = choose_sizes(maker_, frame_, choose_arguments(maker_, frame_, wanted_));
    choose_scaled();
    alternative_ = choices_.below(3);
    types_ = choices_.below(8);
    style_ = choices_.byte();
    for (int turn = 0; turn < 12; ++turn) {
      frame_.tensors.clear();
      round_sizes();
      if (fill(frame_.arguments, true)) {
        if (sizes_.size_class == huge_class && !may_be_huge()) break;
        return std::move(frame_);
      }
      for (uint64_t &size : frame_.sizes.value) size = (size + 1) / 2;  // a handle's sizes then differ from it
    }
    return std::nullopt;
  }

 private:
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

  // ---- numbers of 8 and 4 bits --------------------------------------------------------------------------------------

  struct Scaled {
    const SlotRow *numbers;
    fovea_dtype dtype;
    int symbol;     // of the size of a row
    uint64_t step;  // which that is to be a multiple of
  };

  // Where scales are given, which numbers they are for, and of how many bits. Not where the call has no such numbers.
  void choose_scaled() {
    for_each_node(frame_.arguments, [&](Node &node, Struct *) {
      if (!node.given || node.slot->kind != Kind::tensor || node.slot->elements != Elements::scales) return;
      const std::string name = numbers_named(frame_, *node.slot);
      const Node *numbers = nullptr, *first = nullptr;
      for (const Node &argument : frame_.arguments) {
        if (argument.slot->kind != Kind::tensor) continue;
        if (first == nullptr) first = &argument;
        if (name == argument.slot->name && argument.given) numbers = &argument;
      }
      node.given = numbers != nullptr;
      if (!node.given) return;
      // Keys have no 4 bits.
      const bool fours = name == "key" ? choices_.chance(4) : choices_.chance(144);
      const SlotRow &shaped = numbers->slot->shape_count != 0 ? *numbers->slot : *first->slot;
      const Shape *shape = shaped.shape_count != 0 ? &shaped.shapes[0] : nullptr;
      const int symbol = shape != nullptr && shape->count != 0 ? shape->axes[shape->count - 1].symbol : -1;
      scaled_.push_back({numbers->slot, fours ? FOVEA_U8 : FOVEA_I8, symbol, choose_step(fours, symbol)});
    });
  }

  // Some rows are of several groups.
  uint64_t choose_step(bool fours, int symbol) {
    const uint64_t step = fours ? 32 : choices_.chance(96) ? 16 : 1;
    if (step > 1 && symbol >= 0 && !frame_.sizes.bound[static_cast<size_t>(symbol)] && choices_.chance(112)) {
      frame_.sizes.value[static_cast<size_t>(symbol)] = step * (1 + choices_.below(5));
    }
    return step;
  }

  void round_sizes() {
    for (const Scaled &scaled : scaled_) {
      if (scaled.symbol < 0 || frame_.sizes.bound[static_cast<size_t>(scaled.symbol)]) continue;
      uint64_t &size = frame_.sizes.value[static_cast<size_t>(scaled.symbol)];
      size = (size + scaled.step - 1) / scaled.step * scaled.step;
    }
  }

  const Scaled *scaled_as(const SlotRow &slot) const {
    for (const Scaled &scaled : scaled_) {
      if (scaled.numbers == &slot) return &scaled;
    }
    return nullptr;
  }

  // As its numbers' but for the last axis: a scale for each group of features, of 4 bits two numbers.
  void shape_scales(Tensor &tensor) {
    const std::string name = numbers_named(frame_, *tensor.slot);
    for (const Tensor &numbers : frame_.tensors) {
      if (name != numbers.slot->name || !is_scaled(numbers.view.dtype) || numbers.view.rank < 1) continue;
      tensor.view = numbers.view;
      tensor.batch_axis = numbers.batch_axis;
      const int64_t paired = numbers.view.dtype == FOVEA_U8 ? 2 : 1, features = features_of(numbers.view);
      int64_t &count = tensor.view.shape[numbers.view.rank - 1];
      count = paired;
      const int64_t group = 16 * paired * static_cast<int64_t>(1 + choices_.below(4));
      if (features % group == 0 && features > 0 && choices_.chance(160)) count = features / group * paired;
      if (choices_.chance(6)) count = static_cast<int64_t>(choices_.below(6));  // of no groups
    }
  }

  // ---- tensors ------------------------------------------------------------------------------------------------------

  bool fill(std::vector<Node> &nodes, bool direct, const Struct *in = nullptr) {
    for (Node &node : nodes) {
      if (!node.given) continue;
      if (node.slot->kind == Kind::tensor && !fill_tensor(node, direct, in)) return false;
      if (node.structure != nullptr && !fill(node.structure->members, false, node.structure.get())) return false;
      fill_number(node, direct, in);
      note_number(node, in);
    }
    return true;
  }

  const Shape *shapes_of(const SlotRow &slot, const Struct *in, size_t *count) const {
    *count = slot.shape_count;
    const KindRow *kind = in == nullptr ? nullptr : kind_of(*in);
    for (size_t m = 0; kind != nullptr && m < kind->member_count; ++m) {
      if (&in->row->slots[kind->members[m].slot] == &slot && kind->members[m].shape_count != 0) {
        *count = kind->members[m].shape_count;
        return kind->members[m].shapes;
      }
    }
    return slot.shapes;
  }

  bool fill_tensor(Node &node, bool direct, const Struct *in) {
    const SlotRow &slot = *node.slot;
    Tensor tensor;
    tensor.slot = &slot;
    tensor.output = slot.output && is_written(frame_, in);
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
    if (slot.elements == Elements::scales) shape_scales(tensor);
    const Scaled *scaled = scaled_as(slot);
    if (scaled != nullptr && scaled->dtype == FOVEA_U8 && tensor.view.rank > 0) {
      tensor.view.shape[tensor.view.rank - 1] /= 2;
    }
    choose_type(slot, direct, tensor);
    choose_strides(tensor);
    if (sizes_.size_class == huge_class) {
      tensor.data = DataKind::forbidden;
      frame_.spoiled = frame_.huge = true;
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
    if (sizes_.form != 0 && (begins(shape, batch, heads) || begins(shape, batch, shared)) &&
        (direct || sizes_.with_heads)) {
      from = sizes_.form == 2 ? 2 : 0;
      skip_heads = sizes_.form == 1;
    } else if (sizes_.form == 2 && direct && shape.count == 3 && shape.axes[0].symbol == batch) {
      from = 1;
    }
    int rank = 0;
    const auto add = [&](int64_t size) {
      if (rank < FOVEA_MAX_RANK) tensor.view.shape[rank++] = size;
    };
    for (size_t axis = from; axis < shape.count; ++axis) {
      if (skip_heads && axis == 1) continue;
      if (shape.axes[axis].size == nullptr) {
        if (!frame_.sizes.more.empty() && sizes_.batches) tensor.batch_axis = rank;
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
    fovea_dtype dtype = types_ < 4    ? FOVEA_F32
                        : types_ == 4 ? FOVEA_F16
                        : types_ == 5 ? FOVEA_BF16
                                      : choices_.pick(mixed);
    if (!direct && choices_.chance(128)) dtype = FOVEA_F32;
    if (slot.elements == Elements::integers) dtype = choices_.chance(128) ? FOVEA_I64 : FOVEA_I32;
    if (slot.elements == Elements::truth) dtype = FOVEA_BOOL;
    if (slot.elements == Elements::scales) dtype = FOVEA_F16;
    if (const Scaled *scaled = scaled_as(slot); scaled != nullptr) dtype = scaled->dtype;
    tensor.view.dtype = dtype;
  }

  void choose_strides(Tensor &tensor) {
    fovea_tensor &view = tensor.view;
    const int last = view.rank - 1;
    const uint8_t how = strides_ ? choices_.byte() : 0;
    int64_t stride = how > 240 ? 2 : 1;
    for (int axis = last; axis >= 0; --axis) {
      view.strides[axis] = stride;
      stride = static_cast<int64_t>(static_cast<uint64_t>(stride) *
                                    std::max<uint64_t>(static_cast<uint64_t>(view.shape[axis]), 1));
      if (how % 2 == 1 && axis == last) stride += how % 5;
    }
    if (how % 8 == 2 && last >= 2 && sizes_.size_class != huge_class) {  // [B,L,H,D] seen as [B,H,L,D]
      view.strides[last - 2] = std::max<int64_t>(view.shape[last], 1);
      view.strides[last - 1] = std::max<int64_t>(view.shape[last], 1) * std::max<int64_t>(view.shape[last - 2], 1);
    }
    if (how % 8 == 4 && last >= 1 && !tensor.output) view.strides[choices_.below(static_cast<size_t>(last))] = 0;
    if (how % 8 == 6 && last >= 1 && sizes_.size_class != huge_class) view.strides[last - 1] = -view.strides[last - 1];
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
          std::memcmp(other.view.shape, tensor.view.shape, sizeof(int64_t) * static_cast<size_t>(other.view.rank)) !=
              0) {
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
    } else {
      const KindRow *kind = in == nullptr ? nullptr : kind_of(*in);
      if (kind != nullptr && (kind->numbers || !number) && !has_member(*kind, static_cast<int>(&slot - in->row->slots)))
        return;
      const int often = kind != nullptr && kind->numbers ? 232 : number ? 200 : 40;
      if (!is_wanted && !direct && !choices_.chance(often)) return;
      if (number) {
        node.integer = choices_.pick(whole_numbers);
      } else {
        node.real = choices_.pick(plain_numbers);
      }
    }
  }

  // What the number means for the rest of the call.
  void note_number(Node &node, const Struct *in) {
    if (node.slot->kind == Kind::f32 && node.real == 0 && in != nullptr) fill_width(node, *in);
    if (is_named(*node.slot, "dropout") && node.real != 0) frame_.dropout = true;
    if (is_named(*node.slot, "precision") && node.integer == FOVEA_PRECISION_MEDIUM) frame_.medium = true;
  }

  static const KindRow *kind_of(const Struct &structure) {
    const StructRow &row = *structure.row;
    if (row.kind_slot < 0) return nullptr;
    const int64_t value = structure.members[static_cast<size_t>(row.kind_slot)].integer;
    const auto *kind =
        std::find_if(row.kinds, row.kinds + row.kind_count, [value](const KindRow &k) { return k.value == value; });
    return kind == row.kinds + row.kind_count ? nullptr : kind;
  }

  // A number that its kind needs where no tensor stands for it.
  void fill_width(Node &node, const Struct &in) {
    const KindRow *kind = kind_of(in);
    if (kind == nullptr || kind->numbers) return;
    const bool tensors =
        std::any_of(kind->members, kind->members + kind->member_count, [&in](const KindMember &member) {
          const Node &other = in.members[static_cast<size_t>(member.slot)];
          return other.slot->kind == Kind::tensor && other.given;
        });
    if (!tensors && has_member(*kind, static_cast<int>(node.slot - in.row->slots))) node.real = 1.5f;
  }

  // Room of a size that some function tells of a handle among the arguments, or of any; or bytes that were written
  // before.
  void fill_bytes(Node &node) {
    if (node.slot->kind == Kind::bytes) {
      if (state_.saved.empty()) return;
      const State::Saved &saved = state_.saved[choices_.below(state_.saved.size())];
      node.bytes = saved.bytes;
      frame_.saved_sizes = saved.sizes;
      return;
    }
    std::vector<size_t> sizes;
    for (const Node &argument : frame_.arguments) {
      if (argument.handle == nullptr) continue;
      const std::vector<size_t> told = sizes_told(argument.handle->kind, argument.handle->pointer);
      sizes.insert(sizes.end(), told.begin(), told.end());
    }
    if (sizes.empty() || choices_.chance(24)) sizes = {choices_.below(256)};
    node.bytes.assign(std::min(sizes[choices_.below(sizes.size())], most_bytes), 0x5A);
  }

  State &state_;
  Choices &choices_;
  const Maker &maker_;
  Noise noise_{0};
  Frame frame_;
  const Counted *wanted_ = nullptr;
  SizeChoice sizes_;
  bool strides_ = false;
  std::vector<Scaled> scaled_;
  size_t alternative_ = 0, types_ = 0;
  int style_ = 0;
};

}  // namespace

bool is_written(const Frame &frame, const Struct *in) {
  if (in == nullptr || std::strstr(frame.function->name, "_backward") == nullptr) return true;
  const size_t length = std::strlen(in->row->name), end = std::strlen("_options");
  return length < end || std::strcmp(in->row->name + length - end, "_options") != 0;
}

int symbol_named(const char *name) {
  for (size_t n = 0; n < tables.symbol_count; ++n) {
    if (std::strcmp(tables.symbols[n], name) == 0) return static_cast<int>(n);
  }
  return -1;
}

bool has_member(const KindRow &kind, int slot) {
  for (size_t m = 0; m < kind.member_count; ++m) {
    if (kind.members[m].slot == slot) return true;
  }
  return false;
}

std::optional<Frame> build(State &state, Choices &choices, size_t function, bool plain, int depth, MakeHandle make) {
  const Maker maker = {state, choices, plain, depth, make};
  return Builder(maker).build(tables.functions[function]);
}

}  // namespace fuzz
