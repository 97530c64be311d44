// The stand-in's memory, streams and graphs. A stream is a queue: what is put onto it happens when somebody waits for it
// (the stream, an event behind it, a copy that must be complete, memory given back), streams in the order METAC_SHIM_ORDER
// says. So a program that waits for too little reads what is not there yet. METAC_SHIM_DEVICES=N: so many cards, of which
// each is as the others. METAC_SHIM_MEMORY=BYTES: what the card has. METAC_SHIM_CARD=NAME: what it is called.
// METAC_SHIM_LIBRARY=N: the version of libraries. METAC_SHIM_CALLS=FILE: a line for each start of a graph, each call of a
// library, each time measured, each block taken of the card (how much is held then), and the call that fails.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
enum { cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
#define CUDART_VERSION 13000
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
struct uint3 {
  unsigned x, y, z;
};
struct uchar1 {
  unsigned char x;
};
struct ushort1 {
  unsigned short x;
};
struct uint1 {
  unsigned x;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};

namespace shim {
using Work = std::function<void()>;
}
struct shim_node {
  size_t place;
};
typedef shim_node* cudaGraphNode_t;
struct shim_graph {
  struct Node {
    shim::Work work;
    std::set<size_t> after;  // works that must be done first
    const void* kernel = nullptr;
  };
  std::vector<Node> nodes;
  std::deque<shim_node> names;  // of nodes that were asked for
  cudaGraphNode_t asked = nullptr;
  size_t branches = 1;  // streams that took part
};
struct shim_event {
  std::shared_ptr<double> done;  // null: never recorded; 0: not yet reached; else seconds
  struct shim_stream* stream;
  shim_graph* captured;  // recorded while a graph was: which, and behind what
  std::set<size_t> after;
};
struct shim_stream {
  std::deque<shim::Work> queue;
  shim_graph* captured = nullptr;  // what is put onto it goes there meanwhile,
  std::set<size_t> after;          // behind these
  bool origin = false;             // the capture began here
  void (*touch)(bool) =
      nullptr;  // begins and ends a work's access to device memory: for libraries, which have globals of their own
};
typedef shim_stream* cudaStream_t;
typedef shim_event* cudaEvent_t;
typedef shim_graph* cudaGraph_t;
typedef shim_graph* cudaGraphExec_t;
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))

namespace shim {

// Of the libraries that stand in.
inline size_t library_version() {
  const char* text = std::getenv("METAC_SHIM_LIBRARY");
  return text == nullptr ? 1 : static_cast<size_t>(std::atol(text));
}

inline void note_call(const std::string& line) {
  const char* path = std::getenv("METAC_SHIM_CALLS");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

// ---- calls that fail when asked to ----
inline bool fails() {
  static long left = std::getenv("METAC_SHIM_FAIL") != nullptr ? std::atol(std::getenv("METAC_SHIM_FAIL")) : 0;
  const bool now = left > 0 && --left == 0;
  if (now) note_call("a call fails");
  return now;
}
inline int devices() {
  const char* text = std::getenv("METAC_SHIM_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

// ---- memory ----
constexpr size_t page = 4096;
struct Allocation {
  char *map, *data;
  size_t pages, bytes;
};
inline std::vector<Allocation>& allocations() {
  static std::vector<Allocation> all;
  return all;
}
inline std::vector<Allocation>& pinned() {  // of the host
  static std::vector<Allocation> all;
  return all;
}
inline std::vector<Allocation>& managed() {  // of both
  static std::vector<Allocation> all;
  return all;
}
inline int& access_depth() {
  static int depth = 0;
  return depth;
}
inline void protect(int how) {
  for (const Allocation& a : allocations()) mprotect(a.map, a.pages * page, how);
}
struct Access {  // while it lives, device memory can be touched
  Access() {
    if (access_depth()++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  ~Access() {
    if (--access_depth() == 0) protect(PROT_NONE);
  }
};
inline void touch(bool begin) {
  static Access* access = nullptr;
  if (begin)
    access = new Access;
  else
    delete access;
}
inline bool within(const std::vector<Allocation>& all, const void* p) {
  for (const Allocation& a : all)
    if (p >= a.data && p < a.data + a.bytes) return true;
  return false;
}

// ---- streams ----
inline std::vector<cudaStream_t>& streams() {
  static std::vector<cudaStream_t> all;
  return all;
}
inline shim_stream* real(cudaStream_t stream) {
  static shim_stream legacy;
  return stream == nullptr || stream == cudaStreamLegacy ? &legacy : stream;
}
inline void drain(cudaStream_t stream) {
  shim_stream& s = *real(stream);
  while (!s.queue.empty()) {
    Work work = std::move(s.queue.front());
    s.queue.pop_front();
    work();
  }
}
inline void drain_all() {
  std::vector<cudaStream_t> all = streams();
  const char* order = std::getenv("METAC_SHIM_ORDER");
  if (order != nullptr && std::strcmp(order, "forward") != 0) std::reverse(all.begin(), all.end());
  drain(nullptr);
  for (cudaStream_t s : all) drain(s);
}
inline bool capturing() {
  for (cudaStream_t s : streams())
    if (s->captured != nullptr) return true;
  return false;
}
// The legacy stream takes turns with all others, which are blocking ones here.
template <class W>
cudaError_t put(cudaStream_t stream, W work) {
  shim_stream& s = *real(stream);
  if (s.captured != nullptr) {
    s.captured->nodes.push_back({std::move(work), s.after});
    s.after = {s.captured->nodes.size() - 1};
    return cudaSuccess;
  }
  if (real(stream) == real(nullptr)) {
    drain_all();
  } else {
    drain(nullptr);
  }
  s.queue.push_back(std::move(work));
  return cudaSuccess;
}
inline cudaError_t wait_for(cudaStream_t stream) {
  if (capturing()) return cudaErrorStreamCaptureUnsupported;
  if (real(stream) == real(nullptr))
    drain_all();
  else
    drain(stream);
  return cudaSuccess;
}

}  // namespace shim

inline const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "invalid argument";
  }
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = shim::devices();
  return *count > 0 ? cudaSuccess : cudaErrorInsufficientDriver;
}
namespace shim {
inline int& current_device() {
  static thread_local int device = 0;
  return device;
}
}  // namespace shim
inline cudaError_t cudaGetDevice(int* device) {
  *device = shim::current_device();
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= shim::devices()) return cudaErrorInvalidValue;
  if (device != shim::current_device()) shim::note_call("device " + std::to_string(device));
  shim::current_device() = device;
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* card, int) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  const char* const name = std::getenv("METAC_SHIM_CARD");
  std::snprintf(card->name, sizeof card->name, "%s", name != nullptr ? name : "stand-in for a GPU");
  card->major = 8, card->minor = 0, card->multiProcessorCount = 108;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  shim::streams().push_back(*stream = new shim_stream);
  (*stream)->touch = &shim::touch;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  shim::drain(stream);
  auto& all = shim::streams();
  all.erase(std::find(all.begin(), all.end(), stream));
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  return shim::wait_for(stream);
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* user) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  return shim::put(stream, [=] { function(user); });
}

// ---- events ----
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  *event = new shim_event{};
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (const shim_stream* s = shim::real(stream); s->captured != nullptr) {
    *event = {nullptr, stream, s->captured, s->after};
    return cudaSuccess;
  }
  auto done = std::make_shared<double>(0);
  *event = {done, stream, nullptr, {}};
  return shim::put(stream, [done] {
    *done = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  return event->done == nullptr || *event->done != 0 ? cudaSuccess : shim::wait_for(event->stream);
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (event->captured != nullptr) {
    shim_stream* s = shim::real(stream);
    if (s->captured == nullptr) {
      if (!s->queue.empty()) return cudaErrorStreamCaptureUnsupported;
      s->captured = event->captured;
      ++s->captured->branches;
      s->after.clear();
    }
    if (s->captured != event->captured) return cudaErrorInvalidValue;
    s->after.insert(event->after.begin(), event->after.end());
    return cudaSuccess;
  }
  if (shim::real(stream)->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (event->done == nullptr || *event->done != 0) return cudaSuccess;
  return shim::put(stream, [at = *event] {
    if (*at.done == 0) shim::drain(at.stream);
  });
}

inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (shim::fails() || begin->done == nullptr || end->done == nullptr || *begin->done == 0 || *end->done == 0)
    return cudaErrorInvalidValue;
  shim::note_call("timed");
  *milliseconds = static_cast<float>((*end->done - *begin->done) * 1e3);
  return cudaSuccess;
}

// ---- memory ----
inline cudaError_t cudaMalloc(void** result, size_t bytes) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (shim::capturing()) return cudaErrorStreamCaptureUnsupported;
  size_t taken = bytes;
  for (const shim::Allocation& a : shim::allocations()) taken += a.bytes;
  if (const char* card = std::getenv("METAC_SHIM_MEMORY"); card != nullptr && taken > std::strtoull(card, nullptr, 10))
    return cudaErrorMemoryAllocation;
  const size_t pages = (bytes + shim::page - 1) / shim::page;
  char* map = static_cast<char*>(
      mmap(nullptr, (pages + 1) * shim::page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (map == MAP_FAILED) return cudaErrorMemoryAllocation;
  if (bytes <= size_t{8} << 20) std::memset(map, 0xff, pages * shim::page);
  mprotect(map, (pages + 1) * shim::page, PROT_NONE);
  shim::Allocation a{map, map + pages * shim::page - (bytes + 63) / 64 * 64, pages, bytes};
  shim::allocations().push_back(a);
  shim::note_call("holds " + std::to_string(taken));
  *result = a.data;
  return cudaSuccess;
}
// Host and device reach it at any time, on a GPU as here; what a stream has not done yet is not in it.
inline cudaError_t cudaMallocManaged(void** result, size_t bytes, unsigned = 1) {
  if (shim::fails() || shim::devices() == 0)
    return shim::devices() == 0 ? cudaErrorInsufficientDriver : cudaErrorMemoryAllocation;
  if (shim::capturing()) return cudaErrorStreamCaptureUnsupported;
  char* data = static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(data, 0xff, bytes);
  shim::managed().push_back({data, data, 0, bytes});
  *result = data;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* data) {
  if (data != nullptr) shim::drain_all();
  for (size_t i = 0; i < shim::managed().size(); ++i) {
    if (shim::managed()[i].data != data) continue;
    std::free(data);
    shim::managed().erase(shim::managed().begin() + static_cast<std::ptrdiff_t>(i));
    return cudaSuccess;
  }
  for (size_t i = 0; i < shim::allocations().size(); ++i) {
    if (shim::allocations()[i].data != data) continue;
    munmap(shim::allocations()[i].map, (shim::allocations()[i].pages + 1) * shim::page);
    shim::allocations().erase(shim::allocations().begin() + static_cast<std::ptrdiff_t>(i));
    return cudaSuccess;
  }
  return data == nullptr ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaHostAlloc(void** result, size_t bytes, unsigned) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (shim::capturing()) return cudaErrorStreamCaptureUnsupported;
  char* data = static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(data, 0xff, bytes);
  shim::pinned().push_back({data, data, 0, bytes});
  *result = data;
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* data) {
  if (data != nullptr) shim::drain_all();
  for (size_t i = 0; i < shim::pinned().size(); ++i) {
    if (shim::pinned()[i].data != data) continue;
    std::free(data);
    shim::pinned().erase(shim::pinned().begin() + static_cast<std::ptrdiff_t>(i));
    return cudaSuccess;
  }
  return data == nullptr ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* data) {
  *found = {shim::within(shim::allocations(), data) ? cudaMemoryTypeDevice
            : shim::within(shim::managed(), data)   ? cudaMemoryTypeManaged
            : shim::within(shim::pinned(), data)    ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeUnregistered,
            0, nullptr, nullptr};
  return cudaSuccess;
}

namespace shim {
inline bool directions_hold(void* to, const void* from, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return true;
  if (within(managed(), to) || within(managed(), from)) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return within(allocations(), to) == to_device && within(allocations(), from) == from_device;
}
inline void copy_now(void* to, const void* from, size_t bytes) {
  Access access;
  std::memmove(to, from, bytes);
}
}  // namespace shim

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (!shim::directions_hold(to, from, kind)) return cudaErrorInvalidValue;
  if (const cudaError_t status = shim::wait_for(nullptr); status != cudaSuccess) return status;
  shim::copy_now(to, from, bytes);
  return cudaSuccess;
}
// Memory of the host that is not page-locked is read at once, and written before the call returns.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (!shim::directions_hold(to, from, kind)) return cudaErrorInvalidValue;
  auto pageable = [](const void* p) {
    return !shim::within(shim::allocations(), p) && !shim::within(shim::managed(), p) && !shim::within(shim::pinned(), p);
  };
  if (pageable(to)) {
    if (const cudaError_t status = shim::wait_for(stream); status != cudaSuccess) return status;
    shim::copy_now(to, from, bytes);
    return cudaSuccess;
  }
  if (!pageable(from)) return shim::put(stream, [=] { shim::copy_now(to, from, bytes); });
  auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return shim::put(stream, [=] { shim::copy_now(to, staged->data(), bytes); });
}
// Rows `pitch` bytes apart. A pitch below the width, or beyond what a card takes, is an error.
inline bool shim_rows_hold(size_t pitch, size_t width) { return width <= pitch && pitch < size_t{1} << 31; }
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!shim_rows_hold(to_pitch, width) || !shim_rows_hold(from_pitch, width)) return cudaErrorInvalidValue;
  cudaError_t status = cudaSuccess;
  for (size_t row = 0; row < height && status == cudaSuccess; ++row)
    status = cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width,
                             kind, stream);
  return status;
}
inline cudaError_t cudaMemset2DAsync(void* data, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (!shim_rows_hold(pitch, width)) return cudaErrorInvalidValue;
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (!shim::within(shim::allocations(), data) && !shim::within(shim::managed(), data)) return cudaErrorInvalidValue;
  return shim::put(stream, [=] {
    shim::Access access;
    for (size_t row = 0; row < height; ++row) std::memset(static_cast<char*>(data) + row * pitch, value, width);
  });
}
inline cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(data, bytes, value, bytes, bytes > 0 ? 1 : 0, stream);
}

// ---- graphs ----
namespace shim {
// Of the works that may be next, the first, the last or any one: what is not ordered behind what it needs comes too early in
// one of the orders.
inline void run_nodes(const std::vector<shim_graph::Node>& nodes) {
  const char* order = std::getenv("METAC_SHIM_ORDER");
  const bool forward = order == nullptr || std::strcmp(order, "forward") == 0,
             reverse = order != nullptr && std::strcmp(order, "reverse") == 0;
  uint64_t seed = forward || reverse ? 0 : std::strtoull(order, nullptr, 10);
  std::vector<size_t> waits(nodes.size()), ready;
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t k = 0; k < nodes.size(); ++k) {
    waits[k] = nodes[k].after.size();
    for (size_t before : nodes[k].after) next[before].push_back(k);
    if (waits[k] == 0) ready.push_back(k);
  }
  while (!ready.empty()) {
    std::sort(ready.begin(), ready.end());
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const size_t at = forward ? 0 : reverse ? ready.size() - 1 : static_cast<size_t>((seed >> 33) % ready.size());
    const size_t k = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    nodes[k].work();
    for (size_t after : next[k])
      if (--waits[after] == 0) ready.push_back(after);
  }
}
}  // namespace shim
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (shim::real(stream) == shim::real(nullptr) || stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->captured = new shim_graph;
  stream->after.clear();
  stream->origin = true;
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = shim::real(stream)->captured != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
// A node of one work that is behind all others is named; of several only how many there are is told.
inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*,
                                            cudaGraph_t*, const cudaGraphNode_t** nodes, const void*, size_t* count) {
  cudaStreamIsCapturing(stream, status);
  if (*status == cudaStreamCaptureStatusNone) return cudaSuccess;
  shim_graph& graph = *stream->captured;
  *count = stream->after.size();
  if (*count != 1) return cudaSuccess;
  graph.names.push_back({*stream->after.begin()});
  graph.asked = &graph.names.back();
  *nodes = &graph.asked;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = stream->captured;
  std::set<size_t> reached = stream->after;
  for (size_t k = (*graph)->nodes.size(); k-- > 0;)
    if (reached.count(k) != 0) reached.insert((*graph)->nodes[k].after.begin(), (*graph)->nodes[k].after.end());
  bool joined = stream->origin;
  for (shim_stream* s : shim::streams()) {
    if (s->captured != *graph) continue;
    for (size_t k : s->after) joined = joined && reached.count(k) != 0;
    s->captured = nullptr;
    s->origin = false;
  }
  const bool failed = shim::fails();
  if (joined && !failed) return cudaSuccess;
  delete *graph;
  *graph = nullptr;
  return failed ? cudaErrorMemoryAllocation : cudaErrorStreamCaptureUnjoined;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  *made = new shim_graph(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
};
namespace shim {
// How a start of a kernel is made of its arguments, by the kernel.
using MakeCall = Work (*)(const void* kernel, void** arguments, dim3 grid, dim3 block);
inline std::map<const void*, MakeCall>& calls() {
  static std::map<const void*, MakeCall> all;
  return all;
}
inline bool may_start(dim3 grid, dim3 block) {
  return block.x > 0 && block.x <= 1024 && grid.x > 0 && grid.y > 0 && grid.x <= 2147483647u && grid.y <= 65535u;
}
}  // namespace shim
// The node is one of the graph that `graph` was made of, which must still be there.
inline cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  if (!shim::may_start(p->gridDim, p->blockDim)) return cudaErrorInvalidConfiguration;
  if (node->place >= graph->nodes.size() || graph->nodes[node->place].kernel != p->func) return cudaErrorInvalidValue;
  graph->nodes[node->place].work = shim::calls().at(p->func)(p->func, p->kernelParams, p->gridDim, p->blockDim);
  shim::note_call("a node is changed");
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (shim::fails()) return cudaErrorMemoryAllocation;
  shim::note_call("graph of " + std::to_string(graph->nodes.size()) + " works, " + std::to_string(graph->branches) +
                  " branches");
  return shim::put(stream, [nodes = graph->nodes] { shim::run_nodes(nodes); });
}
