// How much stack a call takes: every operation, on a thread whose stack was painted before, on each instruction set,
// with all the work on the calling thread, shared out by a caller's own loop, and on oneTBB's threads. Deeper than the
// header allows is a failure that prints the number.
#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstring>

#include "support/contexts.hpp"
#include "support/ready_calls.hpp"
#include "support/sanitized.hpp"

#if FOVEA_TEST_SANITIZED || !defined(__OPTIMIZE__)
#define FOVEA_TEST_MEASURES_STACKS 0  // larger frames
#else
#define FOVEA_TEST_MEASURES_STACKS 1
#endif

using namespace testing;

namespace {

constexpr size_t kAllowed = size_t{96} << 10;  // fovea.h, "Threads"
constexpr size_t kStack = size_t{256} << 10;
constexpr unsigned char kPaint = 0xA7;

struct Call {
  const ReadyCall *operation;
  const fovea_context *context;
  fovea_status status;
  const unsigned char *top;
};

void *run(void *argument) {
  auto *const call = static_cast<Call *>(argument);
  unsigned char here = 0;
  call->top = &here;
  call->status = call->operation->run(call->context);
  return nullptr;
}

// Bytes below the frame that calls the operation.
class PaintedStack {
 public:
  PaintedStack() : memory_(mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~PaintedStack() { munmap(memory_, kStack); }
  PaintedStack(const PaintedStack &) = delete;
  PaintedStack &operator=(const PaintedStack &) = delete;

  size_t depth_of(const ReadyCall &operation, const fovea_context *context) {
    std::memset(memory_, kPaint, kStack);
    Call call = {&operation, context, FOVEA_INTERNAL_ERROR, nullptr};
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, memory_, kStack) == 0);
    REQUIRE(pthread_create(&thread, &attributes, run, &call) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    pthread_attr_destroy(&attributes);
    REQUIRE_OK(call.status);
    const auto *lowest = static_cast<const unsigned char *>(memory_);
    while (lowest < call.top && *lowest == kPaint) ++lowest;
    return static_cast<size_t>(call.top - lowest);
  }

 private:
  void *memory_;
};

void one_after_the_other(void *, int64_t count, fovea_work work, void *data) {
  for (int64_t n = 0; n < count; ++n) work(data, n);
}

OwnContext context_with_loop(const std::string &isa) {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  options.max_isa = isa.c_str();
  options.max_threads = 4;
  options.parallel_for = one_after_the_other;
  fovea_context *context = nullptr;
  REQUIRE_OK(fovea_context_create(&options, &context));
  return OwnContext(context);
}

// Large enough to go past the caches, which takes a path of its own.
ReadyCall large_softmax() {
  constexpr int64_t rows = 1 << 14, columns = 1 << 10;
  const auto in = std::make_shared<std::vector<float>>(rows * columns);
  const auto out = std::make_shared<std::vector<float>>(rows * columns);
  return {"large softmax",
          [=](const fovea_context *context) {
            const int64_t shape[] = {rows, columns};
            const fovea_tensor x = fovea_tensor_contiguous(in->data(), FOVEA_F32, 2, shape);
            const fovea_tensor y = fovea_tensor_contiguous(out->data(), FOVEA_F32, 2, shape);
            return fovea_masked_softmax(context, &x, nullptr, &y, nullptr);
          },
          {}};
}

// Rows whose squares float32 cannot hold are computed again, and in float64 where that does not help.
ReadyCall unusual_norm(fovea_dtype dtype, bool constant) {
  constexpr int64_t rows = 4, columns = 5000;
  const auto in = std::make_shared<std::vector<float>>(rows * columns);
  const auto out = std::make_shared<std::vector<float>>(rows * columns);
  for (size_t n = 0; n < in->size(); ++n) (*in)[n] = constant ? 0x1p30f : n % 2 == 0 ? 0x1p100f : -0x1p90f;
  if (dtype == FOVEA_BF16) {
    for (float &number : *in) {
      uint32_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      bits |= bits >> 16;  // in both halves
      std::memcpy(&number, &bits, sizeof bits);
    }
  }
  return {constant ? "norm of constant rows" : "norm of large rows",
          [=](const fovea_context *context) {
            const int64_t shape[] = {rows, columns}, last[] = {columns};
            const fovea_tensor x = fovea_tensor_contiguous(in->data(), dtype, 2, shape);
            const fovea_tensor y = fovea_tensor_contiguous(out->data(), dtype, 2, shape);
            const fovea_tensor weight = fovea_tensor_contiguous(in->data(), dtype, 1, last);
            fovea_layer_norm_options options{};
            options.struct_size = sizeof options;
            options.weight = &weight;
            options.bias = &weight;
            options.residual = &x;
            options.epsilon = 1e-38f;
            return fovea_layer_norm(context, &x, &y, &options);
          },
          {}};
}

}  // namespace

TEST_SUITE("stacks") {
  TEST_CASE("no call takes more stack than the header says") {
    if (FOVEA_TEST_MEASURES_STACKS == 0) {
      MESSAGE("skipped: frames are larger in this build (sanitizer, or not optimised)");
      return;
    }
    const ReadyCallSizes all_sizes[] = {
        {},
        {.head_dim = 14, .value_dim = 7, .hidden = 5, .many_queries = 9, .keys = 11, .many_keys = 13, .rows = 3},
        {.head_dim = 1024,
         .value_dim = 1024,
         .hidden = 64,
         .many_queries = 33,
         .keys = 70,
         .many_keys = 40,
         .rows = 20},
        {.head_dim = 64, .value_dim = 64, .hidden = 64, .columns = 5000}};
    std::vector<ReadyCall> operations = {large_softmax()};
    for (const fovea_dtype dtype : {FOVEA_F32, FOVEA_BF16}) {
      for (const bool constant : {false, true}) operations.push_back(unusual_norm(dtype, constant));
    }
    for (const ReadyCallSizes &sizes : all_sizes) {
      for (ReadyCall &operation : ready_calls(sizes)) operations.push_back(std::move(operation));
    }
    PaintedStack stack;
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const auto loop = context_with_loop(isa);
      size_t most = 0;
      std::string which;
      for (const ReadyCall &operation : operations) {
        CAPTURE(operation.name);
        const fovea_context *const contexts[] = {shared_context(isa, 1), shared_context(isa), loop.get()};
        for (const fovea_context *context : contexts) {
          const size_t depth = stack.depth_of(operation, context);
          CHECK(depth <= kAllowed);
          if (depth > most) which = operation.name;
          most = std::max(most, depth);
        }
      }
      MESSAGE(isa << ": at most " << most << " bytes, by " << which);
    }
  }
}
