// The libraries of a GPU's vendor.
#pragma once

namespace metac {

// What kernels ask them for first, where they know the case.
struct ExternalLibraries {
  bool products = false;      // matrix products: cuBLASLt
  bool convolutions = false;  // cuDNN
  bool tf32 = false;          // float32 operands may be rounded to 10 bits of mantissa

  bool any() const { return products || convolutions; }
};

}  // namespace metac
