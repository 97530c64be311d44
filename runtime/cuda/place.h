// A GPU as the place of a program: device memory, one stream on which everything of a context happens in order. It is the
// context's own or, run by run, the caller's: runs on different streams still happen in the order of the calls, because
// they share the context's memory.
#pragma once
#include <cuda_runtime_api.h>

#include "../executor/lanes.h"
#include "../place.h"
#include "device_memory.h"
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool cuda_failed(Failure& failure, const char* what, cudaError_t status) {
  return failure.set(status == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::internal, "CUDA: %s: %s", what,
                     cudaGetErrorString(status));
}

class CudaGraph {
 public:
  CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() { forget(); }

  bool made() const { return graph_ != nullptr; }
  // `from` is the graph's own from now on: its nodes are named by it.
  cudaError_t make(cudaGraph_t from) {
    forget();
    recorded_ = from;
    return cudaGraphInstantiate(&graph_, from, 0);
  }
  cudaGraphExec_t handle() const { return graph_; }
  cudaError_t launch(cudaStream_t stream) const { return cudaGraphLaunch(graph_, stream); }
  // What still runs of it runs to its end.
  void forget() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    if (recorded_ != nullptr) cudaGraphDestroy(recorded_);
    graph_ = nullptr;
    recorded_ = nullptr;
  }

  RecordedStarts starts;

 private:
  cudaGraphExec_t graph_ = nullptr;
  cudaGraph_t recorded_ = nullptr;
};

class CudaDevice {
 public:
  CudaDevice() = default;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() {
    if (left_ != nullptr) cudaEventSynchronize(left_);  // what a run that nobody waited for still uses
    if (left_ != nullptr) cudaEventDestroy(left_);
    if (begun_ != nullptr) cudaEventDestroy(begun_);
    for (Lane& lane : lanes_) {
      if (lane.mark != nullptr) cudaEventDestroy(lane.mark);
      if (lane.stream != nullptr && lane.stream != own_stream_) cudaStreamDestroy(lane.stream);
    }
    if (own_stream_ != nullptr) cudaStreamDestroy(own_stream_);
  }

  // Takes the calling thread's current device. False: there is none.
  bool open(Failure& failure) {
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found != cudaSuccess || count == 0) {
      cudaGetLastError();
      return failure.set(Status::unsupported, "no CUDA device: %s",
                         found == cudaSuccess ? "the driver lists none" : cudaGetErrorString(found));
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
    if (!wait_for_runs(failure)) return nullptr;
    if (!weights_.reserve(bytes)) {
      failure.set(Status::out_of_memory, "no memory on the device for %lld bytes of weights", static_cast<long long>(bytes));
      return nullptr;
    }
    const cudaError_t status = cudaMemcpy(weights_.data(), weights, static_cast<size_t>(bytes), cudaMemcpyHostToDevice);
    if (status == cudaSuccess) return weights_.data();
    cuda_failed(failure, "copying the weights", status);
    return nullptr;
  }

  // In memory of the host that the device copies from; null: failed. What runs still copies ends first.
  const void* keep_on_host(const void* weights, int64_t bytes, Failure& failure) {
    if (!wait_for_runs(failure)) return nullptr;
    if (!host_weights_.reserve(bytes)) {
      failure.set(Status::out_of_memory, "no memory of the host, page-locked, for %lld bytes of weights",
                  static_cast<long long>(bytes));
      return nullptr;
    }
    std::memcpy(host_weights_.data(), weights, static_cast<size_t>(bytes));
    return host_weights_.data();
  }

  bool wait_for_runs(Failure& failure) {
    if (!enter(failure)) return false;
    const cudaError_t status = cudaEventSynchronize(left_);
    return status == cudaSuccess || cuda_failed(failure, "waiting for a run", status);
  }

  bool enter(Failure& failure) {
    const cudaError_t status = cudaSetDevice(device_);
    return status == cudaSuccess || cuda_failed(failure, "choosing the device", status);
  }
  // A run begins on the stream chosen last, behind what an earlier one left on another.
  bool begin(Failure& failure) {
    if (!enter(failure)) return false;
    const cudaError_t status =
        left_on_ == nullptr || left_on_ == stream_ ? cudaSuccess : cudaStreamWaitEvent(stream_, left_, 0);
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
  bool begin_recording(int32_t count) {
    const bool lanes = open_lanes(count);
    asked_stream_ = stream_;
    stream_ = own_stream_;
    if (cudaStreamBeginCapture(own_stream_, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
      several_lanes_ = lanes && cudaEventRecord(begun_, own_stream_) == cudaSuccess;  // where other lanes begin
      return true;
    }
    cudaGetLastError();
    stream_ = asked_stream_;
    return false;
  }
  // While recording: what follows goes to this lane, behind what those in `waits` have so far.
  cudaError_t use_lane(int32_t lane, const bool* waits, int32_t count) {
    if (!several_lanes_) return cudaSuccess;
    Lane& to = lanes_[lane];
    cudaError_t status = cudaSuccess;
    if (!to.used) {
      if (lane > 0) status = cudaStreamWaitEvent(to.stream, begun_, 0);
      to.used = true;
    }
    for (int32_t k = 0; k < count && status == cudaSuccess; ++k) {
      if (!waits[k] || k == lane) continue;
      status = cudaEventRecord(lanes_[k].mark, lanes_[k].stream);
      if (status == cudaSuccess) status = cudaStreamWaitEvent(to.stream, lanes_[k].mark, 0);
    }
    stream_ = to.stream;
    lane_ = lane;
    return status;
  }
  bool end_recording(CudaGraph& graph) {
    cudaGraph_t recorded = nullptr;
    bool waits[LanePlan::all_lanes];
    for (int32_t k = 0; k < LanePlan::all_lanes; ++k) waits[k] = lanes_[k].used && k > 0;
    const bool joined = use_lane(0, waits, LanePlan::all_lanes) == cudaSuccess;
    for (Lane& lane : lanes_) lane.used = false;
    several_lanes_ = false;
    lane_ = 0;
    cudaError_t status = cudaStreamEndCapture(own_stream_, &recorded);
    stream_ = asked_stream_;
    if (status == cudaSuccess && !joined) status = cudaErrorInvalidValue;
    if (status == cudaSuccess && recorded != nullptr)
      status = graph.make(recorded);
    else if (recorded != nullptr)
      cudaGraphDestroy(recorded);
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess && graph.made();
  }
  int number() const { return device_; }
  Libraries* libraries() { return &libraries_; }
  InputStages& stages() { return stages_; }
  BlockCache& cache() { return cache_; }
  cudaStream_t stream() const { return stream_; }
  int32_t lane() const { return lane_; }
  RecordedStarts* starts() const { return starts_; }
  void use_starts(RecordedStarts* starts) { starts_ = starts; }

 private:
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t mark = nullptr;
    bool used = false;  // in the recording in progress
  };

  // Streams for so many branches of a graph; taken before the first recording. The first one is the context's own. False:
  // one lane must do.
  bool open_lanes(int32_t count) {
    if (libraries_.workspace != nullptr && !libraries_.workspace->prepare_lanes(LanePlan::most_lanes)) return false;
    lanes_[0].stream = own_stream_;
    bool good = begun_ != nullptr || cudaEventCreateWithFlags(&begun_, cudaEventDisableTiming) == cudaSuccess;
    for (int32_t k = 0; k < count; ++k) {
      Lane& lane = lanes_[k];
      good = good && (lane.stream != nullptr || cudaStreamCreate(&lane.stream) == cudaSuccess);
      good = good && (lane.mark != nullptr || cudaEventCreateWithFlags(&lane.mark, cudaEventDisableTiming) == cudaSuccess);
    }
    if (!good) cudaGetLastError();
    return good;
  }

  int device_ = 0;
  cudaStream_t own_stream_ = nullptr, stream_ = nullptr, asked_stream_ = nullptr;
  cudaEvent_t left_ = nullptr;      // the end of the last run that was not waited for,
  cudaStream_t left_on_ = nullptr;  // on this stream
  Lane lanes_[LanePlan::all_lanes];
  cudaEvent_t begun_ = nullptr;  // the beginning of a recording
  int32_t lane_ = 0;
  RecordedStarts* starts_ = nullptr;  // of the run in progress
  bool several_lanes_ = false;
  DeviceBlock weights_;
  PinnedBlock host_weights_;
  InputStages stages_;
  BlockCache cache_;
  Libraries libraries_;
};

template <>
struct Place<CudaDevice> {
  using Memory = DeviceBlock;
  using HostMemory = PinnedBlock;
  using Graph = CudaGraph;
  static constexpr bool separate = true, records = true, caches = true;

  static void* stream(CudaDevice& device) { return device.stream(); }
  // With so many lanes.
  static bool begin_recording(CudaDevice& device, int32_t lanes) { return device.begin_recording(lanes); }
  static bool end_recording(CudaDevice& device, CudaGraph& graph) { return device.end_recording(graph); }
  static bool use_lane(CudaDevice& device, int32_t lane, const bool* waits, int32_t count, Failure& failure) {
    const cudaError_t status = device.use_lane(lane, waits, count);
    return status == cudaSuccess || cuda_failed(failure, "ordering streams", status);
  }
  // What a run starts from now on is noted, recorded or changed for this graph, until end_starts(), which says whether it
  // was the same that was noted.
  using Starts = RecordedStarts::Does;
  static void begin_starts(CudaDevice& device, CudaGraph& graph, Starts does) {
    graph.starts.begin(does, graph.handle());
    device.use_starts(&graph.starts);
  }
  static bool end_starts(CudaDevice& device, const CudaGraph& graph) {
    device.use_starts(nullptr);
    return graph.starts.end();
  }
  static bool replay(CudaDevice& device, const CudaGraph& graph, Failure& failure) {
    const cudaError_t status = graph.launch(device.stream());
    return status == cudaSuccess || cuda_failed(failure, "starting a recorded run", status);
  }

  // Memory of a value whose size only the data know.
  static bool reserve(CudaDevice& device, Memory& block, int64_t bytes, int64_t keep) {
    return block.reserve(device.cache(), bytes, keep, device.stream());
  }
  static void give_back(CudaDevice& device, Memory& block) { block.give_back(device.cache()); }

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
    const void* const operands[] = {to, from};
    bool answer = false;
    if (device.starts() != nullptr && device.starts()->knows(&bytes, sizeof bytes, operands, sizeof operands, &answer))
      return true;
    return move(device, to, from, bytes, cudaMemcpyDeviceToDevice, failure);
  }
  // The inputs of a run: `bytes` of them are to be copied.
  static bool begin_inputs(CudaDevice& device, int64_t bytes, Failure& failure) {
    const cudaError_t status = device.stages().begin(bytes);
    return status == cudaSuccess || cuda_failed(failure, "waiting for earlier inputs", status);
  }
  static bool take_input(CudaDevice& device, void* to, const void* from, int64_t bytes, Failure& failure) {
    return to_device(device, to, device.stages().staged(from, bytes), bytes, failure);
  }
  static bool end_inputs(CudaDevice& device, Failure& failure) {
    const cudaError_t status = device.stages().end(device.stream());
    return status == cudaSuccess || cuda_failed(failure, "marking the inputs", status);
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
    DeviceLaunch launch{device.stream(), device.libraries(), r.scratch,      r.scratch_bytes,
                        cudaSuccess,     device.lane(),      device.starts()};
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
