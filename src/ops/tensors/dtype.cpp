#include "ops/tensors/dtype.hpp"

#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "fovea/fovea.h"

namespace fovea {
namespace {

struct TypeName {
  fovea_dtype number;
  const char *name;
};

constexpr TypeName type_names[] = {
    {FOVEA_F32, "FOVEA_F32"},         {FOVEA_F16, "FOVEA_F16"}, {FOVEA_BF16, "FOVEA_BF16"},
    {FOVEA_I32, "FOVEA_I32"},         {FOVEA_I64, "FOVEA_I64"}, {FOVEA_BOOL, "FOVEA_BOOL"},
    {FOVEA_I8, "FOVEA_I8"},           {FOVEA_U8, "FOVEA_U8"},   {FOVEA_F8_E4M3, "FOVEA_F8_E4M3"},
    {FOVEA_F8_E5M2, "FOVEA_F8_E5M2"},
};

// The interface's numbers are those that the traits go by.
constexpr bool all_have_traits() {
  for (const TypeName &type : type_names) {
    if (bytes_of(static_cast<Dtype>(type.number)) == 0) return false;
  }
  return true;
}
static_assert(all_have_traits() && std::size(type_names) == std::size(element_traits));

const char *name_of(int32_t dtype) {
  for (const TypeName &type : type_names) {
    if (type.number == dtype) return type.name;
  }
  return nullptr;
}

}  // namespace

size_t dtype_size(Dtype dtype) {
  return name_of(static_cast<int32_t>(dtype)) == nullptr ? 1 : static_cast<size_t>(bytes_of(dtype));
}

DtypeName::DtypeName(int32_t dtype) {
  const char *name = name_of(dtype);
  if (name != nullptr) {
    std::snprintf(text, sizeof text, "%s", name);
  } else {
    std::snprintf(text, sizeof text, "%" PRId32, dtype);
  }
}

}  // namespace fovea
