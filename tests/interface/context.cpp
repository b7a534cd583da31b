// Contexts: instruction sets by name, options, what is refused; versions, status names and tensor descriptors.
#include <doctest/doctest.h>
#include <fovea/fovea.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "support/contexts.hpp"
#include "support/ready_calls.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

fovea_context_options context_options() {
  fovea_context_options options{};
  options.struct_size = sizeof options;
  return options;
}

void check_refused(const fovea_context_options &options, fovea_status expected, const std::string &words) {
  fovea_context *const before = reinterpret_cast<fovea_context *>(&expected);
  fovea_context *context = before;
  CHECK_EQ(fovea_context_create(&options, &context), expected);
  CHECK(context == before);
  const std::string message = fovea_last_error();
  CAPTURE(message);
  CHECK(message.find(words) != std::string::npos);
}

std::vector<std::string> available() {
  std::vector<std::string> names;
  for (int32_t n = 0; fovea_isa_available(n) != nullptr; ++n) names.emplace_back(fovea_isa_available(n));
  return names;
}

// What the default context runs: amx has to be named.
std::string best() {
  const std::vector<std::string> names = available();
  return names.back() == "amx" ? names[names.size() - 2] : names.back();
}

// What the kernel of the operating system says the (x86) processor has, which the library does not look at.
[[maybe_unused]] std::vector<std::string> sets_by_proc() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream words(text.substr(std::min(text.size(), text.find("\nflags"))));
  const std::vector<std::string> flags((std::istream_iterator<std::string>(words)),
                                       std::istream_iterator<std::string>());
  const auto has = [&](std::initializer_list<const char *> wanted) {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const char *flag) { return std::find(flags.begin(), flags.end(), flag) != flags.end(); });
  };
  std::vector<std::string> names = {"base"};
  if (!has({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"})) return names;
  names.emplace_back("avx2");
  if (has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) names.emplace_back("avx512");
  if (names.back() == "avx512" && has({"amx_tile", "amx_bf16"})) names.emplace_back("amx");
  return names;
}

// Those of them that the library was built with (-Disa).
[[maybe_unused]] std::vector<std::string> built_sets_by_proc() {
  std::vector<std::string> names = sets_by_proc();
  const char *built = std::getenv("FOVEA_TEST_BUILT_ISA");
  if (built == nullptr) return names;
  std::istringstream words(built);
  const std::vector<std::string> sets((std::istream_iterator<std::string>(words)),
                                      std::istream_iterator<std::string>());
  const auto is_left_out = [&](const std::string &name) {
    return name != "base" && std::find(sets.begin(), sets.end(), name) == sets.end();
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_left_out), names.end());
  return names;
}

}  // namespace

TEST_SUITE("context") {
  TEST_CASE("the instruction sets are those of the processor that the library was built with") {
#if defined(__x86_64__)
    const char *expected = std::getenv("FOVEA_TEST_EXPECT_ISA");  // under an emulator /proc/cpuinfo is the host's
    std::string names;
    for (const std::string &name : available()) names += (names.empty() ? "" : " ") + name;
    if (expected != nullptr) {
      CHECK_EQ(names, expected);
    } else {
      CHECK(available() == built_sets_by_proc());
    }
#else
    CHECK(available() == std::vector<std::string>{"base"});
#endif
  }

  TEST_CASE("names outside the list are NULL") {
    CHECK(fovea_isa_available(-1) == nullptr);
    CHECK(fovea_isa_available(INT32_MIN) == nullptr);
    CHECK(fovea_isa_available(INT32_MAX) == nullptr);
    CHECK(fovea_isa_available(static_cast<int32_t>(available().size())) == nullptr);
  }

  TEST_CASE("max_isa caps the context, and the name says so") {
    for (const std::string &name : available()) {
      fovea_context_options options = context_options();
      options.max_isa = name.c_str();
      fovea_context *context = nullptr;
      REQUIRE_OK(fovea_context_create(&options, &context));
      CHECK_EQ(std::string(fovea_isa_name(context)), name);
      fovea_context_destroy(context);
    }
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(nullptr, &context));
    if (std::getenv("FOVEA_ISA") == nullptr) CHECK_EQ(std::string(fovea_isa_name(context)), best());
    CHECK_EQ(std::string(fovea_isa_name(context)), fovea_isa_name(nullptr));
    fovea_context_destroy(context);
    fovea_context_destroy(nullptr);
  }

  // Without a limit a context may have more kernels than one that names its set: what is packed is the same.
  TEST_CASE("what the default context has packed serves one that names its set") {
    if (std::getenv("FOVEA_ISA") != nullptr) return;
    const int64_t shape[2] = {1, 1};
    float two = 2, three = 3, product = 0;
    const fovea_tensor weight = fovea_tensor_contiguous(&two, FOVEA_F32, 2, shape);
    const fovea_tensor x = fovea_tensor_contiguous(&three, FOVEA_F32, 2, shape);
    const fovea_tensor out = fovea_tensor_contiguous(&product, FOVEA_F32, 2, shape);
    fovea_packed_matrix *packed = nullptr;
    REQUIRE_OK(fovea_linear_pack(nullptr, &weight, nullptr, &packed));
    REQUIRE_OK(fovea_linear(shared_context(fovea_isa_name(nullptr)), &x, packed, &out, nullptr));
    fovea_packed_matrix_destroy(packed);
    CHECK_EQ(product, 6);
  }

  TEST_CASE("a set that is unknown or absent is refused by name") {
    for (const char *name : {"", "nonsense", "AVX2", "avx", "avx2 ", "avx5120", "base,avx2"}) {
      fovea_context_options options = context_options();
      options.max_isa = name;
      check_refused(options, FOVEA_UNKNOWN_ISA, std::string("max_isa is \"") + name + "\"");
    }
    for (const char *name : {"avx2", "avx512", "amx"}) {
      const std::vector<std::string> names = available();
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      fovea_context_options options = context_options();
      options.max_isa = name;
      check_refused(options, FOVEA_UNKNOWN_ISA, name);
    }
    const std::string endless(100000, 'x');
    fovea_context_options options = context_options();
    options.max_isa = endless.c_str();
    check_refused(options, FOVEA_UNKNOWN_ISA, "max_isa");
  }

  // Line breaks, escape sequences and bytes that are no text went into the message as they were.
  TEST_CASE("a message is one line of printable ASCII, whatever name it tells") {
    for (bool by_environment : {false, true}) {
      for (const std::string name :
           {"a\nb", "a\r\tb", "\x1b[31mred", "\xff\xfe", "\x7f", "caf\xc3\xa9", "\xe2\x80\xa8"}) {
        fovea_context_options options = context_options();
        const char *before = std::getenv("FOVEA_ISA");
        const std::string kept = before == nullptr ? "" : before;
        by_environment ? setenv("FOVEA_ISA", name.c_str(), 1) : 0;
        options.max_isa = by_environment ? nullptr : name.c_str();
        check_refused(options, FOVEA_UNKNOWN_ISA, by_environment ? "FOVEA_ISA is \"" : "max_isa is \"");
        const std::string message = fovea_last_error();
        before == nullptr ? unsetenv("FOVEA_ISA") : setenv("FOVEA_ISA", kept.c_str(), 1);
        CAPTURE(message);
        for (const char c : message) CHECK((c >= ' ' && c <= '~'));
      }
    }
    fovea_context_options options = context_options();
    options.max_isa = "a\nb\x1b\xff";
    check_refused(options, FOVEA_UNKNOWN_ISA, "max_isa is \"a\\nb\\x1b\\xff\", expected one of \"base\"");
    const std::string bells(100000, '\a');
    options.max_isa = bells.c_str();
    check_refused(options, FOVEA_UNKNOWN_ISA, "\\x07\", expected one of \"base\"");
  }

  TEST_CASE("options that are refused") {
    fovea_context_options options = context_options();
    options.max_threads = -3;
    check_refused(options, FOVEA_BAD_VALUE, "max_threads is -3");
    options = context_options();
    options.precision = 5;
    check_refused(options, FOVEA_BAD_VALUE, "precision");
    for (size_t size : {size_t{0}, size_t{7}, sizeof options - 1, SIZE_MAX}) {
      options = context_options();
      options.struct_size = size;
      check_refused(options, FOVEA_BAD_OPTION, "struct_size is " + std::to_string(size));
    }
    CHECK_EQ(fovea_context_create(nullptr, nullptr), FOVEA_NULL_POINTER);
    CHECK(std::string(fovea_last_error()).find("context") != std::string::npos);
  }

  TEST_CASE("a newer caller's struct: accepted while the members we lack are zero") {
    struct Newer {
      fovea_context_options known;
      uint64_t unknown;
    } newer{};
    newer.known.struct_size = sizeof newer;
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(&newer.known, &context));
    fovea_context_destroy(context);
    newer.unknown = 1ULL << 63;
    check_refused(newer.known, FOVEA_BAD_OPTION, "options");
  }

  TEST_CASE("threads of a context: at least 1, at most the cap, the caller's own as told") {
    CHECK(fovea_context_threads(nullptr) >= 1);
    for (const std::string &isa : instruction_sets()) {
      CHECK(fovea_context_threads(shared_context(isa, 1)) == 1);
      CHECK(fovea_context_threads(shared_context(isa)) == fovea_context_threads(nullptr));
      CHECK(fovea_context_threads(shared_context(isa, 1000)) == fovea_context_threads(nullptr));
      CHECK(fovea_context_threads(PoolContext(isa, 7, 0).get()) == 7);
    }
  }

  TEST_CASE("a caller's loop is never asked for more calls than max_threads") {
    struct Loop {
      int64_t most = 0, loops = 0;
      static void run(void *user, int64_t count, fovea_work work, void *data) {
        auto *const loop = static_cast<Loop *>(user);
        loop->most = std::max(loop->most, count);
        ++loop->loops;
        for (int64_t n = 0; n < count; ++n) work(data, n);
      }
    };
    const std::vector<ReadyCall> operations = ready_calls({});
    for (int threads : {0, 1, 2, 5}) {
      Loop loop;
      fovea_context_options options = context_options();
      options.max_threads = threads;
      options.parallel_for = Loop::run;
      options.parallel_for_user = &loop;
      fovea_context *context = nullptr;
      REQUIRE_OK(fovea_context_create(&options, &context));
      for (const ReadyCall &operation : operations) REQUIRE_OK(operation.run(context));
      CHECK(fovea_context_threads(context) == std::max(threads, 1));
      CHECK(loop.most <= std::max(threads, 1));
      CHECK((loop.loops > 0) == (threads > 1));
      fovea_context_destroy(context);
    }
  }

  TEST_CASE("texts in static storage are the same, where and what, at each call") {
    CHECK(fovea_version() == fovea_version());
    CHECK(fovea_status_name(FOVEA_OVERLAP) == fovea_status_name(FOVEA_OVERLAP));
    const std::string overlap = fovea_status_name(FOVEA_OVERLAP);
    const char *const first = fovea_status_name(FOVEA_OVERLAP), *const set = fovea_isa_available(0);
    for (int32_t status = 0; status < 15; ++status) static_cast<void>(fovea_status_name(status));
    CHECK_EQ(std::string(first), overlap);
    for (int32_t n = 0; n < 4; ++n) static_cast<void>(fovea_isa_available(n));
    CHECK_EQ(std::string(set), "base");
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(nullptr, &context));
    const char *const name = fovea_isa_name(context);
    const std::string copy = name;
    fovea_context_destroy(context);
    CHECK_EQ(std::string(name), copy);
  }

  TEST_CASE("the last error stays until the next call that fails") {
    fovea_context_options options = context_options();
    options.max_threads = -3;
    check_refused(options, FOVEA_BAD_VALUE, "max_threads is -3");
    const char *const message = fovea_last_error();
    float x = 0;
    const int64_t shape[] = {1};
    const fovea_tensor tensor = fovea_tensor_contiguous(&x, FOVEA_F32, 1, shape);
    REQUIRE_OK(fovea_exp(nullptr, &tensor, &tensor));
    CHECK(std::string(message).find("max_threads is -3") != std::string::npos);
    CHECK_EQ(std::string(fovea_last_error()), message);
    options.max_threads = -4;
    check_refused(options, FOVEA_BAD_VALUE, "max_threads is -4");
  }

  TEST_CASE("the last error can be copied, and is cut as snprintf cuts") {
    fovea_context_options options = context_options();
    options.max_threads = -5;
    check_refused(options, FOVEA_BAD_VALUE, "max_threads is -5");
    const std::string message = fovea_last_error();
    const size_t whole = message.size();
    for (const size_t size : std::vector<size_t>{0, 1, 2, whole, whole + 1, whole + 9}) {
      CAPTURE(size);
      std::string text(message.size() + 16, '#');
      CHECK_EQ(fovea_last_error_copy(size == 0 ? nullptr : text.data(), size), message.size());
      std::string expected(message.size() + 16, '#');
      if (size > 0) expected.replace(0, std::min(size, message.size() + 1), message.substr(0, size - 1) + '\0');
      CHECK_EQ(text, expected);
    }
    CHECK_EQ(fovea_last_error(), message);
    std::thread([] {
      char text[] = "####";
      CHECK_EQ(fovea_last_error_copy(text, sizeof text), 0u);
      CHECK_EQ(std::string(text), "");
    }).join();
  }

  TEST_CASE("version") {
    const std::string version = std::to_string(FOVEA_VERSION_MAJOR) + "." + std::to_string(FOVEA_VERSION_MINOR) + "." +
                                std::to_string(FOVEA_VERSION_PATCH);
    CHECK_EQ(version, fovea_version());
  }

  TEST_CASE("status names") {
    const char *names[] = {"FOVEA_OK",
                           "FOVEA_NULL_POINTER",
                           "FOVEA_BAD_RANK",
                           "FOVEA_BAD_SHAPE",
                           "FOVEA_BAD_STRIDE",
                           "FOVEA_BAD_DTYPE",
                           "FOVEA_BAD_VALUE",
                           "FOVEA_BAD_OPTION",
                           "FOVEA_OVERLAP",
                           "FOVEA_SIZE_OVERFLOW",
                           "FOVEA_WORKSPACE_TOO_SMALL",
                           "FOVEA_OUT_OF_MEMORY",
                           "FOVEA_UNKNOWN_ISA",
                           "FOVEA_INTERNAL_ERROR",
                           "FOVEA_POOL_EXHAUSTED"};
    for (int32_t status = 0; status < 15; ++status) CHECK_EQ(std::string(fovea_status_name(status)), names[status]);
    for (int32_t status : {-1, 15, INT32_MAX, INT32_MIN}) {
      CHECK_EQ(std::string(fovea_status_name(status)), "FOVEA_UNKNOWN_STATUS");
    }
  }

  TEST_CASE("fovea_tensor_contiguous") {
    float x = 0;
    const int64_t shape[] = {2, 3, 4, 5, 6, 7};
    const int64_t strides[] = {2520, 840, 210, 42, 7, 1};
    const fovea_tensor tensor = fovea_tensor_contiguous(&x, FOVEA_I64, 6, shape);
    CHECK(tensor.data == &x);
    CHECK(tensor.dtype == FOVEA_I64);
    CHECK(tensor.rank == 6);
    CHECK(std::memcmp(tensor.shape, shape, sizeof shape) == 0);
    CHECK(std::memcmp(tensor.strides, strides, sizeof strides) == 0);
    CHECK(fovea_tensor_contiguous(nullptr, FOVEA_F32, 0, shape).rank == 0);
    CHECK(fovea_tensor_contiguous(&x, FOVEA_F32, -1, shape).rank == -1);
    CHECK(fovea_tensor_contiguous(&x, FOVEA_F32, 7, shape).rank == -1);
    CHECK(fovea_tensor_contiguous(&x, FOVEA_F32, INT32_MAX, shape).rank == -1);
    CHECK(fovea_tensor_contiguous(&x, FOVEA_F32, 2, nullptr).rank == -1);
    const int64_t huge[] = {INT64_MAX, INT64_MAX, 3};
    const fovea_tensor overflowing = fovea_tensor_contiguous(&x, FOVEA_F32, 3, huge);
    CHECK(fovea_exp(nullptr, &overflowing, &overflowing) != FOVEA_OK);
  }
}
