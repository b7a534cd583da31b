#include "element_types.hpp"

#include <cstdio>
#include <cstring>

namespace fovea_python {
namespace {

struct Named {
  fovea_dtype dtype;
  const char *in_c, *here;
};
constexpr Named named[] = {{FOVEA_F32, "F32", "float32"},
                           {FOVEA_F16, "F16", "float16"},
                           {FOVEA_BF16, "BF16", "bfloat16"},
                           {FOVEA_I32, "I32", "int32"},
                           {FOVEA_I64, "I64", "int64"},
                           {FOVEA_BOOL, "BOOL", "bool"},
                           {FOVEA_I8, "I8", "int8"},
                           {FOVEA_U8, "U8", "uint8"},
                           {FOVEA_F8_E4M3, "F8_E4M3", "float8_e4m3fn"},
                           {FOVEA_F8_E5M2, "F8_E5M2", "float8_e5m2"}};

constexpr char in_c[] = "FOVEA_";

// The element type that a text begins with, and how long its name is.
const Named *named_at(const char *text, size_t &length) {
  for (const Named &one : named) {
    length = std::strlen(one.in_c);
    const char after = std::strncmp(text, one.in_c, length) == 0 ? text[length] : '_';
    const bool goes_on = after == '_' || (after >= 'A' && after <= 'Z') || (after >= '0' && after <= '9');
    if (!goes_on) return &one;
  }
  return nullptr;
}

struct Format {
  char letter, kind;
  uint8_t sizes[2];
};
constexpr Format formats[] = {{'e', 'f', {2, 2}}, {'f', 'f', {4, 4}}, {'d', 'f', {8, 8}}, {'g', 'f', {16, 12}},
                              {'b', 'i', {1, 1}}, {'h', 'i', {2, 2}}, {'i', 'i', {4, 4}}, {'l', 'i', {8, 4}},
                              {'q', 'i', {8, 8}}, {'n', 'i', {8, 8}}, {'B', 'u', {1, 1}}, {'c', 'u', {1, 1}},
                              {'H', 'u', {2, 2}}, {'I', 'u', {4, 4}}, {'L', 'u', {8, 4}}, {'Q', 'u', {8, 8}},
                              {'N', 'u', {8, 8}}, {'?', 'b', {1, 1}}};

const char *past_the_order(const char *format) {
  // The machines there are have little ends.
  return *format == '@' || *format == '=' || *format == '<' ? format + 1 : format;
}

}  // namespace

bool describe_kind(char kind, Py_ssize_t size, DlTensor &out) {
  static constexpr struct {
    char kind;
    uint8_t code;
  } codes[] = {{'f', kDlFloat}, {'i', kDlInt}, {'u', kDlUint}, {'b', kDlBool}, {'c', kDlComplex}};
  if (size < 1 || size > 16) return false;
  for (const auto &one : codes) {
    if (one.kind != kind) continue;
    out.code = one.code;
    out.bits = static_cast<uint8_t>(size * 8);
    out.lanes = 1;
    return true;
  }
  return false;
}

bool describe_format(const char *format, Py_ssize_t size, DlTensor &out) {
  const char *letter = past_the_order(format == nullptr ? "B" : format);
  if (*letter == 'Z' && (letter[1] == 'f' || letter[1] == 'd') && letter[2] == '\0') {
    return size == (letter[1] == 'f' ? 8 : 16) && describe_kind('c', size, out);
  }
  if (*letter == '\0' || letter[1] != '\0') return false;
  for (const Format &one : formats) {
    if (one.letter != *letter) continue;
    return (size == one.sizes[0] || size == one.sizes[1]) && describe_kind(one.kind, size, out);
  }
  return false;
}

bool is_in_other_order(const char *format) { return format != nullptr && (*format == '>' || *format == '!'); }

void copy_name(const char *text, ElementName &name) {
  size_t length = 0;
  for (; text[length] != '\0' && length + 1 < sizeof name; ++length) {
    const auto letter = static_cast<unsigned char>(text[length]);
    name[length] = letter >= ' ' && letter < 127 ? text[length] : '?';
  }
  name[length] = '\0';
}

void name_elements(const DlTensor &described, ElementName &name) {
  static constexpr const char *kinds[] = {"int", "uint", "float", nullptr, "bfloat", "complex", "bool"};
  const char *kind = described.code < sizeof kinds / sizeof *kinds ? kinds[described.code] : nullptr;
  if (kind == nullptr) {
    std::snprintf(name, sizeof name, "%d of DLPack's, %d bits", described.code, described.bits);
  } else if (described.lanes != 1) {
    std::snprintf(name, sizeof name, "%d times %s%d", described.lanes, kind, described.bits);
  } else if (described.code == kDlBool && described.bits == 8) {
    copy_name(kind, name);
  } else {
    std::snprintf(name, sizeof name, "%s%d", kind, described.bits);
  }
}

const char *name_of_dtype(fovea_dtype dtype) {
  for (const Named &one : named) {
    if (one.dtype == dtype) return one.here;
  }
  return nullptr;
}

PyObject *with_names(const char *message) {
  char text[1024];
  size_t used = 0;
  while (*message != '\0' && used + sizeof "float8_e4m3fn" < sizeof text) {
    size_t length = 0;
    const bool may = std::strncmp(message, in_c, sizeof in_c - 1) == 0;
    const Named *found = may ? named_at(message + sizeof in_c - 1, length) : nullptr;
    if (found == nullptr) {
      text[used++] = *message++;
      continue;
    }
    used += static_cast<size_t>(std::snprintf(text + used, sizeof text - used, "%s", found->here));
    message += sizeof in_c - 1 + length;
  }
  return PyUnicode_DecodeASCII(text, static_cast<Py_ssize_t>(used), "replace");
}

}  // namespace fovea_python
