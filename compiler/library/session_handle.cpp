#include "compiler/library/session_handle.h"

#include <algorithm>

#include "compiler/library/options.h"
#include "compiler/library/status.h"
#include "compiler/library/tensors.h"

using namespace metac;
using namespace metac::library;

namespace metac::library {

Ports::Ports(const std::vector<Value>& values, const char* what) {
  for (const Value& value : values) {
    const ValueType& type = value.type;
    if (type.dtype == DType::string || type.containers != std::vector<std::string>{"tensor"})
      throw CallError(METAC_UNSUPPORTED, concat(what, " ", quoted(value.name), " is ",
                                                type.dtype == DType::string ? "of strings" : "a " + type.containers[0],
                                                "; this interface carries tensors of numbers and truth values"));
    Memory& memory = memory_.emplace_back();
    memory.name = value.name;
    for (size_t i = 0; type.shape && i < type.shape->size(); ++i) {
      const ModelDim& dim = (*type.shape)[i];
      memory.dims.push_back(dim.value >= 0 ? dim.value : -1);
      memory.names.push_back(dim.symbol);
    }
    for (size_t i = 0; i < memory.dims.size(); ++i)
      memory.dim_names.push_back(memory.dims[i] >= 0 ? nullptr : memory.names[i].c_str());
    metac_port port{};
    port.name = memory.name.c_str();
    port.rank = type.shape ? static_cast<int32_t>(type.shape->size()) : -1;
    port.dims = type.shape ? memory.dims.data() : nullptr;
    port.dim_names = type.shape ? memory.dim_names.data() : nullptr;
    port.dtype = type.dtype ? static_cast<int32_t>(*type.dtype) : -1;
    ports_.push_back(port);
  }
}

}  // namespace metac::library

namespace {

std::map<std::string, Value> types_of(const std::vector<Initializer>& initializers) {
  std::map<std::string, Value> result;
  for (const Initializer& initializer : initializers) {
    Value value{initializer.name, {}};
    value.type.dtype = initializer.tensor.dtype;
    value.type.shape.emplace();
    for (const int64_t dim : initializer.tensor.shape) value.type.shape->push_back({dim, ""});
    result.emplace(initializer.name, std::move(value));
  }
  return result;
}

std::vector<Value> but_states(const std::vector<Value>& outputs, const std::vector<StateNames>& states) {
  std::vector<Value> others;
  for (const Value& output : outputs)
    if (std::none_of(states.begin(), states.end(), [&](const StateNames& names) { return names.output == output.name; }))
      others.push_back(output);
  return others;
}

std::vector<Value> inputs_of(const Model& model, const std::vector<StateNames>& states) {
  std::vector<Value> inputs;
  for (const StateNames& names : states)
    for (const Value& input : model.graph.inputs)
      if (input.name == names.input) inputs.push_back(input);
  return inputs;
}

}  // namespace

// What is told of the model is copied before the session takes it: set_weights() of another thread may change the
// session's while it is read.
metac_session::metac_session(Model model, SessionOptions options)
    : checks_(model, options.lower),
      weights_(types_of(model.graph.initializers)),
      inputs(checks_.needed(), "input"),
      outputs(but_states(model.graph.outputs, options.lower.states), "output"),
      states(inputs_of(model, options.lower.states), "state"),
      session(std::move(model), std::move(options)) {}

metac_session* library::opened_session(Model model, SessionOptions checked, const metac_session_options* given) {
  checked.lower.states = states_of(given, model);
  return new metac_session(with_operators(with_weights(std::move(model), given), given), std::move(checked));
}

std::map<std::string, Tensor> metac_session::checked(const metac_tensor* given, int32_t count) const {
  std::map<std::string, Tensor> views = views_of(given, count, "input");
  checks_.check(views);
  return views;
}

metac_result* metac_session::run(const metac_tensor* given, int32_t count) {
  return new metac_result(session.run(checked(given, count)));
}

metac_result* metac_session::run(Stream& stream, const metac_tensor* given, int32_t count) {
  return new metac_result(stream.run(checked(given, count)));
}

metac_result* metac_session::try_run(const metac_tensor* given, int32_t count) {
  auto outputs = session.try_run(checked(given, count));
  return outputs ? new metac_result(std::move(*outputs)) : nullptr;
}

void metac_session::set_weights(const metac_tensor* given, int32_t count) {
  std::map<std::string, Tensor> tensors = views_of(given, count, "weight");
  for (const auto& [name, tensor] : tensors) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) refuse("the model has no initialiser ", quoted(name));
    check_type("weight", name, found->second.type, tensor);
  }
  for (auto& [name, tensor] : tensors) tensor = copy_of(tensor);  // programs are prepared from them long after the call
  session.set_weights(tensors);
}

metac_result::metac_result(std::vector<std::pair<std::string, Tensor>> given) : values(std::move(given)) {
  for (const auto& [name, tensor] : values) {
    if (tensor.dtype == DType::string)
      throw CallError(METAC_UNSUPPORTED, concat("output ", quoted(name),
                                                " is of strings; this interface carries tensors of "
                                                "numbers and truth values"));
    metac_tensor view{};
    view.name = name.c_str();
    view.data = tensor.bytes.get();
    view.bytes = static_cast<int64_t>(tensor.byte_count());
    view.dims = tensor.shape.data();
    view.rank = static_cast<int32_t>(tensor.shape.size());
    view.dtype = static_cast<int32_t>(tensor.dtype);
    tensors.push_back(view);
  }
}
