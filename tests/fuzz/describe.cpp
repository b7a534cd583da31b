// A call in words, and the watch that may have to say it.
#include <sys/time.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "state.hpp"
#include "watch.hpp"

namespace fuzz {
namespace {

#ifdef FOVEA_FUZZ_SLOW
constexpr long seconds_per_call = 20;
#else
constexpr long seconds_per_call = 4;
#endif

const Frame *current = nullptr;

void too_long(int) {
  fail(*current, "still running after " + std::to_string(seconds_per_call) + " s of processor time");
}

void set_timer(long seconds) {
  const itimerval value = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &value, nullptr);
}

std::string type_name(fovea_dtype dtype) {
  constexpr const char *names[] = {"F32", "F16", "BF16", "4", "I32", "I64", "BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2"};
  return dtype >= 1 && dtype <= 11 ? names[dtype - 1] : "dtype " + std::to_string(dtype);
}

void write_list(std::ostream &out, const int64_t *numbers, int32_t rank) {
  out << '[';
  for (int axis = 0; axis < rank && axis < FOVEA_MAX_RANK; ++axis) out << (axis == 0 ? "" : ",") << numbers[axis];
  out << ']';
}

void write_tensor(std::ostream &out, const Frame &frame, int number) {
  const Tensor &tensor = frame.tensors[static_cast<size_t>(number)];
  out << type_name(tensor.view.dtype) << " rank " << tensor.view.rank << ' ';
  write_list(out, tensor.view.shape, tensor.view.rank);
  out << " strides ";
  write_list(out, tensor.view.strides, tensor.view.rank);
  if (tensor.data != DataKind::own) out << (tensor.data == DataKind::null ? " data NULL" : " data out of bounds");
  if (tensor.skew != 0) out << " data off by " << tensor.skew;
  if (tensor.shares >= 0) {
    const Tensor &owner = frame.tensors[static_cast<size_t>(tensor.shares)];
    out << " in " << owner.slot->name << "'s memory, " << tensor.first - owner.first << " bytes on";
  }
  if (tensor.output) out << " (output)";
  if (tensor.slot->elements == Elements::integers && tensor.bytes.size() >= 4 && tensor.bytes.size() <= 64) {
    out << " bytes";
    for (const uint8_t byte : tensor.bytes) out << ' ' << static_cast<int>(byte);
  }
}

void write_nodes(std::ostream &out, const Frame &frame, const std::vector<Node> &nodes, const std::string &indent) {
  for (const Node &node : nodes) {
    const SlotRow &slot = *node.slot;
    const bool number = node.integer != 0 || node.real != 0;
    if (!node.given && slot.kind != Kind::tensor) continue;
    if (node.given && !number && indent.size() > 2 && node.tensor < 0 && node.structure == nullptr &&
        node.handle == nullptr && node.text == nullptr) {
      continue;
    }
    if (!node.given && indent.size() > 2) continue;
    out << indent << slot.name << ": ";
    if (!node.given) {
      out << "NULL\n";
    } else if (node.tensor >= 0) {
      write_tensor(out, frame, node.tensor);
      out << '\n';
    } else if (node.structure != nullptr) {
      out << node.structure->row->name << ", struct_size " << node.structure->struct_size << '\n';
      write_nodes(out, frame, node.structure->members, indent + "  ");
    } else if (slot.handle >= 0) {
      out << (node.handle == nullptr ? "" : "live ") << "handle\n";
    } else if (node.text != nullptr) {
      out << '"' << node.text << "\"\n";
    } else if (slot.kind == Kind::f32) {
      out << node.real << '\n';
    } else {
      out << node.integer;
      if (!node.bytes.empty()) out << ", " << node.bytes.size() << " bytes";
      out << '\n';
    }
  }
}

}  // namespace

std::string describe(const Frame &frame) {
  std::ostringstream out;
  out << frame.function->name << " of " << sets().names[static_cast<size_t>(frame.set)] << ", context " << frame.turn
      << (frame.context != nullptr ? " (one that was created)" : "") << ", floating-point mode " << frame.environment
      << '\n';
  write_nodes(out, frame, frame.arguments, "  ");
  return out.str();
}

Watch::Watch(const Frame &frame) {
  current = &frame;
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_handler = too_long;
    return sigaction(SIGPROF, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
  set_timer(seconds_per_call);
}

Watch::~Watch() { set_timer(0); }

}  // namespace fuzz
