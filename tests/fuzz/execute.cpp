#include "execute.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "float_environment.hpp"
#include "numbers.hpp"
#include "scaled.hpp"
#include "watch.hpp"

namespace fuzz {
namespace {

// A block that the call may not change, and what it held.
struct Kept {
  Block block;
  std::vector<uint8_t> bytes;
};

class Execution {
 public:
  Execution(Memory &memory, const Frame &frame, const Variant &variant)
      : memory_(memory), frame_(frame), variant_(variant), words_(frame.arguments.size()) {}

  Outcome run() {
    place_tensors();
    const FunctionRow &function = variant_.function != nullptr ? *variant_.function : *frame_.function;
    for (size_t n = 0; n < function.slot_count; ++n) words_[n] = word_of(frame_.arguments[n], n);
    remember();
    call(function);
    const bool failed = function.result == ResultKind::status && outcome_.result.status != FOVEA_OK;
    check_memory(failed);
    if (function.result == ResultKind::status) check_status(failed);
    if (function.result == ResultKind::text) check_text(outcome_.result.text);
    if (!failed) collect();
    memory_.release_all();
    return std::move(outcome_);
  }

 private:
  [[noreturn]] void wrong(const std::string &what) const {
    std::string text = what;
    if (variant_.widened) text += " (as float32)";
    if (variant_.entry >= 0) text += " (entry " + std::to_string(variant_.entry) + " of the batch)";
    if (variant_.function != nullptr) text += std::string(" (as ") + variant_.function->name + ")";
    fail(frame_, text);
  }

  // ---- memory -------------------------------------------------------------------------------------------------------

  bool widens(const Tensor &tensor) const {
    return variant_.widened && is_narrow(tensor.view.dtype) && tensor.slot->elements != Elements::scales;
  }
  // Whether floats stand for numbers with scales.
  bool makes_floats(const Tensor &tensor) const { return variant_.widened && scales_of(frame_, tensor) >= 0; }
  bool is_left_out(const Tensor &tensor) const { return variant_.widened && is_of_rows(frame_, tensor); }

  void place_tensors() {
    blocks_.resize(frame_.tensors.size());
    for (size_t n = 0; n < frame_.tensors.size(); ++n) {
      const Tensor &tensor = frame_.tensors[n];
      if (tensor.shares >= 0 && !variant_.apart) continue;
      const Tensor &from = tensor.shares >= 0 ? frame_.tensors[static_cast<size_t>(tensor.shares)] : tensor;
      std::vector<uint8_t> bytes = from.bytes;
      if (makes_floats(tensor)) {
        fovea_tensor view;
        bytes = floats_of(frame_, tensor, &view);
      } else if (widens(tensor)) {
        bytes.resize(from.bytes.size() * 2);
        for (size_t at = 0; at + 2 <= from.bytes.size(); at += 2) {
          uint16_t narrow = 0;
          std::memcpy(&narrow, from.bytes.data() + at, 2);
          const uint32_t wide = widened(narrow, tensor.view.dtype);
          std::memcpy(bytes.data() + 2 * at, &wide, 4);
        }
      }
      blocks_[n] = memory_.take(bytes.size(), frame_.at_end);
      if (!bytes.empty()) std::memcpy(blocks_[n].data, bytes.data(), bytes.size());
    }
  }

  Block owner(const Tensor &tensor) const {
    const size_t n = static_cast<size_t>(&tensor - frame_.tensors.data());
    return blocks_[tensor.shares >= 0 && !variant_.apart ? static_cast<size_t>(tensor.shares) : n];
  }

  fovea_tensor view_of(const Tensor &tensor) const {
    fovea_tensor view = tensor.view;
    int64_t first = tensor.first;
    if (makes_floats(tensor)) {
      floats_of(frame_, tensor, &view);
      first = 0;
    } else if (widens(tensor)) {
      view.dtype = FOVEA_F32;
      first *= 2;
    }
    view.data = owner(tensor).data + first + tensor.skew;
    if (variant_.entry >= 0 && tensor.batch_axis >= 0 && view.shape[tensor.batch_axis] > 1) {
      view.shape[tensor.batch_axis] = 1;
      view.data = static_cast<uint8_t *>(view.data) +
                  variant_.entry * view.strides[tensor.batch_axis] * static_cast<int64_t>(element_size(view.dtype));
    }
    if (tensor.data == DataKind::null) view.data = nullptr;
    if (tensor.data == DataKind::forbidden) view.data = Memory::forbidden();
    return view;
  }

  void *place(const void *bytes, size_t size, bool aligned = true) {
    const Block block = memory_.take(size, aligned ? size % 8 == 0 : frame_.at_end);
    if (size != 0) std::memcpy(block.data, bytes, size);
    kept_.push_back({block, {}});
    return block.data;
  }
  // Memory that a function that succeeds may write.
  void *place_written(const void *bytes, size_t size, size_t argument) {
    const Block block = memory_.take(size, true);
    if (size != 0) std::memcpy(block.data, bytes, size);
    written_.push_back({block, {}});
    written_by_[argument] = block;
    return block.data;
  }

  void *place_struct(const Struct &structure) {
    const StructRow &row = *structure.row;
    const size_t sane =
        structure.struct_size < 8 || structure.struct_size > row.size + 64 ? row.size : structure.struct_size;
    std::vector<uint8_t> bytes(std::max(row.size, sane), structure.beyond);
    std::fill(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(row.size), uint8_t{0});
    std::memcpy(bytes.data(), &structure.struct_size, sizeof(size_t));
    for (const Node &member : structure.members) {
      const Word word = word_of(member, 0);
      uint8_t *at = bytes.data() + member.slot->offset;
      switch (member.slot->kind) {
        case Kind::i32:
        case Kind::u32: std::memcpy(at, &word.integer, 4); break;
        case Kind::i64:
        case Kind::u64:
        case Kind::size: std::memcpy(at, &word.integer, 8); break;
        case Kind::f32: std::memcpy(at, &word.real, 4); break;
        default: std::memcpy(at, &word.pointer, sizeof(void *)); break;
      }
    }
    return place(bytes.data(), sane);
  }

  // ---- arguments ----------------------------------------------------------------------------------------------------

  Word word_of(const Node &node, size_t argument) {
    Word word;
    word.integer = node.integer;
    word.real = node.real;
    const SlotRow &slot = *node.slot;
    if (slot.handle >= 0 && (slot.kind == Kind::handle || slot.kind == Kind::changed_handle)) {
      word.pointer = handle_pointer(node);
      return word;
    }
    if (slot.kind == Kind::size_of_bytes) {
      word.integer = static_cast<int64_t>(bytes_size_);
      return word;
    }
    if (!node.given) {
      bytes_size_ = slot.kind == Kind::bytes || slot.kind == Kind::written_bytes ? 0 : bytes_size_;
      return word;
    }
    switch (slot.kind) {
      case Kind::tensor: {
        if (is_left_out(frame_.tensors[static_cast<size_t>(node.tensor)])) break;
        const fovea_tensor view = view_of(frame_.tensors[static_cast<size_t>(node.tensor)]);
        word.pointer = place(&view, sizeof view);
        break;
      }
      case Kind::structure: word.pointer = place_struct(*node.structure); break;
      case Kind::written_tensor: {
        fovea_tensor before;
        std::memset(&before, 0x5A, sizeof before);
        word.pointer = place_written(&before, sizeof before, argument);
        break;
      }
      case Kind::new_handle: {
        void *before = Memory::forbidden();
        word.pointer = place_written(&before, sizeof before, argument);
        break;
      }
      case Kind::written_bytes: {
        std::vector<uint8_t> bytes = node.bytes;
        bytes.resize(std::max(bytes.size(), room_for_twins()));
        word.pointer = place_written(bytes.data(), bytes.size(), argument);
        bytes_size_ = bytes.size();
        break;
      }
      case Kind::bytes:
        word.pointer = place(node.bytes.data(), node.bytes.size(), false);
        bytes_size_ = node.bytes.size();
        break;
      case Kind::text: word.pointer = place(node.text, std::strlen(node.text) + 1, false); break;
      case Kind::buffer:
        if (node.tensor < 0 || is_left_out(frame_.tensors[static_cast<size_t>(node.tensor)])) break;
        word.pointer = view_of(frame_.tensors[static_cast<size_t>(node.tensor)]).data;
        break;
      case Kind::address: word.pointer = Memory::forbidden(); break;
      case Kind::callback:
        word.pointer = reinterpret_cast<void *>(node.integer % 2 == 0 ? in_order : twice_in_order);
        break;
      case Kind::integers: {
        int64_t numbers[FOVEA_MAX_RANK] = {};
        for (size_t n = 0; n < node.bytes.size() && n < FOVEA_MAX_RANK; ++n) numbers[n] = node.bytes[n];
        word.pointer = place(numbers, sizeof numbers);
        break;
      }
      case Kind::dl_tensor: word.pointer = place_dl_tensor(node.bytes); break;
      default: break;
    }
    return word;
  }

  void *handle_pointer(const Node &node) const {
    static const int contexts = handle_kind("fovea_context_destroy");
    if (node.slot->handle == contexts && node.slot->kind == Kind::handle) {
      if (!node.given) return nullptr;
      return const_cast<fovea_context *>(variant_.context != nullptr ? variant_.context : context_of(frame_));
    }
    if (!node.given || node.handle == nullptr) return nullptr;
    return variant_.widened && node.handle->twin != nullptr ? node.handle->twin : node.handle->pointer;
  }

  // The workspace of a plan for float32 may be larger.
  size_t room_for_twins() const {
    size_t most = 0;
    for (const Node &node : frame_.arguments) {
      if (!variant_.widened || node.handle == nullptr || node.handle->twin == nullptr) continue;
      for (const size_t size : sizes_told(node.handle->kind, node.handle->twin)) most = std::max(most, size);
    }
    return std::min(most, block_capacity);
  }

  // A caller's own loops. The second makes the first half in reverse order.
  static void in_order(void *, int64_t count, fovea_work work, void *data) {
    for (int64_t n = 0; n < count; ++n) work(data, n);
  }
  static void twice_in_order(void *, int64_t count, fovea_work work, void *data) {
    for (int64_t n = count / 2; n-- > 0;) work(data, n);
    for (int64_t n = count / 2; n < count; ++n) work(data, n);
  }

  // DLPack's struct, as fovea.h lays it out.
  void *place_dl_tensor(const std::vector<uint8_t> &choices) {
    struct DlTensor {
      void *data;
      int32_t device_type, device_id, ndim;
      uint8_t code, bits;
      uint16_t lanes;
      int64_t *shape, *strides;
      uint64_t byte_offset;
    };
    const auto byte = [&](size_t n) { return n < choices.size() ? choices[n] : uint8_t{0}; };
    DlTensor tensor{};
    const bool odd = byte(0) > 127;
    constexpr uint8_t codes[] = {2, 0, 1, 4, 6, 10, 12, 3}, widths[] = {32, 64, 16, 8, 1};
    tensor.data = Memory::forbidden();
    tensor.device_type = odd ? byte(1) : 1;
    tensor.ndim =
        odd && byte(2) > 200 ? static_cast<int32_t>(byte(2)) * 8000000 * (byte(1) % 2 == 0 ? 1 : -1) : byte(2) % 8;
    tensor.code = codes[byte(3) % (odd ? 8 : 1)];
    tensor.bits = widths[byte(4) % (odd ? 5 : 1)];
    tensor.lanes = odd && byte(5) > 220 ? 2 : 1;
    int64_t numbers[2][8];
    constexpr int64_t some[] = {0, 1, 2, 3, 4, -1, int64_t{1} << 40, INT64_MAX, INT64_MIN};
    for (size_t n = 0; n < 8; ++n) {
      numbers[0][n] = some[byte(8 + n) % (odd ? 9 : 5)];
      numbers[1][n] = some[byte(16 + n) % (odd ? 9 : 5)];
    }
    const size_t size = static_cast<size_t>(std::clamp(tensor.ndim, 0, 8)) * sizeof(int64_t);
    tensor.shape = byte(6) > 240 ? nullptr : static_cast<int64_t *>(place(numbers[0], size));
    tensor.strides = byte(6) % 2 == 0 ? nullptr : static_cast<int64_t *>(place(numbers[1], size));
    tensor.byte_offset = odd ? static_cast<uint64_t>(some[byte(7) % 9]) : byte(7) % 3 * 8;
    return place(&tensor, sizeof tensor);
  }

  // ---- the call -----------------------------------------------------------------------------------------------------

  void remember() {
    for (std::vector<Kept> *list : {&kept_, &written_}) {
      for (Kept &kept : *list) kept.bytes.assign(kept.block.data, kept.block.data + kept.block.size);
    }
    for (const Block &block : blocks_) tensor_bytes_.emplace_back(block.data, block.data + block.size);
  }

  void call(const FunctionRow &function) {
    static const std::vector<testing::NamedEnvironment> modes = testing::float_environments();
    const int chosen = variant_.environment >= 0 ? variant_.environment : frame_.environment;
    const testing::FloatEnvironment mode = modes[static_cast<size_t>(chosen) % modes.size()].environment;
    const testing::FloatEnvironment own = testing::float_environment();
    const Watch watch(frame_);
    testing::set_float_environment(mode);
    function.call(words_.data(), outcome_.result);
    const testing::FloatEnvironment after = testing::float_environment();
    testing::set_float_environment(own);
    if (!(after == mode)) wrong("the floating-point environment is not as it was");
  }

  // ---- what has to hold afterwards ----------------------------------------------------------------------------------

  static bool same(const Block &block, const std::vector<uint8_t> &bytes) {
    return bytes.empty() || std::memcmp(block.data, bytes.data(), bytes.size()) == 0;
  }

  void check_memory(bool failed) const {
    for (const Kept &kept : kept_) {
      if (!same(kept.block, kept.bytes)) wrong("an argument that is only read was changed");
      if (!memory_.marks_intact(kept.block)) wrong("memory beside an argument was changed");
    }
    for (const Kept &kept : written_) {
      if (failed && !same(kept.block, kept.bytes)) wrong("an error, but what is written when it succeeds was changed");
      if (!memory_.marks_intact(kept.block)) wrong("memory beside what is written was changed");
    }
    for (size_t n = 0; n < blocks_.size(); ++n) {
      if (blocks_[n].data == nullptr) continue;
      if (!memory_.marks_intact(blocks_[n])) wrong(std::string("memory beside ") + name(n) + " was changed");
      if (same(blocks_[n], tensor_bytes_[n])) continue;
      if (failed) wrong(std::string("an error, but ") + name(n) + " was changed");
      check_changes(n);
    }
  }
  const char *name(size_t tensor) const { return frame_.tensors[tensor].slot->name; }

  // Only elements of outputs may have changed.
  void check_changes(size_t owner_number) const {
    const Block &block = blocks_[owner_number];
    std::vector<bool> may(block.size);
    for_each_node(frame_.arguments, [&](const Node &node, const Struct *) {
      if (node.tensor < 0 || !node.given) return;
      const Tensor &tensor = frame_.tensors[static_cast<size_t>(node.tensor)];
      if (!tensor.output || owner(tensor).data != block.data || tensor.data != DataKind::own) return;
      const fovea_tensor view = view_of(tensor);
      const auto size = static_cast<int64_t>(element_size(view.dtype));
      for_each_element(view, [&](int64_t at) {
        const int64_t place = static_cast<uint8_t *>(view.data) - block.data + at * size;
        for (int64_t byte = place; byte < place + size; ++byte) {
          if (byte >= 0 && byte < static_cast<int64_t>(may.size())) may[static_cast<size_t>(byte)] = true;
        }
      });
    });
    for (size_t byte = 0; byte < block.size; ++byte) {
      if (!may[byte] && block.data[byte] != tensor_bytes_[owner_number][byte]) {
        wrong(std::string("byte ") + std::to_string(byte) + " of " + name(owner_number) +
              " is no output's, and was changed");
      }
    }
  }

  void check_text(const char *text) const {
    for (; text != nullptr && *text != '\0'; ++text) {
      if (*text < ' ' || *text > '~') wrong("a text with what is not printable ASCII");
    }
  }

  void check_status(bool failed) const {
    const fovea_status status = outcome_.result.status;
    const std::string shown = std::to_string(status) + ": " + (failed ? fovea_last_error() : "");
    if (status < 0 || status == FOVEA_INTERNAL_ERROR || status > FOVEA_POOL_EXHAUSTED) wrong("status " + shown);
    if (!failed && frame_.must_fail) wrong("what has to be refused is not");
    if (!failed) return;
    const char *message = fovea_last_error();
    if (*message == '\0') wrong("no message with status " + shown);
    check_text(message);
    if (status != FOVEA_OUT_OF_MEMORY && !names_argument(message)) wrong("the message names no argument: " + shown);
    char copy[1024];
    if (fovea_last_error_copy(copy, sizeof copy) != std::strlen(message) || std::strcmp(copy, message) != 0) {
      wrong("fovea_last_error_copy says another thing");
    }
    if (status == FOVEA_OUT_OF_MEMORY && !may_lack_memory()) wrong("out of memory: " + shown);
  }

  // Only where large sizes were asked for may memory lack: by arguments, or by saved bytes, of a cache without
  // positions, say, which is to have some now.
  bool may_lack_memory() const {
    for (size_t n = 0; n < frame_.function->slot_count; ++n) {
      if (frame_.function->slots[n].kind == Kind::bytes) return true;
    }
    if (!frame_.spoiled) return false;
    return std::all_of(frame_.tensors.begin(), frame_.tensors.end(), [](const Tensor &t) { return !t.output; });
  }

  bool names_argument(const std::string &message) const {
    std::set<std::string> names = {"FOVEA_ISA"};
    collect_names(frame_.function->slots, frame_.function->slot_count, names);
    std::string word;
    for (const char c : message + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        word += c;
      } else if (names.count(word) != 0) {
        return true;
      } else {
        word.clear();
      }
    }
    return false;
  }
  static void collect_names(const SlotRow *slots, size_t count, std::set<std::string> &names) {
    for (size_t n = 0; n < count; ++n) {
      names.insert(slots[n].name);
      if (slots[n].structure == nullptr) continue;
      names.insert("struct_size");
      collect_names(slots[n].structure->slots, slots[n].structure->slot_count, names);
    }
  }

  // ---- what came out ------------------------------------------------------------------------------------------------

  void collect() {
    const FunctionRow &function = variant_.function != nullptr ? *variant_.function : *frame_.function;
    const bool computes = std::none_of(function.slots, function.slots + function.slot_count,
                                       [](const SlotRow &slot) { return slot.kind == Kind::new_handle; });
    for_each_node(frame_.arguments, [&](const Node &node, const Struct *) {
      if (node.tensor < 0 || !node.given || !computes) return;
      const Tensor &tensor = frame_.tensors[static_cast<size_t>(node.tensor)];
      if (!tensor.output || tensor.data != DataKind::own) return;
      const fovea_tensor view = view_of(tensor);
      Output output = {tensor.slot->name, view.dtype, {}, 0, tensor.batch_axis, {view.shape, view.shape + view.rank}};
      const size_t size = element_size(view.dtype);
      for_each_element(view, [&](int64_t at) {
        const uint8_t *element = static_cast<const uint8_t *>(view.data) + at * static_cast<int64_t>(size);
        output.elements.insert(output.elements.end(), element, element + size);
      });
      outcome_.outputs.push_back(std::move(output));
    });
    for (size_t n = 0; n < function.slot_count; ++n) {
      const Block &block = written_by_[n];
      if (block.data == nullptr) continue;
      if (function.slots[n].kind == Kind::new_handle) std::memcpy(&outcome_.made, block.data, sizeof(void *));
      if (function.slots[n].kind == Kind::written_bytes)
        outcome_.written_bytes.assign(block.data, block.data + block.size);
    }
  }

  Memory &memory_;
  const Frame &frame_;
  const Variant &variant_;
  std::vector<Word> words_;
  std::vector<Block> blocks_;
  std::vector<std::vector<uint8_t>> tensor_bytes_;
  std::vector<Kept> kept_, written_;
  std::array<Block, 16> written_by_{};
  size_t bytes_size_ = 0;
  Outcome outcome_;
};

}  // namespace

const fovea_context *context_of(const Frame &frame) {
  if (frame.context != nullptr) return static_cast<const fovea_context *>(frame.context->pointer);
  return sets().contexts[static_cast<size_t>(frame.set)][static_cast<size_t>(frame.turn)];
}

Outcome execute(Memory &memory, const Frame &frame, const Variant &variant) {
  return Execution(memory, frame, variant).run();
}

}  // namespace fuzz
