#include "compiler/api/carry_model.h"

#include "compiler/session/given_inputs.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

// Inputs as the options say.
void apply_shapes(Model& model, const std::map<std::string, std::vector<int64_t>>& shapes) {
  for (Value& input : model.graph.inputs) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) continue;
    std::vector<ModelDim> dims(given->second.size());
    const bool declared = input.type.shape && input.type.shape->size() == dims.size();
    for (size_t k = 0; k < dims.size(); ++k) {
      const ModelDim before = declared ? (*input.type.shape)[k] : ModelDim();
      dims[k] = given->second[k] >= 0 ? ModelDim{given->second[k], ""} : ModelDim{-1, before.symbol};
    }
    input.type.shape = std::move(dims);
  }
  if (shapes.empty()) return;
  // What the file says of other values was meant for the shapes that it states.
  for (std::vector<Value>* values : {&model.graph.outputs, &model.graph.value_info})
    for (Value& value : *values)
      if (value.type.shape) value.type.shape->assign(value.type.shape->size(), ModelDim{});
}

}  // namespace

CarriedModel carry_model(const Model& model, const LowerOptions& lower) {
  Model light = model;
  apply_shapes(light, lower.input_shapes);
  CarriedModel carried;
  bool open = false;
  for (const Value& input : free_inputs(light))
    for (size_t k = 0; input.type.shape && k < input.type.shape->size(); ++k) {
      const ModelDim& dim = (*input.type.shape)[k];
      const auto declared = lower.dims.find(name_of_dim(input, k));
      const bool is_declared = dim.value < 0 && declared != lower.dims.end();
      if (is_declared) carried.dims.insert(*declared);
      open |= dim.value < 0 && !(is_declared && declared->second.min == declared->second.max);
    }
  if (!open) fail("--jit: every dim of the inputs is fixed, so there is nothing that runs could specialise");
  for (Initializer& initializer : light.graph.initializers) {
    if (!is_numeric(initializer.tensor.dtype) || initializer.tensor.byte_count() == 0) continue;
    carried.weights.push_back(initializer);
    initializer.tensor = make_tensor<uint8_t>(initializer.tensor.dtype, {0}, {});
  }
  carried.graph = to_onnx_bytes(light);
  return carried;
}

}  // namespace metac
