// @name@: matrix products by cuBLASLt, which kernels ask first. Where the toolkit has none, kernels do everything themselves.
#define METAC_RUNTIME_NAMESPACE @namespace@
#if __has_include(<cublasLt.h>)
#include "runtime/cuda/cublas.h"
#else
#include "runtime/cuda/matrix_product.h"
namespace METAC_RUNTIME_NAMESPACE {
bool multiply(const MatrixProduct&, const MatrixOperands&, void*) { return false; }
}  // namespace METAC_RUNTIME_NAMESPACE
#endif
