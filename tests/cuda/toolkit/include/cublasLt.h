// A stand-in for cuBLASLt: what runtime/cuda/cublas.h calls, by plain loops, put onto the stream. METAC_SHIM_BLAS=none:
// there is no algorithm for anything; =simple: none for what has a second result or belongs to a gradient; =refuse:
// algorithms are proposed and refuse to run. METAC_SHIM_CALLS=FILE: a line for each product.
#pragma once
#include <chrono>
#include <cmath>
#include <string>

#include "cuda_runtime.h"
#include "device_numbers.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_GELU_AUX = 160,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13
};
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};

namespace shim {
struct BlasOperation {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;  // the bias is an operand or, as the gradient of one, a result; so is aux
  int64_t aux_leading = 0, aux_batch = 0;
  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_aux() const { return (epilogue & 128) != 0; }
  bool has_bias_gradient() const { return (epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0; }
};
struct BlasLayout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t stride = 0;
  int64_t at(int64_t matrix, uint64_t row, uint64_t column) const {
    return matrix * stride + static_cast<int64_t>(row) + static_cast<int64_t>(column) * leading;
  }
};
struct BlasPreference {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
};
// Is all there that the epilogue wants, and nothing else, as the library's header asks for it?
inline bool is_complete(const BlasOperation& op, const BlasLayout& result) {
  const bool aux = op.aux != nullptr && op.aux_leading % 8 == 0 && op.aux_leading >= static_cast<int64_t>(result.rows) &&
                   op.aux_batch % 8 == 0 && (result.batch == 1 || op.aux_batch > 0);
  return (op.bias != nullptr) == (op.has_bias() || op.has_bias_gradient()) &&
         (op.has_aux() ? aux : op.aux == nullptr && op.aux_leading == 0 && op.aux_batch == 0) &&
         (!op.has_bias_gradient() || result.batch == 1);
}
inline float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }
inline float gelu_derivative(float x) {
  const float t = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}
inline bool blas_says(const char* word) {
  const char* text = std::getenv("METAC_SHIM_BLAS");
  return text != nullptr && std::strcmp(text, word) == 0;
}
}  // namespace shim

typedef struct shim_blas* cublasLtHandle_t;
typedef shim::BlasOperation* cublasLtMatmulDesc_t;
typedef shim::BlasLayout* cublasLtMatrixLayout_t;
typedef shim::BlasPreference* cublasLtMatmulPreference_t;
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

inline size_t cublasLtGetVersion() { return shim::library_version(); }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (shim::fails()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(1);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  if (shim::fails() || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = new shim::BlasOperation{compute};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                                     const void* value, size_t size) {
  auto take = [&](auto& field) {
    return sizeof field == size ? (std::memcpy(&field, value, size), CUBLAS_STATUS_SUCCESS) : CUBLAS_STATUS_INVALID_VALUE;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(d->a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(d->b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(d->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(d->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(d->aux_leading);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return take(d->aux_batch);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows,
                                                 uint64_t columns, int64_t leading) {
  if (shim::fails() || leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = new shim::BlasLayout{type, rows, columns, leading};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                       size_t size) {
  if (size != (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? 4u : 8u)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    std::memcpy(&layout->batch, value, size);
  else
    std::memcpy(&layout->stride, value, size);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new shim::BlasPreference;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                           cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                           size_t size) {
  if (size != (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8u : 4u)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    std::memcpy(&p->workspace, value, size);
  else
    std::memcpy(&p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
  return CUBLAS_STATUS_SUCCESS;
}
// Three of them: the second refuses to run, the third wants all of the workspace.
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t result, cublasLtMatmulPreference_t preference,
                                                     int wanted, cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (shim::fails() || shim::blas_says("none") ||
      (shim::blas_says("simple") && (operation->has_aux() || operation->has_bias_gradient())))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!shim::is_complete(*operation, *result))
    shim::stop("the epilogue of a matrix product is not described as the library asks for it", __FILE__, __LINE__);
  for (uint64_t k = 0; k < 3 && *count < wanted; ++k)
    found[(*count)++] = {{{k, preference->alignment[0], k == 2 ? preference->workspace : 0}},
                         k == 2 ? preference->workspace : 0,
                         CUBLAS_STATUS_SUCCESS,
                         1,
                         {}};
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                                     cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                                     const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                                     cudaStream_t stream) {
  if (shim::fails() || shim::blas_says("refuse") || algorithm->data[0] == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const void* p : {a, b, c, static_cast<const void*>(d)})
    if (reinterpret_cast<uintptr_t>(p) % algorithm->data[1] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const shim::BlasOperation op = *operation;
  const shim::BlasLayout A = *la, B = *lb, C = *lc, D = *ld;
  const float scale = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  const uint64_t m = op.a == CUBLAS_OP_N ? A.rows : A.columns, k = op.a == CUBLAS_OP_N ? A.columns : A.rows,
                 n = op.b == CUBLAS_OP_N ? B.columns : B.rows;
  if ((op.b == CUBLAS_OP_N ? B.rows : B.columns) != k || C.rows != m || C.columns != n || D.rows != m || D.columns != n ||
      A.batch != D.batch || B.batch != D.batch || C.batch != D.batch || workspace_bytes < algorithm->data[2] ||
      A.type != D.type || B.type != D.type || C.type != D.type || !shim::is_complete(op, D))
    return CUBLAS_STATUS_INVALID_VALUE;
  shim::note_call("product " + std::to_string(D.batch) + " x " + std::to_string(n) + " x " + std::to_string(m) + " x " +
                  std::to_string(k) + " epilogue " + std::to_string(op.epilogue) + (kept != 0 ? " residual" : "") +
                  (op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? " tf32" : "") + " type " + std::to_string(A.type) +
                  " alignment " + std::to_string(algorithm->data[1]));
  const size_t used = algorithm->data[2];
  shim::put(stream, [=] {
    shim::Access access;
    if (used > 0) std::memset(workspace, 0x5a, std::min<size_t>(used, 4096));
    const bool rounded = op.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<float> left(m * k), right(k * n);
    for (int64_t matrix = 0; matrix < D.batch; ++matrix) {
      for (uint64_t row = 0; row < m; ++row)
        for (uint64_t step = 0; step < k; ++step)
          left[row * k + step] =
              shim::number(A.type, a, op.a == CUBLAS_OP_N ? A.at(matrix, row, step) : A.at(matrix, step, row), rounded);
      for (uint64_t step = 0; step < k; ++step)
        for (uint64_t column = 0; column < n; ++column)
          right[column * k + step] = shim::number(
              B.type, b, op.b == CUBLAS_OP_N ? B.at(matrix, step, column) : B.at(matrix, column, step), rounded);
      for (uint64_t column = 0; column < n; ++column)
        for (uint64_t row = 0; row < m; ++row) {
          float sum = 0;
          const float *x = left.data() + row * k, *y = right.data() + column * k;  // fast where nothing is optimised, too
          for (const float* const end = x + k; x != end; ++x, ++y) sum += *x * *y;
          sum *= scale;
          if (kept != 0) sum += kept * shim::number(C.type, c, C.at(matrix, row, column), false);
          if (op.has_bias()) sum += shim::number(D.type, op.bias, static_cast<int64_t>(row), false);
          if (op.epilogue & CUBLASLT_EPILOGUE_RELU) sum = sum > 0 || sum != sum ? sum : 0;
          const int64_t aux =
              matrix * op.aux_batch + static_cast<int64_t>(column) * op.aux_leading + static_cast<int64_t>(row);
          if (op.epilogue == CUBLASLT_EPILOGUE_DGELU)
            sum *= shim::gelu_derivative(shim::number(D.type, op.aux, aux, false));
          else if (op.has_aux())
            shim::set_number(D.type, op.aux, aux, sum);
          if (op.epilogue & CUBLASLT_EPILOGUE_GELU) sum = shim::gelu(sum);
          shim::set_number(D.type, d, D.at(matrix, row, column), sum);
        }
      if (!op.has_bias_gradient()) continue;
      const bool of_left = op.epilogue == CUBLASLT_EPILOGUE_BGRADA;
      const std::vector<float>& from = of_left ? left : right;
      for (uint64_t kept = 0; kept < (of_left ? m : n); ++kept) {
        float sum = 0;
        for (uint64_t step = 0; step < k; ++step) sum += from[kept * k + step];
        shim::set_number(D.type, op.bias, static_cast<int64_t>(kept), sum);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
