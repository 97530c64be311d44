// The vendor's libraries for a GPU.
#pragma once
#include <string>
#include <vector>

namespace metac {

// Those that a GPU library may call where they know the case.
struct ExternalLibraries {
  bool cublas = false;  // cuBLASLt: matrix products
  bool cudnn = false;   // cuDNN: convolutions
  bool tf32 = false;    // in which float32 operands may be rounded to 10 bits of mantissa

  // As kernels name those that they call.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    if (cublas) all.push_back("cublasLt");
    if (cudnn) all.push_back("cudnn");
    return all;
  }
};

}  // namespace metac
