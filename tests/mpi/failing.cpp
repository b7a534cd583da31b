// A function of MPI that fails on one rank, each in turn: that rank's call returns FOVEA_MPI_FAILED and names the
// function; the handle serves no further call; destroying it works, and so does a new one. The same for messages that
// are cut short.
//
// The functions are replaced in this program, and so in the library that it loads, by ones that call MPI's own under
// their second names (PMPI_). A rank whose function fails says so to the others, as an MPI does that survives failures:
// their functions, which would wait for ever, then fail too.
#include <fovea/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

int my_rank = 0, rank_count = 1;
MPI_Comm spoken = MPI_COMM_NULL;  // on which ranks say that they failed
int attempt = 0;                  // the tag of what they say: nobody is to hear it later

// ---- failures ------------------------------------------------------------------------------------------------------

enum class Fault { none, function, short_receive, short_send };

struct Failures {
  Fault fault = Fault::none;
  int64_t left = 0;       // calls until it happens
  bool happened = false;  // here
  bool told = false;      // that it happened elsewhere
  int64_t calls = 0;      // of all functions
  std::string function;   // that failed
} failures;

void tell_others() {
  for (int rank = 0; rank < rank_count; ++rank) {
    if (rank != my_rank) PMPI_Send(nullptr, 0, MPI_BYTE, rank, attempt, spoken);
  }
}

// Whether this call is the one that fails.
bool strikes(Fault fault, const char *function) {
  ++failures.calls;
  if (failures.fault != fault || failures.happened || failures.left-- > 0) return false;
  failures.happened = true;
  failures.function = function;
  if (fault == Fault::function) tell_others();
  return true;
}

bool fails(const char *function) { return strikes(Fault::function, function); }

// Whether another rank has said that it failed.
bool hears() {
  if (failures.told || spoken == MPI_COMM_NULL) return failures.told;
  int there = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, attempt, spoken, &there, MPI_STATUS_IGNORE);
  if (there == 0) {
    std::this_thread::yield();  // there may be more ranks than cores
    return false;
  }
  PMPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, attempt, spoken, MPI_STATUS_IGNORE);
  failures.told = true;
  return true;
}

void end_attempt() {
  ++attempt;
  failures.fault = Fault::none;
  failures.told = false;
}

// What MPI itself finds here, the others are told of.
int found(int code) {
  if (code != MPI_SUCCESS && failures.fault != Fault::function && !failures.told) tell_others();
  return code;
}

// Until a request has ended or another rank has failed. What it reads and writes stays: it may end later.
int finish(MPI_Request request) {
  for (int done = 0; done == 0;) {
    if (const int code = PMPI_Test(&request, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS) return code;
    if (done == 0 && hears()) return MPI_ERR_OTHER;
  }
  return MPI_SUCCESS;
}

size_t size_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<size_t>(count) * static_cast<size_t>(size);
}

// A copy that is never freed.
void *kept(const void *from, size_t bytes) {
  void *copy = std::malloc(bytes + 1);
  if (from != nullptr) std::memcpy(copy, from, bytes);
  return copy;
}

}  // namespace

extern "C" {

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm on, MPI_Request *request) {
  if (fails("MPI_Isend")) return MPI_ERR_OTHER;
  return PMPI_Isend(data, strikes(Fault::short_send, "MPI_Isend") ? count / 2 : count, type, to, tag, on, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm on, MPI_Request *request) {
  if (fails("MPI_Irecv")) return MPI_ERR_OTHER;
  return PMPI_Irecv(data, strikes(Fault::short_receive, "MPI_Irecv") ? count / 2 : count, type, from, tag, on, request);
}

int MPI_Testall(int count, MPI_Request *requests, int *done, MPI_Status *statuses) {
  if (fails("MPI_Testall")) return MPI_ERR_OTHER;
  return found(PMPI_Testall(count, requests, done, statuses));
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
  if (fails("MPI_Waitall")) return MPI_ERR_OTHER;
  for (int done = 0; done == 0;) {
    if (const int code = PMPI_Testall(count, requests, &done, statuses); code != MPI_SUCCESS) return found(code);
    if (done == 0 && hears()) return MPI_ERR_OTHER;
  }
  return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
  if (fails("MPI_Get_count")) return MPI_ERR_OTHER;
  return PMPI_Get_count(status, type, count);
}

int MPI_Allgather(const void *from, int count, MPI_Datatype type, void *to, int to_count, MPI_Datatype to_type,
                  MPI_Comm on) {
  if (fails("MPI_Allgather")) return MPI_ERR_OTHER;
  if (from == MPI_IN_PLACE) {  // in memory of the handle, which stays
    MPI_Request request;
    const int code = PMPI_Iallgather(from, count, type, to, to_count, to_type, on, &request);
    return code == MPI_SUCCESS ? finish(request) : code;
  }
  const size_t bytes = size_of(to_count * rank_count, to_type);
  const void *mine = kept(from, size_of(count, type));
  void *all = kept(nullptr, bytes);
  MPI_Request request;
  int code = PMPI_Iallgather(mine, count, type, all, to_count, to_type, on, &request);
  if (code == MPI_SUCCESS) code = finish(request);
  if (code == MPI_SUCCESS) std::memcpy(to, all, bytes);
  return code;
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm on) {
  if (fails("MPI_Allreduce")) return MPI_ERR_OTHER;
  const size_t bytes = size_of(count, type);
  const void *mine = kept(from, bytes);
  void *result = kept(nullptr, bytes);
  MPI_Request request;
  int code = PMPI_Iallreduce(mine, result, count, type, op, on, &request);
  if (code == MPI_SUCCESS) code = finish(request);
  if (code == MPI_SUCCESS) std::memcpy(to, result, bytes);
  return code;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm on) {
  if (fails("MPI_Bcast")) return MPI_ERR_OTHER;
  const size_t bytes = size_of(count, type);
  void *all = kept(data, bytes);
  MPI_Request request;
  int code = PMPI_Ibcast(all, count, type, root, on, &request);
  if (code == MPI_SUCCESS) code = finish(request);
  if (code == MPI_SUCCESS) std::memcpy(data, all, bytes);
  return code;
}

// Fails when it is done: one that other ranks still waited for would hold up all later communicators.
int MPI_Comm_dup(MPI_Comm on, MPI_Comm *copy) {
  const int code = PMPI_Comm_dup(on, copy);
  return fails("MPI_Comm_dup") ? MPI_ERR_OTHER : code;
}

int MPI_Comm_set_errhandler(MPI_Comm of, MPI_Errhandler handler) {
  return fails("MPI_Comm_set_errhandler") ? MPI_ERR_OTHER : PMPI_Comm_set_errhandler(of, handler);
}

int MPI_Comm_rank(MPI_Comm of, int *rank) { return fails("MPI_Comm_rank") ? MPI_ERR_OTHER : PMPI_Comm_rank(of, rank); }

int MPI_Comm_size(MPI_Comm of, int *size) { return fails("MPI_Comm_size") ? MPI_ERR_OTHER : PMPI_Comm_size(of, size); }

int MPI_Type_contiguous(int count, MPI_Datatype of, MPI_Datatype *type) {
  return fails("MPI_Type_contiguous") ? MPI_ERR_OTHER : PMPI_Type_contiguous(count, of, type);
}

int MPI_Type_commit(MPI_Datatype *type) { return fails("MPI_Type_commit") ? MPI_ERR_OTHER : PMPI_Type_commit(type); }

}  // extern "C"

namespace {

// ---- calls ---------------------------------------------------------------------------------------------------------

[[noreturn]] void give_up(const std::string &why) {
  std::printf("FAILED: rank %d: %s\n", my_rank, why.c_str());
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void expect(bool good, const std::string &what) {
  if (!good) give_up(what + "; last error: " + fovea_mpi_last_error());
}

struct Tensors {
  static constexpr int64_t length = 48, dim = 8;
  int64_t shape[4] = {1, 0, length, dim};
  std::vector<float> query, key, value, out;

  Tensors() {
    shape[1] = rank_count;  // so that attention by heads takes them
    const auto fill = [&](std::vector<float> &numbers, int seed) {
      for (int64_t i = 0; i < rank_count * length * dim; ++i)
        numbers.push_back(static_cast<float>((i * 37 + my_rank * 11 + seed) % 101 - 50) / 32);
    };
    fill(query, 1), fill(key, 2), fill(value, 3);
    out.assign(query.size(), -7.0f);
  }
  fovea_tensor view(std::vector<float> &of) const { return fovea_tensor_contiguous(of.data(), FOVEA_F32, 4, shape); }
};

using Call = std::function<fovea_status(fovea_mpi *, Tensors &)>;

fovea_status ring(fovea_mpi *mpi, Tensors &t) {
  const fovea_tensor q = t.view(t.query), k = t.view(t.key), v = t.view(t.value), o = t.view(t.out);
  return fovea_mpi_ring_attention(mpi, nullptr, &q, &k, &v, &o, nullptr, nullptr);
}

fovea_status decode(fovea_mpi *mpi, Tensors &t) {
  const fovea_tensor q = t.view(t.query), k = t.view(t.key), v = t.view(t.value), o = t.view(t.out);
  const fovea_mpi_decode_options options = {sizeof options, FOVEA_MPI_QUERY_ON_RANK_0, 0};
  return fovea_mpi_decode_attention(mpi, nullptr, &q, &k, &v, &o, nullptr, &options);
}

fovea_status ulysses(fovea_mpi *mpi, Tensors &t) {
  const fovea_tensor q = t.view(t.query), k = t.view(t.key), v = t.view(t.value), o = t.view(t.out);
  return fovea_mpi_ulysses_attention(mpi, nullptr, &q, &k, &v, &o, nullptr, nullptr);
}

fovea_mpi *make_handle(const fovea_context *context) {
  fovea_mpi *mpi = nullptr;
  expect(fovea_mpi_create(MPI_COMM_WORLD, context, nullptr, &mpi) == FOVEA_OK, "a handle");
  return mpi;
}

// One call with the n-th function failing on one rank. False if it makes fewer than n.
bool try_once(const fovea_context *context, const char *name, const Call &call, const std::vector<float> &good,
              Fault fault, int failing_rank, int64_t n) {
  const std::string where = std::string(name) + ", call " + std::to_string(n);
  fovea_mpi *mpi = make_handle(context);
  Tensors tensors;
  failures = {};
  PMPI_Barrier(MPI_COMM_WORLD);
  failures.fault = my_rank == failing_rank ? fault : Fault::none;
  failures.left = n;
  // A message that its sender cuts short is noticed by who receives it.
  const bool noticed_by_next = fault == Fault::short_send;
  const fovea_status status = call(mpi, tensors);
  if (noticed_by_next && status == FOVEA_MPI_FAILED && !failures.told) tell_others();
  const Failures after = failures;
  end_attempt();
  int happened = after.happened ? 1 : 0;
  PMPI_Bcast(&happened, 1, MPI_INT, failing_rank, MPI_COMM_WORLD);
  int failed = status == FOVEA_MPI_FAILED ? 1 : 0, failed_ranks = 0;
  PMPI_Allreduce(&failed, &failed_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(status == FOVEA_OK || failed == 1, where + ": status " + std::to_string(status));
  if (failed == 1) {
    const std::string said = fovea_mpi_last_error();
    const std::string begin = "rank " + std::to_string(my_rank) + ": MPI_";
    expect(said.compare(0, begin.size(), begin) == 0, where + ": the message begins otherwise than with " + begin);
    if (after.happened && fault == Fault::function)
      expect(said.find(after.function + ":") != std::string::npos, where + ": " + after.function + " is not named");
    // No further call, and no function of MPI, which might wait for ever.
    Tensors again;
    expect(call(mpi, again) == FOVEA_MPI_FAILED, where + ": the handle serves another call");
    expect(failures.calls == after.calls, where + ": the handle calls MPI again");
    expect(again.out == Tensors().out, where + ": a handle that failed writes outputs");
  } else {
    expect(tensors.out == good, where + ": a call that succeeds gives other numbers");
  }
  if (happened == 0) {
    expect(failed_ranks == 0, where + ": fails where nothing happened");
  } else if (fault == Fault::function || fault == Fault::short_receive) {
    if (my_rank == failing_rank) expect(failed == 1, where + ": the failure is not returned");
  } else if (noticed_by_next) {
    expect(failed_ranks > 0, where + ": nobody notices that a message is short");
  }
  fovea_mpi_destroy(mpi);
  return happened == 1;
}

// Making a handle, likewise: where that fails there is none.
bool try_create(const fovea_context *context, int failing_rank, int64_t n) {
  const std::string where = "create, call " + std::to_string(n);
  char nothing = 0;
  auto *const as_it_was = reinterpret_cast<fovea_mpi *>(&nothing);
  fovea_mpi *mpi = as_it_was;
  failures = {};
  PMPI_Barrier(MPI_COMM_WORLD);
  failures.fault = my_rank == failing_rank ? Fault::function : Fault::none;
  failures.left = n;
  const fovea_status status = fovea_mpi_create(MPI_COMM_WORLD, context, nullptr, &mpi);
  end_attempt();
  int happened = failures.happened ? 1 : 0;
  PMPI_Bcast(&happened, 1, MPI_INT, failing_rank, MPI_COMM_WORLD);
  expect(status == FOVEA_OK || status == FOVEA_MPI_FAILED, where + ": status " + std::to_string(status));
  expect((mpi == as_it_was) == (status != FOVEA_OK), where + ": a handle that is not made is given");
  if (happened == 0) expect(status == FOVEA_OK, where + ": fails where nothing happened");
  if (failures.happened) expect(status == FOVEA_MPI_FAILED, where + ": the failure is not returned");
  // Who has a handle has one that others lack: it cannot be freed with them, and is left.
  if (happened == 0) fovea_mpi_destroy(mpi);
  return happened == 1;
}

void try_all(const fovea_context *context, const char *name, const Call &call, Fault fault) {
  fovea_mpi *mpi = make_handle(context);
  Tensors tensors;
  expect(call(mpi, tensors) == FOVEA_OK, name);
  fovea_mpi_destroy(mpi);
  int64_t tried = 0;
  for (const int rank : {0, rank_count - 1}) {
    for (int64_t n = 0; try_once(context, name, call, tensors.out, fault, rank, n); ++n) {
      ++tried;
      expect(n < 1000, std::string(name) + " makes no end of calls");
    }
  }
  const bool any = fault == Fault::function || name[0] != 'd';  // decoding has no messages of its own
  expect(rank_count == 1 || (tried > 0) == any, std::string(name) + ": nothing was tried");
  if (my_rank == 0) std::printf("%s: %lld failures\n", name, static_cast<long long>(tried));
  Tensors again;
  mpi = make_handle(context);
  expect(call(mpi, again) == FOVEA_OK && again.out == tensors.out, "a new handle does not serve");
  fovea_mpi_destroy(mpi);
}

}  // namespace

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
  PMPI_Comm_dup(MPI_COMM_WORLD, &spoken);
  // MPICH asks this one for what it finds in MPI_Testall and MPI_Waitall, whichever communicator the messages are of.
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  fovea_context_options one_thread = {};
  one_thread.struct_size = sizeof one_thread;
  one_thread.max_threads = 1;
  fovea_context *context = nullptr;
  expect(fovea_context_create(&one_thread, &context) == FOVEA_OK, "a context");
  const struct {
    const char *name;
    Call call;
  } calls[] = {{"ring", ring}, {"decode", decode}, {"ulysses", ulysses}};
  for (const Fault fault : {Fault::function, Fault::short_receive, Fault::short_send}) {
    if (my_rank == 0) {
      std::printf("%s\n", fault == Fault::function        ? "functions that fail:"
                          : fault == Fault::short_receive ? "messages longer than what they are received in:"
                                                          : "messages shorter than they should be:");
    }
    for (const auto &one : calls) try_all(context, one.name, one.call, fault);
  }
  int64_t created = 0;
  for (const int rank : {0, rank_count - 1}) {
    for (int64_t n = 0; try_create(context, rank, n); ++n) ++created;
  }
  expect(created >= 2 * 6, "create calls fewer functions than it must");
  fovea_context_destroy(context);
  if (my_rank == 0) std::printf("create: %lld failures\nok\n", static_cast<long long>(created));
  MPI_Finalize();
  return 0;
}
