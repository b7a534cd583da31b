#include <cinttypes>
#include <cmath>

#include "ops/positions/rotary_frequencies.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {
namespace {

using Options = fovea_rotary_frequencies_options;

constexpr const char *kind_names[] = {"PLAIN", "LINEAR", "DYNAMIC", "YARN", "LONGROPE", "LLAMA3"};

// A set of kinds, as bits.
constexpr int set_of(int kind) { return 1 << kind; }
constexpr int stretched = set_of(FOVEA_FREQUENCIES_LINEAR) | set_of(FOVEA_FREQUENCIES_DYNAMIC) |
                          set_of(FOVEA_FREQUENCIES_YARN) | set_of(FOVEA_FREQUENCIES_LONGROPE) |
                          set_of(FOVEA_FREQUENCIES_LLAMA3);
constexpr int by_length = set_of(FOVEA_FREQUENCIES_DYNAMIC) | set_of(FOVEA_FREQUENCIES_LONGROPE);
constexpr int yarn = set_of(FOVEA_FREQUENCIES_YARN);
constexpr int longrope = set_of(FOVEA_FREQUENCIES_LONGROPE);
constexpr int llama3 = set_of(FOVEA_FREQUENCIES_LLAMA3);

// Nothing is given that another kind takes.
Status check_members_of_kind(const Options &o) {
  const struct {
    const char *name;
    bool given;
    int kinds;
  } members[] = {{"flags", o.flags != 0, yarn},
                 {"factor", o.factor != 0, stretched},
                 {"original_length", o.original_length != 0, stretched & ~set_of(FOVEA_FREQUENCIES_LINEAR)},
                 {"length", o.length != 0, by_length},
                 {"low_frequency_factor", o.low_frequency_factor != 0, llama3},
                 {"high_frequency_factor", o.high_frequency_factor != 0, llama3},
                 {"fast_rotations", o.fast_rotations != 0, yarn},
                 {"slow_rotations", o.slow_rotations != 0, yarn},
                 {"mscale", o.mscale != 0, yarn},
                 {"mscale_all_dim", o.mscale_all_dim != 0, yarn},
                 {"short_factors", o.short_factors != nullptr, longrope},
                 {"long_factors", o.long_factors != nullptr, longrope}};
  for (const auto &member : members) {
    if (!member.given || (member.kinds & set_of(o.kind)) != 0) continue;
    return fail(FOVEA_BAD_OPTION, "options.%s is set, expected none with FOVEA_FREQUENCIES_%s", member.name,
                kind_names[o.kind]);
  }
  return FOVEA_OK;
}

// A finite number above `above`, or no less where that is said.
Status check_number(const char *name, float given, double above, bool or_equal, double *value) {
  *value = given;
  if (std::isfinite(given) && (*value > above || (or_equal && *value == above))) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.%s is %g, expected a finite number %s %g", name, *value,
              or_equal ? "of at least" : "above", above);
}

Status check_length(const char *name, int64_t given, int64_t least, double *length) {
  *length = static_cast<double>(given);
  return check_range("options.", name, given, least, largest_length);
}

Status check_numbers(const Options &o, FrequencySettings *s) {
  FOVEA_CHECK(check_number("base", o.base, 1, false, &s->base));
  if (o.kind == FOVEA_FREQUENCIES_PLAIN) return FOVEA_OK;
  FOVEA_CHECK(check_number("factor", o.factor, 0, false, &s->factor));
  if (o.kind == FOVEA_FREQUENCIES_LINEAR) return FOVEA_OK;
  FOVEA_CHECK(check_length("original_length", o.original_length, 2, &s->original_length));
  FOVEA_CHECK(check_length("length", o.length, 0, &s->length));
  if (o.kind == FOVEA_FREQUENCIES_LLAMA3) {
    FOVEA_CHECK(check_number("low_frequency_factor", o.low_frequency_factor, 0, true, &s->low_frequency_factor));
    return check_number("high_frequency_factor", o.high_frequency_factor, s->low_frequency_factor, false,
                        &s->high_frequency_factor);
  }
  if (o.kind != FOVEA_FREQUENCIES_YARN) return FOVEA_OK;
  FOVEA_CHECK(check_number("fast_rotations", o.fast_rotations, 0, false, &s->fast_rotations));
  FOVEA_CHECK(check_number("slow_rotations", o.slow_rotations, 0, false, &s->slow_rotations));
  FOVEA_CHECK(check_number("mscale", o.mscale, 0, true, &s->mscale));
  return check_number("mscale_all_dim", o.mscale_all_dim, 0, true, &s->mscale_all_dim);
}

Status check_options(const Options *given, FrequencySettings *settings) {
  Options options;
  FOVEA_CHECK(read_options("options", given, &options));
  FOVEA_CHECK(check_flags(options.flags, FOVEA_YARN_UNROUNDED));
  if (options.kind < FOVEA_FREQUENCIES_PLAIN || options.kind > FOVEA_FREQUENCIES_LLAMA3) {
    return fail(FOVEA_BAD_OPTION, "options.kind is %d, expected FOVEA_FREQUENCIES_PLAIN to _LLAMA3", options.kind);
  }
  settings->kind = options.kind;
  settings->rounds = (options.flags & FOVEA_YARN_UNROUNDED) == 0;
  settings->short_factors = options.short_factors;
  settings->long_factors = options.long_factors;
  FOVEA_CHECK(check_members_of_kind(options));
  return check_numbers(options, settings);
}

Status check_divisors(const TensorArgument &divisors, const char *name, int64_t pairs) {
  const TensorRule rule = {.name = name, .max_rank = 1, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(divisors, rule));
  FOVEA_CHECK(check_size(*divisors, name, 0, pairs, "as frequencies"));
  for (int64_t j = 0; j < pairs; ++j) {
    const float divisor = static_cast<const float *>(divisors->data)[j * divisors->strides[0]];
    if (divisor > 0 && std::isfinite(divisor)) continue;
    return fail(FOVEA_BAD_VALUE, "%s[%" PRId64 "] is %g, expected a finite number above 0", name, j,
                static_cast<double>(divisor));
  }
  return FOVEA_OK;
}

}  // namespace

Status check_frequencies(const TensorArgument &frequencies, const TensorArgument &attention_factor,
                         const Options *options, FrequencySettings *settings) {
  FOVEA_CHECK(check_options(options, settings));
  const TensorRule rule = {.name = "frequencies", .max_rank = 1, .output = true, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(frequencies, rule));
  if (attention_factor != nullptr) {
    FOVEA_CHECK(check_tensor(attention_factor, {.name = "attention_factor", .max_rank = 1, .output = true}));
    FOVEA_CHECK(check_size(*attention_factor, "attention_factor", 0, 1, "one number"));
  }
  if (settings->kind == FOVEA_FREQUENCIES_LONGROPE) {
    FOVEA_CHECK(check_divisors(settings->short_factors, "short_factors", frequencies->shape[0]));
    FOVEA_CHECK(check_divisors(settings->long_factors, "long_factors", frequencies->shape[0]));
  }
  return check_overlaps({{"frequencies", frequencies}, {"attention_factor", attention_factor}},
                        {{"short_factors", settings->short_factors}, {"long_factors", settings->long_factors}});
}

}  // namespace fovea
