// What one call needs in memory while it runs: views of its tensors, its options structs, the handles it uses.
#pragma once

#include <array>
#include <cstddef>

#include "handle.hpp"
#include "view.hpp"

namespace fovea_python {

class Frame {
 public:
  Frame() = default;
  Frame(const Frame &) = delete;
  Frame &operator=(const Frame &) = delete;
  ~Frame();

  // Fills a number, a pointer to a view, a struct or a handle into `place`. False with Python's error set.
  bool fill(const Member &member, PyObject *value, void *place);
  // The same for what an argument takes.
  // One that is the call's result gets room for it.
  bool fill_argument(const Member &member, PyObject *value, Slot &slot);

  // To be called last: whether all arrays are still where they were when they were read, if code of others has run
  // since.
  bool confirm();

  // Raises what the library said of a call that failed, with the names of elements that it has none for.
  void raise(fovea_status status) const;
  // A message of the library with these names: itself, or in `room`.
  using Message = char[1024];
  const char *named(const char *message, Message &room) const;

  // What keeps the memory that the call gives: the first handle used.
  PyObject *owner() const { return use_count_ > 0 ? reinterpret_cast<PyObject *>(uses_[0].handle) : nullptr; }
  // The handles used so far, as a new tuple.
  PyObject *handles_used() const;
  // The tensors that a run of the planned call takes, in the order of the runs' buffers; nullptr with Python's error
  // set.
  PlannedTensors *planned() const;

 private:
  bool fill_number(const Member &member, PyObject *value, void *place) const;
  bool fill_text(const Member &member, PyObject *value, void *place);
  bool fill_view(const Member &member, PyObject *value, void *place);
  // A struct of zeros but for its size, nullptr with Python's error set.
  std::byte *new_struct(const Struct &structure);
  bool fill_struct(const Member &member, PyObject *value, void *place);
  bool fill_handle(const Member &member, PyObject *value, void *place);
  bool fill_bytes(const Member &member, PyObject *value, Slot &slot);

  struct Use {
    Handle *handle;  // owned
    bool changes;
  };

  static constexpr size_t most_uses = 8, struct_bytes = 1024;
  Views views_;
  std::array<const Member *, Views::most> members_;  // what each is given as
  alignas(std::max_align_t) std::byte structs_[struct_bytes];
  std::array<Use, most_uses> uses_;
  size_t struct_used_ = 0, use_count_ = 0;
  Py_buffer bytes_;
  bool has_bytes_ = false;
  PyObject *text_ = nullptr;
  unsigned foreign_code_before_ = foreign_code_runs;
};

}  // namespace fovea_python
