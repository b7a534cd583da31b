// The benchmark program, fovea_bench:
//
// fovea_bench [pattern] [--json FILE] [Google Benchmark's own options]
//   pattern            regular expression: only the cases whose name it matches
//   --json FILE        also writes the results there
//   --cases [PATTERN]  prints as JSON what is measured: every case's work, sizes and options (bench/harness/cases.hpp), and ends
//   --serve            times what it is asked for on stdin, line by line (bench/harness/serve.hpp)
//   --limits T         measures the best instruction set's limits on T threads, prints them as JSON and ends
// Results go to stdout, progress to stderr. The exit code is 1 if a case failed or none matched.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

#include "harness/harness.hpp"
#include "harness/serve.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

// Which benchmarks Google Benchmark will run with that filter.
std::function<bool(const std::string &)> selection(std::string filter) {
  const bool inverted = !filter.empty() && filter[0] == '-';
  if (inverted) filter.erase(0, 1);
  if (filter.empty() || filter == "all") return [](const std::string &) { return true; };
  const std::regex pattern(filter, std::regex::extended);
  return [=](const std::string &name) { return std::regex_search(name, pattern) != inverted; };
}

void announce(const std::string &filter) {
  const auto selected = selection(filter);
  const std::vector<std::string> names = benchmark_names();
  const auto count = static_cast<int>(std::count_if(names.begin(), names.end(), selected));
  set_selected(count);
  const double seconds = estimated_seconds(selected);
  std::fprintf(stderr, "%d measurements, about %.0f %s on an otherwise idle machine\n", count,
               seconds < 90 ? std::ceil(seconds) : seconds / 60, seconds < 90 ? "s" : "minutes");
  if (filter.empty() || filter == "all")
    std::fprintf(stderr,
                 "Fewer with a regular expression over names <operation>/f32/<model>/<instruction set>/t<threads>:\n"
                 "  'sdpa/.*/avx2/t1'  '/llama'  '/(bert_base|gpt2)/'      all names: --benchmark_list_tests\n");
}

// Google Benchmark appends how it was told to time ("/iterations:1/manual_time"); the names stay as they were given.
template <class Base>
class PlainNames : public Base {
 public:
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run> &runs) override {
    auto plain = runs;
    for (auto &run : plain) {
      run.run_name.iterations.clear();
      run.run_name.time_type.clear();
    }
    Base::ReportRuns(plain);
  }
};

// One line for each case: its name, the time of a run, its counters by name, since cases differ in them. Google
// Benchmark's own line also has processor time and iterations, which say nothing here: each case times itself, in
// blocks of many runs.
class Console : public PlainNames<benchmark::ConsoleReporter> {
 public:
  void ReportRuns(const std::vector<Run> &runs) override {
    for (const Run &run : runs) failed_ |= run.error_occurred;
    PlainNames::ReportRuns(runs);
    std::fflush(stdout);
  }
  bool failed() const { return failed_; }

 protected:
  void PrintHeader(const Run &) override { std::printf("%-48s %13s  %s\n", "case", "time", "counters"); }
  void PrintRunData(const Run &run) override {
    std::printf("%-48s ", run.benchmark_name().c_str());
    if (run.error_occurred) {
      std::printf("ERROR: %s\n", run.error_message.c_str());
      return;
    }
    std::printf("%10.4g %s ", run.GetAdjustedRealTime(), benchmark::GetTimeUnitString(run.time_unit));
    for (const auto &[name, counter] : run.counters) std::printf(" %s=%.4g", name.c_str(), counter.value);
    std::printf("\n");
  }

 private:
  bool failed_ = false;
};

void print_limits(int threads) {
  const std::string isa = variants().back().isa;
  const Buffer memory = zeros(8 << 20);  // 32 MB: the size of the decode case's keys and values
  ReadRegion region(memory.data(), memory.bytes());
  region.rate(isa, threads, 0.02);  // warms the cache
  std::printf("{\"isa\": \"%s\", \"threads\": %d, \"flops\": %.6g, \"read_bytes\": %.6g}\n", isa.c_str(), threads,
              multiply_add_rate(isa, threads, 0.03), region.rate(isa, threads, 0.03));
}

std::vector<std::string> rewritten_arguments(int argc, char **argv) {
  std::vector<std::string> arguments{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      arguments.insert(arguments.end(), {std::string("--benchmark_out=") + argv[++i], "--benchmark_out_format=json"});
    } else if (argument[0] != '-') {
      arguments.push_back("--benchmark_filter=" + argument);
    } else {
      arguments.push_back(argument);
    }
  }
  return arguments;
}

int run_benchmarks(int argc, char **argv) {
  std::vector<std::string> arguments = rewritten_arguments(argc, argv);
  std::vector<char *> pointers;
  for (std::string &argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 1;
  register_benchmarks();
  bool writes_file = false, lists_only = false;
  for (const std::string &argument : arguments) {
    writes_file |= argument.rfind("--benchmark_out=", 0) == 0;
    lists_only |= argument.rfind("--benchmark_list_tests", 0) == 0;
  }
  if (!lists_only) announce(benchmark::GetBenchmarkFilter());
  Console console;
  PlainNames<benchmark::JSONReporter> file;
  const size_t ran = benchmark::RunSpecifiedBenchmarks(&console, writes_file ? &file : nullptr);
  benchmark::Shutdown();
  return ran == 0 || console.failed();
}

}  // namespace

const Cases &cases() {
  static const Cases all = [] {
    Cases list;
    for (const auto add : {add_sdpa, add_backward, add_scores, add_merge_states, add_masked_softmax, add_kv_pool,
                           add_ragged, add_matmul, add_linear, add_multi_head, add_elementwise, add_positional,
                           add_layer_norm, add_softmax, add_row_gradients, add_layer_gradients, add_cpp_face})
      add(&list);
    return list;
  }();
  return all;
}

}  // namespace fovea_bench

int main(int argc, char **argv) {
  try {
    if ((argc == 2 || argc == 3) && std::strcmp(argv[1], "--cases") == 0) {
      fovea_bench::print_cases(argc == 3 ? argv[2] : "");
      return 0;
    }
    if (argc == 2 && std::strcmp(argv[1], "--serve") == 0) {
      fovea_bench::serve(std::cin, std::cout);
      return 0;
    }
    if (argc == 3 && std::strcmp(argv[1], "--limits") == 0) {
      fovea_bench::print_limits(std::max(1, std::atoi(argv[2])));
      return 0;
    }
    return fovea_bench::run_benchmarks(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "fovea_bench: %s\n", error.what());
    return 1;
  }
}
