// What kernels for GPUs know of the machine: rules of CUDA and of its instructions, the same for every architecture that
// kernels are made for (sm_80 and later; CUDA C++ Programming Guide, PTX ISA). Nothing here is measured or tuned; what is a
// choice stands in gpu_costs.h.
#pragma once
#include <cstdint>

namespace metac {

// A product on tensor cores (mma.sync m16n8) as its warp holds it: part of the result is so many rows by columns, and a
// thread has neighbours of a row, in two rows that lie apart. runtime/cuda/tensor_multiply.h has the instructions.
struct TensorFragment {
  int64_t rows = 16, columns = 8;
  int64_t rows_of_thread = 2, rows_apart = 8;
  int64_t neighbours = 2, threads_of_row = 4;  // times each other: the columns
  int64_t step_words = 8;                      // of 4 bytes of the sum, of one instruction
  int64_t elements_of_thread = 4;              // of the result
};

struct GpuMachine {
  int64_t warp = 32;                 // threads that go in step
  int64_t access_bytes = 16;         // most that a thread reads, writes or copies at once
  int64_t copy_bytes_least = 4;      // of a copy into shared memory beside other work (cp.async)
  int64_t word_bytes = 4;            // of a bank of shared memory
  int64_t shared_bytes = 48 << 10;   // of a block that has not asked for more
  int64_t argument_bytes = 4 << 10;  // of a started kernel
  TensorFragment fragment;
};

inline constexpr GpuMachine gpu_machine{};

}  // namespace metac
