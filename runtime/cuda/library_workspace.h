// Memory that the algorithms of a context's vendor libraries work in: as much as the chosen ones want, one call of a lane
// after the other. What is tried while measuring has memory of its own, given back behind it.
#pragma once
#include <new>

#include "../executor/lanes.h"
#include "place.h"

namespace METAC_RUNTIME_NAMESPACE {

class LibraryWorkspace : public LibraryState {
 public:
  static constexpr int64_t usual_bytes = int64_t{32} << 20;  // what products may want
  static constexpr int64_t most_bytes = int64_t{1} << 30;    // no algorithm that wants more is taken

  // So many bytes for a call within this launch; null: it wants none. False: there is no memory.
  static bool give(const DeviceLaunch& launch, int64_t bytes, void** place) {
    *place = nullptr;
    if (bytes == 0) return true;
    Libraries& libraries = *launch.libraries;
    if (libraries.workspace == nullptr) libraries.workspace = new (std::nothrow) LibraryWorkspace;
    LibraryWorkspace* const all = static_cast<LibraryWorkspace*>(libraries.workspace);
    if (all == nullptr || bytes > most_bytes) return false;
    Lane& lane = all->lanes_[launch.lane];
    if (lane.bytes() < bytes && (is_recording(launch.stream) || !all->grow(lane, bytes))) return false;
    *place = lane.blocks[lane.now].data();
    return true;
  }

  static bool is_recording(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
    return cudaStreamIsCapturing(stream, &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone;
  }

  // Every lane will have what the first one, on which runs go step by step, has come to want.
  bool prepare_lanes(int32_t lanes) override {
    for (int32_t k = 1; k < lanes; ++k)
      if (!grow(lanes_[k], lanes_[0].bytes())) return false;
    recorded_ = true;
    return true;
  }

 private:
  static constexpr int64_t least_bytes = int64_t{2} << 20;  // the driver's pages
  static constexpr int sizes = 10;                          // each twice the one before
  static_assert(least_bytes << (sizes - 1) == most_bytes);
  struct Lane {
    DeviceBlock blocks[sizes];
    int now = -1;
    int64_t bytes() const { return now < 0 ? 0 : least_bytes << now; }
  };

  // What has been recorded goes on using the block that it was given.
  bool grow(Lane& lane, int64_t bytes) {
    int size = lane.now;
    while (bytes > 0 && (size < 0 || least_bytes << size < bytes)) ++size;
    if (size == lane.now) return true;
    if (!lane.blocks[size].reserve(least_bytes << size)) return false;
    if (lane.now >= 0 && !recorded_) lane.blocks[lane.now].release();
    lane.now = size;
    return true;
  }

  Lane lanes_[LanePlan::most_lanes];
  bool recorded_ = false;
};

// How long work takes that is put onto a stream, in milliseconds; negative: it failed. Nothing is measured while a graph is
// recorded.
class StreamTimer {
 public:
  explicit StreamTimer(cudaStream_t stream) : stream_(stream) {
    usable_ = !LibraryWorkspace::is_recording(stream) &&
              cudaEventCreateWithFlags(&begin_, cudaEventDefault) == cudaSuccess &&
              cudaEventCreateWithFlags(&end_, cudaEventDefault) == cudaSuccess;
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
    good = good && cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
           cudaEventElapsedTime(&time, begin_, end_) == cudaSuccess;
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
