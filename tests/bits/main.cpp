// Are the bits of results what they were? Runs the table of calls on every instruction set of the machine and compares
// hashes of all that they give with the files here, one for each set. Each call runs on one thread and, from memory
// that no register is aligned to, on the threads of a caller's own loop, which has to give the same.
//
//   fovea_bits DIRECTORY                       compares
//   FOVEA_RENEW_BITS=1 fovea_bits DIRECTORY    writes the files of the machine's instruction sets
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "bits.hpp"
#include "support/contexts.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

std::string directory;
bool renews() { return environment_number("FOVEA_RENEW_BITS", 0) != 0; }

using Hashes = std::map<std::string, std::string>;  // by name

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// ---- files ----------------------------------------------------------------------------------------------------------

// The set "amx" is avx512's but for projections; "base" is another one for each architecture.
std::string file_of([[maybe_unused]] const std::string &isa) {
#if defined(__aarch64__)
  return "neon64";
#elif defined(__x86_64__)
  return isa == "amx" ? "avx512" : isa;
#else
  return isa + "-of-another-architecture";
#endif
}

std::string path_of(const std::string &file) { return directory + "/" + file + ".txt"; }

// False if there is no such file.
bool read(const std::string &file, Hashes *hashes) {
  std::ifstream lines(path_of(file));
  std::string name, hash;
  while (lines >> name >> hash) hashes->insert_or_assign(name, hash);
  return lines.is_open();
}

void write(const std::string &file, const Hashes &hashes) {
  std::ofstream lines(path_of(file));
  for (const auto &[name, hash] : hashes) lines << name << ' ' << hash << '\n';
  lines.close();
  std::printf("wrote %s: %zu calls\n", path_of(file).c_str(), hashes.size());
  CHECK(lines.good());
}

// ---- running --------------------------------------------------------------------------------------------------------

uint64_t run(const BitsCall &call, const fovea_context *context) {
  Digest digest;
  call(context, digest);
  return digest.value();
}

struct Sets {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<PoolContext>> pools;
  std::map<std::string, Hashes> hashes;  // by set

  explicit Sets(const std::vector<std::string> &isas) : names(isas) {
    for (const std::string &isa : names) pools.push_back(std::make_unique<PoolContext>(isa, 5, 3));
  }

  void run_row(const BitsRow &row) {
    CAPTURE(row.name);
    for (const Placement placement : {Placement::kEnd, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      const BitsCall call = row.make();
      for (size_t n = 0; n < names.size(); ++n) {
        CAPTURE(names[n]);
        const bool first = placement == Placement::kEnd;
        const std::string hash = hexadecimal(run(call, first ? shared_context(names[n], 1) : pools[n]->get()));
        if (first) {
          CHECK_MESSAGE(hashes[names[n]].emplace(row.name, hash).second, "two rows have this name");
        } else if (hash != hashes[names[n]][row.name]) {
          const std::string alone = hexadecimal(run(call, shared_context(names[n], 1)));
          const bool by_place = alone != hashes[names[n]][row.name];
          FAIL_CHECK("other bits " << (by_place ? "from memory that is aligned otherwise" : "on several threads"));
        }
      }
    }
  }
};

// ---- comparing ------------------------------------------------------------------------------------------------------

const std::string how_to_renew =
    "\nIf bits were meant to move, renew the files: ./dev bits. The commit says why (docs/testing.md, \"Bits\").";

// A call that was added on a machine without this set, or of the other architecture, is in other files but not in this
// one: it is told, and no failure.
void compare(const std::string &file, const Hashes &found) {
  Hashes pinned, elsewhere;
  read(file, &pinned);
  for (const char *other : {"base", "avx2", "neon64"}) read(other, &elsewhere);
  std::string lines;
  int64_t unseen = 0;
  for (const auto &[name, hash] : found) {
    const auto at = pinned.find(name);
    if (at == pinned.end() && elsewhere.count(name) != 0) {
      ++unseen;
    } else if (at == pinned.end()) {
      lines += "\n  " + name + ": not in the file, now " + hash;
    } else if (at->second != hash) {
      lines += "\n  " + name + ": was " + at->second + ", now " + hash;
    }
  }
  for (const auto &[name, hash] : pinned) {
    if (found.count(name) == 0) lines += "\n  " + name + ": in the file, but no call has this name";
  }
  if (!lines.empty()) FAIL_CHECK(path_of(file) << lines << how_to_renew);
  if (unseen > 0) {
    std::printf("%s: %lld calls are not pinned, as no machine with that set has run them yet: ./dev bits adds them\n",
                file.c_str(), static_cast<long long>(unseen));
  }
}

// The hashes of a set: those that are the same on every processor, those that go by its estimates, and how many are not
// pinned at all.
struct Pinned {
  Hashes everywhere, estimates;
  int64_t left_out = 0;

  Pinned(const std::string &isa, const BitsRows &rows, const Hashes &hashes) {
    for (const BitsRow &row : rows) {
      if (isa == "amx" && row.projects) {
        ++left_out;
      } else {
        Hashes &to = row.estimates && !estimate_fingerprint(isa).empty() ? estimates : everywhere;
        to.insert(*hashes.find(row.name));
      }
    }
  }
};

std::string estimates_of(const std::string &isa) { return file_of(isa) + "-estimates-"; }

// What moved on this processor has moved on all, whose files nobody can renew here.
void remove_estimates_of_others(const std::string &isa) {
  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().stem().string();
    if (name.rfind(estimates_of(isa), 0) != 0 || name == estimates_of(isa) + estimate_fingerprint(isa)) continue;
    std::filesystem::remove(entry.path());
    std::printf("removed %s, for another processor to write again\n", entry.path().c_str());
  }
}

void renew(const std::string &isa, const Pinned &pinned) {
  write(file_of(isa), pinned.everywhere);
  if (pinned.estimates.empty()) return;
  const std::string file = estimates_of(isa) + estimate_fingerprint(isa);
  Hashes before;
  if (read(file, &before) && before != pinned.estimates) remove_estimates_of_others(isa);
  write(file, pinned.estimates);
}

void compare_all(const std::string &isa, const Pinned &pinned) {
  compare(file_of(isa), pinned.everywhere);
  if (pinned.left_out > 0) {
    std::printf("%s: %lld calls that project are not pinned\n", isa.c_str(), static_cast<long long>(pinned.left_out));
  }
  if (pinned.estimates.empty()) return;
  const std::string file = estimates_of(isa) + estimate_fingerprint(isa);
  if (Hashes before; read(file, &before)) return compare(file, pinned.estimates);
  std::printf("%s: %zu calls that take the processor's estimates are not pinned, as there is no %s\n", isa.c_str(),
              pinned.estimates.size(), path_of(file).c_str());
}

}  // namespace

TEST_CASE("the bits of results are what they were") {
  const BitsRows rows = all_bits_rows();
  Sets sets(instruction_sets());
  for (const BitsRow &row : rows) sets.run_row(row);
  for (const std::string &isa : sets.names) {
    const Pinned pinned(isa, rows, sets.hashes[isa]);
    if (!renews()) {
      compare_all(isa, pinned);
    } else if (isa != "amx") {
      renew(isa, pinned);
    }
  }
}

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  for (int n = 1; n < argc; ++n) {
    if (argv[n][0] != '-') directory = argv[n];
  }
  if (directory.empty()) {
    std::fprintf(stderr, "usage: fovea_bits DIRECTORY\n");
    return 2;
  }
  std::printf("fovea %s; %s\n", fovea_version(), instruction_set_report().c_str());
  std::fflush(stdout);
  return context.run();
}
