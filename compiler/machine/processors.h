// What kernels are made for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace metac {

// The CPU that kernels are made for.
struct CpuTarget {
  std::string name = "x86-64-v4";  // x86-64, x86-64-v3 (AVX2+FMA), x86-64-v4 (AVX-512), native is resolved by the driver
  int vector_bytes = 64;           // 16 (baseline), 32, 64
  bool has_fma = true, has_vnni = false;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20, l3_bytes = 16 << 20;
};

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
