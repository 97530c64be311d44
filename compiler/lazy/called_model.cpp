#include "compiler/lazy/called_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

constexpr int64_t most_literal = 64;  // elements

Value* constant_of(const Tensor& tensor) {
  LazyGraph& graph = LazyGraph::of_process();
  const std::shared_ptr<std::byte> bytes = memory_for(static_cast<int64_t>(tensor.byte_count()));
  if (bytes) std::memcpy(bytes.get(), tensor.bytes.get(), tensor.byte_count());
  const TensorType* type = tensor_type(tensor.dtype, tensor.shape);
  return tensor.element_count() <= most_literal ? graph.literal(type, bytes) : graph.data(type, bytes);
}

}  // namespace

CalledModel::CalledModel(const Model& model) {
  std::map<std::string, int> places;
  int next = 0;
  for (const metac::Value& input : model.graph.inputs) places[input.name] = next++;
  inputs_ = static_cast<size_t>(next);
  std::vector<std::pair<std::string, const Tensor*>> constants;
  for (const Initializer& each : model.graph.initializers) constants.emplace_back(each.name, &each.tensor);
  for (const metac::Node& node : model.graph.nodes)
    if (node.op_type == "Constant" && node.domain.empty() && node.attributes.count("value"))
      constants.emplace_back(node.outputs.at(0), &node.attributes.at("value").tensors.at(0));
  for (const auto& [name, tensor] : constants) {
    places[name] = next++;
    constants_.push_back(constant_of(*tensor));
  }
  const auto place = [&](const std::string& name) {
    if (name.empty()) return -1;
    const auto found = places.find(name);
    if (found == places.end()) fail("value ", quoted(name), " is read before anything makes it");
    return found->second;
  };
  for (const metac::Node& node : model.graph.nodes) {
    if (node.op_type == "Constant" && node.domain.empty() && node.attributes.count("value")) continue;
    const auto function = std::find_if(model.functions.begin(), model.functions.end(), [&](const ModelFunction& f) {
      return f.name == node.op_type && f.domain == node.domain;
    });
    const Operation* const applied = function == model.functions.end()
                                         ? operation(node.domain, node.op_type, node.attributes)
                                         : defined_operation(*function, node.attributes);
    Step step{applied, {}, static_cast<uint32_t>(node.outputs.size())};
    for (const std::string& input : node.inputs) step.inputs.push_back(place(input));
    for (const std::string& output : node.outputs) places[output] = next++;
    steps_.push_back(std::move(step));
  }
  for (const metac::Value& output : model.graph.outputs) outputs_.push_back(place(output.name));
}

CalledModel::~CalledModel() {
  for (Value* constant : constants_) LazyGraph::of_process().release(constant);
}

std::vector<Value*> CalledModel::call(LazyGraph& graph, const std::vector<Value*>& operands, Site site, bool no_grad) const {
  METAC_ASSERT(operands.size() == inputs_, operands.size(), " operands for ", inputs_);
  std::vector<Value*> values = operands;
  values.insert(values.end(), constants_.begin(), constants_.end());
  const size_t made = values.size();
  std::vector<Value*> results;
  const auto give_back = [&] {
    for (size_t k = made; k < values.size(); ++k) graph.release(values[k]);
  };
  try {
    std::vector<Value*> inputs;
    for (const Step& step : steps_) {
      inputs.clear();
      for (const int place : step.inputs) inputs.push_back(place < 0 ? nullptr : values[static_cast<size_t>(place)]);
      std::vector<Value*> outputs(step.outputs);
      graph.apply(step.operation, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(), step.outputs, site,
                  no_grad);
      values.insert(values.end(), outputs.begin(), outputs.end());
    }
    for (const int place : outputs_) {
      results.push_back(values[static_cast<size_t>(place)]);
      graph.hold(results.back());
    }
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
  return results;
}

}  // namespace metac::lazy
