// Matrix products by cuBLASLt. A context opens the library at its first product and keeps, for every product that it meets,
// how it is computed: of the algorithms that cuBLASLt proposes the one that was fastest when each ran a few times, on this
// GPU, at the first run or in an earlier process (algorithm_file.h). A run that follows allocates nothing and measures
// nothing.
#pragma once
#include <cublasLt.h>

#include <cstring>
#include <new>

#include "algorithm_file.h"
#include "library_workspace.h"
#include "matrix_product.h"

namespace METAC_RUNTIME_NAMESPACE {

class CublasLt : public LibraryState {
 public:
  static constexpr int most_candidates = 8;

  ~CublasLt() override {
    while (plans_ != nullptr) {
      Plan* const next = plans_->next;
      delete plans_;
      plans_ = next;
    }
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }

  bool open() { return cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS; }

  bool multiply(const MatrixProduct& product, const MatrixOperands& o, DeviceLaunch& launch) {
    const int64_t alignment = alignment_of(o);
    Plan* plan = plans_;
    while (plan != nullptr && (plan->alignment != alignment || plan->has_bias != (o.bias != nullptr) ||
                               std::memcmp(&plan->product, &product, sizeof product) != 0))
      plan = plan->next;
    if (plan == nullptr) {
      plan = new (std::nothrow) Plan;
      if (plan == nullptr) return false;
      plan->product = product;
      plan->alignment = alignment;
      plan->has_bias = o.bias != nullptr;
      plan->next = plans_;
      plans_ = plan;
      plan->usable = describe(*plan) && choose(*plan, o, launch.stream, true);
    }
    if (!plan->usable) return false;
    void* workspace = nullptr;
    if (!LibraryWorkspace::give(launch, plan->workspace_bytes, &workspace)) return false;
    bool done = run(*plan, o, plan->algorithm, workspace, plan->workspace_bytes, launch.stream);
    if (!done && plan->remembered)
      done = choose(*plan, o, launch.stream, false) && LibraryWorkspace::give(launch, plan->workspace_bytes, &workspace) &&
             run(*plan, o, plan->algorithm, workspace, plan->workspace_bytes, launch.stream);
    plan->remembered = false;
    return plan->usable = done;
  }

 private:
  struct Plan {
    MatrixProduct product;
    int64_t alignment = 0;
    bool has_bias = false, usable = false;
    bool remembered = false;  // the algorithm is another process's choice and has not run yet
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm;
    int64_t workspace_bytes = 0;
    Plan* next = nullptr;

    ~Plan() {
      if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
      for (cublasLtMatrixLayout_t layout : {a, b, c, d})
        if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  };

  // The power of two, 256 at most, that all addresses are a multiple of: algorithms ask for one.
  static int64_t alignment_of(const MatrixOperands& o) {
    uintptr_t bits = 256;
    for (const void* p : {o.a, o.b, o.bias, o.residual, static_cast<const void*>(o.result), static_cast<const void*>(o.aux),
                          static_cast<const void*>(o.sums)})
      bits |= reinterpret_cast<uintptr_t>(p);
    return static_cast<int64_t>(bits & (~bits + 1));
  }

  static cudaDataType_t type_of(const MatrixProduct& p) {
    return p.dtype == static_cast<int64_t>(ScalarType::f32)   ? CUDA_R_32F
           : p.dtype == static_cast<int64_t>(ScalarType::f16) ? CUDA_R_16F
                                                              : CUDA_R_16BF;
  }

  // cuBLASLt counts by columns: it computes the transposed result, so b is its first matrix and rows are its columns.
  static bool make_layout(const MatrixProduct& p, const MatrixProduct::Matrix& m, int64_t rows, int64_t columns,
                          cublasLtMatrixLayout_t* layout) {
    const int64_t inner = m.by_column != 0 ? rows : columns, outer = m.by_column != 0 ? columns : rows;
    if (m.leading < inner || inner < 1 || outer < 1) return false;
    const int32_t count = static_cast<int32_t>(p.batch);
    return cublasLtMatrixLayoutCreate(layout, type_of(p), static_cast<uint64_t>(inner), static_cast<uint64_t>(outer),
                                      m.leading) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch,
                                            sizeof m.batch) == CUBLAS_STATUS_SUCCESS;
  }

  // CUBLASLT_EPILOGUE_GELU is the tanh approximation. b is the library's first matrix, A.
  static cublasLtEpilogue_t epilogue_of(const MatrixProduct& p, bool bias) {
    if (p.bias_gradient != no_bias_gradient)
      return p.bias_gradient == bias_gradient_of_columns ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB;
    if (p.activation == gelu_tanh_gradient) return CUBLASLT_EPILOGUE_DGELU;
    if (p.activation == relu_activation) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (p.activation == gelu_tanh_activation && has_aux(p))
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (p.activation == gelu_tanh_activation) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
  static bool has_aux(const MatrixProduct& p) { return p.aux.leading > 0; }

  template <class Value>
  static bool set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return cublasLtMatmulDescSetAttribute(plan.operation, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  }

  // The documentation asks for distances of 8 elements.
  static bool describe_aux(Plan& plan) {
    const MatrixProduct::Matrix& aux = plan.product.aux;
    if (!has_aux(plan.product)) return true;
    if (aux.by_column != 0 || aux.leading < plan.product.columns || aux.leading % 8 != 0 || aux.batch % 8 != 0) return false;
    return set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.leading) &&
           set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux.batch);
  }

  static bool describe(Plan& plan) {
    const MatrixProduct& p = plan.product;
    if (p.batch < 1 || p.batch > INT32_MAX || p.result.by_column != 0 || p.residual.by_column != 0) return false;
    const bool f32 = type_of(p) == CUDA_R_32F;
    if (cublasLtMatmulDescCreate(&plan.operation, f32 && p.tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F) != CUBLAS_STATUS_SUCCESS)
      return false;
    const cublasOperation_t first = p.b.by_column != 0 ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = p.a.by_column != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    return set(plan, CUBLASLT_MATMUL_DESC_TRANSA, first) && set(plan, CUBLASLT_MATMUL_DESC_TRANSB, second) &&
           set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p, plan.has_bias)) && describe_aux(plan) &&
           make_layout(p, p.b, p.steps, p.columns, &plan.a) && make_layout(p, p.a, p.rows, p.steps, &plan.b) &&
           make_layout(p, p.residual.leading > 0 ? p.residual : p.result, p.rows, p.columns, &plan.c) &&
           make_layout(p, p.result, p.rows, p.columns, &plan.d);
  }

  // One attribute is the bias and the gradient of one.
  static bool set_pointers(Plan& plan, const MatrixOperands& o) {
    const void* const bias = o.bias != nullptr ? o.bias : o.sums;
    return (bias == nullptr || set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)) &&
           (o.aux == nullptr || set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o.aux));
  }

  static CallText call_of(const Plan& plan) {
    const MatrixProduct& p = plan.product;
    CallText call;
    call.add("product", {p.dtype, p.batch, p.rows, p.columns, p.steps});
    call.add("a", {p.a.batch, p.a.leading, p.a.by_column}).add("b", {p.b.batch, p.b.leading, p.b.by_column});
    call.add("result", {p.result.batch, p.result.leading, p.result.by_column})
        .add("residual", {p.residual.batch, p.residual.leading, p.residual.by_column})
        .add("aux", {p.aux.batch, p.aux.leading, p.aux.by_column});
    call.add("scale", p.scale)
        .add("activation", {p.activation})
        .add("bias_gradient", {p.bias_gradient})
        .add("tf32", {p.tf32})
        .add("bias", {plan.has_bias});
    return call.add("alignment", {plan.alignment}).add("workspace", {LibraryWorkspace::usual_bytes});
  }
  // Its bytes, which NVIDIA's documentation says can be kept for the same version of the library.
  static Algorithm algorithm_of(const cublasLtMatmulAlgo_t& algo) {
    Algorithm algorithm{};
    static_assert(sizeof algo <= sizeof algorithm);
    std::memcpy(&algorithm, &algo, sizeof algo);
    return algorithm;
  }

  // What cuBLASLt proposes, the best guess first; the fastest of it where it can be tried. recall: what was the fastest
  // before will do.
  bool choose(Plan& plan, const MatrixOperands& o, cudaStream_t stream, bool recall) {
    cublasLtMatmulPreference_t preference = nullptr;
    plan.remembered = false;
    if (!set_pointers(plan, o) || cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    const uint64_t bytes = LibraryWorkspace::usual_bytes;
    const uint32_t alignment = static_cast<uint32_t>(plan.alignment);
    bool good = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                     sizeof bytes) == CUBLAS_STATUS_SUCCESS;
    for (cublasLtMatmulPreferenceAttributes_t attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      good = good && cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment) ==
                         CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulHeuristicResult_t candidates[most_candidates];
    int count = 0;
    good = good && cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.a, plan.b, plan.c, plan.d, preference,
                                                  most_candidates, candidates, &count) == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulPreferenceDestroy(preference);
    if (!good || count < 1) return false;
    const auto take = [&](int k) {
      plan.algorithm = candidates[k].algo;
      plan.workspace_bytes = static_cast<int64_t>(candidates[k].workspaceSize);
    };
    take(0);
    if (count == 1) return true;
    const CallText call = call_of(plan);
    Algorithm found;
    recall = recall && file_.find(call, &found);
    for (int k = 0; k < count && recall && !plan.remembered; ++k) {
      if (candidates[k].state != CUBLAS_STATUS_SUCCESS || !(algorithm_of(candidates[k].algo) == found)) continue;
      take(k);
      plan.remembered = true;
    }
    // A product that adds to what stands in the result's memory can run once only.
    StreamTimer timer(stream);
    if (plan.remembered || o.residual == o.result || !timer.usable()) return true;
    float best = -1;
    DeviceBlock trial;
    for (int k = 0; k < count; ++k) {
      const int64_t wanted = static_cast<int64_t>(candidates[k].workspaceSize);
      if (candidates[k].state != CUBLAS_STATUS_SUCCESS || (wanted > 0 && !trial.reserve(wanted))) continue;
      const float time = timer.time_of([&] { return run(plan, o, candidates[k].algo, trial.data(), wanted, stream); });
      if (time < 0 || (best >= 0 && time >= best)) continue;
      best = time;
      take(k);
    }
    if (best >= 0) file_.keep(call, algorithm_of(plan.algorithm));
    return true;
  }

  bool run(Plan& plan, const MatrixOperands& o, const cublasLtMatmulAlgo_t& algorithm, void* workspace, int64_t bytes,
           cudaStream_t stream) {
    const float scale = static_cast<float>(plan.product.scale), kept = o.residual != nullptr ? 1.0f : 0.0f;
    return set_pointers(plan, o) &&
           cublasLtMatmul(handle_, plan.operation, &scale, o.b, plan.a, o.a, plan.b, &kept,
                          o.residual != nullptr ? o.residual : o.result, plan.c, o.result, plan.d, &algorithm, workspace,
                          static_cast<size_t>(bytes), stream) == CUBLAS_STATUS_SUCCESS;
  }

  cublasLtHandle_t handle_ = nullptr;
  AlgorithmFile file_{"cublasLt", cublasLtGetVersion()};
  Plan* plans_ = nullptr;
};

bool multiply(const MatrixProduct& product, const MatrixOperands& operands, void* launch) {
  DeviceLaunch& l = *static_cast<DeviceLaunch*>(launch);
  return answer_of(l, product, operands, [&] {
    CublasLt* const library = opened<CublasLt>(l.libraries->blas, l.libraries->no_blas);
    return library != nullptr && library->multiply(product, operands, l);
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
