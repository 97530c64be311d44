// What the steps of a recorded run start, in their order. A later run of the same steps at other sizes goes through them
// again: each kernel says what it is started with now and the node that was recorded for it is changed, so that the host asks
// no library anything and the card gets one graph. What is no kernel of ours (a vendor library's call, a copy) must be what
// it was: whether it is, is asked before.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

class RecordedStarts {
 public:
  RecordedStarts() = default;
  RecordedStarts(const RecordedStarts&) = delete;
  RecordedStarts& operator=(const RecordedStarts&) = delete;
  ~RecordedStarts() {
    std::free(starts_);
    std::free(bytes_);
  }

  // notes: an ordinary run, whose starts are written down. records: the same while a graph is recorded, whose nodes are
  // found. changes: nothing is started, nodes of `graph` are changed.
  enum class Does { notes, records, changes };
  void begin(Does does, cudaGraphExec_t graph = nullptr) {
    does_ = does;
    graph_ = graph;
    at_ = 0;
    if (does == Does::notes) count_ = used_bytes_ = 0;
    as_noted_ = true;
  }
  // Whether the same was started as when it was noted, all of it.
  bool end() const { return as_noted_ && at_ == count_; }

  // Before a kernel is started. True: it is not to be, `status` is what came of it.
  bool take(const void* kernel, dim3 grid, dim3 block, void** arguments, cudaError_t* status) {
    *status = cudaSuccess;
    if (does_ == Does::notes) return append(kernel, nullptr, 0, nullptr, 0), false;
    if (!is_next(kernel, nullptr, 0, nullptr, 0)) return true;
    if (does_ == Does::records) return false;
    cudaKernelNodeParams now{};
    now.func = const_cast<void*>(kernel);
    now.gridDim = grid;
    now.blockDim = block;
    now.kernelParams = arguments;
    *status = cudaGraphExecKernelNodeSetParams(graph_, starts_[at_ - 1].node, &now);
    return true;
  }
  // Behind it.
  void started(cudaStream_t stream) {
    if (does_ == Does::records) as_noted_ = find_node(stream, &starts_[at_ - 1].node) && as_noted_;
  }

  // Before something else, which is the same where these bytes are. True: it is not to be done, `answer` is what it
  // answered.
  bool knows(const void* what, size_t bytes, const void* operands, size_t operand_bytes, bool* answer) {
    *answer = true;
    if (does_ == Does::notes) return append(nullptr, what, bytes, operands, operand_bytes), false;
    if (!is_next(nullptr, what, bytes, operands, operand_bytes)) return true;
    *answer = starts_[at_ - 1].answer;
    return does_ == Does::changes;
  }
  void answered(bool answer) {
    if (!as_noted_) return;
    if (does_ == Does::notes) starts_[at_ - 1].answer = answer;
    if (does_ == Does::records) as_noted_ = starts_[at_ - 1].answer == answer;
  }

 private:
  struct Start {
    const void* kernel;  // null: something else, of these bytes
    cudaGraphNode_t node;
    size_t first, bytes;
    bool answer;
  };

  void append(const void* kernel, const void* what, size_t bytes, const void* operands, size_t operand_bytes) {
    as_noted_ = as_noted_ && room(&starts_, &room_, count_ + 1) && room(&bytes_, &room_bytes_, used_bytes_ + bytes + operand_bytes);
    if (!as_noted_) return;
    starts_[count_++] = {kernel, nullptr, used_bytes_, bytes + operand_bytes, true};
    at_ = count_;
    if (bytes > 0) std::memcpy(bytes_ + used_bytes_, what, bytes);
    if (operand_bytes > 0) std::memcpy(bytes_ + used_bytes_ + bytes, operands, operand_bytes);
    used_bytes_ += bytes + operand_bytes;
  }
  bool is_next(const void* kernel, const void* what, size_t bytes, const void* operands, size_t operand_bytes) {
    if (!as_noted_ || at_ >= count_) return as_noted_ = false;
    const Start& s = starts_[at_++];
    as_noted_ = s.kernel == kernel && s.bytes == bytes + operand_bytes &&
                (bytes == 0 || std::memcmp(bytes_ + s.first, what, bytes) == 0) &&
                (operand_bytes == 0 || std::memcmp(bytes_ + s.first + bytes, operands, operand_bytes) == 0);
    return as_noted_;
  }
  // False: no memory.
  template <class T>
  static bool room(T** data, size_t* room, size_t wanted) {
    if (wanted <= *room) return true;
    T* const fresh = static_cast<T*>(std::realloc(static_cast<void*>(*data), 2 * wanted * sizeof(T)));
    if (fresh == nullptr) return false;
    *data = fresh;
    *room = 2 * wanted;
    return true;
  }

  // What was recorded last on this stream.
  static bool find_node(cudaStream_t stream, cudaGraphNode_t* node) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* last = nullptr;
    size_t count = 0;
#if CUDART_VERSION >= 13000
    const cudaError_t found = cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count);
#else
    const cudaError_t found = cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &last, &count);
#endif
    if (found != cudaSuccess || status != cudaStreamCaptureStatusActive || count != 1) return false;
    *node = last[0];
    return true;
  }

  Start* starts_ = nullptr;
  char* bytes_ = nullptr;
  size_t count_ = 0, room_ = 0, used_bytes_ = 0, room_bytes_ = 0, at_ = 0;
  Does does_ = Does::notes;
  bool as_noted_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace METAC_RUNTIME_NAMESPACE
