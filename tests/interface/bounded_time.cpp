// The time of a call, its checks included, is bounded by what it has to compute: a call whose outputs have no elements
// looks at no data and walks along no axis, however long, and asks for no memory. Calls like these, with sizes up to
// 2^56 and axes that are repeated by a stride of 0, took endless loops over lengths, positions, widths and panels.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "support/contexts.hpp"
#include "support/creation.hpp"
#include "support/operations.hpp"

using namespace testing;

namespace {

constexpr int64_t huge = int64_t{1} << 56;

// While it lives, the program ends with the case's name when it takes longer than any of these calls may, or touches
// memory that it has no need of.
class Watch {
 public:
  explicit Watch(const std::string &what) {
    std::snprintf(message_, sizeof message_, ": %s\n", what.c_str());
    static_cast<void>(std::signal(SIGPROF, end));
    before_ = std::signal(SIGSEGV, end);
    set(2);
  }
  ~Watch() {
    set(0);
    static_cast<void>(std::signal(SIGSEGV, before_));
  }
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

 private:
  static void end(int signal) {
    say(signal == SIGPROF ? "still running after 2 s of CPU time" : "read or wrote what it has no need of");
    say(message_);
    _exit(1);
  }
  static void say(const char *text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }
  static void set(long seconds) {
    const itimerval value = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &value, nullptr);
  }

  void (*before_)(int);
  static inline char message_[4096];
};

// A page that ends the program when it is touched, and one of zeros.
float *page_of(int rights) {
  return static_cast<float *>(mmap(nullptr, 65536, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
float *no_page() {
  static float *const page = page_of(PROT_NONE);
  return page;
}
float *zeros() {
  static float *const page = page_of(PROT_READ | PROT_WRITE);
  return page;
}

bool product_fits(const Shape &shape) {
  int64_t product = 8;
  for (const int64_t size : shape) {
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) return false;
  }
  return true;
}

// Strides that a caller may have: row-major where that fits, 0 where an axis is to be repeated. `real`: of data that is
// read or written.
fovea_tensor make_tensor(const Operand &operand, bool real, Random &random) {
  fovea_tensor tensor = fovea_tensor_contiguous(real || random.chance(0.5) ? zeros() : no_page(), operand.dtype,
                                                static_cast<int32_t>(operand.shape.size()), operand.shape.data());
  const int last = tensor.rank - 1;
  if (operand.role == Role::output) return tensor;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (!operand.any_stride && axis == last) continue;
    if (random.chance(real ? 0.3 : 0.5)) tensor.strides[axis] = 0;
    if (!real && random.chance(0.05)) tensor.strides[axis] = random.pick<int64_t>({INT64_MAX, INT64_MIN, -1, huge});
  }
  return tensor;
}

// Sizes of which at least one makes the outputs empty.
CallSizes nothing_to_compute(const Operation &operation, Random &random) {
  const auto size = [&] {
    return random.pick<int64_t>({0, 0, 1, 2, 3, 1 << 10, 1 << 30, int64_t{1} << 40, huge, huge});
  };
  for (;;) {
    CallSizes s;
    s.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX));
    for (int64_t *any : {&s.batch, &s.kv_heads, &s.queries, &s.keys, &s.rows, &s.columns, &s.depth}) *any = size();
    s.group = random.integer(0, 3);
    if (random.chance(0.7)) s.kv_heads = random.integer(1, 3);
    const Operands operands = operation.operands(s);
    bool fits = true;
    for (const Operand &operand : operands) fits = fits && product_fits(operand.shape);
    if (fits && !computes(operands)) return s;
  }
}

fovea_tensor tensor_of(float *data, const Shape &shape, const Shape &strides, fovea_dtype dtype = FOVEA_F32) {
  fovea_tensor tensor = fovea_tensor_contiguous(data, dtype, static_cast<int32_t>(shape.size()), shape.data());
  for (size_t axis = 0; axis < strides.size(); ++axis) tensor.strides[axis] = strides[axis];
  return tensor;
}

}  // namespace

TEST_SUITE("bounded time") {
  TEST_CASE("lengths, positions and widths of a call without outputs are not read") {
    const Watch watch("a call with 2^56 lengths, positions or widths");
    const fovea_tensor query = tensor_of(no_page(), {huge, 1, 0, 1}, {}),
                       key = tensor_of(no_page(), {huge, 1, 0, 1}, {});
    const fovea_tensor lens = tensor_of(no_page(), {huge}, {0}, FOVEA_I32);
    const fovea_tensor offsets = tensor_of(no_page(), {huge}, {1}, FOVEA_I64);
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.valid_lens = &lens;
    options.query_offsets = &offsets;
    REQUIRE_OK(fovea_sdpa(nullptr, &query, &key, &key, &query, &options));
    REQUIRE_OK(fovea_masked_softmax(nullptr, &query, &lens, &query, nullptr));
    const fovea_tensor x = tensor_of(no_page(), {0, huge, 2}, {});
    const fovea_tensor positions = tensor_of(no_page(), {huge}, {0}, FOVEA_I64);
    fovea_rotary_options rotary{};
    rotary.struct_size = sizeof rotary;
    rotary.positions = &positions;
    REQUIRE_OK(fovea_rotary(nullptr, &x, &x, &rotary));
    const fovea_tensor heads = tensor_of(no_page(), {0, huge, 1, 1}, {}), widths = tensor_of(no_page(), {huge}, {0});
    fovea_score gaussian{};
    gaussian.struct_size = sizeof gaussian;
    gaussian.kind = FOVEA_SCORE_GAUSSIAN;
    gaussian.sigmas = &widths;
    REQUIRE_OK(fovea_attention(nullptr, &gaussian, &heads, &heads, &heads, &heads, nullptr));
  }

  // Each call is refused for what is looked at after its lengths or widths, of which 2^40 are one and the same number.
  TEST_CASE("lengths and widths that a stride of 0 repeats are looked at once") {
    constexpr int64_t batch = int64_t{1} << 40;
    const Watch watch("2^40 lengths or widths that are one number");
    int32_t length = 1;
    const fovea_tensor lens = {&length, FOVEA_I32, 1, {batch}, {0}};
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.valid_lens = options.query_offsets = &lens;
    const fovea_tensor x = tensor_of(zeros(), {batch, 1, 1, 1}, {0, 1, 1, 1});
    // Where an input begins and ends may be the output, which is then refused; nobody touches it.
    const fovea_tensor out = tensor_of(zeros(), {batch, 1, 1, 1}, {});
    CHECK(fovea_sdpa(nullptr, &x, &x, &x, &out, &options) == FOVEA_OVERLAP);
    CHECK(fovea_masked_softmax(nullptr, &x, &lens, &out, nullptr) == FOVEA_OVERLAP);
    float width = 1;
    const fovea_tensor widths = tensor_of(&width, {batch}, {0});
    fovea_score gaussian{};
    gaussian.struct_size = sizeof gaussian;
    gaussian.kind = FOVEA_SCORE_GAUSSIAN;
    gaussian.sigmas = &widths;
    const fovea_tensor heads = tensor_of(zeros(), {1, batch, 1, 1}, {0, 0, 1, 1});
    const fovea_tensor head_out = tensor_of(zeros(), {1, batch, 1, 1}, {});
    CHECK(fovea_attention(nullptr, &gaussian, &heads, &heads, &heads, &head_out, nullptr) == FOVEA_OVERLAP);
  }

  TEST_CASE("packing and multiplying matrices without elements takes no time") {
    const Watch watch("2^56 columns or rows without elements");
    for (const Shape &shape : {Shape{0, huge}, Shape{huge, 0}}) {
      for (const int32_t layout : {FOVEA_WEIGHT_OUT_IN, FOVEA_WEIGHT_IN_OUT}) {
        const fovea_tensor weight = tensor_of(nullptr, shape, {});
        const int64_t inputs = shape[layout == FOVEA_WEIGHT_OUT_IN ? 1 : 0];
        const int64_t outputs = shape[layout == FOVEA_WEIGHT_OUT_IN ? 0 : 1];
        fovea_packed_matrix *packed = nullptr;
        REQUIRE_OK(linear_pack(nullptr, &weight, layout, &packed));
        CHECK(fovea_packed_matrix_size(packed) == 0);
        const fovea_tensor x = tensor_of(no_page(), {0, inputs}, {}), out = tensor_of(no_page(), {0, outputs}, {});
        const fovea_tensor bias = tensor_of(no_page(), {outputs}, {0});
        const fovea_linear_options options = {sizeof options, 0, 0, &bias, nullptr, nullptr};
        REQUIRE_OK(fovea_linear(nullptr, &x, packed, &out, &options));
        fovea_packed_matrix_destroy(packed);
      }
      fovea_packed_matrix *packed = nullptr;
      const fovea_tensor b = tensor_of(nullptr, shape, {});
      REQUIRE_OK(fovea_matmul_pack(nullptr, &b, nullptr, &packed));
      fovea_packed_matrix_destroy(packed);
    }
  }

  // Norms and projections of keys that no query attends: 17.6 TB of them.
  TEST_CASE("a plan with nothing to compute asks for no workspace, and runs without one") {
    const Watch watch("a plan with nothing to compute");
    constexpr int64_t batch = int64_t{1} << 40;
    const Shape once = {0, 0, 2, 1};
    for (int32_t kind = FOVEA_SCORE_DOT; kind <= FOVEA_SCORE_GAUSSIAN; ++kind) {
      CAPTURE(kind);
      const fovea_tensor query = tensor_of(no_page(), {batch, 1, 0, 2}, {}),
                         key = tensor_of(no_page(), {batch, 1, 4, 2}, once);
      const fovea_tensor matrix = tensor_of(no_page(), {2, kind == FOVEA_SCORE_CONCAT ? 4 : 2}, {});
      const fovea_tensor vector = tensor_of(no_page(), {2}, {});
      const bool additive = kind == FOVEA_SCORE_ADDITIVE, concat = kind == FOVEA_SCORE_CONCAT;
      fovea_score score{};
      score.struct_size = sizeof score;
      score.kind = kind;
      score.query_weight = score.key_weight = additive ? &matrix : nullptr;
      score.weight = concat || kind == FOVEA_SCORE_BILINEAR ? &matrix : nullptr;
      score.score_vector = additive || concat ? &vector : nullptr;
      score.sigma = kind == FOVEA_SCORE_GAUSSIAN ? 1.0f : 0.0f;
      fovea_plan *plan = nullptr;
      REQUIRE_OK(fovea_attention_plan_create(nullptr, &score, &query, &key, &key, &query, nullptr, &plan));
      CHECK(fovea_plan_workspace_size(plan) == 0);
      fovea_attention_buffers buffers{};
      buffers.struct_size = sizeof buffers;
      buffers.query = buffers.key = buffers.value = buffers.out = no_page();
      if (additive) buffers.query_weight = buffers.key_weight = no_page();
      if (score.weight != nullptr) buffers.weight = no_page();
      if (score.score_vector != nullptr) buffers.score_vector = no_page();
      REQUIRE_OK(fovea_attention_run(plan, &buffers, nullptr, 0));
      char text[512];
      CHECK(fovea_plan_describe(plan, text, sizeof text) > 0);
      CHECK(std::string(text).find("workspace=0") != std::string::npos);
      fovea_plan_destroy(plan);
      REQUIRE_OK(fovea_attention(nullptr, &score, &query, &key, &key, &query, nullptr));
    }
  }

  TEST_CASE("any operation with nothing to compute, at random") {
    for (const Operation &operation : all_operations()) {
      int64_t accepted = 0;
      const int64_t cases = case_count(1000);
      for (int64_t n = 0; n < cases; ++n) {
        const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
        Random random(seed);
        const CallSizes sizes = nothing_to_compute(operation, random);
        const Operands operands = operation.operands(sizes);
        std::vector<fovea_tensor> tensors;
        Tensors given;
        for (const Operand &operand : operands) {
          tensors.push_back(make_tensor(operand, operand.role == Role::parameter, random));
        }
        for (size_t i = 0; i < operands.size(); ++i) given.push_back(operands[i].name.empty() ? nullptr : &tensors[i]);
        const std::string what = "seed " + std::to_string(seed) + ", " + describe(operation, operands, tensors);
        CAPTURE(what);
        const Watch watch(what);
        const fovea_status status = operation.run(sizes, given);
        REQUIRE(status != FOVEA_OUT_OF_MEMORY);
        REQUIRE(status != FOVEA_INTERNAL_ERROR);
        accepted += status == FOVEA_OK ? 1 : 0;
      }
      CAPTURE(operation.name);
      CHECK(accepted * 8 > cases);  // else the list of operations is at fault
    }
  }

  TEST_CASE("plans for any sizes are made or refused at once") {
    const std::vector<Operation> list = attention_operations();
    for (int64_t n = 0; n < case_count(2000); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      Random random(seed);
      const auto size = [&] { return random.pick<int64_t>({0, 1, 2, 1 << 10, 1 << 30, int64_t{1} << 40, huge}); };
      CallSizes s;
      s.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX)) | 1;
      for (int64_t *any : {&s.batch, &s.kv_heads, &s.queries, &s.keys}) *any = size();
      const Operands operands = list[0].operands(s);
      fovea_tensor t[4];
      for (size_t i = 0; i < 4; ++i) t[i] = make_tensor(operands[i], false, random);
      const std::string what = "seed " + std::to_string(seed) + ", plan of sdpa";
      CAPTURE(what);
      const Watch watch(what);
      fovea_plan *plan = nullptr;
      const fovea_status status = fovea_sdpa_plan_create(nullptr, &t[0], &t[1], &t[2], &t[3], nullptr, &plan);
      REQUIRE((status == FOVEA_OK) == (plan != nullptr));
      fovea_plan_destroy(plan);
    }
  }
}
