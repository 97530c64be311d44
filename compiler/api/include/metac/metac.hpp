// metac as a library, for C++17: the C interface of metac.h with ownership. Errors are exceptions here, and only here.
//
//   metac::Session session("net.onnx");
//   const metac::Result result = session.run({{"image", pixels, {1, 3, 224, 224}}});
//   const float* scores = result["scores"].data<float>();
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "metac.h"

namespace metac {

class Error : public std::runtime_error {
 public:
  Error(metac_status status, const std::string& message) : std::runtime_error(message), status(status) {}
  metac_status status;
};

// The metac_dtype of elements of T; half types have none in C++17: name those.
template <class T>
constexpr metac_dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "no element type of metac");
  if (std::is_same_v<T, bool>) return METAC_BOOL;
  if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? METAC_FLOAT32 : METAC_FLOAT64;
  switch (sizeof(T)) {
    case 1: return std::is_signed_v<T> ? METAC_INT8 : METAC_UINT8;
    case 2: return std::is_signed_v<T> ? METAC_INT16 : METAC_UINT16;
    case 4: return std::is_signed_v<T> ? METAC_INT32 : METAC_UINT32;
    default: return std::is_signed_v<T> ? METAC_INT64 : METAC_UINT64;
  }
}

// Elements that somebody else owns, contiguous and row-major: the caller's of inputs, a Result's of outputs.
class Tensor {
 public:
  template <class T>
  Tensor(std::string name, const T* data, std::vector<int64_t> dims)
      : Tensor(std::move(name), static_cast<const void*>(data), std::move(dims), dtype_of<T>()) {}
  Tensor(std::string name, const void* data, std::vector<int64_t> dims, metac_dtype dtype)
      : name_(std::move(name)), data_(data), dims_(std::move(dims)), dtype_(dtype) {}

  const std::string& name() const { return name_; }
  metac_dtype dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t count() const {
    int64_t count = 1;
    for (const int64_t dim : dims_) count *= dim;
    return count;
  }
  const void* data() const { return data_; }
  template <class T>
  const T* data() const {
    if (dtype_ != dtype_of<T>())
      throw Error(METAC_INVALID_ARGUMENT, "tensor \"" + name_ + "\" has elements of dtype " + std::to_string(dtype_) +
                                              ", read as dtype " + std::to_string(dtype_of<T>()));
    return static_cast<const T*>(data_);
  }

  // For the C interface; valid while this tensor is.
  metac_tensor c_tensor() const {
    metac_tensor tensor{};
    tensor.name = name_.c_str();
    tensor.data = data_;
    tensor.dims = dims_.data();
    tensor.rank = static_cast<int32_t>(dims_.size());
    tensor.dtype = dtype_;
    return tensor;
  }

 private:
  std::string name_;
  const void* data_;
  std::vector<int64_t> dims_;
  metac_dtype dtype_;
};

// The outputs of a run, in the model's order, and their memory.
class Result {
 public:
  explicit Result(metac_result* result) : result_(result) {
    try {
      for (int32_t i = 0; const metac_tensor* output = metac_result_output(result, i); ++i)
        outputs_.emplace_back(output->name, output->data, std::vector<int64_t>(output->dims, output->dims + output->rank),
                              static_cast<metac_dtype>(output->dtype));
    } catch (...) {
      metac_result_free(result);
      throw;
    }
  }
  ~Result() { metac_result_free(result_); }
  Result(Result&& other) noexcept : result_(std::exchange(other.result_, nullptr)), outputs_(std::move(other.outputs_)) {}
  Result& operator=(Result&& other) noexcept {
    std::swap(result_, other.result_);
    std::swap(outputs_, other.outputs_);
    return *this;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;

  size_t size() const { return outputs_.size(); }
  const Tensor& operator[](size_t index) const { return outputs_.at(index); }
  const Tensor& operator[](const std::string& name) const {
    for (const Tensor& output : outputs_)
      if (output.name() == name) return output;
    throw Error(METAC_INVALID_ARGUMENT, "there is no output \"" + name + "\"");
  }
  const Tensor& operator[](int index) const { return outputs_.at(static_cast<size_t>(index)); }
  const Tensor& operator[](const char* name) const { return (*this)[std::string(name)]; }
  std::vector<Tensor>::const_iterator begin() const { return outputs_.begin(); }
  std::vector<Tensor>::const_iterator end() const { return outputs_.end(); }

 private:
  metac_result* result_;
  std::vector<Tensor> outputs_;
};

// What the model says of an input or output.
struct Port {
  std::string name;
  int32_t rank = -1;                   // -1: any
  int32_t dtype = -1;                  // metac_dtype; -1: the model does not say
  std::vector<int64_t> dims;           // -1: open
  std::vector<std::string> dim_names;  // of open dims, "" where there is none
};

// metac_dim and metac_session_options, with their defaults.
struct Dim {
  std::string name;
  int64_t min = 0, max = 0, divisor = 0;
};
struct Options {
  std::string specialise, cpu, target, precision;  // "": the default
  int32_t threads = 0, max_contexts = 0, max_specialisations = 0;
  int64_t max_memory = 0;
  std::vector<Dim> dims;
  std::vector<std::pair<std::string, std::string>> states;  // input and output of each
  bool known_states = false;                                // all that are known by their names
  std::vector<std::string> ops;  // C++ files
};

// The calls of the C interface that Session and Stream share.
namespace calls {

inline void check(metac_status status) {
  if (status != METAC_OK) throw Error(status, metac_last_error());
}
inline std::vector<metac_tensor> c_tensors(const std::vector<Tensor>& tensors) {
  std::vector<metac_tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.c_tensor());
  return result;
}

}  // namespace calls

// A caller of a session with states of its own; made by Session::stream(), and gone before the session. Calls of one stream
// follow one another, those of several go side by side.
class Stream {
 public:
  explicit Stream(metac_stream* stream) : stream_(stream) {}
  ~Stream() { metac_stream_close(stream_); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Result run(const std::vector<Tensor>& inputs) {
    const std::vector<metac_tensor> given = calls::c_tensors(inputs);
    metac_result* result = nullptr;
    calls::check(metac_stream_run(stream_, given.data(), static_cast<int32_t>(given.size()), &result));
    return Result(result);
  }
  void reset() { calls::check(metac_stream_reset(stream_)); }
  // A copy; dims of 0 where there was no value since the last reset.
  Result get(const std::string& state) const {
    metac_result* result = nullptr;
    calls::check(metac_stream_get(stream_, state.c_str(), &result));
    return Result(result);
  }
  void set(const std::vector<Tensor>& states) {
    const std::vector<metac_tensor> given = calls::c_tensors(states);
    calls::check(metac_stream_set(stream_, given.data(), static_cast<int32_t>(given.size())));
  }
  void truncate(int64_t length) { calls::check(metac_stream_truncate(stream_, length)); }
  Stream fork() const {
    metac_stream* forked = nullptr;
    calls::check(metac_stream_fork(stream_, &forked));
    return Stream(forked);
  }
  metac_stream* get() const { return stream_; }

 private:
  metac_stream* stream_;
};

// metac_define() and metac_define_file(). `gradient`: {operand, formula} pairs.
inline void define(const std::string& signature, const std::string& formula,
                   const std::vector<std::pair<std::string, std::string>>& gradient = {}, bool fusible = true) {
  std::vector<const char*> operands, formulas;
  for (const auto& [operand, by] : gradient) operands.push_back(operand.c_str()), formulas.push_back(by.c_str());
  metac_definition definition{};
  definition.size = sizeof definition;
  definition.signature = signature.c_str();
  definition.body = formula.c_str();
  definition.operands = operands.data();
  definition.gradients = formulas.data();
  definition.gradient_count = static_cast<int32_t>(operands.size());
  definition.is_stored = fusible ? 0 : 1;
  if (const metac_status status = metac_define(&definition); status != METAC_OK) throw Error(status, metac_last_error());
}
inline void define_file(const std::string& path) {
  if (const metac_status status = metac_define_file(path.c_str()); status != METAC_OK)
    throw Error(status, metac_last_error());
}

// Any number of threads may run one session.
class Session {
 public:
  explicit Session(const std::string& path, const Options& options = {}) {
    const CallOptions call(options);
    calls::check(metac_session_open(path.c_str(), &call.options, &session_));
  }
  Session(const void* model, size_t bytes, const Options& options = {}) {
    const CallOptions call(options);
    calls::check(metac_session_open_memory(model, bytes, &call.options, &session_));
  }
  ~Session() { metac_session_close(session_); }
  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::vector<Port> inputs() const { return ports(metac_session_input); }
  std::vector<Port> outputs() const { return ports(metac_session_output); }
  std::vector<Port> states() const { return ports(metac_session_state); }

  Stream stream() {
    metac_stream* stream = nullptr;
    calls::check(metac_stream_open(session_, &stream));
    return Stream(stream);
  }

  Result run(const std::vector<Tensor>& inputs) {
    const std::vector<metac_tensor> given = calls::c_tensors(inputs);
    metac_result* result = nullptr;
    calls::check(metac_session_run(session_, given.data(), static_cast<int32_t>(given.size()), &result));
    return Result(result);
  }
  void set_weights(const std::vector<Tensor>& weights) {
    const std::vector<metac_tensor> given = calls::c_tensors(weights);
    calls::check(metac_session_set_weights(session_, given.data(), static_cast<int32_t>(given.size())));
  }
  void wait() { calls::check(metac_session_wait(session_)); }
  metac_session_report report() const {
    metac_session_report report{};
    report.size = sizeof report;
    calls::check(metac_session_get_report(session_, &report));
    return report;
  }
  metac_session* get() const { return session_; }

 private:
  // The C struct, whose pointers are into `options` and `dims`.
  struct CallOptions {
    explicit CallOptions(const Options& given) {
      for (const Dim& dim : given.dims) dims.push_back({dim.name.c_str(), dim.min, dim.max, dim.divisor});
      options.size = sizeof options;
      options.specialise = given.specialise.empty() ? nullptr : given.specialise.c_str();
      options.cpu = given.cpu.empty() ? nullptr : given.cpu.c_str();
      options.target = given.target.empty() ? nullptr : given.target.c_str();
      options.precision = given.precision.empty() ? nullptr : given.precision.c_str();
      options.threads = given.threads;
      options.max_contexts = given.max_contexts;
      options.max_specialisations = given.max_specialisations;
      options.max_memory = given.max_memory;
      options.dim_count = static_cast<int32_t>(dims.size());
      options.dims = dims.data();
      for (const auto& [input, output] : given.states) states.push_back({input.c_str(), output.c_str()});
      options.states = states.data();
      options.state_count = static_cast<int32_t>(states.size());
      options.known_states = given.known_states ? 1 : 0;
      for (const std::string& file : given.ops) ops.push_back(file.c_str());
      options.ops = ops.data();
      options.ops_count = static_cast<int32_t>(ops.size());
    }
    CallOptions(const CallOptions&) = delete;
    CallOptions& operator=(const CallOptions&) = delete;
    std::vector<metac_dim> dims;
    std::vector<metac_state> states;
    std::vector<const char*> ops;
    metac_session_options options{};
  };

  std::vector<Port> ports(const metac_port* (*at)(const metac_session*, int32_t)) const {
    std::vector<Port> result;
    for (int32_t i = 0; const metac_port* port = at(session_, i); ++i) {
      Port told{port->name, port->rank, port->dtype, {}, {}};
      for (int32_t k = 0; k < port->rank; ++k) {
        told.dims.push_back(port->dims[k]);
        told.dim_names.emplace_back(port->dim_names[k] ? port->dim_names[k] : "");
      }
      result.push_back(std::move(told));
    }
    return result;
  }
  metac_session* session_ = nullptr;
};

}  // namespace metac
