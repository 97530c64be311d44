// A stand-in for the CUDA toolkit's header: the execution model on the CPU, for tests. Kernels are compiled as C++; a
// block's threads are fibers that change places at barriers, blocks run one after the other.
//
// What it finds that a GPU might hide:
//   races and forgotten barriers   METAC_SHIM_ORDER = forward, reverse or a number (a shuffle): the order of threads and
//                                  blocks. The bits of a result must not depend on it.
//   barriers not reached by all    the program ends with a message
//   copies into shared memory      NaN until the thread that began them has waited; the program ends where none does
//   unset memory                   device memory (up to 8 MiB at once) and, at the start of a block, shared memory are full
//   of 0xff
//                                  (NaN)
//   out of bounds                  behind every allocation lies a page that cannot be touched
//   host code on device memory     it can be touched only while a kernel or a copy runs
//   results read too early         streams are queues: their work is done when something waits for it (streams.h)
// METAC_SHIM_DEVICES=0: there is no device. METAC_SHIM_FAIL=n: the n-th call that may fail does.
#pragma once
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n)
#define __shared__ static __attribute__((section("shim_shared")))
// All warps of a block must come to the same shuffle, which is more than a GPU asks for.
#define __shfl_down_sync(mask, value, distance) shim::take_from(value, distance, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, distance) shim::exchange(value, distance, __FILE__, __LINE__)
#define METAC_STANDS_IN_FOR_CUDA
#define __syncthreads() shim::barrier(__FILE__, __LINE__)

#include "streams.h"

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

// Threads take turns: an update is never cut in two.
template <class T>
T atomicMin(T* place, T value) {
  const T before = *place;
  if (value < before) *place = value;
  return before;
}

// What the linker makes of the section of shared variables: its ends.
extern "C" {
extern char __start_shim_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_shim_shared[] __attribute__((weak, visibility("hidden")));
}

namespace shim {

[[noreturn]] inline void stop(const char* what, const char* file, int line) {
  std::fprintf(stderr, "shim: %s (%s:%d), block %u, thread %u\n", what, file, line, blockIdx.x, threadIdx.x);
  std::abort();
}

// cp.async: what a thread has asked for is there when it has waited, and NaN before.
struct PendingCopy {
  void* to;
  const void* from;
  size_t bytes;
  bool inside;
};
inline std::vector<PendingCopy>* pending_copies() {
  static std::vector<PendingCopy> pending[1024];
  return pending;
}
#define shim_start_copy(to, from, bytes, inside) shim::start_copy_at(to, from, bytes, inside, __FILE__, __LINE__)
inline void start_copy_at(void* to, const void* from, size_t bytes, bool inside, const char* file, int line) {
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || (inside && reinterpret_cast<uintptr_t>(from) % bytes != 0))
    stop("a copy between places that are not multiples of its size", file, line);
  std::memset(to, 0xff, bytes);
  pending_copies()[threadIdx.x].push_back({to, from, bytes, inside});
}
inline void wait_for_copies() {
  std::vector<PendingCopy>& mine = pending_copies()[threadIdx.x];
  for (const PendingCopy& c : mine) {
    if (c.inside)
      std::memcpy(c.to, c.from, c.bytes);
    else
      std::memset(c.to, 0, c.bytes);
  }
  mine.clear();
}
#define shim_wait_for_copies() shim::wait_for_copies()

// ---- threads ----
// Where a thread of a kernel, or what started it, goes on. Threads change places at every barrier: the compiler's own jumps
// keep no more than they need, those of the C library ten times as much.
using Place = void* [5];
[[noreturn, gnu::noinline]] inline void go_to(void** place) { __builtin_longjmp(place, 1); }

struct Fiber {
  Place place;
  ucontext_t context;
  char* stack;
  unsigned thread;
  bool waiting;
};
struct Scheduler {
  std::vector<Fiber*> pool, active, still;
  std::vector<unsigned> order, turn;
  size_t next = 0;  // of the threads in `order` that have not begun
  size_t at = 0;    // of the waiting ones in `turn` that have not gone on
  size_t ended = 0;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  Fiber* running = nullptr;
  Place home;
  unsigned rounds = 0;         // how often all threads of the block have come to a barrier
  const char* file = nullptr;  // the barrier that the waiting ones stand at
  int line = 0;
};
inline Scheduler scheduler;

// The next thread whose turn it is goes on or, behind the last one, what started them; until this one is resumed.
[[gnu::noinline]] inline void leave() {
  Scheduler& s = scheduler;
  if (__builtin_setjmp(s.running->place) != 0) return;
  if (s.at == s.turn.size()) go_to(s.home);
  s.running = s.active[s.turn[s.at++]];
  if (s.at < s.turn.size())
    __builtin_prefetch(s.active[s.turn[s.at]]->place[2]);  // of the one behind it: where its stack ends
  threadIdx = {s.running->thread, 0, 0};
  go_to(s.running->place);
}

[[gnu::noinline]] inline void fiber_main() {
  Scheduler& s = scheduler;
  for (;;) {
    while (s.next < s.order.size()) {
      Fiber* self = s.running;
      self->thread = s.order[s.next++];
      threadIdx = {self->thread, 0, 0};
      s.body(s.argument);
      if (!pending_copies()[threadIdx.x].empty()) stop("a copy that nobody has waited for", __FILE__, __LINE__);
      ++s.ended;
    }
    s.running->waiting = false;
    leave();
  }
}

// Returns when it leaves, and all those behind it in `turn`.
[[gnu::noinline]] inline void resume(Fiber* f) {
  scheduler.running = f;
  if (__builtin_setjmp(scheduler.home) != 0) return;
  if (f->stack != nullptr) {
    threadIdx = {f->thread, 0, 0};
    go_to(f->place);
  }
  constexpr size_t size = 256 << 10;
  f->stack =
      static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  // Each begins elsewhere in a page, so that a block's stacks are not all the same few sets of the cache.
  f->context.uc_stack.ss_size = size - scheduler.pool.size() % 1024 * 128;
  f->context.uc_link = nullptr;
  makecontext(&f->context, reinterpret_cast<void (*)()>(&fiber_main), 0);
  setcontext(&f->context);
}

inline void barrier(const char* file, int line) {
  Scheduler& s = scheduler;
  Fiber* self = s.running;
  if (s.file != nullptr && (s.line != line || (s.file != file && std::strcmp(s.file, file) != 0)))
    stop("threads of a block wait at different barriers", file, line);
  s.file = file;
  s.line = line;
  self->waiting = true;
  leave();
  s.running->waiting = false;
}

// What every thread of the block gives for others of its warp to take: it is there when all have come to the barrier. What
// is given before the next one lies elsewhere, so that nobody need wait until all have taken.
template <class T>
struct Given {
  T values[2][1024];
  T* give(const T& value, const char* file, int line) {
    T* const now = values[scheduler.rounds % 2];
    now[threadIdx.x] = value;
    barrier(file, line);
    return now;
  }
};

// Every thread of the block gives a value and takes another one's of its warp.
template <class T>
T take_from(T value, unsigned distance, const char* file, int line) {
  static Given<T> given;
  const T* const values = given.give(value, file, line);
  const unsigned thread = threadIdx.x;
  return thread % 32 + distance < 32 ? values[thread + distance] : value;
}

template <class T>
T exchange(T value, unsigned bits, const char* file, int line) {
  static Given<T> given;
  return given.give(value, file, line)[threadIdx.x ^ bits];
}

// What a warp's tensor cores do: 16 by 8 sums, 8 words of each operand along the sum, from the registers of all its threads.
// Numbers are taken out of the words first: whatever is done per product is done a thousand times as often.
inline void tensor_numbers(const char* type, uint32_t word, float* to) {  // f16, bf16 or tf32
  if (type[0] == 't') {
    std::memcpy(to, &word, 4);
  } else if (type[0] == 'b') {
    const uint32_t bits[] = {word << 16, word & 0xffff0000u};
    std::memcpy(to, bits, 8);
  } else {
    _Float16 numbers[2];
    std::memcpy(numbers, &word, 4);
    for (unsigned part = 0; part < 2; ++part) to[part] = static_cast<float>(numbers[part]);
  }
}
inline void tensor_numbers(const char* type, uint32_t word, int* to) {
  for (unsigned part = 0; part < 4; ++part) {
    const uint8_t byte = static_cast<uint8_t>(word >> (8 * part));
    to[part] = type[0] == 's' ? static_cast<int8_t>(byte) : byte;
  }
}
// sums[k] += of the eight words along the sum, each of the threads of a warp giving four of the left side and two of the
// right, of `parts` numbers each.
template <unsigned parts, class Number>
struct TensorWords {
  Number left[4][parts], right[2][parts];
};
template <unsigned parts, class Number>
void tensor_multiply_words(Number* d, const TensorWords<parts, Number>& words, const char* file, int line) {
  static Given<TensorWords<parts, Number>> all;
  const unsigned thread = threadIdx.x, lane = thread % 32, first = thread - lane;
  const TensorWords<parts, Number>* const given = all.give(words, file, line);
  for (unsigned k = 0; k < 4; ++k) {
    const unsigned row = lane / 4 + 8 * (k / 2), column = lane % 4 * 2 + k % 2;
    Number sum = d[k];
    for (unsigned word = 0; word < 8; ++word) {
      const Number* const x = given[first + row % 8 * 4 + word % 4].left[row / 8 + word / 4 * 2];
      const Number* const y = given[first + column * 4 + word % 4].right[word / 4];
      for (unsigned part = 0; part < parts; ++part) sum += x[part] * y[part];
    }
    d[k] = sum;
  }
}

#define shim_tensor_multiply(left, right, d, a, b)                \
  shim::tensor_multiply_at<left[0] == 't'                     ? 1 \
                           : left[0] == 's' || left[0] == 'u' ? 4 \
                                                              : 2>(left, right, d, a, b, __FILE__, __LINE__)
template <unsigned parts, class Sum>
void tensor_multiply_at(const char* left, const char* right, Sum* d, const uint32_t* a, const uint32_t* b, const char* file,
                        int line) {
  TensorWords<parts, Sum> words;
  for (unsigned k = 0; k < 4; ++k) tensor_numbers(left, a[k], words.left[k]);
  for (unsigned k = 0; k < 2; ++k) tensor_numbers(right, b[k], words.right[k]);
  tensor_multiply_words(d, words, file, line);
}
#define shim_tensor_multiply_double(d, a, b) \
  shim::tensor_multiply_words<1, double>(d, {{{a[0]}, {a[1]}, {a[2]}, {a[3]}}, {{b[0]}, {b[1]}}}, __FILE__, __LINE__)

// ldmatrix: lane k names row k % 8 of block k / 8.
#define shim_tensor_load(to, blocks, transposed, row) shim::tensor_load_at(to, blocks, transposed, row, __FILE__, __LINE__)
inline void tensor_load_at(uint32_t* to, unsigned blocks, bool transposed, const void* row, const char* file, int line) {
  static Given<const char*> rows;
  const unsigned thread = threadIdx.x, lane = thread % 32, first = thread - lane;
  if (lane < blocks * 8 && reinterpret_cast<uintptr_t>(row) % 16 != 0)
    stop("a row that is not at a multiple of 16 bytes", file, line);
  const char* const* const given = rows.give(static_cast<const char*>(row), file, line);
  for (unsigned block = 0; block < blocks; ++block) {
    const char* const* const of = given + first + block * 8;
    if (!transposed)
      std::memcpy(to + block, of[lane / 4] + lane % 4 * 4, 4);
    else
      for (unsigned k = 0; k < 2; ++k)
        std::memcpy(reinterpret_cast<char*>(to + block) + 2 * k, of[lane % 4 * 2 + k] + lane / 4 * 2, 2);
  }
  barrier(file, line);
}

// Nothing: from the first to the last; else what METAC_SHIM_ORDER says.
inline const char* asked_order() {
  const char* text = std::getenv("METAC_SHIM_ORDER");
  return text == nullptr || std::strcmp(text, "forward") == 0 ? nullptr : text;
}

inline void shuffle(std::vector<unsigned>& order, const char* asked, unsigned salt) {
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<unsigned>(i);
  if (asked == nullptr) return;
  if (std::strcmp(asked, "reverse") == 0) {
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<unsigned>(order.size() - 1 - i);
    return;
  }
  uint64_t state = static_cast<uint64_t>(std::atoll(asked)) * 0x9e3779b97f4a7c15u + salt;
  for (size_t i = order.size(); i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
}

inline void run_block(unsigned threads, const char* asked, void (*body)(void*), void* argument) {
  Scheduler& s = scheduler;
  if (__start_shim_shared != nullptr)
    std::memset(__start_shim_shared, 0xff, static_cast<size_t>(__stop_shim_shared - __start_shim_shared));
  s.order.resize(threads);
  shuffle(s.order, asked, blockIdx.x);
  s.next = s.ended = 0;
  s.body = body;
  s.argument = argument;
  s.active.clear();
  s.rounds = 0;
  s.file = nullptr;
  s.turn.clear();
  s.at = 0;
  size_t used = 0;
  while (s.next < threads) {  // a fiber does one thread after the other until one waits
    if (used == s.pool.size()) s.pool.push_back(static_cast<Fiber*>(std::calloc(1, sizeof(Fiber))));
    Fiber* f = s.pool[used++];
    resume(f);
    if (f->waiting) s.active.push_back(f);
  }
  while (!s.active.empty()) {
    if (s.ended > 0) stop("a barrier that other threads of the block have passed by", s.file, s.line);
    s.file = nullptr;
    ++s.rounds;
    s.turn.resize(s.active.size());
    shuffle(s.turn, asked, static_cast<unsigned>(s.line));
    s.at = 1;
    resume(s.active[s.turn[0]]);
    s.still.clear();
    for (Fiber* f : s.active)
      if (f->waiting) s.still.push_back(f);
    s.active.swap(s.still);
  }
}

template <class... P>
struct Call {
  void (*kernel)(P...);
  std::tuple<std::remove_cv_t<P>...> arguments;
  dim3 grid, block;

  template <size_t... i>
  Call(void (*kernel)(P...), void** given, dim3 grid, dim3 block, std::index_sequence<i...>)
      : kernel(kernel), arguments(*static_cast<std::remove_cv_t<P>*>(given[i])...), grid(grid), block(block) {}
  static void body(void* self) {
    std::apply(static_cast<const Call*>(self)->kernel, static_cast<const Call*>(self)->arguments);
  }
  void operator()() {
    Access access;
    blockDim = block;
    gridDim = grid;
    std::vector<unsigned> order(size_t{grid.x} * grid.y);
    const char* const asked = asked_order();
    shuffle(order, asked, 0);
    for (unsigned k : order) {
      blockIdx = {k % grid.x, k / grid.x, 0};
      run_block(block.x, asked, &body, this);
    }
  }
};

}  // namespace shim

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t, cudaStream_t stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (!shim::may_start(grid, block)) return cudaErrorInvalidConfiguration;
  const void* const which = reinterpret_cast<const void*>(kernel);
  const shim::MakeCall make = [](const void* of, void** given, dim3 blocks, dim3 threads) -> shim::Work {
    return shim::Call<P...>(reinterpret_cast<void (*)(P...)>(const_cast<void*>(of)), given, blocks, threads,
                            std::index_sequence_for<P...>());
  };
  shim::calls()[which] = make;
  const cudaError_t status = shim::put(stream, make(which, arguments, grid, block));
  if (shim_graph* const graph = shim::real(stream)->captured) graph->nodes.back().kernel = which;
  return status;
}
