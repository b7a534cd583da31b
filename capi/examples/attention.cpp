// attention: what attention.c computes, from C++: a line each for the tensors, and an exception if something is wrong.
//
//     c++ -std=c++20 attention.cpp $(pkg-config --cflags --libs fovea) -o attention && ./attention
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <fovea/fovea.hpp>
#include <vector>

int main() {
  constexpr int batch = 2, queries = 3, keys = 4, dim = 2;
  const std::vector<float> query = {4, 0, 0, 4, 2, 2, 4, 0, 0, 4, 2, 2};
  const std::vector<float> key = {1, 0, 0, 1, -1, 0, 0, -1, 1, 0, 0, 1, 0, 0, 0, 0};
  const std::vector<float> value = {1, 0, 2, 0, 3, 0, 4, 0, 1, 0, 2, 0, 99, 99, 99, 99};
  const std::vector<std::int32_t> lengths = {4, 2};
  std::vector<float> out(batch * queries * dim);

  try {
    fovea::sdpa(fovea::Tensor(query, {batch, queries, dim}), fovea::Tensor(key, {batch, keys, dim}),
                fovea::Tensor(value, {batch, keys, dim}), fovea::Tensor(out, {batch, queries, dim}),
                {.valid_lens = lengths});
  } catch (const fovea::Error &error) {
    std::fprintf(stderr, "%s: %s\n", error.status_name(), error.what());
    return 1;
  }
  for (std::size_t row = 0; row < batch * queries; ++row)
    std::printf("sequence %d query %d: %.4f %.4f\n", static_cast<int>(row) / queries, static_cast<int>(row) % queries,
                out[2 * row], out[2 * row + 1]);
  return 0;
}
