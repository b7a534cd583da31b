#include <cinttypes>

#include "ops/ragged/check.hpp"

namespace fovea {
namespace {

Status check_rows(const fovea_tensor *tensor, const char *name, int64_t tokens, int64_t heads, int64_t dim) {
  FOVEA_CHECK(check_tensor(tensor, {.name = name, .min_rank = 3, .max_rank = 3, .narrow = true}));
  if (tensor->shape[0] < tokens) {
    return fail(FOVEA_BAD_SHAPE, "%s has %" PRId64 " tokens, expected the step's %" PRId64 " or more", name,
                tensor->shape[0], tokens);
  }
  return expect_sizes({{name, "heads", tensor->shape[1], heads, "as the schedule was made"},
                       {name, "features", tensor->shape[2], dim, "as the schedule was made"}});
}

// Pages are those that the schedule was made with, in another memory.
Status check_pages(const fovea_tensor *tensor, const char *name, const fovea_tensor &made, bool has_data) {
  FOVEA_CHECK(expect_given(tensor, name, "a tensor"));
  if (tensor->dtype != made.dtype) {
    return fail(FOVEA_BAD_DTYPE, "%s has dtype %s, expected %s, as the schedule was made", name,
                DtypeName(tensor->dtype).text, DtypeName(made.dtype).text);
  }
  const auto dtype = static_cast<Dtype>(made.dtype);
  FOVEA_CHECK(check_tensor(
      tensor, {.name = name, .dtype = dtype, .min_rank = 4, .max_rank = 4, .output = true, .needs_data = has_data}));
  for (int axis = 0; axis < 4; ++axis) {
    if (tensor->shape[axis] != made.shape[axis]) {
      return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is %" PRId64 ", expected %" PRId64 ", as the schedule was made", name,
                  axis, tensor->shape[axis], made.shape[axis]);
    }
    if (tensor->shape[axis] > 1 && tensor->strides[axis] != made.strides[axis]) {
      return fail(FOVEA_BAD_STRIDE, "%s.strides[%d] is %" PRId64 ", expected %" PRId64 ", as the schedule was made",
                  name, axis, tensor->strides[axis], made.strides[axis]);
    }
  }
  return FOVEA_OK;
}

// Values that are the first features of keys' rows lie as those do.
Status check_view_of_keys(const RaggedCall &made) {
  const HeadStrides &key = made.pages.key, &value = made.pages.value;
  const bool same = key.batch == value.batch && key.head == value.head && key.position == value.position &&
                    made.checked.key.dtype == made.checked.value.dtype &&
                    made.checked.sizes.value_dim <= made.checked.sizes.key_dim;
  if (same) return FOVEA_OK;
  return fail(FOVEA_NULL_POINTER, "value is NULL, expected a tensor: the schedule's values are no view of its keys");
}

}  // namespace

Status check_places(const RaggedStep &step) {
  for (int64_t s = 0; s < step.sequence_count; ++s) {
    const RaggedSequence &sequence = step.sequences[s];
    if (sequence.query_len <= sequence.key_len) continue;
    return fail(FOVEA_BAD_VALUE,
                "sequence %" PRId64 " of the step has %" PRId64 " tokens and %" PRId64 " keys, expected as many keys",
                s, sequence.query_len, sequence.key_len);
  }
  if (step.shared_page < 0) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE,
              "sequences %" PRId64 " and %" PRId64 " of the step both write into page %" PRId64
              ", expected a page of its own for each",
              step.first_writer, step.second_writer, step.shared_page);
}

Status check_page_memory(const fovea_schedule &schedule, const PageTensors &pages) {
  const NamedTensor named[] = {{"key_pages", pages.key},
                               {"value_pages", pages.value},
                               {"key_scales", pages.key_scales},
                               {"value_scales", pages.value_scales}};
  for (int n = 0; n < paged_operand_count; ++n) {
    const bool wanted = schedule.made.call.present[paged_operands[n]];
    if (!wanted && named[n].tensor != nullptr) {
      return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: the schedule was made without", named[n].name);
    }
    const bool of_values = paged_operands[n] == value_operand || paged_operands[n] == value_scales_operand;
    if (!wanted || (of_values && pages.keys_alone)) continue;
    const fovea_tensor &made = schedule.made.call.tensor[paged_operands[n]];
    FOVEA_CHECK(check_pages(named[n].tensor, named[n].name, made, pages.have_data));
  }
  return pages.have_data ? check_overlaps(named, {}) : FOVEA_OK;
}

Status check_appended(const fovea_schedule &schedule, const AppendedTensors &tensors) {
  if (schedule.made.pages.size == 0) {
    return fail(FOVEA_BAD_OPTION, "the schedule was made for packed keys, expected one for pages");
  }
  const RaggedStep &step = schedule.step();
  const AttentionSizes &sizes = schedule.made.checked.sizes;
  FOVEA_CHECK(check_rows(tensors.key, "key", step.tokens, sizes.kv_heads, sizes.key_dim));
  const bool keys_alone = tensors.value == nullptr && tensors.value_pages == nullptr;
  if (keys_alone) FOVEA_CHECK(check_view_of_keys(schedule.made));
  if (!keys_alone) FOVEA_CHECK(check_rows(tensors.value, "value", step.tokens, sizes.kv_heads, sizes.value_dim));
  FOVEA_CHECK(check_page_memory(schedule, {.key = tensors.key_pages,
                                           .value = tensors.value_pages,
                                           .key_scales = tensors.key_scales,
                                           .value_scales = tensors.value_scales,
                                           .keys_alone = keys_alone}));
  FOVEA_CHECK(check_overlaps({{"key_pages", tensors.key_pages},
                              {"value_pages", tensors.value_pages},
                              {"key_scales", tensors.key_scales},
                              {"value_scales", tensors.value_scales}},
                             {{"key", tensors.key}, {"value", tensors.value}}));
  return check_places(step);
}

Status check_turning(const AppendedTensors &tensors, const fovea_rotary_options &rotary) {
  if (rotary.offset != 0) {
    return fail(FOVEA_BAD_VALUE, "options.rotary.offset is %" PRId64 ", expected 0: positions are the schedule's",
                rotary.offset);
  }
  const TensorArgument positions = rotary.positions, frequencies = rotary.frequencies, sections = rotary.sections,
                       cosines = rotary.cosines, sines = rotary.sines;
  return check_overlaps({{"key_pages", tensors.key_pages},
                         {"value_pages", tensors.value_pages},
                         {"key_scales", tensors.key_scales},
                         {"value_scales", tensors.value_scales}},
                        {{"options.rotary.positions", positions},
                         {"options.rotary.frequencies", frequencies},
                         {"options.rotary.sections", sections},
                         {"options.rotary.cosines", cosines},
                         {"options.rotary.sines", sines}});
}

}  // namespace fovea
