// The table of operations on elements and rows: those of other units, through their structs, and those that serve
// others.
#include "isa/rowwise_units.hpp"
#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/merge.hpp"
#include "kernels/rowwise/quantize.hpp"
#include "kernels/rowwise/sum_row.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr RowwiseKernels rowwise_kernels = {
    .set = FOVEA_SET_NAME,
    .lanes = lanes,
    .exp = [](const ElementRun &run) { FOVEA_KERNELS(elements).exp(run); },
    .tanh = [](const ElementRun &run) { FOVEA_KERNELS(elements).tanh(run); },
    .activate = [](const ElementRun &run, Activation kind) { FOVEA_KERNELS(elements).activate(run, kind); },
    .softmax_rows = [](const SoftmaxRows &rows) { FOVEA_KERNELS(softmax).rows(rows); },
    .log_softmax_rows = [](const SoftmaxRows &rows) { FOVEA_KERNELS(softmax).log_rows(rows); },
    .softmax_columns = [](const SoftmaxColumns &columns) { FOVEA_KERNELS(columns).softmax(columns); },
    .merge_row = merge_row,
    .sum_row = sum_row,
    .norm_rows = [](const NormRows &rows) { FOVEA_KERNELS(norm).rows(rows); },
    .fill_empty_row = fill_empty_row,
    .empty_log_sum_exp = empty_log_sum_exp,
    .widen_rows = widen_rows,
    .narrow_row = narrow_row,
    .quantize_rows = quantize_rows,
    .dequantize_rows = dequantize_rows,
    .encode_rows = [](const EncodingRows &rows) { FOVEA_KERNELS(positions).encode_rows(rows); },
    .add_rows = [](const AddedRows &rows) { FOVEA_KERNELS(positions).add_rows(rows); },
    .rotary_table = [](const RotaryTable &rows) { FOVEA_KERNELS(positions).rotary_table(rows); },
    .rotary_row_of_positions = [](const RotaryTable &row) { FOVEA_KERNELS(positions).rotary_row_of_positions(row); },
    .rotary_given_row = [](const GivenTurns &row) { FOVEA_KERNELS(positions).rotary_given_row(row); },
    .rotate_rows = [](const RotatedRows &rows) { FOVEA_KERNELS(positions).rotate_rows(rows); },
    .activation_gradients = [](const ActivationGradients &all) { FOVEA_KERNELS(row_gradients).activation(all); },
    .softmax_gradient_rows = [](const SoftmaxGradientRows &rows) { FOVEA_KERNELS(row_gradients).softmax_rows(rows); },
    .softmax_gradient_columns =
        [](const SoftmaxGradientColumns &columns) { FOVEA_KERNELS(row_gradients).softmax_columns(columns); },
    .norm_gradient_rows = [](const NormGradientRows &rows) { FOVEA_KERNELS(norm).gradient_rows(rows); },
    .merge_gradient_row = [](const MergeGradientRow &row) { FOVEA_KERNELS(row_gradients).merge_row(row); },
    .add_row = [](const SummedRow &row) { FOVEA_KERNELS(row_gradients).add_row(row); }};

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const RowwiseKernels FOVEA_KERNELS(rowwise) = FOVEA_ISA::rowwise_kernels;
}
