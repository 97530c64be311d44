// What kernels for GPUs are made for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace metac {

// GPU architectures, as compute capabilities times ten: machine code for each, and PTX of the last for later ones.
struct CudaTarget {
  std::vector<int> architectures = {80, 90};
};

// Vendor libraries that a GPU library may call where they know the case.
struct ExternalLibraries {
  bool cublas = false;  // cuBLASLt: matrix products
  bool cudnn = false;   // cuDNN: convolutions
  bool tf32 = false;    // in which float32 operands may be rounded to 10 bits of mantissa
};

}  // namespace metac
