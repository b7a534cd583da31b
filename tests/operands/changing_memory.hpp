// Memory whose contents change between two reads, as another thread would change them at the worst moment: every
// instruction that touches it is let through by itself, and what it finds goes by how many have been before. The page
// may not be touched; a signal tells of each instruction that does, the page is opened for that one, and the
// processor's single step closes it again. Linux on x86-64 alone.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>

#if defined(__linux__) && defined(__x86_64__)
#define FOVEA_TEST_CHANGING_MEMORY 1
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace testing {

class ChangingMemory {
 public:
  ChangingMemory() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ =
        static_cast<std::byte *>(mmap(nullptr, page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    open_ = this;
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_access;
    sigaction(SIGSEGV, &action, &before_[0]);
    action.sa_sigaction = on_step;
    sigaction(SIGTRAP, &action, &before_[1]);
  }
  ~ChangingMemory() {
    sigaction(SIGSEGV, &before_[0], nullptr);
    sigaction(SIGTRAP, &before_[1], nullptr);
    open_ = nullptr;
    munmap(memory_, page_);
  }
  ChangingMemory(const ChangingMemory &) = delete;
  ChangingMemory &operator=(const ChangingMemory &) = delete;

  // The last bytes of the page.
  std::byte *data(size_t size) const { return memory_ + page_ - size; }

  // Calls body; `size` bytes are `first` until `reads` instructions have read some, then `then`. How many there were.
  template <typename Body>
  size_t run(const void *first, const void *then, size_t size, size_t reads, const Body &body) {
    std::memcpy(data(size), first, size);
    then_ = then;
    size_ = size;
    left_ = reads;
    seen_ = 0;
    mprotect(memory_, page_, PROT_NONE);
    body();
    mprotect(memory_, page_, PROT_READ | PROT_WRITE);
    return seen_;
  }

 private:
  static constexpr greg_t single_step = 0x100;

  static void on_access(int, siginfo_t *info, void *context) {
    auto *const at = static_cast<std::byte *>(info->si_addr);
    if (at < open_->memory_ || at >= open_->memory_ + open_->page_) {
      sigaction(SIGSEGV, &open_->before_[0],
                nullptr);  // somewhere else: the instruction comes again, and ends the test
      return;
    }
    mprotect(open_->memory_, open_->page_, PROT_READ | PROT_WRITE);
    static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] |= single_step;
  }
  static void on_step(int, siginfo_t *, void *context) {
    static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~single_step;
    ++open_->seen_;
    if (open_->left_ > 0 && --open_->left_ == 0) std::memcpy(open_->data(open_->size_), open_->then_, open_->size_);
    mprotect(open_->memory_, open_->page_, PROT_NONE);
  }

  inline static ChangingMemory *open_ = nullptr;
  size_t page_;
  std::byte *memory_ = nullptr;
  struct sigaction before_[2] = {};
  const void *then_ = nullptr;
  size_t size_ = 0, left_ = 0, seen_ = 0;
};

}  // namespace testing
#endif
