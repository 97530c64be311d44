// Tensor cores read images with the channels of a point side by side: what a library would have to turn around before each
// convolution and behind it lies so from the start, for a GPU. That is where cuDNN is asked for a convolution of float16,
// bfloat16, or float32 that may be rounded to TF32:
//
//   data, residual, result      stored with the channels last, and their gradients; inputs and outputs of the model,
//                               and what host steps read, by copies
//   weights                     [features, window..., channels], prepared where they are parameters; a gradient of
//                               weights likewise, and a kernel behind it that updates them where they stay row-major
//   what stands between         pooling, element-wise work, normalisations: as what they read
//
// Generated kernels follow the layouts, and a 1x1 convolution becomes one product of all points of all images.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// May add copies to the region and to `prepare`; returns the Vars that prepare computes in addition.
std::vector<Var*> store_channels_last(RegionState& state, const LoweringContext& context);

}  // namespace metac
