// A convolution as a vendor library computes it. The host's side of its kernel asks for it first and starts its own code
// where the answer is no: the library is not linked, does not know the case, or has no memory.
#pragma once
#include "matrix_product.h"

namespace METAC_RUNTIME_NAMESPACE {

// result = activation( sum over channels of a group and window of data * weights + residual + biases ), all row by row:
// data [images, channels, size...], weights [features, channels / groups, window...], result [images, features, out...].
// All numbers, so that two convolutions are the same where their bytes are.
struct Convolution {
  struct Axis {
    int64_t size, window, out, stride, dilation, before;  // before: zeros in front of the data
  };
  int64_t dtype;                           // ScalarType of everything: f32, f16, bf16. Sums are float.
  int64_t spatial;                         // axes: 2 or 3
  int64_t images, channels, features, groups;
  Axis axes[3];
  int64_t activation;
  double most;                             // of clipped_activation: the upper bound
  int64_t tf32;                            // float32 operands may be rounded to 10 bits of mantissa
};

struct ConvolutionOperands {
  const void *data, *weights, *bias[2], *residual;  // null: none; a bias has an element for each feature
  void* result;
};

// False: nothing was started.
bool convolve(const Convolution& convolution, const ConvolutionOperands& operands, void* launch);

}  // namespace METAC_RUNTIME_NAMESPACE
