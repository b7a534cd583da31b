// What is measured: every case is described once, here, for Google Benchmark, for --cases and for --serve.
//
// A case is named <operation>/<element type>/<model>; each way to run it adds /<instruction set>/t<threads>. Its work
// is what the formula needs and not what an implementation does:
//   flops     float32 operations of its multiply-adds, two for each
//   bytes     memory that has to be touched, each byte once; which one, the file of the operation says. 0: not told
//   elements  what counts of an operation that is neither: exponentials, units, pairs. 0: there are none
// and its bound says which of them sets the least time, in whose unit the rate is given. Where it is bytes, arithmetic
// may take longer nevertheless: the limit is the larger.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/fovea.h"

namespace fovea_bench {

// One combination that a case runs in.
struct Variant {
  std::string isa;
  int threads;
  std::string suffix() const { return "/" + isa + "/t" + std::to_string(threads); }
};

// A case with everything allocated, ready to run.
struct Prepared {
  std::function<void()> run;
  std::function<void()> run_on_one_thread;   // empty: no scaling is reported
  std::function<double()> shortest_seconds;  // probes the limit: the least time one run can take; empty: no share
  bool share_as_slots = false;  // shortest_seconds is one instruction per vector: report 1 / share as "slots" instead
  std::map<std::string, double> counters;  // reported as they are
};

enum class Bound { flops, bytes, elements, none };

struct Work {
  double flops = 0, bytes = 0, elements = 0;
  double in(Bound bound) const {
    return bound == Bound::flops ? flops : bound == Bound::bytes ? bytes : bound == Bound::elements ? elements : 0;
  }
};

// The shortest text that reads back as the same number.
std::string number(double value);

// A size or option by its name, with what another program needs to build the same inputs, as JSON.
struct Parameter {
  std::string name, json;
  Parameter(const char *n, int64_t value) : name(n), json(std::to_string(value)) {}
  Parameter(const char *n, double value);
  Parameter(const char *n, bool value) : name(n), json(value ? "true" : "false") {}
  Parameter(const char *n, const char *value) : name(n), json(value ? '"' + std::string(value) + '"' : "null") {}
  Parameter(const char *n, const std::vector<int32_t> &values) : Parameter(n, wide(values)) {}
  Parameter(const char *n, const std::vector<int64_t> &values);

 private:
  static std::vector<int64_t> wide(const std::vector<int32_t> &values) { return {values.begin(), values.end()}; }
};

inline const char *type_name(fovea_dtype dtype) {
  return dtype == FOVEA_BF16 ? "bf16" : dtype == FOVEA_F16 ? "f16" : "f32";
}

struct Case {
  std::string operation, model;
  fovea_dtype dtype = FOVEA_F32;  // of all that has floats
  Bound bound = Bound::none;
  Work work;
  Work padded = {};  // where valid lengths leave something out: the work of all keys
  std::vector<Parameter> parameters;
  benchmark::TimeUnit unit = benchmark::kMillisecond;
  bool on_amx = false;           // has a kernel of its own there; else avx512's serve both
  bool one_thread_only = false;  // too little for more
  std::function<Prepared(const Variant &)> prepare;

  std::string name() const { return operation + "/" + type_name(dtype) + "/" + model; }
};

using Cases = std::vector<Case>;
const Cases &cases();

// The ways a case is run in here: each instruction set of the machine, on one thread and on all of them.
std::vector<Variant> variants_of(const Case &what);
const std::vector<Variant> &variants();

// Prints those of float32 whose name the pattern matches, as a JSON array: who asks others asks them in any type.
void print_cases(const std::string &pattern);

// The memory of the case prepared last is kept: its other instruction sets and thread counts come next. `shape` must
// stay where it is. Whatever was kept is freed before the next is made.
struct Kept {
  const void *shape = nullptr;
  std::any data;
};
Kept &last_kept();

template <class Data, class Shape>
std::shared_ptr<Data> data_of(const Shape &shape) {
  Kept &kept = last_kept();
  const auto *same = std::any_cast<std::shared_ptr<Data>>(&kept.data);
  if (kept.shape == &shape && same) return *same;
  kept = {};
  kept.data = std::make_shared<Data>(shape);
  kept.shape = &shape;
  return std::any_cast<std::shared_ptr<Data>>(kept.data);
}

void add_sdpa(Cases *list);
void add_backward(Cases *list);
void add_scores(Cases *list);
void add_merge_states(Cases *list);
void add_masked_softmax(Cases *list);
void add_softmax(Cases *list);
void add_kv_pool(Cases *list);
void add_ragged(Cases *list);
void add_matmul(Cases *list);
void add_linear(Cases *list);
void add_multi_head(Cases *list);
void add_elementwise(Cases *list);
void add_positional(Cases *list);
void add_layer_norm(Cases *list);
void add_row_gradients(Cases *list);
void add_layer_gradients(Cases *list);
void add_cpp_face(Cases *list);

}  // namespace fovea_bench
