// The tasks of attention as data: every row of every head meets every key once, in the order that is promised.
#include <algorithm>
#include <tuple>
#include <vector>

#include "kernels.hpp"
#include "ops/attention/task_grid.hpp"

using namespace testing;

namespace {

fovea::TaskGrid random_grid(Random &random) {
  fovea::TaskGrid grid;
  grid.entries = random.integer(1, 3);
  grid.kv_heads = random.integer(1, 3);
  grid.query_len = random.integer(1, 9);
  grid.rows = grid.query_len * random.integer(1, 3);
  grid.key_len = random.integer(0, 20);
  grid.last_rows_first = random.chance(0.5);
  grid.set_rows_per_task(random.integer(1, grid.rows + 1));
  grid.set_keys_per_split(random.integer(1, grid.key_len + 1));
  return grid;
}

}  // namespace

TEST_SUITE("kernels tasks") {
  TEST_CASE("every row meets every key once") {
    Random random(base_seed());
    for (int n = 0; n < 200; ++n) {
      CAPTURE(n);
      const fovea::TaskGrid grid = random_grid(random);
      const int64_t heads = grid.entries * grid.kv_heads, keys = std::max<int64_t>(grid.key_len, 1);
      std::vector<int> met(static_cast<size_t>(heads * grid.rows * keys), 0);
      int64_t rows = 0;
      for (int64_t task = 0; task < grid.tasks(); ++task) {
        const fovea::TaskCell cell = grid.cell(task);
        CHECK_EQ(cell.head, cell.rows.batch * grid.kv_heads + cell.rows.kv_head);
        CHECK_EQ(cell.key_begin, cell.split * grid.keys_per_split);
        for (int64_t r = cell.rows.row_begin; r < cell.rows.row_begin + cell.rows.row_count; ++r) {
          ++rows;
          for (int64_t k = cell.key_begin; k < cell.key_end; ++k) ++met[(cell.head * grid.rows + r) * keys + k];
        }
      }
      CHECK_EQ(rows, heads * grid.rows * grid.splits);
      for (const int times : met) CHECK_EQ(times, grid.key_len == 0 ? 0 : 1);
    }
  }

  TEST_CASE("splits follow each other, then blocks of rows, the last first where that is asked for, then heads") {
    Random random(base_seed());
    for (int n = 0; n < 200; ++n) {
      CAPTURE(n);
      const fovea::TaskGrid grid = random_grid(random);
      std::vector<std::tuple<int64_t, int64_t, int64_t>> order;
      for (int64_t task = 0; task < grid.tasks(); ++task) {
        const fovea::TaskCell cell = grid.cell(task);
        order.emplace_back(cell.head, grid.last_rows_first ? -cell.rows.row_begin : cell.rows.row_begin,
                           cell.key_begin);
      }
      CHECK(std::is_sorted(order.begin(), order.end()));
    }
  }

  TEST_CASE("a block of queries is the same queries in every head") {
    Random random(base_seed());
    for (int n = 0; n < 100; ++n) {
      CAPTURE(n);
      const fovea::TaskGrid grid = random_grid(random);
      const int64_t group = grid.rows / grid.query_len, heads = group * grid.kv_heads;
      std::vector<int> seen(static_cast<size_t>(grid.entries * heads * grid.query_len), 0);
      for (int64_t task = 0; task < grid.query_tasks(); ++task) {
        for (int64_t head = 0; head < heads; ++head) {
          const fovea::TaskRows block = grid.query_block(task, head, group);
          for (int64_t r = block.row_begin; r < block.row_begin + block.row_count; ++r) {
            const int64_t its = block.kv_head * group + r / grid.query_len;
            CHECK_EQ(its, head);
            ++seen[(block.batch * heads + its) * grid.query_len + r % grid.query_len];
          }
        }
      }
      for (const int times : seen) CHECK_EQ(times, 1);
    }
  }
}
