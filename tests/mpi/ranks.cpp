// Ranks in tests.
#include "ranks.hpp"

#include <algorithm>
#include <cstdio>

namespace testing {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

const fovea_context *one_thread() { return shared_context(instruction_sets().back(), 1); }

void need(fovea_status status, const char *what) {
  if (status == FOVEA_OK) return;
  std::printf("rank %d: %s gave %d: %s\n", world_rank(), what, status, fovea_mpi_last_error());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

OwnHandle make_handle(int64_t message_bytes, const fovea_context *context) {
  fovea_mpi_options options = {};
  options.struct_size = sizeof options;
  options.message_bytes = message_bytes;
  fovea_mpi *mpi = nullptr;
  need(fovea_mpi_create(MPI_COMM_WORLD, context, &options, &mpi), "fovea_mpi_create");
  return OwnHandle(mpi);
}

Positions RankPositions::all() const {
  Positions all;
  for (const Positions &run : runs) all.insert(all.end(), run.begin(), run.end());
  return all;
}

std::vector<RankPositions> positions_of_ranks(int32_t order, const std::vector<int64_t> &lengths) {
  const size_t ranks = lengths.size();
  int64_t whole = 0;
  for (const int64_t length : lengths) whole += length;
  std::vector<RankPositions> all(ranks);
  if (order == FOVEA_MPI_STRIPED) {
    for (RankPositions &rank : all) rank.runs.resize(1);
    for (int64_t p = 0; p < whole; ++p) all[static_cast<size_t>(p) % ranks].runs[0].push_back(p);
    return all;
  }
  // Chunks in the order of positions: of each rank one, or of the zigzag two, first forth, then back.
  const bool zigzag = order == FOVEA_MPI_ZIGZAG;
  int64_t next = 0;
  for (size_t chunk = 0; chunk < (zigzag ? 2 * ranks : ranks); ++chunk) {
    const auto chunks = static_cast<int64_t>(2 * ranks);
    const int64_t share = whole / chunks + (static_cast<int64_t>(chunk) < whole % chunks ? 1 : 0);
    Positions run;
    for (int64_t i = 0; i < (zigzag ? share : lengths[chunk]); ++i) run.push_back(next++);
    all[chunk < ranks ? chunk : 2 * ranks - 1 - chunk].runs.push_back(run);
  }
  return all;
}

std::vector<int64_t> random_lengths(int64_t whole, Random &random) {
  std::vector<int64_t> cuts = {0, whole};
  while (static_cast<int>(cuts.size()) < world_size() + 1) {
    cuts.push_back(random.chance(0.2) ? cuts.back() : random.integer(0, whole));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<int64_t> lengths;
  for (size_t r = 0; r + 1 < cuts.size(); ++r) lengths.push_back(cuts[r + 1] - cuts[r]);
  return lengths;
}

std::vector<int64_t> even_lengths(int64_t whole) {
  std::vector<int64_t> lengths;
  for (int rank = 0; rank < world_size(); ++rank) {
    lengths.push_back(whole * (rank + 1) / world_size() - whole * rank / world_size());
  }
  return lengths;
}

Tensor<float> pick(const Tensor<float> &whole, const Positions &positions, bool gaps) {
  return pick_along(static_cast<int>(whole.shape().size()) - 2, whole, positions, gaps);
}

Tensor<float> pick_along(int of_positions, const Tensor<float> &whole, const Positions &positions, bool gaps) {
  Shape shape = whole.shape();
  const auto axis = static_cast<size_t>(of_positions);
  shape[axis] = static_cast<int64_t>(positions.size());
  std::vector<int> order;
  for (size_t a = 0; a < shape.size(); ++a) order.push_back(static_cast<int>(a));
  Tensor<float> picked(shape, permuted_strides(shape, order, gaps ? 3 : 0));
  for_each_index(shape, [&](const Shape &index) {
    Shape at = index;
    at[axis] = positions[static_cast<size_t>(index[axis])];
    picked.at(index) = whole.at(at);
  });
  return picked;
}

AttentionResult result_of_share(const AttentionProblem &whole, int64_t query_len) {
  const AttentionSizes &s = whole.sizes;
  AttentionResult result;
  result.out = whole.make_tensor({s.batch, s.heads, query_len, s.value_dim}, whole.out_layout);
  const Shape shapes[3] = {{query_len}, {s.batch, query_len}, {s.batch, s.heads, query_len}};
  if (whole.want_log_sum_exp) result.log_sum_exp.emplace(shapes[whole.rank - 2]);
  return result;
}

RankCall::RankCall(const AttentionProblem &whole, const Positions &queries, const Positions &keys)
    : query(pick(whole.query, queries, true)),
      key(pick(whole.key, keys)),
      value(pick(whole.value, keys, true)),
      result(result_of_share(whole, static_cast<int64_t>(queries.size()))),
      arguments(whole, result) {
  arguments.query = query.view();
  arguments.key = key.view();
  arguments.value = value.view();
}

void put_into(const Tensor<float> &mine, const std::vector<RankPositions> &ranks, int axis, Tensor<float> *whole) {
  const std::vector<float> dense = mine.dense();
  std::vector<int> counts, begins;
  int all = 0;
  for (const RankPositions &rank : ranks) {
    Shape shape = whole->shape();
    shape[static_cast<size_t>(axis)] = static_cast<int64_t>(rank.all().size());
    counts.push_back(static_cast<int>(element_count(shape)));
    begins.push_back(all);
    all += counts.back();
  }
  std::vector<float> gathered(static_cast<size_t>(all));
  MPI_Allgatherv(dense.data(), static_cast<int>(dense.size()), MPI_FLOAT, gathered.data(), counts.data(), begins.data(),
                 MPI_FLOAT, MPI_COMM_WORLD);
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Positions positions = ranks[r].all();
    Shape shape = whole->shape();
    shape[static_cast<size_t>(axis)] = static_cast<int64_t>(positions.size());
    auto next = static_cast<size_t>(begins[r]);
    for_each_index(shape, [&](const Shape &index) {
      Shape at = index;
      at[static_cast<size_t>(axis)] = positions[static_cast<size_t>(index[static_cast<size_t>(axis)])];
      whole->at(at) = gathered[next++];
    });
  }
}

AttentionResult put_together(const AttentionProblem &whole, const std::vector<RankPositions> &queries,
                             const AttentionResult &mine) {
  AttentionResult result = whole.make_result(false);
  put_into(mine.out, queries, whole.rank - 2, &result.out);
  if (result.log_sum_exp) put_into(*mine.log_sum_exp, queries, whole.rank - 2, &*result.log_sum_exp);
  return result;
}

bool everywhere(bool mine) {
  int yes = mine ? 1 : 0, all = 0;
  MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

}  // namespace testing
