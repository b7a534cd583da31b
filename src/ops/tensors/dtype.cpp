#include "ops/tensors/dtype.hpp"

#include <cinttypes>
#include <cstdio>

#include "fovea/fovea.h"

namespace fovea {
namespace {

struct ElementType {
  fovea_dtype number;
  const char *name;
  size_t size;
};

constexpr ElementType element_types[] = {{FOVEA_F32, "FOVEA_F32", 4},         {FOVEA_F16, "FOVEA_F16", 2},
                                         {FOVEA_BF16, "FOVEA_BF16", 2},       {FOVEA_I32, "FOVEA_I32", 4},
                                         {FOVEA_I64, "FOVEA_I64", 8},         {FOVEA_BOOL, "FOVEA_BOOL", 1},
                                         {FOVEA_I8, "FOVEA_I8", 1},           {FOVEA_U8, "FOVEA_U8", 1},
                                         {FOVEA_F8_E4M3, "FOVEA_F8_E4M3", 1}, {FOVEA_F8_E5M2, "FOVEA_F8_E5M2", 1}};

const ElementType *find(int32_t dtype) {
  for (const ElementType &type : element_types) {
    if (type.number == dtype) return &type;
  }
  return nullptr;
}

}  // namespace

size_t dtype_size(Dtype dtype) {
  const ElementType *type = find(static_cast<int32_t>(dtype));
  return type == nullptr ? 1 : type->size;
}

DtypeName::DtypeName(int32_t dtype) {
  const ElementType *type = find(dtype);
  if (type != nullptr) {
    std::snprintf(text, sizeof text, "%s", type->name);
  } else {
    std::snprintf(text, sizeof text, "%" PRId32, dtype);
  }
}

}  // namespace fovea
