// A stand-in for cuDNN's graph interface: what runtime/cuda/cudnn_convolution.h calls, by plain loops, put onto the stream.
// Descriptors keep what they are given; finishing one asks for everything the real one does. Seven engines are proposed, of
// which some must not be taken: see shim::dnn_engines. METAC_SHIM_DNN=none: there is no engine for anything; =refuse: all
// of them refuse to run; =rounding: only what rounds float32 is proposed; =greedy: every engine of a forward convolution
// wants 1 MiB for each image. METAC_SHIM_CALLS=FILE: a line for each convolution.
#pragma once
#include <map>
#include <string>

#include "cuda_runtime.h"
#include "device_numbers.h"

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000
};
enum cudnnDataType_t { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_BFLOAT16 = 9 };
enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION };
enum cudnnPointwiseMode_t { CUDNN_POINTWISE_ADD = 0, CUDNN_POINTWISE_RELU_FWD = 100 };
enum cudnnBackendHeurMode_t { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
enum cudnnBackendNumericalNote_t {
  CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
  CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
  CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10
};
enum cudnnBackendAttributeType_t {
  CUDNN_TYPE_HANDLE,
  CUDNN_TYPE_DATA_TYPE,
  CUDNN_TYPE_BOOLEAN,
  CUDNN_TYPE_INT64,
  CUDNN_TYPE_FLOAT,
  CUDNN_TYPE_DOUBLE,
  CUDNN_TYPE_VOID_PTR,
  CUDNN_TYPE_CONVOLUTION_MODE,
  CUDNN_TYPE_HEUR_MODE,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15
};
enum cudnnBackendDescriptorType_t {
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
  CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR
};
enum cudnnBackendAttributeName_t {
  CUDNN_ATTR_POINTWISE_MODE = 0,
  CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
  CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
  CUDNN_ATTR_CONVOLUTION_CONV_MODE,
  CUDNN_ATTR_CONVOLUTION_DILATIONS,
  CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
  CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
  CUDNN_ATTR_ENGINEHEUR_RESULTS,
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
  CUDNN_ATTR_OPERATIONGRAPH_OPS,
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
  CUDNN_ATTR_TENSOR_DATA_TYPE,
  CUDNN_ATTR_TENSOR_DIMENSIONS,
  CUDNN_ATTR_TENSOR_STRIDES,
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
  CUDNN_ATTR_TENSOR_IS_VIRTUAL,
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
  CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303
};

struct shim_dnn_handle {
  cudaStream_t stream = nullptr;
};
struct shim_dnn_description {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  int engine = -1;  // of engines, their configurations and execution plans
  std::map<int, std::vector<char>> values;

  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    auto found = values.find(name);
    std::vector<T> out(found == values.end() ? 0 : found->second.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), found->second.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name) const {
    return all<T>(name).at(0);
  }
  const shim_dnn_description& part(cudnnBackendAttributeName_t name) const {
    return *one<const shim_dnn_description*>(name);
  }
};
typedef shim_dnn_handle* cudnnHandle_t;
typedef shim_dnn_description* cudnnBackendDescriptor_t;

namespace shim {

inline bool dnn_says(const char* word) {
  const char* text = std::getenv("METAC_SHIM_DNN");
  return text != nullptr && std::strcmp(text, word) == 0;
}

struct DnnEngine {
  bool planned, runs;  // does it refuse to be planned, to run?
  int64_t workspace;
  std::vector<cudnnBackendNumericalNote_t> notes;  // those with notes compute wrong numbers, or rounded ones
};
inline const std::vector<DnnEngine>& dnn_engines() {
  static const std::vector<DnnEngine> all = {{false, false, 0, {}},
                                             {true, false, 0, {}},
                                             {true, true, int64_t{1} << 40, {}},
                                             {true, true, 0, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                                             {true, true, 0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
                                             {true, true, 0, {}},
                                             {true, true, 1 << 20, {}}};
  return all;
}

inline bool dnn_complete(const shim_dnn_description& d) {
  auto has = [&](std::initializer_list<cudnnBackendAttributeName_t> names) {
    return std::all_of(names.begin(), names.end(), [&](cudnnBackendAttributeName_t n) { return d.values.count(n) != 0; });
  };
  auto parts_finished = [&](std::initializer_list<cudnnBackendAttributeName_t> names) {
    return has(names) && std::all_of(names.begin(), names.end(), [&](cudnnBackendAttributeName_t n) {
             const auto parts = d.all<const shim_dnn_description*>(n);
             return std::all_of(parts.begin(), parts.end(), [](const shim_dnn_description* p) { return p->finished; });
           });
  };
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return has({CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
                  CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_IS_VIRTUAL}) &&
             d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() == d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size() &&
             d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() >= 4;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return has({CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC});
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: {
      if (!has({CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS}))
        return false;
      const size_t rank = static_cast<size_t>(d.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
      return (rank == 2 || rank == 3) && d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS).size() == rank &&
             d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES).size() == rank &&
             d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS).size() == rank &&
             d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS).size() == rank;
    }
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}) &&
             parts_finished({CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y});
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}) &&
             parts_finished({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY});
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}) &&
             parts_finished({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY});
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return parts_finished({CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                             CUDNN_ATTR_OPERATION_POINTWISE_YDESC});
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return has({CUDNN_ATTR_OPERATIONGRAPH_HANDLE}) && parts_finished({CUDNN_ATTR_OPERATIONGRAPH_OPS});
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return has({CUDNN_ATTR_ENGINEHEUR_MODE}) && parts_finished({CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH});
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return has({CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG}) &&
             dnn_engines()[static_cast<size_t>(d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine)].planned;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return has({CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                  CUDNN_ATTR_VARIANT_PACK_WORKSPACE}) &&
             d.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                 d.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size();
    default:
      return false;
  }
}

// A value as the operations see it: where it is, or its numbers on the way.
struct DnnTensor {
  std::vector<int64_t> dims, steps;
  int64_t number = 0, alignment = 1;
  bool in_registers = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;

  DnnTensor() = default;
  explicit DnnTensor(const shim_dnn_description& d)
      : dims(d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        steps(d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
        number(d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        alignment(d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
        in_registers(d.one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0),
        type(d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {}
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  // The offset of the element at the indices that `flat` is of a value of these dims; axes of extent 1 stay at 0.
  int64_t at(int64_t flat, const std::vector<int64_t>& of) const {
    const int64_t *const extents = of.data(), *const mine = dims.data(), *const strides = steps.data();
    int64_t offset = 0;
    for (size_t k = of.size(); k-- > 0;) {
      if (mine[k] != 1) offset += flat % extents[k] * strides[k];
      flat /= extents[k];
    }
    return offset;
  }
  cudaDataType_t stored() const {
    return type == CUDNN_DATA_FLOAT ? CUDA_R_32F : type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
  }
};
enum class DnnComputed { forward, data, weights };
struct DnnOperation {
  bool convolves = false, relu = false, adds = false;
  DnnComputed computed = DnnComputed::forward;
  DnnTensor x, other, y;  // other: weights, or what is added
  const DnnTensor& written() const {
    return computed == DnnComputed::data ? x : computed == DnnComputed::weights ? other : y;
  }
  std::vector<int64_t> strides, dilations, before, after;
};

class DnnRun {
 public:
  std::vector<DnnOperation> operations;
  std::map<int64_t, void*> places;
  bool rounded = false;

  void operator()() {
    Access access;
    for (const DnnOperation& o : operations) {
      if (o.computed != DnnComputed::forward) {
        const DnnTensor& to = o.written();
        std::vector<float> x(static_cast<size_t>(o.x.count())), w(static_cast<size_t>(o.other.count())), y = numbers(o.y);
        (o.computed == DnnComputed::data ? w : x) = numbers(o.computed == DnnComputed::data ? o.other : o.x);
        convolve(o, x, w, y);
        store(to, o.computed == DnnComputed::data ? x : w);
        continue;
      }
      std::vector<float> x = numbers(o.x), y(static_cast<size_t>(o.y.count()));
      if (o.convolves) {
        std::vector<float> w = numbers(o.other);
        convolve(o, x, w, y);
      } else if (o.adds)
        add(o, x, y);
      else
        for (size_t i = 0; i < y.size(); ++i) y[i] = o.relu && !(x[i] > 0 || x[i] != x[i]) ? 0 : x[i];
      if (o.y.in_registers) {
        on_the_way_[o.y.number] = y;
      } else {
        store(o.y, y);
      }
    }
    on_the_way_.clear();
  }

 private:
  std::vector<float> numbers(const DnnTensor& t) const {
    if (t.in_registers) return on_the_way_.at(t.number);
    const int64_t count = t.count();
    const cudaDataType_t type = t.stored();
    const void* const from = places.at(t.number);
    std::vector<float> out(static_cast<size_t>(count));
    float* const to = out.data();
    for (int64_t i = 0; i < count; ++i) to[i] = number(type, from, t.at(i, t.dims), rounded);
    return out;
  }

  void store(const DnnTensor& t, const std::vector<float>& found) const {
    const int64_t count = t.count();
    const cudaDataType_t type = t.stored();
    void* const to = places.at(t.number);
    const float* const from = found.data();
    for (int64_t i = 0; i < count; ++i) set_number(type, to, t.at(i, t.dims), from[i]);
  }

  void add(const DnnOperation& o, const std::vector<float>& x, std::vector<float>& y) const {
    const int64_t count = o.y.count();
    const cudaDataType_t type = o.other.stored();
    const void* const added = places.at(o.other.number);
    for (int64_t i = 0; i < count; ++i)
      y[static_cast<size_t>(i)] = x[static_cast<size_t>(i)] + number(type, added, o.other.at(i, o.y.dims), false);
  }

  // Two or three spatial axes; of two the first of three is 1.
  // Each of the three is read or, the one that is computed, added to.
  void convolve(const DnnOperation& o, std::vector<float>& x, std::vector<float>& w, std::vector<float>& y) const {
    auto three = [](const std::vector<int64_t>& v, size_t from, int64_t fill) {
      std::vector<int64_t> out(v.begin() + static_cast<std::ptrdiff_t>(from), v.end());
      if (out.size() == 2) out.insert(out.begin(), fill);
      return out;
    };
    const auto in = three(o.x.dims, 2, 1), window = three(o.other.dims, 2, 1), out = three(o.y.dims, 2, 1),
               stride = three(o.strides, 0, 1), dilation = three(o.dilations, 0, 1), before = three(o.before, 0, 0);
    const int64_t channels = o.other.dims[1], groups = o.x.dims[1] / channels, features = o.y.dims[1];
    // Plain addresses, and as little as can be for each product: this is compiled without optimisation in most tests, and
    // run hundreds of times.
    const int64_t in_0 = in[0], in_1 = in[1], in_2 = in[2], image = in_0 * in_1 * in_2, per_group = features / groups;
    const int64_t width = window[2], height = window[1], depth = window[0], taps = depth * height * width,
                  step = dilation[2];
    float* at = y.data();
    for (int64_t n = 0; n < o.y.dims[0]; ++n)
      for (int64_t f = 0; f < features; ++f)
        for (int64_t a = 0; a < out[0]; ++a)
          for (int64_t b = 0; b < out[1]; ++b)
            for (int64_t c = 0; c < out[2]; ++c, ++at) {
              // Of a row of the window: from where to where it lies inside.
              const int64_t left = c * stride[2] - before[2], lacking = left < 0 ? (step - 1 - left) / step : 0,
                            inside = left < in_2 ? (in_2 - left + step - 1) / step : 0,
                            end = inside < width ? inside : width;
              const int64_t top = b * stride[1] - before[1], down = dilation[1], front = a * stride[0] - before[0];
              float* of_channel = x.data() + (n * o.x.dims[1] + f / per_group * channels) * image;
              float* of_window = w.data() + f * channels * taps;
              float sum = 0;
              for (int64_t k = 0; k < channels; ++k, of_channel += image, of_window += taps)
                for (int64_t p = 0; p < depth; ++p) {
                  const int64_t i = front + p * dilation[0];
                  if (i < 0 || i >= in_0) continue;
                  for (int64_t q = 0, j = top; q < height; ++q, j += down) {
                    if (j < 0 || j >= in_1) continue;
                    float* data = of_channel + (i * in_1 + j) * in_2 + left + lacking * step;
                    float* weight = of_window + (p * height + q) * width + lacking;
                    float* const behind = of_window + (p * height + q) * width + end;
                    if (o.computed == DnnComputed::data)
                      for (; weight < behind; ++weight, data += step) *data += *at * *weight;
                    else if (o.computed == DnnComputed::weights)
                      for (; weight < behind; ++weight, data += step) *weight += *at * *data;
                    else
                      for (; weight < behind; ++weight, data += step) sum += *data * *weight;
                  }
                }
              if (o.computed == DnnComputed::forward) *at = sum;
            }
  }
  std::map<int64_t, std::vector<float>> on_the_way_;
};

// What an execution plan wants.
inline int64_t dnn_workspace(const shim_dnn_description& plan) {
  const shim_dnn_description& first = plan.part(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (dnn_says("greedy") && first.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    return DnnTensor(first.part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)).dims[0] << 20;
  return dnn_engines()[static_cast<size_t>(plan.engine)].workspace;
}

// The library has engines for a convolution alone, and for one with exactly one bias (cuDNN 9.19, for an H100).
inline bool dnn_knows(const shim_dnn_description& graph) {
  int biases = 0, others = 0;
  for (const shim_dnn_description* d : graph.all<const shim_dnn_description*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (d->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) continue;
    const bool adds =
        d->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) !=
        CUDNN_POINTWISE_RELU_FWD;
    const bool bias = adds && DnnTensor(d->part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)).dims !=
                                  DnnTensor(d->part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)).dims;
    ++(bias ? biases : others);
  }
  return biases == 1 || (biases == 0 && others == 0);
}

inline std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

}  // namespace shim

inline size_t cudnnGetVersion() { return shim::library_version(); }
inline cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (shim::fails()) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new shim_dnn_handle;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (shim::fails()) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  if (shim::fails()) return CUDNN_STATUS_NOT_SUPPORTED;
  *made = new shim_dnn_description{type};
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  static const std::map<int, size_t> sizes = {{CUDNN_TYPE_HANDLE, 8},
                                              {CUDNN_TYPE_DATA_TYPE, 4},
                                              {CUDNN_TYPE_BOOLEAN, 1},
                                              {CUDNN_TYPE_INT64, 8},
                                              {CUDNN_TYPE_FLOAT, 4},
                                              {CUDNN_TYPE_DOUBLE, 8},
                                              {CUDNN_TYPE_VOID_PTR, 8},
                                              {CUDNN_TYPE_CONVOLUTION_MODE, 4},
                                              {CUDNN_TYPE_HEUR_MODE, 4},
                                              {CUDNN_TYPE_POINTWISE_MODE, 4},
                                              {CUDNN_TYPE_BACKEND_DESCRIPTOR, 8}};
  auto size = sizes.find(type);
  if (d == nullptr || d->finished || size == sizes.end() || count < 1) return CUDNN_STATUS_BAD_PARAM;
  const char* bytes = static_cast<const char*>(values);
  d->values[name].assign(bytes, bytes + size->second * static_cast<size_t>(count));
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  if (shim::fails() || d == nullptr || d->finished || !shim::dnn_complete(*d)) return CUDNN_STATUS_BAD_PARAM;
  if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {  // a plan outlives the configuration it was made from
    const shim_dnn_description& from = d->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    d->engine = from.engine;
    d->values[CUDNN_ATTR_OPERATIONGRAPH_OPS] = from.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  }
  d->finished = true;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t, int64_t most, int64_t* count, void* values) {
  *count = 0;
  if (shim::fails()) return CUDNN_STATUS_BAD_PARAM;
  const auto& engines = shim::dnn_engines();
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (shim::dnn_says("none") || !shim::dnn_knows(d->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)))
        return CUDNN_STATUS_SUCCESS;
      for (size_t k = 0; k < engines.size() && *count < most; ++k) {
        if (shim::dnn_says("rounding") &&
            (engines[k].notes.empty() || engines[k].notes[0] != CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
          continue;
        shim_dnn_description* made = static_cast<shim_dnn_description**>(values)[(*count)++];
        made->engine = static_cast<int>(k);
        made->values[CUDNN_ATTR_OPERATIONGRAPH_OPS] =
            d->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
        made->finished = true;
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      (*static_cast<shim_dnn_description**>(values))->engine = d->engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      *static_cast<int64_t*>(values) = d->engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      for (cudnnBackendNumericalNote_t note : engines[static_cast<size_t>(d->engine)].notes)
        static_cast<cudnnBackendNumericalNote_t*>(values)[(*count)++] = note;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<int64_t*>(values) = shim::dnn_workspace(*d);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

inline cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack) {
  if (shim::fails() || shim::dnn_says("refuse") || !plan->finished || !pack->finished) return CUDNN_STATUS_NOT_SUPPORTED;
  const shim::DnnEngine& engine = shim::dnn_engines()[static_cast<size_t>(plan->engine)];
  if (!engine.runs) return CUDNN_STATUS_NOT_SUPPORTED;
  shim::DnnRun run;
  const bool noted = !engine.notes.empty();
  run.rounded = noted && engine.notes[0] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  const auto numbers = pack->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = pack->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t k = 0; k < numbers.size(); ++k) run.places[numbers[k]] = places[k];
  std::string said;
  for (const shim_dnn_description* d : plan->all<const shim_dnn_description*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    shim::DnnOperation o;
    if (d->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
      const bool by_data = d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                 by_weights = d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
      auto part = [&](cudnnBackendAttributeName_t forward, cudnnBackendAttributeName_t data,
                      cudnnBackendAttributeName_t weights) -> const shim_dnn_description& {
        return d->part(by_data ? data : by_weights ? weights : forward);
      };
      const shim_dnn_description& window =
          part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
      o.convolves = true;
      o.computed = by_data ? shim::DnnComputed::data : by_weights ? shim::DnnComputed::weights : shim::DnnComputed::forward;
      o.x = shim::DnnTensor(part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
      o.other = shim::DnnTensor(part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
      o.y = shim::DnnTensor(part(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
      o.strides = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
      o.dilations = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
      o.before = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
      o.after = window.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
      if (o.x.dims[1] % o.other.dims[1] != 0 || o.other.dims[0] != o.y.dims[1] || o.x.dims[0] != o.y.dims[0] ||
          o.strides.size() + 2 != o.x.dims.size())
        return CUDNN_STATUS_BAD_PARAM;
      for (size_t k = 0; k < o.strides.size(); ++k)
        if ((o.x.dims[k + 2] + o.before[k] + o.after[k] - o.dilations[k] * (o.other.dims[k + 2] - 1) - 1) / o.strides[k] +
                1 !=
            o.y.dims[k + 2])
          return CUDNN_STATUS_BAD_PARAM;
      said = std::string(by_data      ? "data gradient of "
                         : by_weights ? "weights gradient of "
                                      : "") +
             "convolution of " + shim::dims_text(o.x.dims) + " with " + shim::dims_text(o.other.dims) + " to " +
             shim::dims_text(o.y.dims) + " groups " + std::to_string(o.x.dims[1] / o.other.dims[1]) + " type " +
             std::to_string(o.x.type) + (run.rounded && o.x.type == CUDNN_DATA_FLOAT ? " tf32" : "") +
             (o.x.dims[1] > 1 && o.x.steps[1] == 1 ? " channels last" : "");
    } else {
      const shim_dnn_description& kind = d->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      o.relu = kind.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_RELU_FWD;
      o.adds = !o.relu;
      o.x = shim::DnnTensor(d->part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
      o.y = shim::DnnTensor(d->part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
      if (o.adds) o.other = shim::DnnTensor(d->part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      said += o.relu ? " relu" : o.other.dims == o.y.dims ? " residual" : " bias";
    }
    for (const shim::DnnTensor* t : {&o.x, &o.y, &o.other}) {
      if (t->dims.empty() || t->in_registers) continue;
      auto found = run.places.find(t->number);
      if (found == run.places.end() ||
          reinterpret_cast<uintptr_t>(found->second) % static_cast<uintptr_t>(t->alignment) != 0)
        return CUDNN_STATUS_BAD_PARAM;
    }
    run.operations.push_back(o);
  }
  if (run.operations.empty()) return CUDNN_STATUS_BAD_PARAM;
  shim::note_call(said);
  const bool wrong = noted && !run.rounded;
  const int64_t used = shim::dnn_workspace(*plan);
  void* workspace = pack->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  shim::put(handle->stream, [=]() mutable {
    shim::Access access;
    if (used > 0) std::memset(workspace, 0x5a, static_cast<size_t>(used));
    run();
    if (wrong) std::memset(run.places.at(run.operations.back().written().number), 0x5a, 4);
  });
  return CUDNN_STATUS_SUCCESS;
}
