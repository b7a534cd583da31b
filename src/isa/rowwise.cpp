// Operations that take elements and rows one by one.
#include "isa/unit.hpp"
#include "kernels/attention_empty.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/merge.hpp"
#include "kernels/positional.hpp"
#include "kernels/rotary.hpp"
#include "kernels/softmax_stream.hpp"
#include "kernels/table.hpp"

namespace fovea {
extern const RowwiseKernels FOVEA_KERNELS(rowwise) = {.set = FOVEA_SET_NAME,
                                                      .lanes = FOVEA_ISA::lanes,
                                                      .exp = FOVEA_ISA::exp_elements,
                                                      .tanh = FOVEA_ISA::tanh_elements,
                                                      .softmax_rows = FOVEA_ISA::softmax_rows,
                                                      .merge_row = FOVEA_ISA::merge_row,
                                                      .norm_rows = FOVEA_ISA::norm_rows,
                                                      .fill_empty_row = FOVEA_ISA::fill_empty_row,
                                                      .empty_log_sum_exp = FOVEA_ISA::empty_log_sum_exp,
                                                      .encode_rows = FOVEA_ISA::encode_rows,
                                                      .add_rows = FOVEA_ISA::add_rows,
                                                      .rotary_table = FOVEA_ISA::rotary_table,
                                                      .rotate_rows = FOVEA_ISA::rotate_rows};
}
