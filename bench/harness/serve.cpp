// SPDX-License-Identifier: Apache-2.0
#include "harness/serve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "harness/harness.hpp"

namespace fovea_bench {
namespace {

const Case &case_named(const std::string &name) {
  const auto found = std::find_if(cases().begin(), cases().end(), [&](const Case &c) { return c.name() == name; });
  if (found == cases().end()) throw std::runtime_error("no case is named " + name);
  return *found;
}

int number_of_threads(const std::string &text) {
  if (text.empty() || text == "-") return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = std::atoi(text.c_str());
  if (threads < 1 || threads > 1024) throw std::runtime_error("threads must be from 1 to 1024, not " + text);
  return threads;
}

double positive(const std::string &text) {
  const double number = std::atof(text.c_str());
  if (!(number > 0 && number <= 1e9)) throw std::runtime_error("'" + text + "' is not a positive number");
  return number;
}

int64_t count_of(const std::string &text) { return std::max<int64_t>(1, std::llround(positive(text))); }

class Server {
 public:
  std::string answer(const std::string &line) {
    std::istringstream words(line);
    std::string command, argument;
    words >> command >> argument;
    std::string second, third;
    words >> second >> third;
    if (command == "prepare") return prepare(argument, second, third);
    if (command == "free") {
      free();
      return "";
    }
    if (command != "time" && command != "runs") throw std::runtime_error("unknown command '" + command + "'");
    if (!prepared_.run) throw std::runtime_error("nothing is prepared");
    if (command == "time") return time(positive(argument));
    return runs(count_of(argument), second.empty() ? 1 : count_of(second));
  }

 private:
  std::string prepare(const std::string &name, const std::string &isa, const std::string &threads) {
    free();
    Variant variant = {isa, number_of_threads(threads)};
    if (isa.empty() || isa == "-") variant.isa = fovea_isa_name(nullptr);
    const Case &what = case_named(name);
    if (what.one_thread_only) variant.threads = 1;
    prepared_ = what.prepare(variant);
    prepared_.run();
    return variant.isa + " " + std::to_string(variant.threads);
  }

  std::string time(double seconds) {
    const int64_t count = runs_that_fill(seconds, prepared_.run);
    std::string text = seconds_per_run(count);
    text += ' ';
    return text += std::to_string(count);
  }

  // Caches hold what the other program has left there: a run before warms them, but for single runs, which are long.
  std::string runs(int64_t count, int64_t blocks) {
    if (count * blocks > 1) prepared_.run();
    std::string text = seconds_per_run(count);
    for (int64_t block = 1; block < blocks; ++block) {
      text += ' ';
      text += seconds_per_run(count);
    }
    return text;
  }

  std::string seconds_per_run(int64_t count) {
    std::ostringstream text;
    text.precision(9);
    text << seconds_of(prepared_.run, count) / static_cast<double>(count);
    return text.str();
  }

  void free() {
    prepared_ = {};
    last_kept() = {};
  }

  Prepared prepared_;
};

}  // namespace

void serve(std::istream &in, std::ostream &out) {
  Server server;
  out << "ok fovea_bench serves 1" << std::endl;
  for (std::string line; std::getline(in, line);) {
    try {
      const std::string text = server.answer(line);
      out << (text.empty() ? "ok" : "ok " + text) << std::endl;
    } catch (const std::exception &error) {
      out << "error " << error.what() << std::endl;
    }
  }
}

}  // namespace fovea_bench
