#include "compiler/driver/options/model_inputs.h"

#include <algorithm>
#include <set>

#include "compiler/api/tensor_files.h"
#include "compiler/driver/command.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"

namespace metac {
namespace {

const Value* find_input(const std::vector<Value>& inputs, const std::string& name) {
  for (const Value& input : inputs)
    if (input.name == name) return &input;
  return nullptr;
}

// "float32 batchx1x8x8", as the model declares it.
std::string declared(const Value& input) {
  std::string text(input.type.dtype ? name_of(*input.type.dtype) : "of no declared type");
  if (!input.type.shape) return text;
  text += input.type.shape->empty() ? " scalar" : " ";
  for (size_t i = 0; i < input.type.shape->size(); ++i) {
    const ModelDim& dim = (*input.type.shape)[i];
    text += (i ? "x" : "") + (dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol);
  }
  return text;
}

[[noreturn]] void refuse_open_dim(const Model& model, const Value& input, size_t axis, const std::string& symbol) {
  std::string example;
  for (size_t i = 0; i < input.type.shape->size(); ++i)
    example += concat(i ? "x" : "", std::max<int64_t>(1, (*input.type.shape)[i].value));
  throw CompileError(
      {model.path, "input " + quoted(input.name),
       concat("random values need every dim, and dim ", axis, symbol.empty() ? "" : " (" + quoted(symbol) + ")",
              " is open: give --dim ", quoted(name_of_dim(input, axis) + "=1"), " or --shape ",
              quoted(input.name + "=" + example))});
}

Tensor random_input(const Model& model, const Value& input, uint64_t seed,
                    const std::map<std::string, std::vector<int64_t>>& shapes, const std::map<std::string, int64_t>& sizes) {
  if (!input.type.dtype || input.type.containers != std::vector<std::string>{"tensor"})
    throw CompileError(
        {model.path, "input " + quoted(input.name), "has no type that random values can be made for; give it with --input"});
  std::vector<int64_t> shape;
  if (auto given = shapes.find(input.name); given != shapes.end()) {
    shape = given->second;
  } else if (input.type.shape) {
    for (const ModelDim& dim : *input.type.shape) shape.push_back(dim.value);
  } else {
    throw CompileError({model.path, "input " + quoted(input.name), "has no declared rank; give its shape with --shape"});
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0) continue;
    const bool declared_here = input.type.shape && i < input.type.shape->size();
    const std::string symbol = declared_here ? (*input.type.shape)[i].symbol : std::string();
    if (auto known = sizes.find(name_of_dim(input, i)); known != sizes.end())
      shape[i] = known->second;
    else if (declared_here)
      refuse_open_dim(model, input, i, symbol);
    else
      throw UsageError(concat("--shape ", quoted(input.name), ": random values need every dim, and dim ", i, " is open"));
  }
  return random_tensor(*input.type.dtype, shape, seed);
}

}  // namespace

std::map<std::string, Tensor> gather_inputs(const Model& model, const std::vector<std::string>& given,
                                            const std::vector<std::string>& shapes, const std::vector<std::string>& dims,
                                            bool invent) {
  std::vector<Value> inputs = free_inputs(model);
  std::set<std::string> random;
  std::map<std::string, Tensor> result;
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, symbol] : parse_dims(dims)) {
    if (symbol.min == symbol.max) sizes[name] = symbol.min;  // a range is no size
  }

  for (const std::string& text : given) {
    if (text == "random") {
      invent = true;
      continue;
    }
    size_t at = text.rfind('=');
    if (at == std::string::npos)
      throw UsageError(concat("--input ", quoted(text), ": expected NAME=file.npy, NAME=random, or random for all others"));
    std::string name = text.substr(0, at), source = text.substr(at + 1);
    const Value* input = find_input(model.graph.inputs, name);
    if (!input) {
      std::string list;
      std::vector<std::string> names;
      for (const Value& each : inputs) list += (list.empty() ? "" : ", ") + quoted(each.name), names.push_back(each.name);
      throw CompileError({model.path, "",
                          concat("there is no input ", quoted(name), suggestion(name, names), " (the inputs are ",
                                 list.empty() ? "none" : list, ")")});
    }
    if (random.count(name) || result.count(name)) throw UsageError(concat("--input gives ", quoted(name), " twice"));
    if (source == "random") {
      random.insert(name);
      continue;
    }
    Tensor tensor = read_tensor(source, name);
    if (input->type.shape && input->type.shape->size() == tensor.shape.size())
      for (size_t i = 0; i < tensor.shape.size(); ++i)
        if (!(*input->type.shape)[i].symbol.empty()) sizes.emplace((*input->type.shape)[i].symbol, tensor.shape[i]);
    result[name] = std::move(tensor);
  }
  std::map<std::string, std::vector<int64_t>> by_name = parse_shapes(shapes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].name;
    if (result.count(name)) continue;
    if (!invent && !random.count(name))
      throw CompileError({model.path, "",
                          concat("input ", quoted(name), " (", declared(inputs[i]), ") is not given: --input ",
                                 quoted(name + "=FILE.npy"), ", or --input ", quoted(name + "=random"))});
    result[inputs[i].name] = random_input(model, inputs[i], i, by_name, sizes);
  }
  return result;
}

}  // namespace metac
