// Convolutions by cuDNN's graph interface (the one that is not deprecated): convolution, residual, bias and activation are
// one graph of operations for which cuDNN proposes engines. A context keeps, for every convolution that it meets, the
// engine that was fastest at the first run, on this GPU, or in an earlier process (algorithm_file.h). Engines that would
// compute other bits from run to run are left out, and without TF32 those that round float32.
#pragma once
#include <cudnn.h>

#include <cstring>
#include <new>

#include "algorithm_file.h"
#include "convolution.h"
#include "library_workspace.h"

namespace METAC_RUNTIME_NAMESPACE {

// A descriptor of cuDNN: made, filled, finished. Whatever fails is told by good().
class DnnDescription {
 public:
  DnnDescription() = default;
  DnnDescription(const DnnDescription&) = delete;
  DnnDescription& operator=(const DnnDescription&) = delete;
  ~DnnDescription() { destroy(); }

  DnnDescription& make(cudnnBackendDescriptorType_t type) {
    destroy();
    good_ = cudnnBackendCreateDescriptor(type, &descriptor_) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  DnnDescription& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
                      int64_t count = 1) {
    good_ = good_ && cudnnBackendSetAttribute(descriptor_, name, type, count, values) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  DnnDescription& set_numbers(cudnnBackendAttributeName_t name, const int64_t* values, int64_t count = 1) {
    return set(name, CUDNN_TYPE_INT64, values, count);
  }
  DnnDescription& set_part(cudnnBackendAttributeName_t name, const DnnDescription& part) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &part.descriptor_);
  }
  bool finish() { return good_ = good_ && cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

  bool good() const { return good_; }
  cudnnBackendDescriptor_t get() const { return descriptor_; }
  // How many values there are, `most` of which are written; -1: it cannot be told.
  int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, void* values) const {
    int64_t count = 0;
    return cudnnBackendGetAttribute(descriptor_, name, type, most, &count, values) == CUDNN_STATUS_SUCCESS ? count : -1;
  }
  void swap(DnnDescription& other) {
    const cudnnBackendDescriptor_t mine = descriptor_;
    const bool was = good_;
    descriptor_ = other.descriptor_, good_ = other.good_;
    other.descriptor_ = mine, other.good_ = was;
  }

 private:
  void destroy() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
    descriptor_ = nullptr;
    good_ = false;
  }
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  bool good_ = false;
};

class CudnnConvolutions : public LibraryState {
  friend struct CudnnProposals;  // tests/cuda/cudnn_proposals.cu

 public:
  static constexpr int most_proposals = 64;  // in strict float32 most of them round
  static constexpr int most_timed = 8;

  ~CudnnConvolutions() override {
    while (plans_ != nullptr) {
      Plan* const next = plans_->next;
      delete plans_;
      plans_ = next;
    }
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }

  bool open() { return cudnnCreate(&handle_) == CUDNN_STATUS_SUCCESS; }

  bool convolve(const Convolution& convolution, const ConvolutionOperands& o, DeviceLaunch& launch) {
    if (cudnnSetStream(handle_, launch.stream) != CUDNN_STATUS_SUCCESS) return false;
    Plan* plan = plans_;
    while (plan != nullptr && !plan->is_for(convolution, o)) plan = plan->next;
    if (plan == nullptr) {
      plan = new (std::nothrow) Plan(convolution, o);
      if (plan == nullptr) return false;
      plan->next = plans_;
      plans_ = plan;
      plan->usable = describe(*plan) && (recall(*plan) || choose(*plan, o, launch.stream));
    }
    if (!plan->usable) return false;
    void* workspace = nullptr;
    if (!LibraryWorkspace::give(launch, plan->workspace_bytes, &workspace)) return false;
    bool done = run(*plan, plan->execution, o, workspace);
    if (!done && plan->remembered)
      done = choose(*plan, o, launch.stream) && LibraryWorkspace::give(launch, plan->workspace_bytes, &workspace) &&
             run(*plan, plan->execution, o, workspace);
    plan->remembered = false;
    return plan->usable = done;
  }

 private:
  enum Value : int64_t { data_value = 1, weights_value, result_value, residual_value, bias_value, first_virtual };
  static constexpr int most_values = 8, most_operations = 4;

  static int64_t alignment_of(const ConvolutionOperands& o) {
    uintptr_t bits = 16;
    for (const void* p : {static_cast<const void*>(o.data), static_cast<const void*>(o.weights), o.bias, o.residual,
                          static_cast<const void*>(o.result)})
      bits |= reinterpret_cast<uintptr_t>(p);
    return static_cast<int64_t>(bits & (~bits + 1));
  }

  struct Plan {
    Plan(const Convolution& c, const ConvolutionOperands& o)
        : convolution(c), alignment(alignment_of(o)), terms(terms_of(o)) {}
    static int terms_of(const ConvolutionOperands& o) {
      return (o.residual != nullptr ? 1 : 0) + (o.bias != nullptr ? 2 : 0);
    }
    bool is_for(const Convolution& c, const ConvolutionOperands& o) const {
      return alignment == alignment_of(o) && terms == terms_of(o) && std::memcmp(&convolution, &c, sizeof c) == 0;
    }

    Convolution convolution;
    int64_t alignment;
    int terms;
    bool usable = false;
    bool remembered = false;  // the engine is another process's choice and has not run yet
    DnnDescription values[most_values], window, adding, activating, operations[most_operations], graph, execution;
    int64_t workspace_bytes = 0;
    int value_count = 0, operation_count = 0;
    Plan* next = nullptr;
  };

  static cudnnDataType_t type_of(const Convolution& c) {
    return c.dtype == static_cast<int64_t>(ScalarType::f32)   ? CUDNN_DATA_FLOAT
           : c.dtype == static_cast<int64_t>(ScalarType::f16) ? CUDNN_DATA_HALF
                                                              : CUDNN_DATA_BFLOAT16;
  }

  // A value that lies row by row, or with its channels last; virtual ones (what one operation hands to the next) are float
  // and nowhere in memory.
  static DnnDescription* add_value(Plan& plan, int64_t number, const int64_t* dims) {
    const int rank = static_cast<int>(plan.convolution.spatial) + 2;
    int64_t steps[5], step = 1;
    if (plan.convolution.channels_last != 0) steps[1] = 1, step = dims[1];
    for (int k = rank - 1; k >= 0; --k) {
      if (k == 1 && plan.convolution.channels_last != 0) continue;
      steps[k] = step;
      step *= dims[k];
    }
    const bool in_registers = number >= first_virtual;
    const cudnnDataType_t type = in_registers ? CUDNN_DATA_FLOAT : type_of(plan.convolution);
    DnnDescription& v = plan.values[plan.value_count++];
    v.make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type)
        .set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, dims, rank);
    v.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, steps, rank)
        .set_numbers(CUDNN_ATTR_TENSOR_UNIQUE_ID, &number)
        .set_numbers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &plan.alignment);
    v.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &in_registers);
    return v.finish() ? &v : nullptr;
  }

  bool describe(Plan& plan) {
    const Convolution& c = plan.convolution;
    int64_t data[5] = {c.images, c.channels}, weights[5] = {c.features, c.channels / c.groups},
            result[5] = {c.images, c.features}, bias[5] = {1, c.features, 1, 1, 1};
    int64_t strides[3], dilations[3], before[3], after[3];
    for (int k = 0; k < c.spatial; ++k) {
      const Convolution::Axis& a = c.axes[k];
      data[k + 2] = a.size, weights[k + 2] = a.window, result[k + 2] = a.out;
      strides[k] = a.stride, dilations[k] = a.dilation, before[k] = a.before;
      const int64_t read = (a.out - 1) * a.stride + (a.window - 1) * a.dilation + 1 - a.before;
      after[k] = read > a.size ? read - a.size : 0;
    }
    DnnDescription* const x = add_value(plan, data_value, data);
    DnnDescription* const w = add_value(plan, weights_value, weights);
    if (x == nullptr || w == nullptr) return false;

    const cudnnDataType_t computed = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    plan.window.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &computed);
    plan.window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &c.spatial);
    plan.window.set_numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides, c.spatial)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations, c.spatial);
    plan.window.set_numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before, c.spatial)
        .set_numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after, c.spatial);
    const cudnnPointwiseMode_t add = CUDNN_POINTWISE_ADD, relu = CUDNN_POINTWISE_RELU_FWD;
    plan.adding.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR).set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &add);
    plan.adding.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &computed);
    plan.activating.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &relu);
    plan.activating.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &computed);
    if (!plan.window.finish() || !plan.adding.finish() || !plan.activating.finish()) return false;

    // Each operation hands its value to the next; the last one writes the result.
    const int terms = (plan.terms & 1) + (plan.terms >> 1);
    const int count = 1 + terms + (c.activation != no_activation ? 1 : 0);
    int64_t number = first_virtual;
    auto next_value = [&](int operation) {
      return add_value(plan, operation + 1 == count ? int64_t{result_value} : number++, result);
    };
    DnnDescription* current = next_value(0);
    if (current == nullptr) return false;
    if (!add_convolution(plan, *x, *w, *current)) return false;
    for (int term = 0; term < 2; ++term) {
      if ((plan.terms >> term & 1) == 0) continue;
      DnnDescription* const added = add_value(plan, residual_value + term, term == 0 ? result : bias);
      DnnDescription* const sum = next_value(plan.operation_count);
      if (added == nullptr || sum == nullptr || !add_pointwise(plan, plan.adding, *current, added, *sum)) return false;
      current = sum;
    }
    if (c.activation != no_activation) {
      DnnDescription* const last = next_value(plan.operation_count);
      if (last == nullptr || !add_pointwise(plan, plan.activating, *current, nullptr, *last)) return false;
    }

    cudnnBackendDescriptor_t operations[most_operations];
    for (int k = 0; k < plan.operation_count; ++k) operations[k] = plan.operations[k].get();
    plan.graph.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle_ != nullptr) plan.graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle_);
    plan.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations, plan.operation_count);
    return plan.graph.finish();
  }

  static bool add_convolution(Plan& plan, const DnnDescription& x, const DnnDescription& w, const DnnDescription& y) {
    struct Names {
      cudnnBackendDescriptorType_t type;
      cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
    };
    static const Names all[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const Names& n = all[plan.convolution.computed];
    const float one = 1, zero = 0;
    DnnDescription& o = plan.operations[plan.operation_count++].make(n.type);
    o.set_part(n.window, plan.window).set_part(n.x, x).set_part(n.w, w).set_part(n.y, y);
    return o.set(n.alpha, CUDNN_TYPE_FLOAT, &one).set(n.beta, CUDNN_TYPE_FLOAT, &zero).finish();
  }

  static bool add_pointwise(Plan& plan, const DnnDescription& kind, const DnnDescription& x, const DnnDescription* b,
                            const DnnDescription& y) {
    DnnDescription& o = plan.operations[plan.operation_count++].make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind).set_part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != nullptr) o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    return o.set_part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finish();
  }

  // May this engine be used, and which one is it? Its bits must not change from run to run, nor float32 be rounded where
  // nobody allowed it.
  static bool is_allowed(const DnnDescription& configuration, const Convolution& c, int64_t* number) {
    DnnDescription engine;
    if (!engine.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR).good()) return false;
    cudnnBackendDescriptor_t raw = engine.get();
    if (configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw) != 1) return false;
    if (engine.read(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, number) != 1) *number = -1;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count =
        engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
    if (count < 0) return false;
    if (count > CUDNN_NUMERICAL_NOTE_TYPE_COUNT) count = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    const bool f32 = type_of(c) == CUDNN_DATA_FLOAT;
    for (int64_t k = 0; k < count; ++k) {
      if (notes[k] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || notes[k] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
        return false;
      if (f32 && c.tf32 == 0 &&
          (notes[k] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[k] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
        return false;
    }
    return true;
  }

  // The engines that cuDNN proposes in a mode, those that may be used, the best guess first, until `visit` says true of one.
  template <typename Visit>
  static bool any_proposal(const Plan& plan, cudnnBackendHeurMode_t mode, const Visit& visit) {
    DnnDescription heuristic, found[most_proposals];
    heuristic.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        .set_part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, plan.graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    if (!heuristic.finish()) return false;
    cudnnBackendDescriptor_t raw[most_proposals];
    int64_t room = 0;
    while (room < most_proposals && found[room].make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).good())
      raw[room] = found[room].get(), ++room;
    int64_t count = room > 0 ? heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, raw) : 0;
    if (count > room) count = room;
    for (int64_t k = 0; k < count; ++k) {
      int64_t number = 0;
      if (!is_allowed(found[k], plan.convolution, &number)) continue;
      // Known again by its place and by the engine that stands there: an engine is proposed several times, with other
      // settings.
      if (visit(found[k], Algorithm{{static_cast<uint64_t>(mode), static_cast<uint64_t>(k), static_cast<uint64_t>(number)}}))
        return true;
    }
    return false;
  }

  static CallText call_of(const Plan& plan) {
    const Convolution& c = plan.convolution;
    CallText call;
    call.add("convolution", {c.computed, c.dtype, c.spatial, c.images, c.channels, c.features, c.groups});
    for (const Convolution::Axis& a : c.axes) call.add("axis", {a.size, a.window, a.out, a.stride, a.dilation, a.before});
    call.add("activation", {c.activation})
        .add("tf32", {c.tf32})
        .add("channels last", {c.channels_last})
        .add("terms", {plan.terms});
    return call.add("alignment", {plan.alignment}).add("workspace", {most_workspace(c)});
  }

  // The engine that was the fastest before, where cuDNN proposes it again.
  bool recall(Plan& plan) {
    Algorithm wanted;
    if (!file_.find(call_of(plan), &wanted)) return false;
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      if (wanted.numbers[0] != static_cast<uint64_t>(mode)) continue;
      plan.remembered = any_proposal(plan, mode, [&](const DnnDescription& configuration, const Algorithm& algorithm) {
        DnnDescription execution;
        if (!(algorithm == wanted) || !make_execution(execution, configuration, &plan.workspace_bytes) ||
            plan.workspace_bytes > most_workspace(plan.convolution))
          return false;
        plan.execution.swap(execution);
        return true;
      });
    }
    return plan.remembered;
  }

  // What cuDNN proposes, the best guess first; the fastest of it where it can be tried.
  bool choose(Plan& plan, const ConvolutionOperands& o, cudaStream_t stream) {
    StreamTimer timer(stream);
    // A convolution that adds to what stands in the result's memory can run once only.
    const bool tried = timer.usable() && o.residual != o.result;
    float best = -1;
    int timed = 0;
    Algorithm fastest{};
    DeviceBlock trial;
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      any_proposal(plan, mode, [&](const DnnDescription& configuration, const Algorithm& algorithm) {
        DnnDescription execution;
        int64_t wanted = 0;
        if (!make_execution(execution, configuration, &wanted) || wanted > most_workspace(plan.convolution) ||
            (tried && wanted > 0 && !trial.reserve(wanted)))
          return false;
        const float time = tried ? timer.time_of([&] { return run(plan, execution, o, trial.data()); }) : 0;
        // Of two that are about as fast the one that wants less memory.
        const float worth = wanted > plan.workspace_bytes ? 0.97f : wanted < plan.workspace_bytes ? 1.03f : 1.0f;
        if (time >= 0 && (best < 0 || time < best * worth)) {
          best = time;
          fastest = algorithm;
          plan.workspace_bytes = wanted;
          plan.execution.swap(execution);
        }
        return !tried || ++timed == most_timed;
      });
      if (tried && best >= 0) file_.keep(call_of(plan), fastest);
      if (best >= 0) return true;
    }
    return false;
  }

  // Engines that turn operands around need room for them, and gradients for parts of sums: as much as is read and written,
  // and a quarter more.
  static int64_t most_workspace(const Convolution& c) {
    double data = static_cast<double>(c.images * c.channels),
           weights = static_cast<double>(c.features * c.channels / c.groups),
           result = static_cast<double>(c.images * c.features);
    for (int k = 0; k < c.spatial; ++k)
      data *= static_cast<double>(c.axes[k].size), weights *= static_cast<double>(c.axes[k].window),
          result *= static_cast<double>(c.axes[k].out);
    const double bytes = 1.25 * (data + weights + result) * (type_of(c) == CUDNN_DATA_FLOAT ? 4 : 2);
    if (bytes <= static_cast<double>(LibraryWorkspace::usual_bytes)) return LibraryWorkspace::usual_bytes;
    return bytes < static_cast<double>(LibraryWorkspace::most_bytes) ? static_cast<int64_t>(bytes)
                                                                     : LibraryWorkspace::most_bytes;
  }

  bool make_execution(DnnDescription& execution, const DnnDescription& configuration, int64_t* workspace_bytes) {
    execution.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle_);
    if (!execution.set_part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finish()) return false;
    return execution.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, workspace_bytes) == 1 &&
           *workspace_bytes >= 0;
  }

  bool run(const Plan& plan, const DnnDescription& execution, const ConvolutionOperands& o, void* workspace) {
    int64_t numbers[5] = {data_value, weights_value, result_value};
    const void* places[5] = {o.data, o.weights, o.result};
    int count = 3;
    const void* const terms[2] = {o.residual, o.bias};
    for (int k = 0; k < 2; ++k)
      if ((plan.terms >> k & 1) != 0) numbers[count] = residual_value + k, places[count++] = terms[k];
    DnnDescription pack;
    pack.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR).set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers, count);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, places, count)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace);
    return pack.finish() && cudnnBackendExecute(handle_, execution.get(), pack.get()) == CUDNN_STATUS_SUCCESS;
  }

  cudnnHandle_t handle_ = nullptr;
  AlgorithmFile file_{"cudnn", cudnnGetVersion()};
  Plan* plans_ = nullptr;
};

bool convolve(const Convolution& convolution, const ConvolutionOperands& operands, void* launch) {
  DeviceLaunch& l = *static_cast<DeviceLaunch*>(launch);
  return answer_of(l, convolution, operands, [&] {
    CudnnConvolutions* const library = opened<CudnnConvolutions>(l.libraries->dnn, l.libraries->no_dnn);
    return library != nullptr && library->convolve(convolution, operands, l);
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
