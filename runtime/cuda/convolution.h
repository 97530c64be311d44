// A convolution as a vendor library computes it. The host's side of its kernel asks for it first and starts its own code
// where the answer is no: the library is not linked, does not know the case, or has no memory.
#pragma once
#include "matrix_product.h"

namespace METAC_RUNTIME_NAMESPACE {

// What is computed. A gradient reads two of data, weights and result (of each the gradient or the value, as it is), and
// writes the one of its name.
enum ConvolutionComputed : int64_t { convolution_forward, convolution_data_gradient, convolution_weights_gradient };

// Forward: result = activation( sum over channels of a group and window of data * weights + residual + bias ), all row by
// row, or all stored with their channels (of weights: those of a group) last: data [images, channels, size...], weights
// [features, channels / groups, window...], result [images, features, out...]. All numbers, so that two convolutions are the
// same where their bytes are.
struct Convolution {
  struct Axis {
    int64_t size, window, out, stride, dilation, before;  // before: zeros in front of the data
  };
  int64_t computed;
  int64_t dtype;    // ScalarType of everything: f32, f16, bf16. Sums are float.
  int64_t spatial;  // axes: 2 or 3
  int64_t images, channels, features, groups;
  Axis axes[3];
  int64_t activation;
  int64_t tf32;  // float32 operands may be rounded to 10 bits of mantissa
  int64_t channels_last;
};

struct ConvolutionOperands {
  void *data, *weights;
  const void *bias, *residual;  // null: none; a bias has an element for each feature; of a gradient there are none
  void* result;
};

// False: nothing was started.
bool convolve(const Convolution& convolution, const ConvolutionOperands& operands, void* launch);

}  // namespace METAC_RUNTIME_NAMESPACE
