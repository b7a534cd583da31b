// The backward pass of ring attention. Blocks of keys and values go round as in the forward pass, and what each rank's
// queries give of their gradients is one step behind them: a rank computes its part from 0 while the sum of the ranks
// before arrives, adds it to that, and sends it on; from the last rank that attends the block it goes home. What the
// owner's own queries give stays there, and is added last.
#include "mpi/ring_backward.hpp"

#include <algorithm>

#include "mpi/blocks.hpp"
#include "mpi/gradient_state.hpp"
#include "mpi/ring.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Float32 sums of one gradient of keys or values; of no features if it is not wanted.
fovea_tensor sums_like(const fovea_tensor &tensor, const fovea_tensor *wanted) {
  fovea_tensor sums = tensor;
  sums.dtype = FOVEA_F32;
  if (wanted == nullptr) sums.shape[3] = 0;
  return sums;
}

class BackwardRing {
 public:
  BackwardRing(Handle *handle, const Call *call, const GradientCall *gradients, const fovea_mpi_ring_options &options)
      : handle_(handle),
        gradients_(gradients),
        layout_({sums_like(call->key, gradients->given.key), sums_like(call->value, gradients->given.value)}),
        blocks_(handle, call, options),
        parameters_(handle, call, gradients),
        state_(handle, call, gradients, &parameters_),
        messages_(handle),
        homeward_(handle) {}

  Status read_lengths(const Statement &statement) { return blocks_.read_lengths(statement); }
  // All memory that the call takes.
  Status prepare();
  // Every block, to all sums. Of errors in computing the first is kept, and messages go on: other ranks wait for them.
  Status go_round(Status *computed);
  Status add_up_parameters(Status *computed);
  Status write();

 private:
  enum Place : signed char { own, returned, arrived, even, odd, places };  // of sums in memory

  Block sums_in(Place place, int owner) const {
    return layout_.in(handle_->of(Use::gradients).data() + place * place_bytes_, blocks_.keys_of(owner));
  }
  Block sums_at(int step) const {
    return sums_in(step == 0 ? own : (step % 2 == 0 ? even : odd), blocks_.owner_at(step));
  }
  template <class Action>
  Status for_each_run(int step, const Action &action) const;
  Status receive_own();
  Status receive_sums(int step);
  Status pass_on(int step);
  Status attend(int step);

  Handle *handle_;
  const GradientCall *gradients_;
  BlockLayout layout_;
  Blocks blocks_;
  ParameterSums parameters_;
  GradientState state_;
  Messages messages_, homeward_;
  int64_t place_bytes_ = 0;
};

Status BackwardRing::prepare() {
  constexpr int64_t line = 64;
  int64_t requests = 0, longest_run = 0;
  FOVEA_MPI_CHECK(blocks_.prepare(messages_, &requests));
  if (!layout_.bytes_of(blocks_.longest(), &place_bytes_)) {
    return fail(FOVEA_SIZE_OVERFLOW, "key and value are too long: gradients of a block exceed the address space");
  }
  const int64_t requests_of_sums = messages_.requests_of(place_bytes_) + 4;
  place_bytes_ = (place_bytes_ + line - 1) / line * line;
  if (!handle_->of(Use::gradients).reserve(static_cast<size_t>(places * place_bytes_))) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory for the gradients of five blocks");
  }
  FOVEA_MPI_CHECK(messages_.prepare(requests + 2 * requests_of_sums));
  FOVEA_MPI_CHECK(homeward_.prepare(requests_of_sums));
  for (int owner = 0; owner < handle_->ranks; ++owner) {
    const Share keys = blocks_.keys_of(owner);
    for (int run = 0; run < keys.count; ++run) longest_run = std::max(longest_run, keys.runs[run].count);
  }
  FOVEA_MPI_CHECK(parameters_.prepare());
  return state_.prepare(blocks_.pattern(), blocks_.queries_of(handle_->rank), longest_run);
}

// Runs of a step's block that have come so far: action(run, the last step that they come to).
template <class Action>
Status BackwardRing::for_each_run(int step, const Action &action) const {
  const int owner = blocks_.owner_at(step), runs = blocks_.keys_of(owner).count;
  for (int run = 0; run < runs; ++run) {
    const int last = blocks_.last_step(owner, run);
    if (step <= last) FOVEA_MPI_CHECK(action(run, last));
  }
  return FOVEA_OK;
}

// Asked for at once: nobody may have to wait until it is.
Status BackwardRing::receive_own() {
  const Block to = sums_in(returned, handle_->rank);
  return for_each_run(0, [&](int run, int last) -> Status {
    if (last == 0) return FOVEA_OK;
    const int from = (handle_->rank + last) % handle_->ranks;
    FOVEA_MPI_CHECK(homeward_.receive(to.key[run], from, Tag::final_sums));
    return homeward_.receive(to.value[run], from, Tag::final_sums);
  });
}

// The sums of the ranks before, between the owner and this one.
Status BackwardRing::receive_sums(int step) {
  if (step < 2) return FOVEA_OK;
  const Block to = sums_in(arrived, blocks_.owner_at(step));
  const int before = blocks_.owner_at(1);
  return for_each_run(step, [&](int run, int) -> Status {
    FOVEA_MPI_CHECK(messages_.receive(to.key[run], before, Tag::passing_sums));
    return messages_.receive(to.value[run], before, Tag::passing_sums);
  });
}

Status BackwardRing::pass_on(int step) {
  if (step == 0) return FOVEA_OK;
  const int owner = blocks_.owner_at(step);
  const Block sums = sums_at(step), before = sums_in(arrived, owner);
  return for_each_run(step, [&](int run, int last) -> Status {
    if (step > 1) {
      add_floats(before.key[run], sums.key[run]);
      add_floats(before.value[run], sums.value[run]);
    }
    const bool ends = step == last;
    const int to = ends ? owner : (handle_->rank + 1) % handle_->ranks;
    const Tag tag = ends ? Tag::final_sums : Tag::passing_sums;
    FOVEA_MPI_CHECK(messages_.send(sums.key[run], to, tag));
    return messages_.send(sums.value[run], to, tag);
  });
}

Status BackwardRing::attend(int step) {
  const auto progress = [](void *data) {
    auto *const ring = static_cast<BackwardRing *>(data);
    ring->messages_.move_on();
    ring->homeward_.move_on();
  };
  return state_.attend(blocks_.at(step), sums_at(step), progress, this);
}

Status BackwardRing::go_round(Status *computed) {
  if (!gradients_->needs_keys()) return FOVEA_OK;
  blocks_.pack(computed);
  FOVEA_MPI_CHECK(receive_own());
  for (int step = 0; step < handle_->ranks; ++step) {
    if (step + 1 < handle_->ranks) FOVEA_MPI_CHECK(blocks_.exchange(step, &messages_));
    FOVEA_MPI_CHECK(receive_sums(step));
    const Block sums = sums_at(step);
    FOVEA_MPI_CHECK(for_each_run(step, [&](int run, int) -> Status {
      for (const fovea_tensor *tensor : {&sums.key[run], &sums.value[run]}) {
        std::fill_n(static_cast<float *>(tensor->data), element_count(*tensor), 0.0f);
      }
      return FOVEA_OK;
    }));
    if (*computed == FOVEA_OK) *computed = attend(step);
    FOVEA_MPI_CHECK(messages_.wait());
    FOVEA_MPI_CHECK(pass_on(step));
  }
  FOVEA_MPI_CHECK(messages_.wait());
  FOVEA_MPI_CHECK(homeward_.wait());
  const Block sums = sums_in(own, handle_->rank), others = sums_in(returned, handle_->rank);
  return for_each_run(0, [&](int run, int last) -> Status {
    if (last == 0) return FOVEA_OK;
    add_floats(others.key[run], sums.key[run]);
    add_floats(others.value[run], sums.value[run]);
    return FOVEA_OK;
  });
}

Status BackwardRing::add_up_parameters(Status *computed) {
  if (*computed == FOVEA_OK) *computed = parameters_.add_sinks();
  return parameters_.reduce();
}

Status BackwardRing::write() {
  FOVEA_MPI_CHECK(state_.write());
  const Block sums = sums_in(own, handle_->rank);
  for (int run = 0; run < sums.share.count; ++run) {
    const Run &place = sums.share.runs[run];
    const auto put = [&](const fovea_tensor &from, const fovea_tensor &to, const fovea_tensor *wanted) -> Status {
      if (wanted == nullptr || element_count(from) == 0) return FOVEA_OK;
      return copy_rounded(*handle_, from, part_of(to, 2, place.at, place.count));
    };
    FOVEA_MPI_CHECK(put(sums.key[run], gradients_->key, gradients_->given.key));
    FOVEA_MPI_CHECK(put(sums.value[run], gradients_->value, gradients_->given.value));
  }
  return parameters_.write();
}

}  // namespace

Status ring_attention_backward(Handle *handle, const Arguments &a, const fovea_attention_gradients *gradients,
                               const fovea_mpi_ring_options *given) {
  FOVEA_MPI_CHECK(check_handle(handle));
  handle->begin_call();
  Call call;
  GradientCall wanted;
  fovea_mpi_ring_options options;
  Status status = check_ring_options(given, &options);
  if (status == FOVEA_OK) status = check_gradient_call(*handle, a, gradients, options.order, &call, &wanted);
  Statement statement(Operation::ring_backward, status);
  if (status == FOVEA_OK) {
    state_ring(call, options, &statement);
    state_gradients(wanted, &statement);
  }
  FOVEA_MPI_CHECK(agree(*handle, statement));
  BackwardRing ring(handle, &call, &wanted, options);
  FOVEA_MPI_CHECK(ring.read_lengths(statement));
  if (handle->ranks == 1) {
    return of_core(
        fovea_attention_backward(handle->context, a.score, a.query, a.key, a.value, a.out, a.options, gradients));
  }
  FOVEA_MPI_CHECK(agree_status(*handle, ring.prepare()));
  Status computed = FOVEA_OK;
  FOVEA_MPI_CHECK(ring.go_round(&computed));
  FOVEA_MPI_CHECK(ring.add_up_parameters(&computed));
  FOVEA_MPI_CHECK(agree_status(*handle, computed));
  return ring.write();
}

}  // namespace fovea::mpi
