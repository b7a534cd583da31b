#include "operand_call.hpp"

#include <algorithm>
#include <stdexcept>

namespace testing {
namespace {

constexpr size_t room = 8192;  // of a slot, its tensor in the middle
constexpr int64_t most_elements = room / 2 / sizeof(int64_t);

size_t element_size(fovea_dtype dtype) {
  if (dtype == FOVEA_BOOL || dtype == FOVEA_I8 || dtype == FOVEA_U8) return 1;
  return dtype == FOVEA_I64 ? 8 : dtype == FOVEA_F16 ? 2 : 4;
}

void fill(const fovea_tensor &tensor, size_t count, int64_t number) {
  for (size_t n = 0; n < count; ++n) {
    if (tensor.dtype == FOVEA_F32) static_cast<float *>(tensor.data)[n] = 0.5f + 0.03125f * static_cast<float>(n % 16);
    if (tensor.dtype == FOVEA_I32) static_cast<int32_t *>(tensor.data)[n] = static_cast<int32_t>(number);
    if (tensor.dtype == FOVEA_I64) static_cast<int64_t *>(tensor.data)[n] = number;
    if (tensor.dtype == FOVEA_BOOL) static_cast<uint8_t *>(tensor.data)[n] = static_cast<uint8_t>(number);
    if (tensor.dtype == FOVEA_F16) static_cast<uint16_t *>(tensor.data)[n] = 0x3c00;  // 1
    if (tensor.dtype == FOVEA_I8) static_cast<int8_t *>(tensor.data)[n] = static_cast<int8_t>(n % 16 + 1);
    if (tensor.dtype == FOVEA_U8) static_cast<uint8_t *>(tensor.data)[n] = static_cast<uint8_t>(n % 256);
  }
}

std::string name_in_buffers(const Slot &slot) {
  if (slot.path.starts_with("gradients.")) return "grad_" + slot.leaf();
  return slot.path == "score.bias" ? "score_bias" : slot.leaf();
}

}  // namespace

size_t Slot::bytes() const {
  size_t count = element_size(tensor.dtype);
  for (int axis = 0; axis < tensor.rank; ++axis) count *= static_cast<size_t>(tensor.shape[axis]);
  return count;
}

OperandCall::OperandCall(const TableFunction &function) : function_(function), values_(function.arguments.size()) {
  std::vector<const TableMember *> way;
  add_slots(function.arguments, &way, "");
  block_ = GuardedMemory(slots_.size() * room);
  std::memset(block_.data(), 0, block_.size());
  for (size_t n = 0; n < slots_.size(); ++n) slots_[n].home = block_.data() + n * room + room / 2;
}

void OperandCall::add_slots(const std::vector<TableMember> &members, std::vector<const TableMember *> *way,
                            const std::string &path) {
  for (const TableMember &member : members) {
    way->push_back(&member);
    if (member.holds == Holds::input || member.holds == Holds::output) {
      slots_.push_back({.path = path + member.name, .output = member.holds == Holds::output, .way = *way});
    }
    if (member.holds == Holds::options) {
      struct_at(path + member.name);
      add_slots(table_structs[static_cast<size_t>(member.options)].members, way, path + member.name + ".");
    }
    way->pop_back();
  }
}

Slot &OperandCall::slot(const std::string &path) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot &slot) { return slot.path == path; });
  if (found == slots_.end()) throw std::out_of_range(std::string(function_.name) + " takes no " + path);
  return *found;
}

Value &OperandCall::argument(const std::string &name) {
  for (size_t n = 0; n < values_.size(); ++n) {
    if (function_.arguments[n].name == name) return values_[n];
  }
  throw std::out_of_range(std::string(function_.name) + " has no argument " + name);
}

// Walks from the argument to the struct, which it makes where it is not there.
void *OperandCall::struct_at(const std::string &path) {
  const auto dot = path.rfind('.');
  const std::string leaf = dot == std::string::npos ? path : path.substr(dot + 1);
  void *holder = dot == std::string::npos ? nullptr : struct_at(path.substr(0, dot));
  const std::vector<TableMember> *members = &function_.arguments;
  for (size_t at = 0, next = 0; dot != std::string::npos && at < dot; at = next + 1) {
    next = std::min(path.find('.', at), dot);
    for (const TableMember &member : *members) {
      if (path.compare(at, next - at, member.name) != 0) continue;
      members = &table_structs[static_cast<size_t>(member.options)].members;
      break;
    }
  }
  for (size_t n = 0; n < members->size(); ++n) {
    const TableMember &member = (*members)[n];
    if (leaf != member.name || member.holds != Holds::options) continue;
    std::vector<std::byte> &made = structs_[path];
    if (made.empty()) {
      const size_t size = table_structs[static_cast<size_t>(member.options)].size;
      made.resize(size);
      std::memcpy(made.data(), &size, sizeof size);
      void *const pointer = made.data();
      if (holder == nullptr) {
        values_[n].pointer = pointer;
      } else {
        std::memcpy(static_cast<std::byte *>(holder) + member.offset, &pointer, sizeof pointer);
      }
    }
    return made.data();
  }
  throw std::out_of_range(std::string(function_.name) + " takes no " + path);
}

const void **OperandCall::place_of(const Slot &slot) {
  if (slot.way.size() == 1) return const_cast<const void **>(&argument(slot.way[0]->name).pointer);
  auto *holder = static_cast<std::byte *>(struct_at(slot.path.substr(0, slot.path.rfind('.'))));
  return reinterpret_cast<const void **>(holder + slot.way.back()->offset);
}

void OperandCall::give(Slot &slot, const Shape &shape, fovea_dtype dtype, int64_t number) {
  slot.tensor = fovea_tensor_contiguous(slot.home, dtype, static_cast<int32_t>(shape.size()), shape.data());
  slot.given = true;
  if (slot.bytes() > room / 2) throw std::length_error(slot.path + " is too large");
  fill(slot.tensor, slot.bytes() / element_size(dtype), number);
  *place_of(slot) = &slot.tensor;
}

void OperandCall::take(Slot &slot) {
  slot.given = false;
  *place_of(slot) = nullptr;
}

void OperandCall::guard(Slot &slot) {
  guarded_.emplace_back(slot.bytes(), element_size(slot.tensor.dtype));
  std::memcpy(guarded_.back().data(), slot.tensor.data, slot.bytes());
  slot.tensor.data = guarded_.back().data();
}

fovea_status OperandCall::run_plan(fovea_plan *plan) {
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  for (const TableStruct &known : table_structs) {
    if (std::string(known.name) != "fovea_attention_buffers") continue;
    for (const TableMember &member : known.members) {
      if (member.holds != Holds::data_in && member.holds != Holds::data_out) continue;
      for (const Slot &slot : slots_) {
        if (!slot.given || name_in_buffers(slot) != member.name) continue;
        std::memcpy(reinterpret_cast<std::byte *>(&buffers) + member.offset, &slot.tensor.data, sizeof(void *));
      }
    }
  }
  std::vector<std::byte> workspace(fovea_plan_workspace_size(plan));
  return fovea_attention_run(plan, &buffers, workspace.data(), workspace.size());
}

fovea_status OperandCall::run() {
  before();
  void *made = nullptr;
  for (size_t n = 0; n < values_.size(); ++n) {
    if (function_.arguments[n].holds == Holds::made) values_[n].pointer = &made;
  }
  fovea_status status = function_.call(values_.data());
  // Runs of planned multi-head attention are in multi_head/planned.cpp.
  const std::string name = function_.name;
  const bool plans = name.ends_with("_plan_create") && name != "fovea_mha_plan_create";
  if (status == FOVEA_OK && plans) status = run_plan(static_cast<fovea_plan *>(made));
  if (made != nullptr) function_.destroy(made);
  return status;
}

// Every shape of up to four axes of these sizes, of floats, integers or booleans. What no shape can mend is not tried
// with all: an element type that the call refuses as such, and a place whose every shape of one or two axes gets the
// same answer.
bool OperandCall::try_shapes(Slot &slot, const std::vector<int64_t> &all_sizes) {
  std::vector<fovea_dtype> types = {FOVEA_F32};
  if (!slot.output) types.insert(types.end(), {FOVEA_I32, FOVEA_BOOL});
  std::set<std::string> answers;
  for (const size_t rank : {size_t{1}, size_t{2}, size_t{3}, size_t{4}}) {
    if (rank == 3 && answers.size() == 1) break;
    std::vector<size_t> at(rank, 0);
    for (bool more = true; more;) {
      Shape shape;
      for (const size_t n : at) shape.push_back(all_sizes[n]);
      const bool fits = element_count(shape) <= most_elements;
      for (size_t type = 0; fits && type < types.size();) {
        fovea_status status = FOVEA_OK;
        for (const int64_t number : {1, 0}) {
          if (number == 0 && types[type] != FOVEA_I32) continue;
          give(slot, shape, types[type], number);
          status = run();
          if (status == FOVEA_OK) return true;
          if (rank <= 2) answers.insert(fovea_last_error());
        }
        const bool refused = status == FOVEA_BAD_DTYPE;
        if (refused) types.erase(types.begin() + static_cast<ptrdiff_t>(type));
        type += refused ? 0 : 1;
      }
      size_t axis = rank;
      while (axis-- > 0 && ++at[axis] == all_sizes.size()) at[axis] = 0;
      more = axis < rank;
    }
  }
  take(slot);
  return false;
}

void OperandCall::complete(size_t number) {
  struct Found {
    bool given;
    Shape shape;
    fovea_dtype dtype;
  };
  static std::map<std::string, Found> known;
  for (const Slot &slot : slots_) {
    for (int axis = 0; slot.given && axis < slot.tensor.rank; ++axis) {
      sizes.insert(slot.tensor.shape[axis]);
      if (slot.tensor.shape[axis] % 2 == 0) sizes.insert(slot.tensor.shape[axis] / 2);
    }
  }
  for (Slot &slot : slots_) {
    if (slot.given) continue;
    const std::string key = function_.name + std::to_string(number) + slot.path;
    const auto found = known.find(key);
    if (found == known.end()) {
      const bool given = try_shapes(slot, {sizes.begin(), sizes.end()});
      const fovea_tensor &tensor = slot.tensor;
      known[key] = {given, given ? Shape(tensor.shape, tensor.shape + tensor.rank) : Shape(), tensor.dtype};
    } else if (found->second.given) {
      give(slot, found->second.shape, found->second.dtype);
      if (run() != FOVEA_OK) give(slot, found->second.shape, found->second.dtype, 0);
    }
  }
}

}  // namespace testing
