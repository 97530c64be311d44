// Memory that a context's vendor libraries work in, one call of a lane after the other.
#pragma once
#include <new>

#include "../executor_lanes.h"
#include "place.h"

namespace METAC_RUNTIME_NAMESPACE {

class LibraryWorkspace : public LibraryState {
 public:
  static constexpr int64_t bytes = int64_t{32} << 20;

  // Null: there is no memory. Taken at the first call, for lanes beyond the first before a run is recorded.
  static void* of(const DeviceLaunch& launch) {
    Libraries& libraries = *launch.libraries;
    if (libraries.workspace == nullptr) {
      LibraryWorkspace* const fresh = new (std::nothrow) LibraryWorkspace;
      if (fresh == nullptr) return nullptr;
      libraries.workspace = fresh;
      if (!fresh->blocks_[0].reserve(bytes)) return nullptr;
    }
    return static_cast<LibraryWorkspace*>(libraries.workspace)->blocks_[launch.lane].data();
  }

  bool prepare_lanes(int32_t lanes) override {
    for (int32_t k = 0; k < lanes; ++k)
      if (!blocks_[k].reserve(bytes)) return false;
    return true;
  }

 private:
  DeviceBlock blocks_[LanePlan::most_lanes];
};

// How long work takes that is put onto a stream, in milliseconds; negative: it failed. Nothing is measured while a graph is
// recorded.
class StreamTimer {
 public:
  explicit StreamTimer(cudaStream_t stream) : stream_(stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
    usable_ = cudaStreamIsCapturing(stream, &capture) == cudaSuccess && capture == cudaStreamCaptureStatusNone &&
              cudaEventCreateWithFlags(&begin_, cudaEventDefault) == cudaSuccess && cudaEventCreateWithFlags(&end_, cudaEventDefault) == cudaSuccess;
  }
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  ~StreamTimer() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    cudaGetLastError();
  }

  bool usable() const { return usable_; }
  // Once to warm up, then three times. run: bool(), puts it onto the stream.
  template <typename Run>
  float time_of(const Run& run) {
    float time = 0;
    bool good = run() && cudaEventRecord(begin_, stream_) == cudaSuccess;
    for (int k = 0; k < 3; ++k) good = good && run();
    good = good && cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess && cudaEventElapsedTime(&time, begin_, end_) == cudaSuccess;
    return good ? time : -1;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  bool usable_ = false;
};

// The state of a library that is opened at its first call; null: it could not be.
template <typename Library>
Library* opened(LibraryState*& state, bool& refused) {
  if (state == nullptr && !refused) {
    Library* const fresh = new (std::nothrow) Library;
    if (fresh != nullptr && fresh->open()) {
      state = fresh;
    } else {
      delete fresh;
      refused = true;
    }
  }
  return static_cast<Library*>(state);
}

}  // namespace METAC_RUNTIME_NAMESPACE
