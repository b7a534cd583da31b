// What the machine can do at best, measured by short probes that stand right before and after what they are compared
// with: a shared or virtual machine changes its speed from one second to the next.
//
//   multiply-add rate   float32 operations per second of the instruction set's fused (SSE2: separate) multiply and add
//   product rate        the same of a float32 product by the instruction set's best means: with AMX, six products of
//                       bfloat16 tiles make one of float32
//   bfloat16 rate       the same of bfloat16, summed in float32: on tiles with AMX, by products of pairs where the processor has
//                       AVX-512-BF16, else as float32
//   read rate           bytes per second that the threads together read from one region, in a cycle
//   copy rate           bytes read plus bytes written per second by memcpy, each thread copying its part in one call
//
// Every thread works until the time is up and the threads' own rates are summed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace fovea_bench {

double multiply_add_rate(const std::string &isa, int threads, double seconds);
double product_rate(const std::string &isa, int threads, double seconds);
double bfloat16_rate(const std::string &isa, int threads, double seconds);

// Vector instructions per second of one thread: what a kernel's instructions per vector divide.
double instruction_rate(const std::string &isa, double seconds);
int lanes_of(const std::string &isa);

// Memory that is read over and over. A measured case that reads the same memory moves the cursor on too, so that probe
// and case never find in a cache what the other has just left there, unless the whole region fits.
class ReadRegion {
 public:
  ReadRegion(const void *data, size_t bytes) : data_(static_cast<const char *>(data)), bytes_(bytes) {}
  double rate(const std::string &isa, int threads, double seconds);
  size_t cursor() const { return cursor_; }
  void set_cursor(size_t cursor) { cursor_ = cursor % bytes_; }

 private:
  const char *data_;
  size_t bytes_;
  size_t cursor_ = 0;
};

double copy_rate(void *to, const void *from, size_t bytes, int threads, double seconds);

// Bytes over which copies of a cache are rotated so that each is read from memory: four times the last-level cache and
// at least 1.5 GB, but no more than half of the memory that is free.
size_t cold_bytes();

}  // namespace fovea_bench
