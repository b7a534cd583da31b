// Passing over rows at the speed of memory: how far ahead to read, and two ways
// to write a register, into the caches or past them, so that the memory written
// is not read first. Pieces shorter than a register always go into the caches.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/prefetch.hpp"

#if defined(__x86_64__)
#include "beyond_xsimd/stream_store.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

// How far ahead of the arithmetic rows are asked for: left alone, the processor does not run ahead far enough.
constexpr int64_t fetch_bytes_ahead = 4096;

template <class Element>
FOVEA_INLINE int64_t fetch_rows_ahead(int64_t dim) {
  return ceil_div(fetch_bytes_ahead / static_cast<int64_t>(sizeof(Element)), dim);
}

// reads_first: memory comes into a cache before it is written.
struct CachedStore {
  static constexpr bool reads_first = true;
  template <class Element>
  FOVEA_INLINE void operator()(Element *to, const Float &value) const {
    store(to, value);
  }
  template <Nans nans, class Element>
  FOVEA_INLINE void two(Element *to, const Float &a, const Float &b) const {
    store_two<nans>(to, a, b);
  }
};

#if defined(__x86_64__)
FOVEA_INLINE void stream(float *to, const Float &value) { stream_store(to, value); }
FOVEA_INLINE void stream(Bfloat16 *to, const Float &value) { stream_halves(&to->bits, narrow_bfloat16(value)); }
FOVEA_INLINE void stream(Float16 *to, const Float &value) { stream_halves(&to->bits, narrow_float16(value)); }

// The last of its rows' stores must be done before others are told that they are.
struct StreamedStore {
  static constexpr bool reads_first = false;
  FOVEA_INLINE ~StreamedStore() { stream_fence(); }
  template <class Element>
  FOVEA_INLINE void operator()(Element *to, const Float &value) const {
    stream(to, value);
  }
  template <Nans nans, class Element>
  FOVEA_INLINE void two(Element *to, const Float &a, const Float &b) const {
    stream(to, a);
    stream(to + lanes, b);
  }
};
// A row on its way past the caches, in whole registers.
struct LeavingRow {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t at = 0, whole_end = 0, end = 0;  // bytes

  FOVEA_INLINE void start(const void *row, void *out, int64_t bytes) {
    from = static_cast<const char *>(row);
    to = static_cast<char *>(out);
    const auto size = static_cast<int64_t>(sizeof(Float));
    at = min_of((size - static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % sizeof(Float))) % size, bytes);
    whole_end = at + (bytes - at) / size * size;
    end = bytes;
    memcpy(to, from, static_cast<size_t>(at));
  }
  FOVEA_INLINE void step() {
    if (at == whole_end) return;
    stream_store(reinterpret_cast<float *>(to + at), load(reinterpret_cast<const float *>(from + at)));
    at += static_cast<int64_t>(sizeof(Float));
  }
  FOVEA_INLINE void finish() {
    while (at < whole_end) step();
    memcpy(to + at, from + at, static_cast<size_t>(end - at));
    at = whole_end = end;
  }
};
#else
using StreamedStore = CachedStore;
#endif

// Such stores must be aligned, in every row.
template <class Element>
FOVEA_INLINE bool can_stream(bool wanted, const Element *out, int64_t stride) {
  return wanted && reinterpret_cast<uintptr_t>(out) % (lanes * sizeof(Element)) == 0 && stride % lanes == 0;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
