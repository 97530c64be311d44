// A GPU as the place of a program: device memory, one stream on which everything of a context happens in order. It is the
// context's own or, run by run, the caller's: runs on different streams still happen in the order of the calls, because
// they share the context's memory.
#pragma once
#include <cuda_runtime_api.h>

#include "../place.h"
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool cuda_failed(Failure& failure, const char* what, cudaError_t status) {
  return failure.set(status == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::internal, "CUDA: %s: %s", what, cudaGetErrorString(status));
}

// Memory that only grows, as Block is on the host. Kind: where it is.
template <typename Kind>
class CudaBlock {
 public:
  CudaBlock() = default;
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;
  ~CudaBlock() { release(); }

  void* data() const { return data_; }
  int64_t capacity() const { return capacity_; }

  // At least `bytes`; the first `keep` stay. False: no memory, the old block is untouched. Work that still uses the old
  // block ends first.
  bool reserve(int64_t bytes, int64_t keep = 0) {
    if (bytes <= capacity_ && data_ != nullptr) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    const int64_t size = align_up(bytes > 0 ? bytes : 1);
    void* fresh = nullptr;
    if (Kind::take(&fresh, static_cast<size_t>(size)) != cudaSuccess) {
      cudaGetLastError();  // it is told by the result
      return false;
    }
    if (keep > 0 && cudaMemcpy(fresh, data_, static_cast<size_t>(keep), Kind::copy) != cudaSuccess) {
      Kind::give(fresh);
      return false;
    }
    release();
    data_ = fresh;
    capacity_ = size;
    return true;
  }

 private:
  void release() {
    if (data_ != nullptr) Kind::give(data_);
    data_ = nullptr;
    capacity_ = 0;
  }
  void* data_ = nullptr;
  int64_t capacity_ = 0;
};

struct OnDevice {
  static constexpr cudaMemcpyKind copy = cudaMemcpyDeviceToDevice;
  static cudaError_t take(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
  static void give(void* data) { cudaFree(data); }
};
// Of the host; the device copies to and from it directly.
struct Pinned {
  static constexpr cudaMemcpyKind copy = cudaMemcpyHostToHost;
  static cudaError_t take(void** data, size_t bytes) { return cudaHostAlloc(data, bytes, cudaHostAllocDefault); }
  static void give(void* data) { cudaFreeHost(data); }
};
using DeviceBlock = CudaBlock<OnDevice>;
using PinnedBlock = CudaBlock<Pinned>;

class CudaGraph {
 public:
  CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() { forget(); }

  bool made() const { return graph_ != nullptr; }
  cudaError_t make(cudaGraph_t from) { return cudaGraphInstantiate(&graph_, from, 0); }
  cudaError_t launch(cudaStream_t stream) const { return cudaGraphLaunch(graph_, stream); }
  // What still runs of it runs to its end.
  void forget() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    graph_ = nullptr;
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

class CudaDevice {
 public:
  CudaDevice() = default;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    if (left_ != nullptr) cudaEventSynchronize(left_);  // what a run that nobody waited for still uses
    if (left_ != nullptr) cudaEventDestroy(left_);
    if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
  }

  // Takes the calling thread's current device. False: there is none.
  bool open(Failure& failure) {
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found != cudaSuccess || count == 0) {
      cudaGetLastError();
      return failure.set(Status::unsupported, "no CUDA device: %s", found == cudaSuccess ? "the driver lists none" : cudaGetErrorString(found));
    }
    cudaError_t status = cudaGetDevice(&device_);
    if (status == cudaSuccess) status = cudaStreamCreate(&own_stream_);
    if (status == cudaSuccess) status = cudaEventCreateWithFlags(&left_, cudaEventDisableTiming);
    stream_ = own_stream_;
    return status == cudaSuccess || cuda_failed(failure, "opening the device", status);
  }

  // The weights block as the device sees it; null: failed. What runs still reads the old one ends first.
  const void* hold(const void* weights, int64_t bytes, Failure& failure) {
    if (bytes == 0) return weights;
    if (!enter(failure)) return nullptr;
    if (const cudaError_t status = cudaEventSynchronize(left_); status != cudaSuccess) {
      cuda_failed(failure, "waiting for a run", status);
      return nullptr;
    }
    if (!weights_.reserve(bytes)) {
      failure.set(Status::out_of_memory, "no memory on the device for %lld bytes of weights", static_cast<long long>(bytes));
      return nullptr;
    }
    const cudaError_t status = cudaMemcpy(weights_.data(), weights, static_cast<size_t>(bytes), cudaMemcpyHostToDevice);
    if (status == cudaSuccess) return weights_.data();
    cuda_failed(failure, "copying the weights", status);
    return nullptr;
  }

  bool enter(Failure& failure) {
    const cudaError_t status = cudaSetDevice(device_);
    return status == cudaSuccess || cuda_failed(failure, "choosing the device", status);
  }
  // A run begins on the stream chosen last, behind what an earlier one left on another.
  bool begin(Failure& failure) {
    if (!enter(failure)) return false;
    const cudaError_t status = left_on_ == nullptr || left_on_ == stream_ ? cudaSuccess : cudaStreamWaitEvent(stream_, left_, 0);
    return status == cudaSuccess || cuda_failed(failure, "ordering streams", status);
  }
  // A run that is not waited for ends here.
  bool leave(Failure& failure) {
    const cudaError_t status = cudaEventRecord(left_, stream_);
    left_on_ = stream_;
    return status == cudaSuccess || cuda_failed(failure, "marking the end of a run", status);
  }
  void use_stream(cudaStream_t stream) { stream_ = stream != nullptr ? stream : own_stream_; }
  bool call_when_done(void (*done)(void*), void* user, Failure& failure) {
    const cudaError_t status = cudaLaunchHostFunc(stream_, done, user);
    return status == cudaSuccess || cuda_failed(failure, "asking to be called", status);
  }
  // What is started from now on is recorded instead. False: it cannot be.
  bool begin_recording() {
    asked_stream_ = stream_;
    stream_ = own_stream_;
    if (cudaStreamBeginCapture(own_stream_, cudaStreamCaptureModeThreadLocal) == cudaSuccess) return true;
    cudaGetLastError();
    stream_ = asked_stream_;
    return false;
  }
  bool end_recording(CudaGraph& graph) {
    cudaGraph_t recorded = nullptr;
    cudaError_t status = cudaStreamEndCapture(own_stream_, &recorded);
    stream_ = asked_stream_;
    if (status == cudaSuccess && recorded != nullptr) status = graph.make(recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess && graph.made();
  }
  int number() const { return device_; }
  Libraries* libraries() { return &libraries_; }
  cudaStream_t stream() const { return stream_; }

 private:
  int device_ = 0;
  cudaStream_t own_stream_ = nullptr, stream_ = nullptr, asked_stream_ = nullptr;
  cudaEvent_t left_ = nullptr;         // the end of the last run that was not waited for,
  cudaStream_t left_on_ = nullptr;     // on this stream
  DeviceBlock weights_;
  Libraries libraries_;
};

template <>
struct Place<CudaDevice> {
  using Memory = DeviceBlock;
  using HostMemory = PinnedBlock;
  using Graph = CudaGraph;
  static constexpr bool separate = true, records = true;

  static bool begin_recording(CudaDevice& device) { return device.begin_recording(); }
  static bool end_recording(CudaDevice& device, CudaGraph& graph) { return device.end_recording(graph); }
  static bool replay(CudaDevice& device, const CudaGraph& graph, Failure& failure) {
    const cudaError_t status = graph.launch(device.stream());
    return status == cudaSuccess || cuda_failed(failure, "starting a recorded run", status);
  }

  static bool enter(CudaDevice& device, Failure& failure) { return device.begin(failure); }
  static bool wait(CudaDevice& device, Failure& failure) {
    const cudaError_t status = cudaStreamSynchronize(device.stream());
    return status == cudaSuccess || cuda_failed(failure, "running the kernels", status);
  }
  static bool leave(CudaDevice& device, Failure& failure) { return device.leave(failure); }
  // The device's memory, and managed memory, where the widest loads of kernels are aligned.
  static bool in_place(const void* data) {
    cudaPointerAttributes found{};
    if (data == nullptr || reinterpret_cast<uintptr_t>(data) % 16 != 0) return false;
    if (cudaPointerGetAttributes(&found, data) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
  }
  static int64_t scratch_parts(CudaDevice&, int64_t blocks) { return blocks; }
  static bool copy(CudaDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return move(device, to, from, bytes, cudaMemcpyDeviceToDevice, failure);
  }
  // Between the caller's memory, wherever that is, and the device.
  static bool to_device(CudaDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return move(device, to, from, bytes, cudaMemcpyDefault, failure);
  }
  static bool hand_out(CudaDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return move(device, to, from, bytes, cudaMemcpyDefault, failure);
  }
  // Waits: the caller reads it next.
  static bool to_host(CudaDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return move(device, to, from, bytes, cudaMemcpyDeviceToHost, failure) && wait(device, failure);
  }
  static bool launch(CudaDevice& device, LaunchRequest& r, Failure& failure) {
    DeviceLaunch launch{device.stream(), device.libraries(), r.scratch, r.scratch_bytes, cudaSuccess};
    r.kernel(r.buffers, r.symbols, &launch, 0, r.iterations);
    return launch.status == cudaSuccess || cuda_failed(failure, "starting a kernel", launch.status);
  }

 private:
  static bool move(CudaDevice& device, void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, Failure& failure) {
    const cudaError_t status = cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, device.stream());
    return status == cudaSuccess || cuda_failed(failure, "copying", status);
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE
