// @name@ for C++17: the C interface of @name@.h with ownership. Errors are exceptions here, and only here.
#pragma once
#include <cstring>
@generate_include@#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "@name@.h"

namespace @name@ {

class Error : public std::runtime_error {
 public:
  Error(@name@_status status, const char* message) : std::runtime_error(message), status(status) {}
  @name@_status status;
};

// A view of contiguous elements. As an output it may be empty: the model then provides the memory until its next run.
using Tensor = @name@_tensor;

inline Tensor tensor(const void* data, const std::vector<int64_t>& dims) {
  Tensor t{};
  if (dims.size() > @NAME@_MAX_RANK) throw Error(@NAME@_INVALID_ARGUMENT, "too many dims");
  t.data = const_cast<void*>(data);
  t.rank = static_cast<int32_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) t.dims[d] = dims[d];
  return t;
}

// What elements of T are for a call to check; 0: T does not tell (bytes and 16 bits may stand for several types).
template <class T>
constexpr int32_t type_of() {
  if (std::is_same_v<T, float>) return @NAME@_TYPE(@NAME@_FLOAT32);
  if (std::is_same_v<T, double>) return @NAME@_TYPE(@NAME@_FLOAT64);
  if (std::is_same_v<T, bool>) return @NAME@_TYPE(@NAME@_BOOL);
  if (std::is_integral_v<T> && sizeof(T) == 8) return std::is_signed_v<T> ? @NAME@_TYPE(@NAME@_INT64) : @NAME@_TYPE(@NAME@_UINT64);
  if (std::is_integral_v<T> && sizeof(T) == 4) return std::is_signed_v<T> ? @NAME@_TYPE(@NAME@_INT32) : @NAME@_TYPE(@NAME@_UINT32);
  return 0;
}
// The same with the type: calls refuse elements of another one than the model's.
template <class T>
Tensor tensor_of(const T* data, const std::vector<int64_t>& dims) {
  Tensor t = tensor(static_cast<const void*>(data), dims);
  t.type = type_of<T>();
  return t;
}

class Model {
 public:
  // The size of the options is set here.
  explicit Model(@name@_options options = {}) {
    options.size = sizeof options;
    check(@name@_create(&options, &context_), context_);
  }
  explicit Model(int threads) : Model(with_threads(threads)) {}
  ~Model() { @name@_destroy(context_); }
  Model(Model&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(context_, other.context_);
    return *this;
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // One inference; the results are valid until the next one.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs(@NAME@_OUTPUTS, Tensor{});
    run(inputs, outputs);
    return outputs;
  }
  // Into the memory that the outputs name.
  void run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    check(@name@_run(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size())));
  }
  // From any thread: ends the run that the model is in, which throws an Error of the status CANCELLED.
  void cancel() { @name@_cancel(context_); }
  // Which kernel makes the first NaN and infinity of these inputs; "" where none does.
  std::string find_non_finite(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs(@NAME@_OUTPUTS, Tensor{});
    char report[512];
    check(@name@_find_non_finite(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()), report, sizeof report));
    return report;
  }
  void set_weights(const std::vector<const void*>& parameters) {
    check(@name@_set_weights(context_, parameters.data(), static_cast<int32_t>(parameters.size())));
  }
  void write_weights(const std::vector<const void*>& parameters, const std::string& path) {
    check(@name@_write_weights(context_, parameters.data(), static_cast<int32_t>(parameters.size()), path.c_str()));
  }
@state_members@@generate_members@@derivative_members@@device_members@@jit_members@  @name@_context* get() const { return context_; }

 private:
  static @name@_options with_threads(int threads) {
    @name@_options options{};
    options.threads = threads;
    return options;
  }
  void check(@name@_status status) {
    if (status != @NAME@_OK) throw Error(status, @name@_last_error(context_));
  }
  static void check(@name@_status status, @name@_context*& context) {
    if (status == @NAME@_OK) return;
    const Error error(status, @name@_last_error(context));
    @name@_destroy(std::exchange(context, nullptr));
    throw error;
  }
  @name@_context* context_ = nullptr;
};

@queue_class@}  // namespace @name@
