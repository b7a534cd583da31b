// Rows that lie in pages, as the kernels' sources find them.
#pragma once

#include "kernels/attention/head_rows.hpp"

namespace fovea {

// How pages are cut; all but `count` and `size` in elements.
struct PageShape {
  int64_t count = 0;
  int64_t size = 0;                  // positions
  HeadStrides key = {}, value = {};  // batch: from page to page
  HeadStrides key_scales = {}, value_scales = {};
};

// One sequence's keys or values: position j of a head is row j % size of page ids[j / size].
struct PagePlaces : RowPlaces {
  const char *data;
  const Float16 *scales;
  const int32_t *ids;
  int64_t size;
  int64_t page_bytes, head_bytes, row_bytes;
  HeadStrides scale_strides;

  // rows: their data and element type, and scales if they have them; strides: from page to page and within one.
  PagePlaces(const HeadRows &rows, const HeadStrides &strides, const HeadStrides &scales_apart, int64_t page_size,
             const int32_t *page_ids)
      : RowPlaces{find_row, find_row_scales},
        data(static_cast<const char *>(rows.data)),
        scales(rows.scales.data),
        ids(page_ids),
        size(page_size),
        page_bytes(strides.batch * bytes_of(rows.dtype)),
        head_bytes(strides.head * bytes_of(rows.dtype)),
        row_bytes(strides.position * bytes_of(rows.dtype)),
        scale_strides(scales_apart) {}

  // Positions are below 2^30.
  static const void *find_row(const RowPlaces &places, int64_t, int64_t head, int64_t first, int64_t *count) {
    const auto &pages = static_cast<const PagePlaces &>(places);
    const auto page = static_cast<uint32_t>(first) / static_cast<uint32_t>(pages.size);
    const int64_t row = first - page * pages.size;
    *count = min_of(*count, pages.size - row);
    return pages.data + pages.ids[page] * pages.page_bytes + head * pages.head_bytes + row * pages.row_bytes;
  }
  static const Float16 *find_row_scales(const RowPlaces &places, int64_t, int64_t head, int64_t first) {
    const auto &pages = static_cast<const PagePlaces &>(places);
    const auto page = static_cast<uint32_t>(first) / static_cast<uint32_t>(pages.size);
    const int64_t row = first - page * pages.size;
    const HeadStrides &apart = pages.scale_strides;
    return pages.scales + pages.ids[page] * apart.batch + head * apart.head + row * apart.position;
  }
};

}  // namespace fovea
