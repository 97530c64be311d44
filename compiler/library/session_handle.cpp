#include "compiler/library/session_handle.h"

#include <algorithm>

#include "compiler/library/status.h"
#include "compiler/library/tensors.h"
#include "compiler/session/given_inputs.h"

using namespace metac;
using namespace metac::library;

namespace metac::library {
namespace {

const Value* find_value(const std::vector<Value>& values, const std::string& name) {
  for (const Value& value : values)
    if (value.name == name) return &value;
  return nullptr;
}

std::string names_of(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + quoted(value.name);
  return text.empty() ? "none" : text;
}

void check_type(const std::string& which, const ValueType& wanted, const Tensor& given) {
  const bool rank_differs = wanted.shape && wanted.shape->size() != given.shape.size();
  bool differs = rank_differs || (wanted.dtype && *wanted.dtype != given.dtype);
  for (size_t i = 0; wanted.shape && !rank_differs && i < given.shape.size(); ++i)
    differs |= (*wanted.shape)[i].value >= 0 && (*wanted.shape)[i].value != given.shape[i];
  if (differs)
    refuse(which, ": the model wants ", describe_type(wanted), ", given is ", name_of(given.dtype), " ",
           to_string(given.shape));
}

}  // namespace

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

// A dim that is declared must be one of the model's inputs': a misspelt one would change nothing.
void check_dims(const std::map<std::string, Symbol>& declared, const std::vector<Value>& inputs) {
  std::string known;
  for (const auto& [name, symbol] : declared) {
    bool found = false;
    for (const Value& input : inputs)
      for (size_t i = 0; input.type.shape && i < input.type.shape->size(); ++i)
        found |= (*input.type.shape)[i].value < 0 && (*input.type.shape)[i].symbol == name;
    if (!found) refuse("options: dim ", quoted(name), ": the model's inputs have no open dim of this name");
  }
}

}  // namespace

// What is told of the model is copied before the session takes it: set_weights() of another thread may change the
// session's while it is read.
metac_session::metac_session(Model model, SessionOptions options)
    : wanted_(free_inputs(model)),
      accepted_(model.graph.inputs),
      dims_(options.lower.dims),
      weights_(types_of(model.graph.initializers)),
      inputs(wanted_, "input"),
      outputs(model.graph.outputs, "output"),
      session((check_dims(dims_, accepted_), std::move(model)), std::move(options)) {}

void metac_session::check_inputs(const std::map<std::string, Tensor>& given) const {
  std::map<std::string, std::pair<int64_t, std::string>> open;  // by the dim's name: its length, and the input that said so
  for (const auto& [name, tensor] : given) {
    const Value* input = find_value(accepted_, name);
    if (!input) refuse("there is no input ", quoted(name), "; the inputs are ", names_of(wanted_));
    const std::string which = "input " + quoted(name);
    check_type(which, input->type, tensor);
    for (size_t i = 0; input->type.shape && i < tensor.shape.size(); ++i) {
      const ModelDim& dim = (*input->type.shape)[i];
      if (dim.value >= 0 || dim.symbol.empty()) continue;
      const auto [first, fresh] = open.try_emplace(dim.symbol, tensor.shape[i], which);
      if (!fresh && first->second.first != tensor.shape[i])
        refuse(which, ": dim ", quoted(dim.symbol), " is ", tensor.shape[i], "; of ", first->second.second, " it is ",
               first->second.first);
      const auto declared = dims_.find(dim.symbol);
      if (declared == dims_.end()) continue;
      const Symbol& symbol = declared->second;
      if (tensor.shape[i] < symbol.min || tensor.shape[i] > symbol.max || tensor.shape[i] % symbol.divisor != 0)
        refuse(which, ": dim ", quoted(dim.symbol), " is ", tensor.shape[i], "; declared is ", symbol.min, " to ",
               symbol.max, symbol.divisor > 1 ? concat(", a multiple of ", symbol.divisor) : "");
    }
  }
  for (const Value& input : wanted_)
    if (!given.count(input.name)) refuse("input ", quoted(input.name), " (", describe_type(input.type), ") is missing");
}

metac_result* metac_session::run(const metac_tensor* given, int32_t count) {
  const std::map<std::string, Tensor> views = views_of(given, count, "input");
  check_inputs(views);
  return new metac_result(session.run(views));
}

metac_result* metac_session::try_run(const metac_tensor* given, int32_t count) {
  const std::map<std::string, Tensor> views = views_of(given, count, "input");
  check_inputs(views);
  auto outputs = session.try_run(views);
  return outputs ? new metac_result(std::move(*outputs)) : nullptr;
}

void metac_session::set_weights(const metac_tensor* given, int32_t count) {
  std::map<std::string, Tensor> tensors = views_of(given, count, "weight");
  for (const auto& [name, tensor] : tensors) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) refuse("the model has no initialiser ", quoted(name));
    check_type("weight " + quoted(name), found->second.type, tensor);
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
