// The rows of a batch: which models have them, whether a request has what it says, and copies from and to the requests.
#pragma once
#include "requests.h"

namespace METAC_RUNTIME_NAMESPACE {

// May rows of several requests be one run's? Only if the first dim of every input and output is one and the same open dim.
inline bool has_open_batch(const metac_model& model, Failure& failure) {
  if (model.states > 0)
    return failure.set(Status::unsupported, "the model has states, which belong to one sequence of runs and to no batch");
  if (model.inputs == 0) return failure.set(Status::unsupported, "the model has no inputs, and so no batch");
  const char* name = nullptr;
  for (int32_t k = 0; k < model.inputs + model.outputs; ++k) {
    const bool input = k < model.inputs;
    const metac_model_port& port = input ? *model.input(k) : *model.output(k - model.inputs);
    const char* const what = input ? "input" : "output";
    if (port.rank == 0)
      return failure.set(Status::unsupported, "%s \"%s\" is a scalar: there is no batch dim", what, port.name);
    if (port.dims[0] >= 0)
      return failure.set(
          Status::unsupported,
          "the first dim of %s \"%s\" is %lld; a queue needs it to be open, the same of all inputs and outputs", what,
          port.name, static_cast<long long>(port.dims[0]));
    if (name == nullptr) name = port.dim_names[0];
    if (std::strcmp(name, port.dim_names[0]) != 0)
      return failure.set(Status::unsupported, "the first dim of %s \"%s\" is \"%s\", and that of input \"%s\" is \"%s\"",
                         what, port.name, port.dim_names[0], model.input(0)->name, name);
  }
  return true;
}

// What elements of dims from axis `first` on need; -1: no tensor does.
__attribute__((noinline)) inline int64_t bytes_from(int32_t first, const metac_model_port& port,
                                                    const metac_model_tensor& tensor) {
  return bytes_of_dims(static_cast<ScalarType>(port.dtype), tensor.dims + first, tensor.rank - first);
}

__attribute__((noinline)) inline bool check_tensor_type(const char* what, const metac_model_port& port,
                                                        const metac_model_tensor& tensor, Failure& failure) {
  return tensor.type == 0 || tensor.type == METAC_MODEL_TYPE(port.dtype) ||
         failure.set(Status::invalid_argument, "%s \"%s\" is given as type %d, expected %d (%s)", what, port.name,
                     tensor.type, METAC_MODEL_TYPE(port.dtype), dtype_name(static_cast<ScalarType>(port.dtype)));
}

// Is it what the port says, with `*rows` rows as the inputs before it (0: this is the first one)?
inline bool check_input(const metac_model_port& port, const metac_model_tensor& tensor, int64_t most_rows, int64_t* rows,
                        Failure& failure) {
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  if (tensor.rank != port.rank)
    return failure.set(Status::invalid_argument, "input \"%s\" has rank %d, expected %d", port.name, tensor.rank, port.rank);
  if (!check_tensor_type("input", port, tensor, failure)) return false;
  for (int32_t axis = 0; axis < port.rank; ++axis)
    if (port.dims[axis] >= 0 ? tensor.dims[axis] != port.dims[axis] : tensor.dims[axis] < 0)
      return failure.set(Status::invalid_argument, "input \"%s\": dim %d is %lld, expected %s", port.name, axis,
                         number(tensor.dims[axis]), port.dim_names[axis]);
  if (tensor.dims[0] < 1 || tensor.dims[0] > most_rows)
    return failure.set(Status::invalid_argument, "input \"%s\" has %lld rows, expected 1 to %lld, the queue's max_batch",
                       port.name, number(tensor.dims[0]), number(most_rows));
  if (*rows == 0) *rows = tensor.dims[0];
  if (tensor.dims[0] != *rows)
    return failure.set(Status::invalid_argument, "input \"%s\" has %lld rows, the inputs before it have %lld", port.name,
                       number(tensor.dims[0]), number(*rows));
  const int64_t bytes = bytes_from(0, port, tensor);
  if (bytes < 0 || (tensor.bytes != 0 && tensor.bytes != bytes))
    return failure.set(Status::invalid_argument, "input \"%s\": %lld bytes given, its dims need %lld", port.name,
                       number(tensor.bytes), number(bytes));
  return tensor.data != nullptr || bytes == 0 ||
         failure.set(Status::invalid_argument, "input \"%s\" has no data", port.name);
}

// Whether a request may wait with others: what is wrong with it is told before. *rows: how many it has.
inline bool check_request(const metac_model& model, const metac_model_tensor* inputs, int32_t input_count,
                          const metac_model_tensor* outputs, int32_t output_count, int64_t most_rows, int64_t* rows,
                          Failure& failure) {
  const int32_t in = inputs == nullptr ? 0 : input_count, out = outputs == nullptr ? 0 : output_count;
  if (in != model.inputs)
    return failure.set(Status::invalid_argument, "%d inputs given, the model has %d", in, model.inputs);
  if (out != model.outputs)
    return failure.set(Status::invalid_argument, "%d outputs given, the model has %d", out, model.outputs);
  *rows = 0;
  for (int32_t i = 0; i < in; ++i)
    if (!check_input(*model.input(i), inputs[i], most_rows, rows, failure)) return false;
  for (int32_t o = 0; o < out; ++o)
    if (outputs[o].data == METAC_MODEL_UNWANTED)
      return failure.set(Status::invalid_argument, "output \"%s\" is unwanted, and a batch makes all of them",
                         model.output(o)->name);
    else if (outputs[o].data != nullptr && !check_tensor_type("output", *model.output(o), outputs[o], failure))
      return false;
  return true;
}

// Where an output of a request goes: the caller's memory, or the request's. nullptr: its failure says why not.
__attribute__((noinline)) inline void* memory_of_output(const metac_model_port& port, QueueRequest& r, int32_t output,
                                                        int64_t bytes) {
  const metac_model_tensor& given = r.outputs[output];
  if (given.data == nullptr) {
    if (!r.memory[output].reserve(bytes))
      r.failure.set(Status::out_of_memory, "no memory for %lld bytes of output \"%s\"", static_cast<long long>(bytes),
                    port.name);
    return r.failure.ok() ? r.memory[output].data() : nullptr;
  }
  if (given.bytes < bytes)
    r.failure.set(Status::invalid_argument, "output \"%s\" needs %lld bytes, the memory given has %lld", port.name,
                  static_cast<long long>(bytes), static_cast<long long>(given.bytes));
  return r.failure.ok() ? given.data : nullptr;
}

// `rows` rows of the requests of a batch, one after another, as one input in `memory`. False: no memory.
inline bool gather_rows(const metac_model_port& port, const QueueRequest* batch, int64_t rows, int32_t input, Block& memory,
                        metac_model_tensor& tensor) {
  const int64_t row = bytes_from(1, port, batch->inputs[input]);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(row, rows, &bytes) || !memory.reserve(bytes)) return false;
  char* to = static_cast<char*>(memory.data());
  for (const QueueRequest* r = batch; r != nullptr; to += r->rows * row, r = r->next)
    if (row > 0) std::memcpy(to, r->inputs[input].data, static_cast<size_t>(r->rows * row));
  tensor = batch->inputs[input];
  tensor.data = memory.data();
  tensor.dims[0] = rows;
  tensor.bytes = bytes;
  return true;
}

// Each request's rows of an output of the whole batch. Those that have no memory for them fail alone.
inline void scatter_rows(const metac_model_port& port, QueueRequest* batch, int32_t output, const metac_model_tensor& made) {
  const int64_t row = bytes_from(1, port, made);
  const char* from = static_cast<const char*>(made.data);
  for (QueueRequest* r = batch; r != nullptr; from += r->rows * row, r = r->next) {
    if (!r->failure.ok()) continue;
    const int64_t bytes = r->rows * row;
    void* const to = memory_of_output(port, *r, output, bytes);
    if (to == nullptr) continue;
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    metac_model_tensor& told = r->outputs[output];
    told = made;
    told.data = to;
    told.bytes = bytes;
    told.dims[0] = r->rows;
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
