#include "state.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace fuzz {
namespace {

void in_reverse(void *, int64_t count, fovea_work work, void *data) {
  for (int64_t n = count; n-- > 0;) work(data, n);
}

void on_threads(void *, int64_t count, fovea_work work, void *data) {
  std::thread other([=] {
    for (int64_t n = 1; n < count; n += 2) work(data, n);
  });
  for (int64_t n = 0; n < count; n += 2) work(data, n);
  other.join();
}

fovea_context *make(const char *set, int turn) {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_isa = set;
  options.max_threads = turn == 0 ? 1 : turn == 1 ? 3 : 2;
  options.parallel_for = turn == 2 ? in_reverse : turn == 3 ? on_threads : nullptr;
  fovea_context *context = nullptr;
  if (fovea_context_create(&options, &context) != FOVEA_OK) {
    std::fprintf(stderr, "no context of %s: %s\n", set, fovea_last_error());
    abort();
  }
  return context;
}

Tally own_tally;

}  // namespace

Tally *tally = &own_tally;

const Sets &sets() {
  static const Sets &made = *[] {  // never destroyed: a search for leaks at the end finds them in use
    auto *whole = new Sets;
    Sets &list = *whole;
    for (int32_t n = 0; fovea_isa_available(n) != nullptr; ++n) {
      list.names.emplace_back(fovea_isa_available(n));
      list.contexts.emplace_back();
      for (int turn = 0; turn < turns; ++turn) {
        list.contexts.back()[static_cast<size_t>(turn)] = make(list.names.back().c_str(), turn);
      }
    }
    return whole;
  }();
  return made;
}

void destroy_pointer(int kind, void *pointer) {
  for (size_t n = 0; n < tables.function_count; ++n) {
    if (std::strcmp(tables.functions[n].name, tables.destroyers[kind]) != 0) continue;
    Word word;
    word.pointer = pointer;
    Result result;
    tables.functions[n].call(&word, result);
  }
}

State::~State() {
  for (size_t n = handles_.size(); n-- > 0;) destroy(handles_[n].get());
}

Handle *State::add(Handle handle) {
  handles_.push_back(std::make_unique<Handle>(std::move(handle)));
  return handles_.back().get();
}

void State::destroy(Handle *handle) {
  if (handle->destroyed) return;
  for (const auto &other : handles_) {
    for (const Handle *used : other->uses) {
      if (used == handle) destroy(other.get());
    }
  }
  handle->destroyed = true;
  destroy_pointer(handle->kind, handle->pointer);
  if (handle->twin != nullptr) destroy_pointer(handle->kind, handle->twin);
}

std::vector<Handle *> State::alive(int kind) const {
  std::vector<Handle *> found;
  for (size_t n = handles_.size(); n-- > 0;) {  // the newest first
    if (handles_[n]->kind == kind && !handles_[n]->destroyed) found.push_back(handles_[n].get());
  }
  return found;
}

int handle_kind(const char *destroyer) {
  for (size_t n = 0; n < tables.handle_count; ++n) {
    if (std::strcmp(tables.destroyers[n], destroyer) == 0) return static_cast<int>(n);
  }
  return -1;
}

std::vector<size_t> sizes_told(int kind, void *pointer) {
  std::vector<size_t> sizes;
  for (size_t n = 0; n < tables.function_count; ++n) {
    const FunctionRow &function = tables.functions[n];
    if (function.result != ResultKind::size || function.slot_count != 1 || function.slots[0].handle != kind) continue;
    Word word;
    word.pointer = pointer;
    Result result;
    function.call(&word, result);
    sizes.push_back(result.size);
  }
  return sizes;
}

const std::vector<Counted> &counted() {
  static const std::vector<Counted> list = [] {
    std::vector<Counted> made;
    for (size_t s = 0; s < tables.struct_count; ++s) {
      const StructRow &row = *tables.structs[s];
      for (size_t n = 0; n < row.slot_count; ++n) {
        const SlotRow &slot = row.slots[n];
        if (slot.reserved) continue;
        const std::string name = std::string(row.name) + "." + slot.name;
        made.push_back({name, &slot, -1});
        for (size_t v = 0; v < slot.value_count; ++v) {
          made.push_back({name + " = " + slot.values[v].name, &slot, static_cast<int>(v)});
        }
      }
    }
    if (made.size() > Tally::max_members || tables.function_count > Tally::max_functions) abort();
    return made;
  }();
  return list;
}

int number_of(const SlotRow *slot, int value) {
  static const std::map<std::pair<const SlotRow *, int>, int> numbers = [] {
    std::map<std::pair<const SlotRow *, int>, int> made;
    for (size_t n = 0; n < counted().size(); ++n) made[{counted()[n].slot, counted()[n].value}] = static_cast<int>(n);
    return made;
  }();
  const auto found = numbers.find({slot, value});
  return found == numbers.end() ? -1 : found->second;
}

void fail(const Frame &frame, const std::string &what) {
  std::fflush(stdout);
  std::fprintf(stderr, "\nFAILED: %s\n%s\n", what.c_str(), describe(frame).c_str());
  std::fflush(stderr);
  abort();
}

}  // namespace fuzz
