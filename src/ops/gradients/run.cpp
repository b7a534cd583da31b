// Runs attention's backward pass: the tasks of its plan, what they leave to be added up, and the bias's blocks.
#include "ops/attention/problem.hpp"
#include "ops/attention/score_tasks.hpp"
#include "ops/gradients/plan.hpp"
#include "ops/tensors/lift.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t rows_per_sum = 64;  // of a task that adds up parts

// A run of a plan: where everything lies.
class GradientRun {
 public:
  GradientRun(const GradientPlan &plan, const AttentionCall &call, const GradientCall &gradients, void *block)
      : plan_(plan), call_(call), gradients_(gradients), block_(block), problem_(plan.problem) {
    problem_.scores = bound_problem(plan.scores, call, block);
    AttentionProblem &values = problem_.values;
    values.query.data = gradients.tensor[out_gradient].data;
    values.key.data = problem_.scores.value.data;
    problem_.query.data = data(query_gradient);
    problem_.key.data = data(key_gradient);
    problem_.value.data = data(value_gradient);
    bind_projection_gradients(plan.projections, block, &problem_);
    problem_.grad_log_sum_exp.data = static_cast<const float *>(data(log_sum_exp_gradient));
    problem_.grad_weights = data(weights_gradient);
    if (problem_.scores.outputs.average_weights) {
      problem_.grad_weights_factor = 1.0f / static_cast<float>(problem_.scores.sizes.heads);
    }
  }

  const AttentionProblem &scores() const { return problem_.scores; }

  void attend(int worker, int64_t index) const {
    const GradientGrid &grid = plan_.grid;
    const GradientCell cell = grid.cell(index);
    GradientTask task = make_task(GradientPart::gradients, worker);
    static_cast<TaskRows &>(task.scores) = cell.rows;
    task.scores.key_begin = cell.key_begin;
    task.scores.key_end = cell.key_end;
    task.scores.first_split = cell.key_split == 0;
    const int64_t rows_before = (cell.head * grid.key_splits + cell.key_split) * grid.rows;
    if (float *parts = plan_.query_parts.in(block_); parts != nullptr) {
      task.query_part = parts + (rows_before + cell.rows.row_begin) * scores().sizes.compared_dim;
    }
    if (float *parts = plan_.key_parts.in(block_); parts != nullptr) {
      task.key_part = parts + key_part(cell.head, cell.key_split, cell.row_split) * plan_.key_part_floats();
    }
    task.vector_part = vector_part(index);
    const auto sums = [&](const MemoryPart<float> &part, int64_t row) {
      float *first = part.in(block_);
      return first == nullptr ? nullptr : first + row;
    };
    task.sums = {sums(plan_.slope_sums, rows_before), sums(plan_.width_sums, rows_before),
                 sums(plan_.sink_sums, cell.head * grid.rows)};
    plan_.kernels->gradients(task);
  }

  int64_t weight_tasks() const {
    return plan_.weight_sums ? plan_.grid.heads * ceil_div(plan_.grid.rows, plan_.kernels->tile_rows) : 0;
  }
  void sum_weights(int worker, int64_t index) const {
    const GradientGrid &grid = plan_.grid;
    const int64_t blocks = ceil_div(grid.rows, plan_.kernels->tile_rows), head = index / blocks;
    GradientTask task = make_task(GradientPart::weight_sums, worker);
    const int64_t row = index % blocks * plan_.kernels->tile_rows;
    static_cast<TaskRows &>(task.scores) = {.batch = head / grid.kv_heads,
                                            .kv_head = head % grid.kv_heads,
                                            .row_begin = row,
                                            .row_count = min_of(plan_.kernels->tile_rows, grid.rows - row)};
    task.scores.key_end = grid.keys;
    plan_.kernels->gradients(task);
  }

  void write_bias(int worker, int64_t index) const {
    const AttentionSizes &sizes = scores().sizes;
    const fovea_tensor &given = gradients_.tensor[bias_gradient];
    const HeadStrides strides = head_strides(lift_heads(given));
    const int64_t key_blocks = ceil_div(plan_.bias_keys, gradient_bias_keys), row_blocks = plan_.bias_row_blocks();
    GradientTask task = make_task(GradientPart::bias, worker);
    task.scores.key_begin = index % key_blocks * gradient_bias_keys;
    task.scores.key_end = min_of(task.scores.key_begin + gradient_bias_keys, plan_.bias_keys);
    index /= key_blocks;
    const int64_t query = index % row_blocks * plan_.kernels->tile_rows;
    index /= row_blocks;
    const int64_t head = index % plan_.bias_heads, batch = index / plan_.bias_heads;
    const auto end = [](int64_t size, int64_t of_bias, int64_t at, int64_t count) {
      return of_bias == size ? min_of(at + count, size) : size;  // of 1: all there are
    };
    const Dtype dtype = static_cast<Dtype>(given.dtype);
    task.bias = {.batch = batch,
                 .batch_end = end(sizes.batch, plan_.bias_batch, batch, 1),
                 .head = head,
                 .head_end = end(sizes.heads, plan_.bias_heads, head, 1),
                 .query = query,
                 .query_end = end(sizes.query_len, plan_.bias_queries, query, plan_.kernels->tile_rows),
                 .sums_queries = plan_.bias_queries != sizes.query_len,
                 .out = element_at(given.data, dtype, strides.at(batch, head, query)),
                 .row_stride = strides.position,
                 .dtype = dtype};
    plan_.kernels->gradients(task);
  }

  // Blocks of rows of queries whose keys were split.
  int64_t query_sum_tasks() const {
    return plan_.query_parts ? plan_.grid.heads * ceil_div(plan_.grid.rows, rows_per_sum) : 0;
  }
  void sum_queries(int64_t index) const {
    const GradientGrid &grid = plan_.grid;
    const AttentionSizes &sizes = scores().sizes;
    const int64_t blocks = ceil_div(grid.rows, rows_per_sum), head = index / blocks;
    const int64_t first = index % blocks * rows_per_sum, last = min_of(first + rows_per_sum, grid.rows);
    const float *parts = plan_.query_parts.in(block_) + head * grid.key_splits * grid.rows * sizes.compared_dim;
    for (int64_t row = first; row < last; ++row) {
      const int64_t query_head = head % grid.kv_heads * sizes.group + row / sizes.query_len;
      sum_row(parts + row * sizes.compared_dim, grid.key_splits, grid.rows * sizes.compared_dim, sizes.compared_dim,
              problem_.query, {head / grid.kv_heads, query_head, row % sizes.query_len});
    }
  }

  // Blocks of keys whose queries were split.
  int64_t key_sum_tasks() const {
    return plan_.key_parts ? plan_.grid.heads * ceil_div(plan_.grid.keys, rows_per_sum) : 0;
  }
  void sum_keys(int64_t index) const {
    const GradientGrid &grid = plan_.grid;
    const AttentionSizes &sizes = scores().sizes;
    const int64_t blocks = ceil_div(grid.keys, rows_per_sum), head = index / blocks;
    const int64_t first = index % blocks * rows_per_sum, last = min_of(first + rows_per_sum, grid.keys);
    const int64_t key_stride = plan_.kernels->gradient_key_floats(sizes.compared_dim, 0);
    const int64_t value_stride = plan_.kernels->gradient_key_floats(0, sizes.value_dim);
    for (int64_t key = first; key < last; ++key) {
      const int64_t split = key / grid.keys_per_split, begin = split * grid.keys_per_split;
      const int64_t count = min_of(grid.keys_per_split, grid.keys - begin);
      const float *part = plan_.key_parts.in(block_) + key_part(head, split, 0) * plan_.key_part_floats();
      const RowPlace place = {head / grid.kv_heads, head % grid.kv_heads, key};
      sum_row(part + (key - begin) * key_stride, grid.row_splits, plan_.key_part_floats(), sizes.compared_dim,
              problem_.key, place);
      sum_row(part + count * key_stride + (key - begin) * value_stride, grid.row_splits, plan_.key_part_floats(),
              sizes.value_dim, problem_.value, place);
    }
  }

  // Units of the vector v, summed up over all tasks.
  int64_t vector_tasks() const { return problem_.wants_vector ? unit_tasks(scores().sizes.compared_dim) : 0; }
  void sum_vector(int64_t index) const {
    const int64_t units = scores().sizes.compared_dim;
    sum_units(*plan_.scores.kernels->rowwise, {vector_part(0), plan_.grid.tasks(), units, units}, index,
              gradients_.tensor[score_vector_gradient]);
  }

  // What is one number for each query head.
  void sum_heads(int64_t head) const {
    write_head(alibi_slopes_gradient, plan_.slope_sums, plan_.grid.key_splits, head, 1.0);
    write_head(sinks_gradient, plan_.sink_sums, 1, head, 1.0);
    if (!gradients_.present[sigmas_gradient] || !call_.present[sigmas_operand]) return;
    const fovea_tensor &sigmas = call_.tensor[sigmas_operand];
    const float sigma = static_cast<const float *>(sigmas.data)[head * sigmas.strides[0]];
    write_head(sigmas_gradient, plan_.width_sums, plan_.grid.key_splits, head, -2.0 / static_cast<double>(sigma));
  }

  // All heads may share one width, whose gradient is then a sum over them.
  int64_t width_tasks() const { return gradients_.present[sigmas_gradient] && !call_.present[sigmas_operand] ? 1 : 0; }
  void sum_width() const {
    double sum = 0.0;
    for (int64_t h = 0; h < scores().sizes.heads; ++h) sum += head_sum(plan_.width_sums, plan_.grid.key_splits, h);
    *static_cast<float *>(data(sigmas_gradient)) =
        static_cast<float>(sum * -2.0 / static_cast<double>(call_.score.sigma));
  }

 private:
  struct RowPlace {
    int64_t batch, head, position;
  };

  void *data(GradientOperand operand) const {
    return gradients_.present[operand] ? gradients_.tensor[operand].data : nullptr;
  }

  GradientTask make_task(GradientPart part, int worker) const {
    GradientTask task = {};
    task.part = part;
    task.problem = &problem_;
    task.scores.problem = &problem_.scores;
    task.scores.scratch = plan_.scratch.in(block_, worker);
    task.weight_sums = plan_.weight_sums.in(block_);
    return task;
  }

  float *vector_part(int64_t task) const {
    float *parts = plan_.vector_parts.in(block_);
    return parts == nullptr ? nullptr : parts + task * scores().sizes.compared_dim;
  }

  int64_t key_part(int64_t head, int64_t key_split, int64_t row_split) const {
    return (head * plan_.grid.key_splits + key_split) * plan_.grid.row_splits + row_split;
  }

  void sum_row(const float *parts, int64_t count, int64_t stride, int64_t dim, const GradientRows &to,
               const RowPlace &place) const {
    if (!to.wanted) return;
    const int64_t at = to.strides.at(place.batch, place.head, place.position);
    plan_.scores.kernels->rowwise->sum_row({.parts = parts,
                                            .count = count,
                                            .stride = stride,
                                            .dim = dim,
                                            .out = element_at(to.data, to.dtype, at),
                                            .out_type = to.dtype});
  }

  // Over batch entries, splits and queries, in this order.
  double head_sum(const MemoryPart<float> &part, int64_t splits, int64_t head) const {
    const AttentionSizes &sizes = scores().sizes;
    const GradientGrid &grid = plan_.grid;
    double sum = 0.0;
    for (int64_t batch = 0; batch < sizes.batch; ++batch) {
      const int64_t kv_head = batch * grid.kv_heads + head / sizes.group;
      for (int64_t split = 0; split < splits; ++split) {
        const float *row = part.in(block_) + (kv_head * splits + split) * grid.rows + sizes.first_row_of(head);
        for (int64_t query = 0; query < sizes.query_len; ++query) sum += static_cast<double>(row[query]);
      }
    }
    return sum;
  }

  void write_head(GradientOperand operand, const MemoryPart<float> &part, int64_t splits, int64_t head,
                  double factor) const {
    if (!gradients_.present[operand]) return;
    const fovea_tensor &to = gradients_.tensor[operand];
    static_cast<float *>(to.data)[head * to.strides[0]] = static_cast<float>(head_sum(part, splits, head) * factor);
  }

  const GradientPlan &plan_;
  const AttentionCall &call_;
  const GradientCall &gradients_;
  void *const block_;
  GradientProblem problem_;
};

}  // namespace

void run_gradients(const GradientPlan &plan, const AttentionCall &call, const GradientCall &gradients,
                   void *workspace) {
  if (!wants_gradients(gradients)) return;
  void *block = align_to_line(workspace);
  const GradientRun run(plan, call, gradients, block);
  const ScoreTasks score(plan.scores, call, plan.scores.score_memory.in(block), run.scores());
  const auto sum_weights = [&](int worker, int64_t index) { run.sum_weights(worker, index); };
  const auto attend = [&](int worker, int64_t index) { run.attend(worker, index); };
  const auto write_bias = [&](int worker, int64_t index) { run.write_bias(worker, index); };
  const auto sum_queries = [&](int, int64_t index) { run.sum_queries(index); };
  const auto sum_keys = [&](int, int64_t index) { run.sum_keys(index); };
  const auto sum_vector = [&](int, int64_t index) { run.sum_vector(index); };
  const auto sum_width = [&](int, int64_t) { run.sum_width(); };
  const auto sum_heads = [&](int, int64_t head) { run.sum_heads(head); };
  const GradientProblem &problem = plan.problem;
  TaskList list(plan.grid.heads < int64_t{4} * plan.workers ? Sharing::in_order : Sharing::in_ranges);
  score.add_to(&list);
  list.start_stage();
  list.add(run.weight_tasks(), sum_weights);
  list.start_stage();
  if (problem.wants_scores() || problem.value.wanted || problem.wants_sinks) list.add(plan.grid.tasks(), attend);
  list.add(plan.bias_tasks(), write_bias);
  list.start_stage();
  list.add(run.query_sum_tasks(), sum_queries);
  list.add(run.key_sum_tasks(), sum_keys);
  if (problem.wants_slopes || problem.wants_sinks || problem.wants_widths) {
    list.add(plan.problem.scores.sizes.heads, sum_heads);
  }
  list.add(run.width_tasks(), sum_width);
  list.add(run.vector_tasks(), sum_vector);
  run_tasks(*plan.scores.context, plan.workers, list);
  run_projection_gradients(*plan.scores.context, plan.projections, call, gradients, problem.scores.sizes.batch, block);
}

}  // namespace fovea
