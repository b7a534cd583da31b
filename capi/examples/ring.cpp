// Ring attention over MPI: the ranks share a long sequence of made-up numbers, attend it, and print what they sent,
// computed and waited for. Each rank then makes the calls that fovea/mpi.h lists once more, alone, and compares bit by
// bit.
//
//   mpirun -n RANKS ring [--length N] [--heads N] [--kv-heads N] [--dim N] [--order contiguous|zigzag|striped] [--full] [--bf16]
//                        [--threads N] [--unchecked] [--picture FILE.png]
//
// --picture draws what each rank did over time: computed, waited, had messages under way.
#include <fovea/mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef WITH_TIMELINE  // where there is cairo
#include "timeline.hpp"
#endif

namespace {

struct Settings {
  int64_t length = 131072, heads = 1, kv_heads = 1, dim = 64, threads = 1;
  int32_t order = FOVEA_MPI_ZIGZAG;
  bool causal = true, bf16 = false, checked = true;
  std::string picture;
};

int my_rank = 0, rank_count = 1;

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "rank %d: %s\n", my_rank, why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void need(fovea_status status) {
  if (status != FOVEA_OK)
    give_up(status == FOVEA_MPI_FAILED || *fovea_mpi_last_error() != '\0' ? fovea_mpi_last_error()
                                                                          : fovea_last_error());
}

Settings read_settings(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    const auto number = [&](int64_t *to) {
      *to = std::atoll(value().c_str());
      if (*to < 1) give_up(name + " takes a number of 1 or more");
    };
    if (name == "--length") {
      number(&settings.length);
    } else if (name == "--heads") {
      number(&settings.heads);
    } else if (name == "--kv-heads") {
      number(&settings.kv_heads);
    } else if (name == "--dim") {
      number(&settings.dim);
    } else if (name == "--threads") {
      number(&settings.threads);
    } else if (name == "--full") {
      settings.causal = false;
    } else if (name == "--bf16") {
      settings.bf16 = true;
    } else if (name == "--unchecked") {
      settings.checked = false;
    } else if (name == "--picture") {
      settings.picture = value();
#ifndef WITH_TIMELINE
      give_up("--picture: built without cairo, which draws");
#endif
    } else if (name == "--order") {
      const std::string order = value();
      if (order == "contiguous") {
        settings.order = FOVEA_MPI_CONTIGUOUS;
      } else if (order == "zigzag") {
        settings.order = FOVEA_MPI_ZIGZAG;
      } else if (order == "striped") {
        settings.order = FOVEA_MPI_STRIPED;
      } else {
        give_up("--order takes contiguous, zigzag or striped, not '" + order + "'");
      }
    } else {
      give_up("unknown option " + name);
    }
  }
  return settings;
}

const char *order_name(int32_t order) {
  return order == FOVEA_MPI_ZIGZAG ? "zigzag" : order == FOVEA_MPI_STRIPED ? "striped" : "contiguous";
}

// A number that depends on nothing but where it stands, between -2 and 2, so that any rank can make any share.
float number_at(uint64_t tensor, uint64_t head, uint64_t position, uint64_t feature) {
  uint64_t x = ((tensor * 4096 + head) * (uint64_t{1} << 32) + position) * 1024 + feature;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 27)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 33;
  return static_cast<float>(static_cast<int64_t>(x >> 40) - (int64_t{1} << 23)) * 0x1p-22f;
}

// [1,heads,positions,dim], contiguous, F32 or BF16.
class Share {
 public:
  Share(const Settings &settings, uint64_t which, int64_t heads, const std::vector<int64_t> &positions)
      : dtype_(settings.bf16 ? FOVEA_BF16 : FOVEA_F32),
        shape_{1, heads, static_cast<int64_t>(positions.size()), settings.dim} {
    bytes_.resize(static_cast<size_t>(heads * shape_[2] * settings.dim) * size());
    size_t at = 0;
    for (int64_t h = 0; h < heads; ++h) {
      for (const int64_t p : positions) {
        for (int64_t d = 0; d < settings.dim; ++d, at += size())
          put(at, number_at(which, static_cast<uint64_t>(h), static_cast<uint64_t>(p), static_cast<uint64_t>(d)));
      }
    }
  }
  fovea_tensor view() const { return fovea_tensor_contiguous(bytes_.data(), dtype_, 4, shape_); }

 private:
  size_t size() const { return dtype_ == FOVEA_F32 ? 4 : 2; }
  void put(size_t at, float number) {  // cut to BF16: any number will do
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    const auto upper = static_cast<uint16_t>(bits >> 16);
    if (dtype_ == FOVEA_F32) {
      std::memcpy(&bytes_[at], &number, 4);
    } else {
      std::memcpy(&bytes_[at], &upper, 2);
    }
  }

  fovea_dtype dtype_;
  int64_t shape_[4];
  std::vector<char> bytes_;
};

// A rank's runs of positions: its only one, or the two chunks of the zigzag.
std::vector<std::vector<int64_t>> runs_of(const Settings &settings, int rank) {
  int64_t count = 0;
  need(fovea_mpi_share_length(settings.order, settings.length, rank_count, rank, &count));
  std::vector<int64_t> all(static_cast<size_t>(count));
  need(fovea_mpi_positions(settings.order, settings.length, rank_count, rank, all.data()));
  if (settings.order != FOVEA_MPI_ZIGZAG) return {all};
  const int64_t chunks = 2 * rank_count;
  const int64_t first = settings.length / chunks + (rank < settings.length % chunks ? 1 : 0);
  return {{all.begin(), all.begin() + first}, {all.begin() + first, all.end()}};
}

fovea_tensor floats(std::vector<float> &data, std::initializer_list<int64_t> shape) {
  return fovea_tensor_contiguous(data.data(), FOVEA_F32, static_cast<int32_t>(shape.size()), shape.begin());
}

int64_t floor_divided(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// One piece of queries over all keys by the calls that the header lists: its float32 result [heads,count,dim]. Every
// key/value head with its query heads is a batch entry.
std::vector<float> attend_alone(const Settings &s, const fovea_context *context, const std::vector<int64_t> &piece) {
  const auto rows = static_cast<int64_t>(piece.size());
  const int64_t group = s.heads / s.kv_heads, step = s.order == FOVEA_MPI_STRIPED ? rank_count : 1;
  const Share query(s, 0, s.heads, piece);
  std::vector<float> state, state_sums;
  for (int t = 0; t < rank_count; ++t) {
    for (const std::vector<int64_t> &run : runs_of(s, (my_rank - t + rank_count) % rank_count)) {
      if (run.empty() || (s.causal && run.front() > piece.back())) continue;
      const Share key(s, 1, s.kv_heads, run), value(s, 2, s.kv_heads, run);
      const auto entries = [&](fovea_tensor tensor, int64_t heads) {  // [kv heads, heads, length, dim]
        tensor.shape[0] = s.kv_heads, tensor.shape[1] = heads;
        tensor.strides[0] = heads * tensor.strides[1];
        return tensor;
      };
      const fovea_tensor q = entries(query.view(), group), k = entries(key.view(), 1), v = entries(value.view(), 1);
      std::vector<float> out(static_cast<size_t>(s.heads * rows * s.dim)), sums(static_cast<size_t>(s.heads * rows));
      const fovea_tensor out_view = floats(out, {s.kv_heads, group, rows, s.dim}),
                         sums_view = floats(sums, {s.kv_heads, group, rows});
      fovea_attention_options options = {};
      options.struct_size = sizeof options;
      options.log_sum_exp = &sums_view;
      if (s.causal) {
        options.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
        options.query_offset = floor_divided(piece.front() - run.front(), step);
      }
      need(fovea_attention(context, nullptr, &q, &k, &v, &out_view, &options));
      if (state.empty()) {
        state = std::move(out), state_sums = std::move(sums);
        continue;
      }
      std::vector<float> both = state, both_sums = state_sums;
      both.insert(both.end(), out.begin(), out.end());
      both_sums.insert(both_sums.end(), sums.begin(), sums.end());
      const fovea_tensor outs = floats(both, {2, s.heads, rows, s.dim}), lses = floats(both_sums, {2, s.heads, rows});
      const fovea_tensor merged = floats(state, {s.heads, rows, s.dim}),
                         merged_sums = floats(state_sums, {s.heads, rows});
      need(fovea_merge_states(context, &outs, &lses, &merged, &merged_sums));
    }
  }
  return state;
}

// Rows of this rank whose bits differ.
int64_t rows_that_differ(const Settings &s, const fovea_context *context, const std::vector<float> &out,
                         int64_t length) {
  int64_t different = 0, at = 0;
  for (const std::vector<int64_t> &run : runs_of(s, my_rank)) {
    for (size_t begin = 0; begin < run.size(); begin += 512) {
      const std::vector<int64_t> piece(run.begin() + static_cast<int64_t>(begin),
                                       run.begin() + static_cast<int64_t>(std::min(run.size(), begin + 512)));
      const std::vector<float> alone = attend_alone(s, context, piece);
      const auto rows = static_cast<int64_t>(piece.size());
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          const float *expected = &alone[static_cast<size_t>((h * rows + i) * s.dim)],
                      *got = &out[static_cast<size_t>((h * length + at + i) * s.dim)];
          different += std::memcmp(expected, got, static_cast<size_t>(s.dim) * sizeof(float)) != 0 ? 1 : 0;
        }
      }
      at += rows;
    }
  }
  return different;
}

void print_sizes(const Settings &s) {
  std::printf(
      "%lld positions, %lld heads (%lld of keys), %lld features, %s, %s, %s, on %d ranks, threads of each: %lld\n",
      static_cast<long long>(s.length), static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads),
      static_cast<long long>(s.dim), s.bf16 ? "bfloat16" : "float32", s.causal ? "causal" : "full", order_name(s.order),
      rank_count, static_cast<long long>(s.threads));
  const double share = static_cast<double>(s.length) / rank_count * static_cast<double>(s.dim) * (s.bf16 ? 2e-6 : 4e-6);
  std::printf("of each rank: queries of %.1f MB, keys and values of %.1f MB; of these two blocks are in memory\n",
              share * static_cast<double>(s.heads), 2 * share * static_cast<double>(s.kv_heads));
  std::fflush(stdout);
}

// What each rank did, by rank 0.
void print_figures(const Settings &s, const fovea_mpi *mpi, int64_t length, double seconds) {
  fovea_mpi_figures figures = {};
  figures.struct_size = sizeof figures;
  need(fovea_mpi_last_figures(mpi, &figures));
  const double mine[] = {static_cast<double>(length), static_cast<double>(figures.bytes_sent),
                         figures.seconds_computing, figures.seconds_waiting};
  std::vector<double> all(static_cast<size_t>(rank_count) * 4);
  MPI_Gather(mine, 4, MPI_DOUBLE, all.data(), 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (my_rank != 0) return;
  std::printf("%6s %10s %12s %14s %12s\n", "rank", "positions", "MB sent", "computing s", "waiting s");
  for (int r = 0; r < rank_count; ++r) {
    const double *row = &all[static_cast<size_t>(r) * 4];
    std::printf("%6d %10.0f %12.2f %14.3f %12.3f\n", r, row[0], row[1] * 1e-6, row[2], row[3]);
  }
  const double pairs = static_cast<double>(s.length) * static_cast<double>(s.length) / (s.causal ? 2 : 1);
  std::printf("%.3f s in all, %.1f GFLOP/s\n", seconds, 4e-9 * pairs * static_cast<double>(s.heads * s.dim) / seconds);
  std::fflush(stdout);
}

// Differences that all ranks found. Each makes the calls once more, alone.
int64_t count_differences(const Settings &s, const fovea_context *context, const std::vector<float> &out,
                          int64_t length) {
  if (!s.checked || rank_count == 1) return 0;
  if (my_rank == 0) std::printf("the same once more, each rank by itself, to compare ...\n");
  std::fflush(stdout);
  int64_t different = rows_that_differ(s, context, out, length), everywhere = 0;
  MPI_Allreduce(&different, &everywhere, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (my_rank == 0)
    std::printf("rows whose bits differ from one process's: %lld\n", static_cast<long long>(everywhere));
  return everywhere;
}

void run(const Settings &s) {
  fovea_context_options few_threads = {};
  few_threads.struct_size = sizeof few_threads;
  few_threads.max_threads = static_cast<int32_t>(s.threads);
  fovea_context *context = nullptr;
  need(fovea_context_create(&few_threads, &context));
  fovea_mpi *mpi = nullptr;
  need(fovea_mpi_create(MPI_COMM_WORLD, context, nullptr, &mpi));
  std::vector<int64_t> positions;
  for (const std::vector<int64_t> &run : runs_of(s, my_rank)) positions.insert(positions.end(), run.begin(), run.end());
  const auto length = static_cast<int64_t>(positions.size());
  const Share query(s, 0, s.heads, positions), key(s, 1, s.kv_heads, positions), value(s, 2, s.kv_heads, positions);
  std::vector<float> out(static_cast<size_t>(s.heads * length * s.dim));
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(),
                     result = floats(out, {1, s.heads, length, s.dim});
  fovea_attention_options options = {};
  options.struct_size = sizeof options;
  options.flags = s.causal ? uint32_t{FOVEA_CAUSAL} : 0u;
  const fovea_mpi_ring_options ring = {sizeof ring, s.order, 0};
  if (my_rank == 0) print_sizes(s);
  MPI_Barrier(MPI_COMM_WORLD);
#ifdef WITH_TIMELINE
  if (!s.picture.empty()) timeline::begin();
#endif
  const auto begin = std::chrono::steady_clock::now();
  need(fovea_mpi_ring_attention(mpi, nullptr, &q, &k, &v, &result, &options, &ring));
#ifdef WITH_TIMELINE
  if (!s.picture.empty()) timeline::end();
#endif
  MPI_Barrier(MPI_COMM_WORLD);
  print_figures(s, mpi, length, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const int64_t different = count_differences(s, context, out, length);
#ifdef WITH_TIMELINE
  if (!s.picture.empty()) {
    const std::string title = "Ring attention: " + std::to_string(s.length) + " positions on " +
                              std::to_string(rank_count) + " ranks, " + order_name(s.order) + ", " +
                              (s.causal ? "causal" : "full");
    if (!timeline::write_png(s.picture.c_str(), title.c_str())) give_up("no picture");
    if (my_rank == 0) std::printf("picture: %s\n", s.picture.c_str());
  }
#endif
  fovea_mpi_destroy(mpi);
  fovea_context_destroy(context);
  if (different != 0) give_up("results differ");
}

}  // namespace

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  const Settings settings = read_settings(argc, argv);
  if (settings.heads % settings.kv_heads != 0) give_up("--heads must be a multiple of --kv-heads");
  run(settings);
  MPI_Finalize();
  return 0;
}
