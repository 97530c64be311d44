// How a kernel of a CUDA library is started. What the program's tables call a kernel is, on this target, a host function of
// the same type (KernelFunction) that starts the device's: `scratch` is a DeviceLaunch, [begin, end) are the blocks.
#pragma once
#include "recorded_starts.h"

namespace METAC_RUNTIME_NAMESPACE {

// A vendor library as a context has it open: handle, workspace, what was measured.
class LibraryState {
 public:
  virtual ~LibraryState() {}
  // Work of so many lanes (executor/lanes.h) will run side by side. False: it cannot.
  virtual bool prepare_lanes(int32_t) { return true; }
};
struct Libraries {
  Libraries() = default;
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;
  ~Libraries() {
    delete blas;
    delete dnn;
    delete workspace;
  }
  LibraryState *blas = nullptr, *dnn = nullptr;  // matrix products; convolutions
  bool no_blas = false, no_dnn = false;          // it could not be opened
  LibraryState* workspace = nullptr;
};

struct DeviceLaunch {
  cudaStream_t stream;
  Libraries* libraries;
  void* scratch;          // device memory
  int64_t scratch_bytes;  // of it for each block
  cudaError_t status;     // set by the launch
  int32_t lane;           // launches of a lane run one after the other
  RecordedStarts* starts = nullptr;  // of the recording that this run is for; null: of none
};

// Starts `blocks` blocks of `threads` threads. `arguments` are the addresses of the kernel's arguments.
template <class Kernel>
static void start(Kernel* kernel, int64_t blocks, int threads, void** arguments, void* launch) {
  constexpr int64_t most = 2147483647, most_rows = 65535;
  DeviceLaunch& l = *static_cast<DeviceLaunch*>(launch);
  const int64_t rows = (blocks + most - 1) / most;
  if (rows > most_rows) {
    l.status = cudaErrorInvalidConfiguration;
    return;
  }
  const dim3 grid(static_cast<unsigned>(rows > 1 ? most : blocks), static_cast<unsigned>(rows));
  const dim3 block(static_cast<unsigned>(threads));
  const void* const which = reinterpret_cast<const void*>(kernel);
  if (l.starts != nullptr && l.starts->take(which, grid, block, arguments, &l.status)) return;
  l.status = cudaLaunchKernel(kernel, grid, block, arguments, 0, l.stream);
  if (l.starts != nullptr && l.status == cudaSuccess) l.starts->started(l.stream);
}

// What a vendor library is asked for, unless it is known what comes of it. `ask()`: whether the library does it.
template <class What, class Operands, class Ask>
static bool answer_of(DeviceLaunch& launch, const What& what, const Operands& operands, Ask ask) {
  bool answer = false;
  if (launch.starts == nullptr) return ask();
  if (launch.starts->knows(&what, sizeof what, &operands, sizeof operands, &answer)) return answer;
  answer = ask();
  launch.starts->answered(answer);
  return answer;
}

}  // namespace METAC_RUNTIME_NAMESPACE
