#include "compiler/train/batch_fields.h"

#include <algorithm>

#include "compiler/ir/expr_table.h"
#include "compiler/support/diagnostic.h"

namespace metac {

// The batch is the first axis of every input. Where a file says 1 there, that is how it was exported; a name stands for the
// batch wherever it appears.
BatchFields::BatchFields(const Model& model, const Recipe& recipe, const LowerOptions& lower)
    : r_(recipe), fixed_(model), allow_code_(lower.allow_code) {
  std::set<std::string> initialised, batch_names;
  for (const Initializer& i : model.graph.initializers) initialised.insert(i.name);
  auto& inputs = fixed_.graph.inputs;
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), [&](const Value& v) { return initialised.count(v.name) > 0; }),
               inputs.end());
  auto refuse = [&](const Value& input, const std::string& message) {
    throw CompileError({model.path, "", "input " + quoted(input.name) + " " + message});
  };
  for (const Value& input : inputs) {
    if (!input.type.shape && !lower.input_shapes.count(input.name))
      refuse(input, "has no declared rank; give its shape: --shape name=1x3x224x224");
    if (input.type.shape && !input.type.shape->empty()) batch_names.insert((*input.type.shape)[0].symbol);
  }
  batch_names.erase("");
  for (Value& input : inputs) {
    if (input.type.containers != std::vector<std::string>{"tensor"} || !input.type.dtype ||
        *input.type.dtype == DType::string)
      refuse(input, "is no numeric tensor");
    auto given = lower.input_shapes.find(input.name);
    std::vector<ModelDim> dims = input.type.shape ? *input.type.shape : std::vector<ModelDim>(given->second.size());
    if (given != lower.input_shapes.end() && given->second.size() != dims.size())
      refuse(input, concat("has rank ", dims.size(), ", the shape ", to_string(given->second), " was given"));
    if (dims.empty()) refuse(input, "is a scalar; every input must have the batch as its first axis");
    TrainingField field{input.name, *input.type.dtype, {}};
    for (size_t k = 0; k < dims.size(); ++k) {
      if (k > 0 && dims[k].value < 0 && given != lower.input_shapes.end()) dims[k].value = given->second[k];
      if (k > 0 && dims[k].value < 0)
        if (auto fixed = lower.dims.find(name_of_dim(input, k));
            fixed != lower.dims.end() && fixed->second.min == fixed->second.max)
          dims[k].value = fixed->second.min;
      if (k == 0 || batch_names.count(dims[k].symbol)) dims[k].value = recipe.batch;
      if (dims[k].value < 0)
        refuse(input, concat("has an open axis ", k, dims[k].symbol.empty() ? "" : " (" + quoted(dims[k].symbol) + ")",
                             "; a training program has fixed shapes: --dim ", quoted(name_of_dim(input, k) + "=64")));
      dims[k].symbol.clear();
      if (k > 0) field.shape.push_back(dims[k].value);
    }
    input.type.shape = dims;
    fields_.push_back(std::move(field));
  }
  fixed_.graph.value_info.clear();
  for (Value& output : fixed_.graph.outputs) output.type = ValueType{};
  for (const Value& v : fixed_.graph.inputs) names_.insert(v.name);
  names_.insert(initialised.begin(), initialised.end());
  for (const Node& node : fixed_.graph.nodes) names_.insert(node.outputs.begin(), node.outputs.end());
  for (const DeclaredField& d : recipe.fields) names_.insert(d.name);
}

int BatchFields::find(const std::string& name) const {
  for (size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].name == name) return static_cast<int>(i);
  return -1;
}

std::string BatchFields::unused(const std::string& hint) {
  std::string name = hint;
  for (int k = 2; !names_.insert(name).second; ++k) name = concat(hint, ".", k);
  return name;
}

TypedShape BatchFields::type_of(const Model& model, const std::string& name, const Place& place) {
  if (auto found = known_.find(name); found != known_.end()) return found->second;
  bool exists =
      std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(), [&](const Value& v) { return v.name == name; });
  for (const Node& node : model.graph.nodes)
    exists = exists || (!name.empty() && std::count(node.outputs.begin(), node.outputs.end(), name));
  if (!exists) {
    std::string outputs;
    for (const Value& v : fixed_.graph.outputs) outputs += (outputs.empty() ? "" : ", ") + quoted(v.name);
    throw CompileError({place, "", concat("the model has no value ", quoted(name), "; its outputs are: ", outputs)});
  }
  Model probe = model;
  probe.graph.outputs = {Value{name, {}}};
  const ExprScope scope;
  std::unique_ptr<Graph> graph = lower_model(probe, LowerOptions{.allow_code = allow_code_});
  const Var* var = graph->outputs.at(0);
  if (!is_static(var->shape()))
    throw CompileError({place, "",
                        concat("the value ", quoted(name), " has the shape ", to_string(var->shape()),
                               ", which is not known when compiling")});
  return known_[name] = {var->dtype(), static_shape(var->shape())};
}

TypedShape BatchFields::field(NodeWriter& write, Model& model, const std::string& name, const TypedShape& type,
                              const Place& place) {
  TypedShape wanted = type;
  for (const DeclaredField& d : r_.fields)
    if (d.name == name) {
      wanted.dtype = d.dtype;
      wanted.shape = {r_.batch};
      wanted.shape.insert(wanted.shape.end(), d.shape.begin(), d.shape.end());
    }
  int known = find(name);
  const bool is_input =
      std::any_of(model.graph.inputs.begin(), model.graph.inputs.end(), [&](const Value& v) { return v.name == name; });
  if (!is_input && write.has(name))
    throw CompileError(
        {place, "", concat("the model computes a value ", quoted(name), " itself; call the target something else")});
  if (known < 0) {
    if (wanted.shape.empty() || wanted.shape[0] != r_.batch)
      throw CompileError({place, "",
                          concat("the field ", quoted(name), " would have the shape ", to_string(wanted.shape),
                                 ", which has no batch axis")});
    known = static_cast<int>(fields_.size());
    fields_.push_back({name, wanted.dtype, {wanted.shape.begin() + 1, wanted.shape.end()}});
    names_.insert(name);
  }
  TypedShape actual{fields_[known].dtype, {r_.batch}};
  actual.shape.insert(actual.shape.end(), fields_[known].shape.begin(), fields_[known].shape.end());
  if (!is_input) write.add_input(name, actual.dtype, actual.shape);
  return actual;
}

std::vector<TrainingPort> BatchFields::ports(const Model& model) const {
  std::vector<TrainingPort> out;
  for (const Value& input : model.graph.inputs) {
    int k = find(input.name);
    METAC_ASSERT(k >= 0, "input ", quoted(input.name), " is no field");
    out.push_back({train::Source::data, k});
  }
  return out;
}

}  // namespace metac
