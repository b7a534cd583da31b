// Attention by heads. Every rank sends each other rank the heads that are that one's, of the positions that it has;
// attends its own heads over all positions; and sends results back to who has their positions.
//
// In a grid of ranks, what a rank attends so are its group's positions, by a ring between the groups.
#include "mpi/ulysses.hpp"

#include <algorithm>
#include <chrono>

#include "mpi/call_check.hpp"
#include "mpi/messages.hpp"
#include "mpi/ring.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

constexpr int64_t alignment = 64;

// Contiguous tensors one behind the other. Sizes first, then data: place() counts bytes whether there is memory or not.
class Shelf {
 public:
  explicit Shelf(char *base) : base_(base) {}
  // [B,heads,length,features] of a tensor's element type; features 0: [B,heads,length].
  fovea_tensor place(const fovea_tensor &like, int64_t heads, int64_t length) {
    const int64_t shape[] = {like.shape[0], heads, length, like.rank == 4 ? like.shape[3] : 1};
    int64_t bytes = static_cast<int64_t>(element_size(like.dtype));
    for (const int64_t size : shape) fits_ = fits_ && !__builtin_mul_overflow(bytes, size, &bytes);
    char *const data = base_ == nullptr ? nullptr : base_ + used_;
    fits_ = fits_ && bytes < INT64_MAX / 8 && used_ < INT64_MAX / 8;
    if (fits_) used_ += (bytes + alignment - 1) / alignment * alignment;
    return fovea_tensor_contiguous(data, like.dtype, like.rank, shape);
  }
  bool fits() const { return fits_; }
  int64_t bytes() const { return used_; }

 private:
  char *base_;
  int64_t used_ = 0;
  bool fits_ = true;
};

class Ulysses {
 public:
  Ulysses(Handle *handle, const Call *call, int32_t order)
      : handle_(handle), call_(call), order_(order), messages_(handle) {}

  Status read_lengths(const Statement &statement);
  Status prepare();
  Status bring_heads();
  Status attend();
  Status attend_by_ring(Handle *between, const fovea_mpi_ring_options *ring) {
    return ring_attention(between, arguments_, ring);
  }
  Status bring_results();
  void write();

 private:
  struct Whole {
    fovea_tensor query, key, value, out, sums;
  };
  // What a rank sends to another, or gets: queries, keys and values; or results.
  struct Parcel {
    fovea_tensor tensor[3];
    int count;
  };

  int64_t heads() const { return call_->heads() / handle_->ranks; }
  // Fewer key/value heads than ranks go to several: to those whose query heads they serve.
  int64_t kv_heads() const {
    return call_->kv_heads() == 0 ? 0 : std::max<int64_t>(1, call_->kv_heads() / handle_->ranks);
  }
  int64_t first_kv_head(int rank) const { return rank * call_->kv_heads() / handle_->ranks; }
  int64_t queries_of(int rank) const { return lengths_.query_begin[rank + 1] - lengths_.query_begin[rank]; }
  int64_t keys_of(int rank) const { return lengths_.key_begin[rank + 1] - lengths_.key_begin[rank]; }
  Parcel inputs(Shelf *shelf, int rank_with_positions) const;
  Parcel results(Shelf *shelf, int rank_with_positions) const;
  Whole whole(Shelf *shelf) const;
  void plan_call();
  Status exchange(bool of_inputs);

  Handle *handle_;
  const Call *call_;
  int32_t order_;
  WholeLengths lengths_;
  Messages messages_;
  Whole whole_ = {};
  fovea_tensor sums_like_ = {};  // F32 [B,H,Q]
  // The call that this rank makes.
  Arguments arguments_ = {};
  fovea_attention_options options_ = {};
  fovea_score score_ = {};
  fovea_tensor mask_ = {}, bias_ = {}, slopes_ = {}, sinks_ = {}, sigmas_ = {};
};

Status Ulysses::read_lengths(const Statement &statement) {
  lengths_ = whole_lengths(*handle_, statement);
  return check_heads(*handle_, lengths_, *call_, order_);
}

Ulysses::Parcel Ulysses::inputs(Shelf *shelf, int rank) const {
  return {{shelf->place(call_->query, heads(), queries_of(rank)), shelf->place(call_->key, kv_heads(), keys_of(rank)),
           shelf->place(call_->value, kv_heads(), keys_of(rank))},
          3};
}

Ulysses::Parcel Ulysses::results(Shelf *shelf, int rank) const {
  Parcel parcel = {{shelf->place(call_->out, heads(), queries_of(rank))}, 1};
  if (call_->wants_log_sum_exp) parcel.tensor[parcel.count++] = shelf->place(sums_like_, heads(), queries_of(rank));
  return parcel;
}

Ulysses::Whole Ulysses::whole(Shelf *shelf) const {
  return {shelf->place(call_->query, heads(), lengths_.queries), shelf->place(call_->key, kv_heads(), lengths_.keys),
          shelf->place(call_->value, kv_heads(), lengths_.keys), shelf->place(call_->out, heads(), lengths_.queries),
          shelf->place(sums_like_, heads(), lengths_.queries)};
}

Status Ulysses::prepare() {
  const int64_t sums_shape[] = {call_->batch(), 1, 1};
  sums_like_ = fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, sums_shape);
  Shelf away(nullptr), back(nullptr), wholes(nullptr);
  int64_t requests = 0;
  const auto count = [&](const Parcel &parcel) {
    for (int t = 0; t < parcel.count; ++t) {
      const int64_t bytes =
          element_count(parcel.tensor[t]) * static_cast<int64_t>(element_size(parcel.tensor[t].dtype));
      requests += messages_.requests_of(bytes);
    }
  };
  whole_ = whole(&wholes);
  if (!wholes.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "query and key are too long: all positions of a rank's heads exceed the address space");
  }
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    count(inputs(&away, handle_->rank));
    count(inputs(&back, rank));
  }
  Shelf results_away(nullptr), results_back(nullptr);
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    count(results(&results_away, rank));
    count(results(&results_back, handle_->rank));
  }
  const bool fit = away.fits() && back.fits() && results_away.fits() && results_back.fits();
  const int64_t sent = std::max(away.bytes(), results_away.bytes()),
                received = std::max(back.bytes(), results_back.bytes());
  if (!fit) return fail(FOVEA_SIZE_OVERFLOW, "query and key are too long: what is sent exceeds the address space");
  if (!handle_->of(Use::sent).reserve(static_cast<size_t>(sent)) ||
      !handle_->of(Use::received).reserve(static_cast<size_t>(received)) ||
      !handle_->of(Use::whole).reserve(static_cast<size_t>(wholes.bytes()))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for all positions of a rank's heads");
  }
  FOVEA_MPI_CHECK(messages_.prepare(requests));
  Shelf placed(handle_->of(Use::whole).data());
  whole_ = whole(&placed);
  plan_call();
  return check_by_core(*handle_, arguments_);
}

void Ulysses::plan_call() {
  const int64_t first = handle_->rank * heads();
  options_ = call_->options;
  options_.log_sum_exp = call_->wants_log_sum_exp ? &whole_.sums : nullptr;
  const auto mine = [&](const fovea_tensor *given, int32_t axis, fovea_tensor *part) -> const fovea_tensor * {
    if (given == nullptr) return nullptr;
    const bool per_head = given->rank > axis && given->shape[axis] == call_->heads() && given->shape[axis] != 1;
    *part = per_head ? part_of(*given, axis, first, heads()) : *given;
    return part;
  };
  // A mask of rank 2 is [Q,K], which no head has for itself.
  options_.mask = options_.mask != nullptr && options_.mask->rank == 4 ? mine(options_.mask, 1, &mask_) : options_.mask;
  options_.bias = options_.bias != nullptr && options_.bias->rank == 4 ? mine(options_.bias, 1, &bias_) : options_.bias;
  options_.alibi_slopes = mine(options_.alibi_slopes, 0, &slopes_);
  options_.sinks = mine(options_.sinks, 0, &sinks_);
  if (call_->score != nullptr) {
    score_ = *call_->score;
    score_.sigmas = mine(score_.sigmas, 0, &sigmas_);
  }
  arguments_ = {
      call_->score == nullptr ? nullptr : &score_, &whole_.query, &whole_.key, &whole_.value, &whole_.out, &options_};
}

// All that goes to other ranks at once: MPI chooses what comes first.
Status Ulysses::exchange(bool of_inputs) {
  Shelf sent(handle_->of(Use::sent).data()), received(handle_->of(Use::received).data());
  const auto start = [&](const Parcel &parcel, int other, bool sends) -> Status {
    for (int t = 0; t < parcel.count && other != handle_->rank; ++t) {
      const int64_t bytes =
          element_count(parcel.tensor[t]) * static_cast<int64_t>(element_size(parcel.tensor[t].dtype));
      auto *const data = static_cast<char *>(parcel.tensor[t].data);
      FOVEA_MPI_CHECK(sends ? messages_.send(data, bytes, other) : messages_.receive(data, bytes, other));
    }
    return FOVEA_OK;
  };
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    FOVEA_MPI_CHECK(start(of_inputs ? inputs(&received, rank) : results(&received, handle_->rank), rank, false));
  }
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    FOVEA_MPI_CHECK(start(of_inputs ? inputs(&sent, handle_->rank) : results(&sent, rank), rank, true));
  }
  return messages_.wait();
}

Status Ulysses::bring_heads() {
  Shelf sent(handle_->of(Use::sent).data());
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    const Parcel parcel = inputs(&sent, handle_->rank);
    copy_elements(part_of(call_->query, 1, rank * heads(), heads()), parcel.tensor[0]);
    copy_elements(part_of(call_->key, 1, first_kv_head(rank), kv_heads()), parcel.tensor[1]);
    copy_elements(part_of(call_->value, 1, first_kv_head(rank), kv_heads()), parcel.tensor[2]);
  }
  FOVEA_MPI_CHECK(exchange(true));
  Shelf received(handle_->of(Use::received).data()), own(handle_->of(Use::sent).data());
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    const Parcel kept = inputs(&own, handle_->rank);  // what stays here has not been received
    const Parcel came = inputs(&received, rank), &parcel = rank == handle_->rank ? kept : came;
    const Share queries = share_in(order_, lengths_.query_begin, handle_->ranks, rank);
    const Share keys = share_in(order_, lengths_.key_begin, handle_->ranks, rank);
    const auto put = [](const fovea_tensor &from, const Share &share, const fovea_tensor &to) {
      for (int run = 0; run < share.count; ++run) {
        const Run &place = share.runs[run];
        copy_elements(part_of(from, 2, place.at, place.count), places_of(to, 2, place));
      }
    };
    put(parcel.tensor[0], queries, whole_.query);
    put(parcel.tensor[1], keys, whole_.key);
    put(parcel.tensor[2], keys, whole_.value);
  }
  return FOVEA_OK;
}

Status Ulysses::attend() {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = attend_at_once(*handle_, arguments_);
  handle_->figures.blocks_attended = handle_->ranks;
  handle_->figures.seconds_computing += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status;
}

Status Ulysses::bring_results() {
  Shelf sent(handle_->of(Use::sent).data());
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    const Parcel parcel = results(&sent, rank);
    const Share queries = share_in(order_, lengths_.query_begin, handle_->ranks, rank);
    for (int run = 0; run < queries.count; ++run) {
      const Run &place = queries.runs[run];
      copy_elements(places_of(whole_.out, 2, place), part_of(parcel.tensor[0], 2, place.at, place.count));
      if (call_->wants_log_sum_exp) {
        copy_elements(places_of(whole_.sums, 2, place), part_of(parcel.tensor[1], 2, place.at, place.count));
      }
    }
  }
  return exchange(false);
}

void Ulysses::write() {
  Shelf received(handle_->of(Use::received).data()), own(handle_->of(Use::sent).data());
  for (int rank = 0; rank < handle_->ranks; ++rank) {
    const Parcel kept = results(&own, rank), came = results(&received, handle_->rank);
    const Parcel &parcel = rank == handle_->rank ? kept : came;
    copy_elements(parcel.tensor[0], part_of(call_->out, 1, rank * heads(), heads()));
    if (call_->wants_log_sum_exp) {
      copy_elements(parcel.tensor[1], part_of(call_->log_sum_exp, 1, rank * heads(), heads()));
    }
  }
}

}  // namespace

Status ulysses_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_ulysses_options *given) {
  FOVEA_MPI_CHECK(check_handle(handle));
  handle->begin_call();
  Call call;
  fovea_mpi_ulysses_options options;
  Status status = check_ulysses_options(given, &options);
  if (status == FOVEA_OK) status = check_ulysses_call(*handle, arguments, &call);
  Statement statement(Operation::ulysses, status);
  if (status == FOVEA_OK) {
    state_call(call, &statement);
    state_lengths(call, &statement);
    state_masks(call, &statement);
    statement.add("ulysses.order", Kind::order, FOVEA_BAD_VALUE, options.order);
  }
  FOVEA_MPI_CHECK(agree(*handle, statement));
  Ulysses ulysses(handle, &call, options.order);
  FOVEA_MPI_CHECK(ulysses.read_lengths(statement));
  if (handle->ranks == 1) return attend_at_once(*handle, arguments);
  FOVEA_MPI_CHECK(agree_status(*handle, ulysses.prepare()));
  FOVEA_MPI_CHECK(ulysses.bring_heads());
  FOVEA_MPI_CHECK(agree_status(*handle, ulysses.attend()));
  FOVEA_MPI_CHECK(ulysses.bring_results());
  ulysses.write();
  return FOVEA_OK;
}

// Every rank of `between` is of another group, and every group has one in each of them: what a group refuses is known
// to all after one agreement between groups, and what one of those refuses, after one within them.
Status grid_attention(const Grid &grid, const Arguments &arguments, const fovea_mpi_ring_options *given) {
  FOVEA_MPI_CHECK(check_handle(grid.within));
  FOVEA_MPI_CHECK(check_handle(grid.between));
  grid.within->begin_call();
  Call call;
  fovea_mpi_ring_options options;
  Status status = check_ring_options(given, &options);
  if (status == FOVEA_OK) status = check_ring_call(*grid.within, arguments, options.order, &call);
  Statement statement(Operation::grid, status);
  if (status == FOVEA_OK) {
    state_call(call, &statement);
    state_lengths(call, &statement);
    statement.add("ring.order", Kind::order, FOVEA_BAD_VALUE, options.order);
    statement.add("ring.transport", Kind::number, FOVEA_BAD_VALUE, options.transport);
  }
  Ulysses ulysses(grid.within, &call, FOVEA_MPI_CONTIGUOUS);
  status = agree(*grid.within, statement);
  if (status == FOVEA_OK) status = ulysses.read_lengths(statement);
  if (status == FOVEA_OK) status = agree_status(*grid.within, ulysses.prepare());
  FOVEA_MPI_CHECK(agree_status(*grid.between, status));
  FOVEA_MPI_CHECK(ulysses.bring_heads());
  FOVEA_MPI_CHECK(agree_status(*grid.within, ulysses.attend_by_ring(grid.between, given)));
  FOVEA_MPI_CHECK(ulysses.bring_results());
  ulysses.write();
  return FOVEA_OK;
}

}  // namespace fovea::mpi
