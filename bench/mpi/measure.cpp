// Times calls over MPI: one line of JSON for each case, of the fastest of several runs, with every rank's figures.
//
//   mpirun -n RANKS measure REPEATS CASE...
//
// A case is "CALL LENGTH HEADS KV_HEADS DIM ORDER causal|full TYPE TRANSPORT THREADS" in one argument: CALL ring or
// ulysses, ORDER contiguous, zigzag or striped, TYPE f32 or bf16, TRANSPORT the same or bf16. Tensors hold made-up
// numbers.
#include <fovea/mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

int my_rank = 0, rank_count = 1;

[[noreturn]] void give_up(const char *why) {
  std::fprintf(stderr, "rank %d: %s\n", my_rank, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void need(fovea_status status) {
  if (status != FOVEA_OK) give_up(*fovea_mpi_last_error() != '\0' ? fovea_mpi_last_error() : fovea_last_error());
}

struct Case {
  std::string call, order, mask, type, transport;
  int64_t length = 0, heads = 0, kv_heads = 0, dim = 0;
  int32_t threads = 0;

  explicit Case(const char *text) {
    std::istringstream words(text);
    words >> call >> length >> heads >> kv_heads >> dim >> order >> mask >> type >> transport >> threads;
    if (!words || (call != "ring" && call != "ulysses")) give_up("a case cannot be read");
  }
  int32_t order_number() const {
    return order == "zigzag" ? FOVEA_MPI_ZIGZAG : order == "striped" ? FOVEA_MPI_STRIPED : FOVEA_MPI_CONTIGUOUS;
  }
};

// [1,heads,length,dim]; bits that are small numbers in either type.
class Made {
 public:
  Made(const Case &c, int64_t heads, int64_t length)
      : dtype_(c.type == "bf16" ? FOVEA_BF16 : FOVEA_F32), shape_{1, heads, length, c.dim} {
    const auto count = static_cast<size_t>(heads * length * c.dim);
    words_.resize(dtype_ == FOVEA_F32 ? count : (count + 1) / 2);
    uint32_t state = 12345;
    for (uint32_t &word : words_) {
      state = state * 1664525u + 1013904223u;
      word = 0x3e003e00u ^ (state & 0x807f807fu);
    }
  }
  fovea_tensor view() { return fovea_tensor_contiguous(words_.data(), dtype_, 4, shape_); }

 private:
  fovea_dtype dtype_;
  int64_t shape_[4];
  std::vector<uint32_t> words_;
};

struct Figures {
  double seconds, bytes_sent, computing, waiting, probe;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A job that all ranks do at once, the same beside every case: how fast the machine is now.
double probe(const fovea_context *context) {
  const Case c("ring 512 8 8 128 contiguous full f32 f32 1");
  static Made query(c, c.heads, c.length), key(c, c.heads, c.length), value(c, c.heads, c.length),
      out(c, c.heads, c.length);
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(), o = out.view();
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  need(fovea_attention(context, nullptr, &q, &k, &v, &o, nullptr));
  return seconds_since(begin);
}

void measure(const Case &c, int repeats) {
  fovea_context_options threads = {};
  threads.struct_size = sizeof threads;
  threads.max_threads = c.threads;
  fovea_context *context = nullptr;
  need(fovea_context_create(&threads, &context));
  fovea_mpi *mpi = nullptr;
  need(fovea_mpi_create(MPI_COMM_WORLD, context, nullptr, &mpi));
  int64_t length = 0;
  need(fovea_mpi_share_length(c.order_number(), c.length, rank_count, my_rank, &length));
  Made query(c, c.heads, length), key(c, c.kv_heads, length), value(c, c.kv_heads, length), out(c, c.heads, length);
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(), o = out.view();
  fovea_attention_options options = {};
  options.struct_size = sizeof options;
  options.flags = c.mask == "causal" ? uint32_t{FOVEA_CAUSAL} : 0u;
  const fovea_dtype transport = c.transport != c.type && c.transport == "bf16" ? FOVEA_BF16 : 0;
  const fovea_mpi_ring_options ring = {sizeof ring, c.order_number(), transport};
  const fovea_mpi_ulysses_options ulysses = {sizeof ulysses, c.order_number(), 0};
  std::vector<Figures> all(static_cast<size_t>(rank_count)), best;
  double least = 0, probed = 0, before = probe(context);
  for (int run = 0; run <= repeats; ++run) {  // the first is to take memory and is not counted
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    need(c.call == "ring" ? fovea_mpi_ring_attention(mpi, nullptr, &q, &k, &v, &o, &options, &ring)
                          : fovea_mpi_ulysses_attention(mpi, nullptr, &q, &k, &v, &o, &options, &ulysses));
    fovea_mpi_figures figures = {};
    figures.struct_size = sizeof figures;
    const double seconds = seconds_since(begin);
    need(fovea_mpi_last_figures(mpi, &figures));
    const Figures mine = {seconds, static_cast<double>(figures.bytes_sent), figures.seconds_computing,
                          figures.seconds_waiting, probe(context)};
    MPI_Allgather(&mine, 5, MPI_DOUBLE, all.data(), 5, MPI_DOUBLE, MPI_COMM_WORLD);
    double longest = 0, after = 0;
    for (const Figures &of_rank : all) {
      longest = std::max(longest, of_rank.seconds);
      after += of_rank.probe / rank_count;
    }
    if (run > 0 && (best.empty() || longest < least)) least = longest, best = all, probed = (before + after) / 2;
    before = after;
  }
  if (my_rank == 0) {
    std::printf(
        "{\"call\": \"%s\", \"length\": %lld, \"heads\": %lld, \"kv_heads\": %lld, \"dim\": %lld, \"order\": \"%s\", ",
        c.call.c_str(), static_cast<long long>(c.length), static_cast<long long>(c.heads),
        static_cast<long long>(c.kv_heads), static_cast<long long>(c.dim), c.order.c_str());
    std::printf("\"mask\": \"%s\", \"type\": \"%s\", \"transport\": \"%s\", \"threads\": %d, \"ranks\": %d, ",
                c.mask.c_str(), c.type.c_str(), c.transport.c_str(), c.threads, rank_count);
    std::printf("\"seconds\": %.6f, \"probe\": %.6f, \"of_ranks\": [", least, probed);
    for (size_t r = 0; r < best.size(); ++r) {
      std::printf("%s{\"seconds\": %.6f, \"bytes_sent\": %.0f, \"computing\": %.6f, \"waiting\": %.6f}",
                  r == 0 ? "" : ", ", best[r].seconds, best[r].bytes_sent, best[r].computing, best[r].waiting);
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }
  fovea_mpi_destroy(mpi);
  fovea_context_destroy(context);
}

}  // namespace

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  if (argc < 3 || std::atoi(argv[1]) < 1) give_up("usage: measure REPEATS CASE...");
  for (int i = 2; i < argc; ++i) measure(Case(argv[i]), std::atoi(argv[1]));
  MPI_Finalize();
  return 0;
}
