// What lives from call to call: contexts of every instruction set, handles, saved bytes, and the tally of what was
// called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frame.hpp"

namespace fuzz {

constexpr int turns = 4;  // contexts of each set: 1 thread, 3 threads, a loop in reverse order, one of threads

struct Sets {
  std::vector<std::string> names;
  std::vector<std::array<fovea_context *, turns>> contexts;
  bool has_pairs(int set) const {  // of 16 bits, on some machine
    const std::string &name = names[static_cast<size_t>(set)];
    return name == "avx512" || name == "amx";
  }
};
// Made at the first use, as a program's threads must be its own after a fork.
const Sets &sets();

class State {
 public:
  State() = default;
  State(const State &) = delete;
  State &operator=(const State &) = delete;
  ~State();

  Handle *add(Handle handle);
  void destroy(Handle *handle);  // and what uses it
  std::vector<Handle *> alive(int kind) const;

  // Bytes that functions wrote, and the sizes of what they tell.
  struct Saved {
    std::vector<uint8_t> bytes;
    Sizes sizes;
  };
  std::vector<Saved> saved;

 private:
  std::vector<std::unique_ptr<Handle>> handles_;
};

int handle_kind(const char *destroyer);

// What the functions that tell a size say of a handle.
std::vector<size_t> sizes_told(int kind, void *pointer);

// How often each function returned each status, and which options and values took part in calls that succeeded. Plain
// memory that several processes may share.
struct Tally {
  static constexpr size_t max_functions = 256, statuses = 16, max_members = 1024;
  uint64_t calls[max_functions][statuses];
  uint64_t members[max_members];  // by number_of
  uint64_t compared[16];          // by kind of comparison
  uint64_t too_large;
};
extern Tally *tally;

// A number for each member of each options struct, then for each value it may take; -1 for what is none.
struct Counted {
  std::string name;
  const SlotRow *slot;
  int value;  // -1: anything but 0
};
const std::vector<Counted> &counted();
int number_of(const SlotRow *slot, int value = -1);

// Ends the process with a message and the call.
[[noreturn]] void fail(const Frame &frame, const std::string &what);

}  // namespace fuzz
