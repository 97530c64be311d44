// A stand-in for NCCL: processes of this machine that share a file of memory, named by the id. What is put onto a stream
// happens when the stream does, and waits there for the other processes; they must put the same calls onto it in the same
// order, which is checked.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <utility>

#include "../include/streams.h"

namespace {

constexpr size_t room = size_t{16} << 20;  // bytes of a value
constexpr int most_processes = 8;

struct Meeting {
  std::atomic<int> arrived, round;
  struct Call {
    size_t count;
    int type, operation;
  } calls[most_processes];
};

struct Communicator {
  int rank, size;
  Meeting* meeting;
  char* values;  // `room` for each process

  void meet() {
    const int round = meeting->round.load();
    if (meeting->arrived.fetch_add(1) + 1 == size) {
      meeting->arrived.store(0);
      meeting->round.store(round + 1);
      return;
    }
    while (meeting->round.load() == round) usleep(50);
  }
};

template <class Real>
void add_up(const Communicator& c, size_t count, bool mean, Real* result) {
  for (size_t i = 0; i < count; ++i) {
    Real sum = 0;
    for (int p = 0; p < c.size; ++p) sum += reinterpret_cast<const Real*>(c.values + room * static_cast<size_t>(p))[i];
    result[i] = mean ? sum / static_cast<Real>(c.size) : sum;
  }
}

void reduce_now(Communicator& c, const void* from, void* to, size_t count, int type, int operation) {
  const size_t bytes = count * (type == 8 ? 8 : 4);
  std::memcpy(c.values + room * static_cast<size_t>(c.rank), from, bytes);
  c.meeting->calls[c.rank] = {count, type, operation};
  c.meet();
  for (int p = 0; p < c.size; ++p)
    if (c.meeting->calls[p].count != count || c.meeting->calls[p].type != type ||
        c.meeting->calls[p].operation != operation) {
      std::fprintf(stderr, "shim: process %d averages %zu values, process %d %zu\n", c.rank, count, p,
                   c.meeting->calls[p].count);
      std::abort();
    }
  if (type == 8)
    add_up(c, count, operation == 4, static_cast<double*>(to));
  else
    add_up(c, count, operation == 4, static_cast<float*>(to));
  c.meet();
}

int grouped = 0, pending = 0;

}  // namespace

struct ncclUniqueId {
  char bytes[128];
};
#define SHIM_API extern "C" __attribute__((visibility("default")))

SHIM_API int ncclGetVersion(int* version) { return *version = 22700, 0; }
SHIM_API const char* ncclGetErrorString(int status) { return status == 0 ? "no error" : "invalid argument"; }
SHIM_API int ncclGetUniqueId(ncclUniqueId* id) {
  std::snprintf(id->bytes, sizeof id->bytes, "/dev/shm/metac-nccl-%d", static_cast<int>(getpid()));
  return 0;
}
SHIM_API int ncclCommInitRank(void** made, int size, ncclUniqueId id, int rank) {
  if (std::getenv("METAC_SHIM_NCCL") != nullptr && std::strcmp(std::getenv("METAC_SHIM_NCCL"), "refuse") == 0) return 4;
  if (size > most_processes) return 4;
  const size_t bytes = 4096 + room * static_cast<size_t>(size);
  const int file = open(id.bytes, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return 2;
  char* const memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  if (memory == MAP_FAILED) return 2;
  Communicator* const c = new Communicator{rank, size, reinterpret_cast<Meeting*>(memory), memory + 4096};
  c->meet();
  if (rank == 0) unlink(id.bytes);
  *made = c;
  return 0;
}
SHIM_API int ncclGroupStart() { return ++grouped, 0; }
SHIM_API int ncclGroupEnd() {
  if (--grouped == 0) shim::note_call("nccl group of " + std::to_string(std::exchange(pending, 0)));
  return 0;
}
SHIM_API int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* communicator,
                           cudaStream_t stream) {
  Communicator* const c = static_cast<Communicator*>(communicator);
  if (c == nullptr || stream == nullptr || (type != 7 && type != 8) || count * 8 > room) return 4;
  ++pending;
  const auto touch = stream->touch;
  return shim::put(stream, [=] {
    touch(true);
    reduce_now(*c, from, to, count, type, operation);
    touch(false);
  });
}
