#include "compiler/driver/model_inputs.h"

#include "compiler/api/session.h"
#include "compiler/api/tensor_files.h"
#include "compiler/driver/command.h"
#include "compiler/driver/quantities.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

const Value* find_input(const std::vector<Value>& inputs, const std::string& name) {
  for (const Value& input : inputs)
    if (input.name == name) return &input;
  return nullptr;
}

Tensor random_input(const Model& model, const Value& input, uint64_t seed,
                    const std::map<std::string, std::vector<int64_t>>& shapes, const std::map<std::string, int64_t>& sizes) {
  if (!input.type.dtype || input.type.containers != std::vector<std::string>{"tensor"})
    throw CompileError(
        {model.path, "input " + quoted(input.name), "has no type that random values can be made for; give it with --input"});
  std::vector<int64_t> shape;
  if (auto given = shapes.find(input.name); given != shapes.end())
    shape = given->second;
  else if (input.type.shape)
    for (const ModelDim& dim : *input.type.shape) {
      auto known = sizes.find(dim.symbol);
      shape.push_back(dim.value >= 0 ? dim.value : known != sizes.end() ? known->second : 1);
    }
  else
    throw CompileError({model.path, "input " + quoted(input.name), "has no declared rank; give its shape with --shape"});
  for (int64_t& d : shape) d = d < 0 ? 1 : d;
  return random_tensor(*input.type.dtype, shape, seed);
}

}  // namespace

std::map<std::string, Tensor> gather_inputs(const Model& model, const std::vector<std::string>& given,
                                            const std::vector<std::string>& shapes, const std::vector<std::string>& dims) {
  std::vector<Value> inputs = free_inputs(model);
  std::map<std::string, Tensor> result;
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, symbol] : parse_dims(dims)) sizes[name] = symbol.hint ? symbol.hint : symbol.min;

  for (const std::string& text : given) {
    size_t at = text.rfind('=');
    if (at == std::string::npos)
      throw UsageError(concat("--input ", quoted(text), ": expected NAME=file.npy or NAME=random"));
    std::string name = text.substr(0, at), source = text.substr(at + 1);
    const Value* input = find_input(model.graph.inputs, name);
    if (!input) {
      std::string names;
      for (const Value& each : inputs) names += (names.empty() ? "" : ", ") + quoted(each.name);
      throw CompileError(
          {model.path, "", concat("there is no input ", quoted(name), "; the inputs are ", names.empty() ? "none" : names)});
    }
    if (source == "random") continue;
    Tensor tensor = read_tensor(source, name);
    if (input->type.shape && input->type.shape->size() == tensor.shape.size())
      for (size_t i = 0; i < tensor.shape.size(); ++i)
        if (!(*input->type.shape)[i].symbol.empty()) sizes.emplace((*input->type.shape)[i].symbol, tensor.shape[i]);
    result[name] = std::move(tensor);
  }
  std::map<std::string, std::vector<int64_t>> by_name = parse_shapes(shapes);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!result.count(inputs[i].name)) result[inputs[i].name] = random_input(model, inputs[i], i, by_name, sizes);
  return result;
}

}  // namespace metac
