#include "ops/positions/check.hpp"

#include <cinttypes>
#include <cmath>

namespace fovea {

Status check_base(float given, uint32_t flags, uint32_t given_flag, double *base) {
  *base = is_default(given, flags, given_flag) ? 10000.0 : static_cast<double>(given);
  if (*base > 1.0 && std::isfinite(*base)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.base is %g, expected a finite number above 1%s", *base,
              (flags & given_flag) != 0 ? "" : ", or 0 for 10000");
}

Status check_offset(int64_t offset) {
  if (offset >= 0 && offset <= largest_length) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.offset is %" PRId64 ", expected 0 to %" PRId64, offset, largest_length);
}

Status check_position_tensors(const fovea_tensor *x, const fovea_tensor *out) {
  FOVEA_CHECK(check_tensor(x, {.name = "x", .min_rank = 2, .narrow = true}));
  FOVEA_CHECK(check_like_x(out, "out", *x, true));
  return same_memory(*x, *out) ? FOVEA_OK : check_overlaps({{"out", out}}, {{"x", x}});
}

Status check_encoding(const fovea_positional_encoding_options *given, bool may_drop, EncodingSettings *settings) {
  fovea_positional_encoding_options options;
  FOVEA_CHECK(read_options("options", given, &options));
  const uint32_t known = FOVEA_ENCODING_BASE_GIVEN;
  FOVEA_CHECK(check_flags(options.flags, may_drop ? known | FOVEA_ENCODING_DROPOUT_ALONE : known));
  settings->dropout_alone = (options.flags & FOVEA_ENCODING_DROPOUT_ALONE) != 0;
  FOVEA_CHECK(check_reserved(options.reserved));
  FOVEA_CHECK(check_base(options.base, options.flags, FOVEA_ENCODING_BASE_GIVEN, &settings->base));
  FOVEA_CHECK(check_offset(options.offset));
  settings->offset = options.offset;
  if (!may_drop && options.dropout != 0.0f) {
    return fail(FOVEA_BAD_VALUE, "options.dropout is %g, expected 0: the encoding alone is never dropped",
                static_cast<double>(options.dropout));
  }
  return check_dropout(options.dropout, options.dropout_seed, &settings->dropout);
}

}  // namespace fovea
