// A call of any function of the tables with tensors in any of the places where it takes them. What the places of a good
// call hold is said in base_calls.cpp for those that are required; for all others it is found by trying.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "support/guarded_memory.hpp"
#include "support/tensor.hpp"
#include "table.hpp"

namespace testing {

// A place where a function takes a tensor: "query", "options.attention.mask".
struct Slot {
  std::string path;
  bool output = false;
  std::vector<const TableMember *> way;  // the argument, then members
  bool given = false;
  fovea_tensor tensor{};
  std::byte *home = nullptr;  // its own part of the call's memory

  std::string leaf() const { return way.back()->name; }
  bool holds_integers() const { return given && (tensor.dtype == FOVEA_I32 || tensor.dtype == FOVEA_I64); }
  size_t bytes() const;
};

class OperandCall {
 public:
  explicit OperandCall(const TableFunction &function);
  OperandCall(const OperandCall &) = delete;
  OperandCall &operator=(const OperandCall &) = delete;

  const TableFunction &function() const { return function_; }
  std::deque<Slot> &slots() { return slots_; }
  Slot &slot(const std::string &path);
  Value &argument(const std::string &name);
  // The struct at "options" or "options.attention": all zeros but for its size.
  template <typename Options>
  Options &options(const std::string &path) {
    return *static_cast<Options *>(struct_at(path));
  }

  // A contiguous tensor of its own memory: of floats 0.5 and more, of integers and booleans `number`.
  void give(Slot &slot, const Shape &shape, fovea_dtype dtype = FOVEA_F32, int64_t number = 1);
  void give(const std::string &path, const Shape &shape, fovea_dtype dtype = FOVEA_F32) {
    give(slot(path), shape, dtype);
  }
  void take(Slot &slot);
  // No tensors in the struct at this path, which the caller takes away. Before any is given.
  void leave_out(const std::string &path) {
    std::erase_if(slots_, [&](const Slot &slot) { return slot.path.starts_with(path + "."); });
  }

  // A function that makes a plan: makes and runs it.
  fovea_status run();

  // Gives a tensor to each place that takes one beside what is given already: the first that the call succeeds with, of
  // the sizes that there are. `number`: of the call, among those of its function; what was found is found again.
  void complete(size_t number);

  // All memory of tensors, in one block, and whether it is still as it was.
  std::vector<std::byte> memory() const { return {block_.data(), block_.data() + block_.size()}; }
  bool unchanged(const std::vector<std::byte> &before) const {
    return std::memcmp(block_.data(), before.data(), before.size()) == 0;
  }
  // Puts a slot's tensor between pages that may not be touched.
  void guard(Slot &slot);

  std::function<void()> before = [] {};     // each run
  std::set<int64_t> sizes = {1};            // beside those of tensors
  std::vector<std::shared_ptr<void>> kept;  // handles that arguments point to

 private:
  void add_slots(const std::vector<TableMember> &members, std::vector<const TableMember *> *way,
                 const std::string &path);
  void *struct_at(const std::string &path);
  const void **place_of(const Slot &slot);
  fovea_status run_plan(fovea_plan *plan);
  bool try_shapes(Slot &slot, const std::vector<int64_t> &all_sizes);

  const TableFunction &function_;
  std::vector<Value> values_;
  std::deque<Slot> slots_;
  std::map<std::string, std::vector<std::byte>> structs_;
  GuardedMemory block_;
  std::vector<GuardedMemory> guarded_;
};

// Good calls of a function, each with all the tensors it takes; none: nobody knows how to make one.
std::vector<std::unique_ptr<OperandCall>> good_calls(const TableFunction &function);

}  // namespace testing
