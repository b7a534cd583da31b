// Operations that take elements and rows one by one.
#include "isa/unit.hpp"
#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/merge.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/positions/rotary.hpp"
#include "kernels/positions/sinusoidal.hpp"
#include "kernels/rowwise/activate.hpp"
#include "kernels/rowwise/layer_norm_narrow.hpp"
#include "kernels/rowwise/log_softmax.hpp"
#include "kernels/rowwise/softmax_columns.hpp"
#include "kernels/rowwise/softmax_stream.hpp"

namespace fovea {
extern const RowwiseKernels FOVEA_KERNELS(rowwise) = {.set = FOVEA_SET_NAME,
                                                      .lanes = FOVEA_ISA::lanes,
                                                      .exp = FOVEA_ISA::exp_elements,
                                                      .tanh = FOVEA_ISA::tanh_elements,
                                                      .activate = FOVEA_ISA::activate_elements,
                                                      .softmax_rows = FOVEA_ISA::softmax_rows,
                                                      .log_softmax_rows = FOVEA_ISA::log_softmax_rows,
                                                      .softmax_columns = FOVEA_ISA::softmax_columns,
                                                      .merge_row = FOVEA_ISA::merge_row,
                                                      .norm_rows = FOVEA_ISA::norm_rows,
                                                      .fill_empty_row = FOVEA_ISA::fill_empty_row,
                                                      .empty_log_sum_exp = FOVEA_ISA::empty_log_sum_exp,
                                                      .widen_rows = FOVEA_ISA::widen_rows,
                                                      .narrow_row = FOVEA_ISA::narrow_row,
                                                      .encode_rows = FOVEA_ISA::encode_rows,
                                                      .add_rows = FOVEA_ISA::add_rows,
                                                      .rotary_table = FOVEA_ISA::rotary_table,
                                                      .rotary_row_of_positions = FOVEA_ISA::rotary_row_of_positions,
                                                      .rotary_given_row = FOVEA_ISA::rotary_given_row,
                                                      .rotate_rows = FOVEA_ISA::rotate_rows};
}
