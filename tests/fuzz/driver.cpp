// Calls of the library at random, from a seed, for a number of seconds: the fuzzer without a fuzzing engine.
//
// usage: driver [--seconds N] [--seed S]   makes calls; says what failed with its bytes, cut down to what still fails
//        driver --one HEX                  makes the calls of these bytes, and says which; so does --file NAME
//        driver --corpus FOLDER            writes bytes of calls that succeed, one file for each function
//
// A process of its own makes the calls, so that what ends it is reported. First each function is called until it
// succeeds, and then with each option and value until one succeeds with that: what never does is an error, whether the
// library is at fault or this program does not know how to. Those that are made by hand follow, then calls of all kinds in
// turn.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "by_hand.hpp"
#include "compare.hpp"
#include "fuzz.hpp"
#include "state.hpp"

using namespace fuzz;

namespace {

constexpr size_t most_bytes = 512;
constexpr int tries = 6000;

struct Shared {
  Tally tally;
  uint64_t inputs;
  uint32_t size;
  uint8_t bytes[most_bytes];
  bool finished;
};
Shared *shared = nullptr;

using Bytes = std::vector<uint8_t>;

void run(const Bytes &bytes) {
  shared->size = static_cast<uint32_t>(bytes.size());
  std::memcpy(shared->bytes, bytes.data(), bytes.size());
  ++shared->inputs;
  fuzz_one(bytes.data(), bytes.size());
}

Bytes random_bytes(Noise &noise, size_t size) {
  Bytes bytes(size);
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(noise.next() >> 24);
  return bytes;
}

bool holds(const SlotRow *slots, size_t count, const SlotRow *wanted) {
  for (size_t n = 0; n < count; ++n) {
    if (&slots[n] == wanted) return true;
    if (slots[n].structure != nullptr && holds(slots[n].structure->slots, slots[n].structure->slot_count, wanted))
      return true;
  }
  return false;
}

// One call of the function, nothing wrong with it, option `wanted` set (0: none).
Bytes one_call(Noise &noise, size_t function, size_t wanted) {
  Bytes bytes = random_bytes(noise, 200);
  bytes[0] = static_cast<uint8_t>(function);
  bytes[1] = 0;
  bytes[2] = static_cast<uint8_t>(wanted);
  bytes[3] = static_cast<uint8_t>(wanted >> 8);
  return bytes;
}

void call_every_function(Noise &noise) {
  for (size_t function = 0; function < tables.function_count; ++function) {
    for (int turn = 0; turn < tries && shared->tally.calls[function][FOVEA_OK] == 0; ++turn)
      run(one_call(noise, function, 0));
  }
}

void make_by_hand(Noise &noise) {
  for (size_t which = 0; which < std::size(by_hand); ++which) {
    for (int turn = 0; turn < 100; ++turn) {
      Bytes bytes = random_bytes(noise, 200);
      bytes[0] = static_cast<uint8_t>(tables.function_count + which);
      run(bytes);
    }
  }
}

void set_every_option(Noise &noise) {
  const std::vector<Counted> &options = counted();
  for (size_t n = 0; n < options.size(); ++n) {
    std::vector<size_t> functions;
    for (size_t f = 0; f < tables.function_count; ++f) {
      if (holds(tables.functions[f].slots, tables.functions[f].slot_count, options[n].slot)) functions.push_back(f);
    }
    for (int turn = 0; turn < tries && shared->tally.members[n] == 0 && !functions.empty(); ++turn) {
      run(one_call(noise, functions[static_cast<size_t>(turn) % functions.size()], n + 1));
    }
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void make_calls(uint64_t seed, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  tally = &shared->tally;
  Noise noise(seed);
  call_every_function(noise);
  set_every_option(noise);
  make_by_hand(noise);
  for (uint64_t n = 0; seconds_since(start) < seconds; ++n) {
    Bytes bytes = random_bytes(noise, 16 + noise.below(most_bytes - 16));
    bytes[0] = static_cast<uint8_t>(n % (tables.function_count + std::size(by_hand)));
    run(bytes);
  }
  shared->finished = true;
}

// ---- failures -------------------------------------------------------------------------------------------------------

// Whether the calls of these bytes end a process.
bool fails(const Bytes &bytes, bool quietly) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (quietly) {
      if (freopen("/dev/null", "w", stderr) == nullptr) _exit(0);
    }
    talkative = !quietly;
    alarm(60);
    run(bytes);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!quietly && WIFSIGNALED(status)) std::printf("ended by %s\n", strsignal(WTERMSIG(status)));
  return status != 0;
}

Bytes smallest(Bytes bytes) {
  const auto start = std::chrono::steady_clock::now();
  const auto keep_if_fails = [&](const Bytes &other) {
    if (seconds_since(start) > 60 || !fails(other, true)) return false;
    bytes = other;
    return true;
  };
  for (size_t piece = bytes.size() / 2; piece > 0; piece /= 2) {
    for (size_t at = bytes.size(); at >= piece; at -= piece) {
      if (at > bytes.size()) continue;
      Bytes without = bytes;
      without.erase(without.begin() + static_cast<ptrdiff_t>(at - piece), without.begin() + static_cast<ptrdiff_t>(at));
      if (keep_if_fails(without)) continue;
      Bytes zero = bytes;
      std::fill(zero.begin() + static_cast<ptrdiff_t>(at - piece), zero.begin() + static_cast<ptrdiff_t>(at),
                uint8_t{0});
      if (zero != bytes) keep_if_fails(zero);
    }
  }
  return bytes;
}

std::string hex(const Bytes &bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

Bytes from_hex(const std::string &text) {
  Bytes bytes;
  for (size_t at = 0; at + 2 <= text.size(); at += 2) {
    bytes.push_back(static_cast<uint8_t>(std::strtoul(text.substr(at, 2).c_str(), nullptr, 16)));
  }
  bytes.resize(std::min(bytes.size(), most_bytes));
  return bytes;
}

Bytes from_file(const std::string &name) {
  Bytes bytes(most_bytes);
  FILE *file = std::fopen(name.c_str(), "rb");
  if (file == nullptr) return {};
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

void report_failure(uint64_t seed) {
  const Bytes found(shared->bytes, shared->bytes + shared->size);
  std::printf("seed %llu, input %llu: %s\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(shared->inputs), hex(found).c_str());
  if (!fails(found, true)) {
    std::printf("these bytes alone do not fail\n");
    return;
  }
  const Bytes small = smallest(found);
  std::printf("the smallest found that fails: --one %s\n", hex(small).c_str());
  fails(small, false);
}

// ---- what was called ------------------------------------------------------------------------------------------------

bool report() {
  const Tally &counts = shared->tally;
  bool whole = true;
  std::printf("%-40s %10s  refused, by status\n", "function", "ok");
  for (size_t f = 0; f < tables.function_count; ++f) {
    std::printf("%-40s %10llu ", tables.functions[f].name, static_cast<unsigned long long>(counts.calls[f][FOVEA_OK]));
    for (size_t status = 1; status < Tally::statuses; ++status) {
      if (counts.calls[f][status] == 0) continue;
      std::printf(" %s %llu", fovea_status_name(static_cast<fovea_status>(status)) + std::strlen("FOVEA_"),
                  static_cast<unsigned long long>(counts.calls[f][status]));
    }
    std::printf("\n");
  }
  for (int n = 0; n < comparisons; ++n) {
    std::printf("the same bits, %s: %llu\n", comparison_names[n], static_cast<unsigned long long>(counts.compared[n]));
    if (counts.compared[n] != 0) continue;
    std::printf("FAILED: nothing was compared\n");
    whole = false;
  }
  for (size_t f = 0; f < tables.function_count; ++f) {
    if (counts.calls[f][FOVEA_OK] != 0) continue;
    std::printf("FAILED: %s never succeeded: see HINTS in generate.py\n", tables.functions[f].name);
    whole = false;
  }
  for (size_t n = 0; n < counted().size(); ++n) {
    if (counts.members[n] != 0) continue;
    std::printf("FAILED: no call succeeded with %s\n", counted()[n].name.c_str());
    whole = false;
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(shared->inputs));
  return whole;
}

int fuzz_for(uint64_t seed, double seconds) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    make_calls(seed, seconds);
    exit(0);
  }
  int status = 0;
  const auto start = std::chrono::steady_clock::now();
  double said = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    usleep(50000);
    if (seconds_since(start) < said + 10) continue;
    said = seconds_since(start);
    std::printf("%.0f s, %llu inputs\n", said, static_cast<unsigned long long>(shared->inputs));
    std::fflush(stdout);
  }
  if (!shared->finished) {
    report_failure(seed);
    return 1;
  }
  const bool whole = report();
  if (status != 0) std::printf("FAILED: the process ended with status %d\n", status);
  return whole && status == 0 ? 0 : 1;
}

int write_corpus(const std::string &folder) {
  tally = &shared->tally;
  Noise noise(1);
  for (size_t f = 0; f < tables.function_count; ++f) {
    for (int turn = 0; turn < tries; ++turn) {
      const uint64_t before = shared->tally.calls[f][FOVEA_OK];
      const Bytes bytes = one_call(noise, f, 0);
      run(bytes);
      if (shared->tally.calls[f][FOVEA_OK] == before) continue;
      FILE *file = std::fopen((folder + "/" + tables.functions[f].name).c_str(), "wb");
      if (file == nullptr) return 1;
      std::fwrite(bytes.data(), 1, bytes.size(), file);
      std::fclose(file);
      break;
    }
  }
  return 0;
}

}  // namespace

int main(int count, char **arguments) {
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  shared = static_cast<Shared *>(memory);
  double seconds = 10;
  uint64_t seed = 20261;
  for (int n = 1; n + 1 < count; n += 2) {
    const std::string option = arguments[n], value = arguments[n + 1];
    if (option == "--one" || option == "--file") {
      tally = &shared->tally;
      talkative = true;
      run(option == "--one" ? from_hex(value) : from_file(value));
      return 0;
    }
    if (option == "--corpus") return write_corpus(value);
    if (option == "--seconds") seconds = std::strtod(value.c_str(), nullptr);
    if (option == "--seed") seed = std::strtoull(value.c_str(), nullptr, 10);
  }
  return fuzz_for(seed, seconds);
}
