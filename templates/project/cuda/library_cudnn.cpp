// @name@: convolutions by cuDNN, which kernels ask first. Without it (or with METAC_NO_CUDNN) kernels do everything themselves.
#define METAC_RUNTIME_NAMESPACE @namespace@
#if !defined(METAC_NO_CUDNN) && __has_include(<cudnn.h>)
#include "runtime/cuda/cudnn_convolution.h"
#else
#include "runtime/cuda/convolution.h"
namespace METAC_RUNTIME_NAMESPACE {
bool convolve(const Convolution&, const ConvolutionOperands&, void*) { return false; }
}  // namespace METAC_RUNTIME_NAMESPACE
#endif
