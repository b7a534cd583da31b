// Rejections of attention by heads: what one rank alone can judge, whether heads divide, and the call that a rank will
// make.
#include <algorithm>
#include <cinttypes>

#include "mpi/call_check.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

Status check_given(const fovea_tensor *tensor, const char *name) {
  return tensor == nullptr ? FOVEA_OK : check_view(tensor, name);
}

}  // namespace

// Tensors of all positions fit no local sizes: the core judges them later.
Status check_ulysses_call(const Handle &handle, const Arguments &given, Call *call) {
  Arguments a = given;
  fovea_attention_options options;
  read_options(a.options, &options);
  FOVEA_MPI_CHECK(check_supported(options));
  FOVEA_MPI_CHECK(refuse("key_scales", options.key_scales));
  FOVEA_MPI_CHECK(refuse("value_scales", options.value_scales));
  fovea_attention_options local = options;
  local.valid_lens = local.mask = local.bias = nullptr;
  if (given.options != nullptr) {
    FOVEA_MPI_CHECK(check_newer_options(*given.options));
    local.struct_size = std::min(given.options->struct_size, sizeof local);
  }
  a.options = &local;
  FOVEA_MPI_CHECK(check_by_core(handle, a));
  FOVEA_MPI_CHECK(check_given(options.valid_lens, "options.valid_lens"));
  FOVEA_MPI_CHECK(check_given(options.mask, "options.mask"));
  FOVEA_MPI_CHECK(check_given(options.bias, "options.bias"));
  FOVEA_MPI_CHECK(check_memory(a, options));
  lift_call(a, options, call);
  return FOVEA_OK;
}

Status check_heads(const Handle &handle, const WholeLengths &lengths, const Call &call, int32_t order) {
  FOVEA_MPI_CHECK(check_shares(handle, lengths, call.rank, order));
  const int64_t ranks = handle.ranks, kv_heads = call.kv_heads();
  if (call.heads() % ranks != 0) {
    return fail(FOVEA_BAD_SHAPE, "query has %" PRId64 " heads, expected a multiple of the %" PRId64 " ranks",
                call.heads(), ranks);
  }
  if (kv_heads != 0 && kv_heads % ranks != 0 && ranks % kv_heads != 0) {
    return fail(FOVEA_BAD_SHAPE, "key has %" PRId64 " heads, expected a multiple or a divisor of the %" PRId64 " ranks",
                kv_heads, ranks);
  }
  return FOVEA_OK;
}

}  // namespace fovea::mpi
