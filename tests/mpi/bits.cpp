// Prints a hash of what each call over MPI gives, of all ranks' results in their order: the same wherever the ranks
// are.
#include <fovea/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int64_t positions = 2001, heads = 4, kv_heads = 2, dim = 32;
int my_rank = 0, rank_count = 1;

void need(fovea_status status, const char *what) {
  if (status == FOVEA_OK) return;
  std::fprintf(stderr, "rank %d: %s: %s\n", my_rank, what, fovea_mpi_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// [1,heads,count,dim] of numbers between -2 and 2 that depend on where they stand in the whole.
struct Share {
  std::vector<float> numbers;
  int64_t shape[4];

  Share(uint64_t tensor, int64_t head_count, const std::vector<int64_t> &places)
      : shape{1, head_count, static_cast<int64_t>(places.size()), dim} {
    for (int64_t h = 0; h < head_count; ++h) {
      for (const int64_t place : places) {
        for (int64_t d = 0; d < dim; ++d) {
          uint64_t x = ((tensor * 64 + static_cast<uint64_t>(h)) << 32) + static_cast<uint64_t>(place * dim + d);
          x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
          x = (x ^ (x >> 27)) * 0xbf58476d1ce4e5b9u;
          numbers.push_back(static_cast<float>(static_cast<int64_t>(x >> 40) - (int64_t{1} << 23)) * 0x1p-22f);
        }
      }
    }
  }
  fovea_tensor view() { return fovea_tensor_contiguous(numbers.data(), FOVEA_F32, 4, shape); }
};

void print_hash(const char *name, const std::vector<float> &mine) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float number : mine) {
    uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  std::vector<uint64_t> all(static_cast<size_t>(rank_count));
  MPI_Gather(&hash, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (my_rank != 0) return;
  std::printf("%s:", name);
  for (const uint64_t of_rank : all) std::printf(" %016llx", static_cast<unsigned long long>(of_rank));
  std::printf("\n");
}

void share_sequence(fovea_mpi *mpi, int32_t order, bool by_heads, const char *name) {
  int64_t count = 0;
  need(fovea_mpi_share_length(order, positions, rank_count, my_rank, &count), name);
  std::vector<int64_t> places(static_cast<size_t>(count));
  need(fovea_mpi_positions(order, positions, rank_count, my_rank, places.data()), name);
  Share query(0, heads, places), key(1, kv_heads, places), value(2, kv_heads, places), out(3, heads, places);
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(), o = out.view();
  fovea_attention_options options = {};
  options.struct_size = sizeof options;
  options.flags = FOVEA_CAUSAL;
  const fovea_mpi_ring_options ring = {sizeof ring, order, 0};
  const fovea_mpi_ulysses_options ulysses = {sizeof ulysses, order, 0};
  need(by_heads ? fovea_mpi_ulysses_attention(mpi, nullptr, &q, &k, &v, &o, &options, &ulysses)
                : fovea_mpi_ring_attention(mpi, nullptr, &q, &k, &v, &o, &options, &ring),
       name);
  print_hash(name, out.numbers);
}

void decode(fovea_mpi *mpi) {
  std::vector<int64_t> places, queries = {positions, positions + 1, positions + 2};
  for (int64_t p = my_rank; p < positions; p += rank_count) places.push_back(p);
  Share query(0, heads, queries), key(1, kv_heads, places), value(2, kv_heads, places), out(3, heads, queries);
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(), o = out.view();
  need(fovea_mpi_decode_attention(mpi, nullptr, &q, &k, &v, &o, nullptr, nullptr), "decode");
  print_hash("decode", out.numbers);
}

}  // namespace

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  fovea_context_options one_thread = {};
  one_thread.struct_size = sizeof one_thread;
  one_thread.max_threads = 1;
  fovea_context *context = nullptr;
  need(fovea_context_create(&one_thread, &context), "fovea_context_create");
  fovea_mpi *mpi = nullptr;
  need(fovea_mpi_create(MPI_COMM_WORLD, context, nullptr, &mpi), "fovea_mpi_create");
  share_sequence(mpi, FOVEA_MPI_CONTIGUOUS, false, "ring, contiguous");
  share_sequence(mpi, FOVEA_MPI_ZIGZAG, false, "ring, zigzag");
  decode(mpi);
  share_sequence(mpi, FOVEA_MPI_CONTIGUOUS, true, "by heads");
  fovea_mpi_destroy(mpi);
  fovea_context_destroy(context);
  MPI_Finalize();
  return 0;
}
