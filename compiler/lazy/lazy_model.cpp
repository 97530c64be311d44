#include "compiler/lazy/lazy_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/lazy/structure_hash.h"
#include "compiler/ops/attributes.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

metac::Value declared(const std::string& name, const TensorType& type, const std::map<int, std::string>& open) {
  metac::Value value;
  value.name = name;
  value.type.dtype = type.dtype;
  value.type.onnx_dtype = info(type.dtype).onnx_number;
  value.type.shape.emplace();
  for (const int64_t dim : type.shape) value.type.shape->push_back({dim, ""});
  for (const auto& [axis, dim] : open) (*value.type.shape)[static_cast<size_t>(axis)] = {-1, dim};
  return value;
}

class ModelWriter {
 public:
  explicit ModelWriter(const ModelNames& names) : names_(names) {
    model_.ir_version = 10;
    model_.producer = "metac";
    model_.graph.name = "lazy";
  }

  void import(const std::string& domain) { model_.opset_imports[domain] = opset_of(domain); }

  void name(const Value* value, const char* kind, size_t number) {
    const auto given = names_.of_values.find(value);
    value_names_[value] = given == names_.of_values.end() ? concat(kind, number) : given->second;
  }

  void input(const Value* value) {
    name(value, "x", model_.graph.inputs.size() + model_.graph.initializers.size());
    const std::string& own = value_names_[value];
    if (names_.weights && value->state == ValueState::exists)
      model_.graph.initializers.push_back({own, tensor_of(*value)});
    else
      model_.graph.inputs.push_back(declared(own, *value->type, open_dims_of(value)));
  }

  // The name of an operand; a constant is written where it is first read.
  std::string operand(const Value* value) {
    if (!value) return "";
    const auto found = value_names_.find(value);
    if (found != value_names_.end()) return found->second;
    METAC_ASSERT(value->content != 0, "an operand that is neither an input nor made by a node");
    const auto constant = constants_.find(value->content);
    if (constant != constants_.end()) return constant->second;
    const std::string own = concat("c", constants_.size());
    metac::Node node;
    node.op_type = "Constant";
    node.outputs = {own};
    node.attributes["value"] = tensor_attribute(tensor_of(*value));
    import("");
    model_.graph.nodes.push_back(std::move(node));
    return constants_[value->content] = own;
  }

  void node(const Node& made) {
    const Operation& operation = *made.operation;
    metac::Node node;
    node.domain = operation.domain;
    node.op_type = operation.definition ? carried(*operation.definition) : operation.name;
    node.attributes = operation.attributes;
    uint32_t operands = made.input_count;
    while (operands > 0 && !made.inputs()[operands - 1]) --operands;
    for (uint32_t k = 0; k < operands; ++k) {
      const auto open = names_.open.find({&made, k});
      node.inputs.push_back(open == names_.open.end() ? operand(made.inputs()[k]) : open_operand(open->second));
    }
    if (operation.is_gradient()) {
      node.attributes["y"] = string_attribute(node.inputs.back());
      node.inputs.pop_back();
      node.attributes["xs"] = strings_attribute(node.inputs);
    }
    std::vector<std::string> raw;  // behind which no derivative passes
    for (uint32_t k = 0; k < made.output_count; ++k) {
      const Value* value = made.outputs() + k;
      name(value, "v", made_++);
      const bool stops = made.no_grad && !operation.stops && is_float(value->type->dtype);
      raw.push_back(stops ? value_names_[value] + "/raw" : value_names_[value]);
    }
    node.outputs = raw;
    import(operation.domain);
    model_.graph.nodes.push_back(std::move(node));
    for (uint32_t k = 0; k < made.output_count; ++k) {
      const std::string& own = value_names_[made.outputs() + k];
      if (raw[k] == own) continue;
      metac::Node stop;
      stop.domain = "metac";
      stop.op_type = "stop_gradient";
      stop.inputs = {raw[k]};
      stop.outputs = {own};
      raw_.insert(own);
      import("metac");
      model_.graph.nodes.push_back(std::move(stop));
    }
  }

  // The name that the model has the user's operator by: its own, unless an earlier definition has that.
  std::string carried(const ModelFunction& definition) {
    std::string& known = carried_[&definition];
    if (!known.empty()) return known;
    known = definition.name;
    const auto taken = [&](const ModelFunction& f) { return f.domain == definition.domain && f.name == known; };
    for (int k = 2; std::any_of(model_.functions.begin(), model_.functions.end(), taken); ++k)
      known = concat(definition.name, "_", k);
    model_.functions.push_back(definition);
    model_.functions.back().name = known;
    return known;
  }

  void output(const Value* value) {
    model_.graph.outputs.push_back(declared(result(value), *value->type, open_dims_of(value)));
  }

  Model& model() { return model_; }

 private:
  std::map<int, std::string> open_dims_of(const Value* value) const {
    const auto found = names_.dims.find(value);
    return found == names_.dims.end() ? std::map<int, std::string>() : found->second;
  }

  std::string applied(const char* op_type, std::vector<std::string> inputs,
                      std::map<std::string, Attribute> attributes = {}) {
    metac::Node node;
    node.op_type = op_type;
    node.inputs = std::move(inputs);
    node.outputs = {concat("d", computed_++)};
    node.attributes = std::move(attributes);
    import("");
    model_.graph.nodes.push_back(std::move(node));
    return model_.graph.nodes.back().outputs[0];
  }
  template <class T>
  std::string constant(DType dtype, T number) {
    return applied("Constant", {}, {{"value", tensor_attribute(make_tensor(dtype, {1}, std::vector<T>{number}))}});
  }

  // The name that a result has: where derivatives are only stopped, that of what they do not pass, which need not be copied.
  std::string result(const Value* value) {
    const Value* from = value;
    while (from->node->operation && from->node->operation->stops && value_names_.count(from->node->inputs()[0]) > 0 &&
           from->node->inputs()[0]->node->pending && !names_.of_values.count(from))
      from = from->node->inputs()[0];
    std::string own = operand(from);
    if (raw_.count(own) > 0) own += "/raw";
    return given_.insert(own).second ? own : operand(value);
  }

  // One element, as a tensor of one dim.
  std::string open_element(const OpenElement& element, bool real) {
    if (!element.value) return real ? constant(DType::f64, element.real) : constant(DType::i64, element.offset);
    std::string& shape = shapes_[element.value];
    if (shape.empty()) shape = applied("Shape", {operand(element.value)});
    std::string made;
    for (const int axis : element.axes) {
      const std::string dim = applied("Gather", {shape, constant(DType::i64, int64_t{axis})});
      made = made.empty() ? dim : applied("Mul", {made, dim});
    }
    if (real) {
      made = applied("Cast", {made}, {{"to", integer_attribute(info(DType::f64).onnx_number)}});
      if (element.power != 1) made = applied("Pow", {made, constant(DType::f64, element.power)});
      return element.real == 1 ? made : applied("Mul", {made, constant(DType::f64, element.real)});
    }
    if (element.factor != 1) made = applied("Mul", {made, constant(DType::i64, element.factor)});
    if (element.offset != 0) made = applied("Add", {made, constant(DType::i64, element.offset)});
    return element.divisor == 1 ? made : applied("Div", {made, constant(DType::i64, element.divisor)});
  }

  std::string open_operand(const OpenOperand& open) {
    const bool real = is_float(open.type->dtype);
    std::vector<std::string> elements;
    for (const OpenElement& element : open.elements) elements.push_back(open_element(element, real));
    std::string made = elements.size() == 1 ? elements[0] : applied("Concat", elements, {{"axis", integer_attribute(0)}});
    if (open.type->dtype != (real ? DType::f64 : DType::i64))
      made = applied("Cast", {made}, {{"to", integer_attribute(info(open.type->dtype).onnx_number)}});
    return open.type->rank() == 0 ? applied("Squeeze", {made}) : made;
  }

  const ModelNames& names_;
  Model model_;
  std::unordered_map<const Value*, std::string> value_names_;
  std::unordered_map<uint64_t, std::string> constants_;
  std::map<const ModelFunction*, std::string> carried_;
  std::map<const Value*, std::string> shapes_;  // outputs of Shape
  std::set<std::string> raw_, given_;           // values that are there without the stop too; results
  size_t made_ = 0, computed_ = 0;
};

}  // namespace

std::string text_of(const TensorType& type) {
  std::string dims;
  for (const int64_t dim : type.shape) dims += concat(dims.empty() ? "" : ", ", dim);
  return concat(name_of(type.dtype), "[", dims, "]");
}

Tensor tensor_of(const Value& value) {
  METAC_ASSERT(value.state == ValueState::exists, "the elements of a value that does not exist");
  Tensor tensor;
  tensor.dtype = value.type->dtype;
  tensor.shape = value.type->shape;
  tensor.bytes = value.bytes;
  return tensor;
}

Model model_of(const Cut& cut, const ModelNames& names) {
  ModelWriter writer(names);
  for (const Value* input : cut.inputs) writer.input(input);
  for (const Node* node : cut.nodes) writer.node(*node);
  for (const Value* output : cut.outputs) writer.output(output);
  if (writer.model().opset_imports.empty()) writer.import("");
  return std::move(writer.model());
}

Model model_of_node(const Operation& operation, Value* const* inputs, uint32_t input_count, uint32_t output_count) {
  Node* const node = Node::make(&operation, output_count, input_count);
  const std::unique_ptr<Node, void (*)(Node*)> owned(node, Node::destroy);
  static const TensorType* const unknown = tensor_type(DType::f32, {});
  Cut cut;
  for (uint32_t k = 0; k < input_count; ++k) {
    node->inputs()[k] = inputs[k];
    const bool again = std::find(cut.inputs.begin(), cut.inputs.end(), inputs[k]) != cut.inputs.end();
    if (inputs[k] && !inputs[k]->content && !again) cut.inputs.push_back(inputs[k]);
  }
  for (uint32_t k = 0; k < output_count; ++k) {
    node->outputs()[k].type = unknown;
    cut.outputs.push_back(node->outputs() + k);
  }
  cut.nodes.push_back(node);
  Model model = model_of(cut);
  for (metac::Value& output : model.graph.outputs) output.type = {};
  return model;
}

StructureHash structure_of(const Cut& cut) {
  StructureHash hash;
  std::unordered_map<const Value*, uint64_t> places;
  const auto place = [&](const Value* value) -> uint64_t {
    if (!value) return 1;
    if (value->content) return value->content << 1 | 1;
    return places.at(value) << 1;
  };
  for (const Value* input : cut.inputs) {
    places.emplace(input, places.size());
    hash.mix(input->type->number);
  }
  for (const Node* node : cut.nodes) {
    hash.mix(node->operation->number << 1 | node->no_grad);
    hash.mix(uint64_t{node->output_count} << 32 | node->input_count);
    for (uint32_t k = 0; k < node->input_count; ++k) hash.mix(place(node->inputs()[k]));
    for (uint32_t k = 0; k < node->output_count; ++k) places.emplace(node->outputs() + k, places.size());
  }
  hash.mix(cut.outputs.size());
  for (const Value* output : cut.outputs) hash.mix(place(output));
  for (const auto& [output, input] : cut.next_values) hash.mix(uint64_t{output} << 32 | input);
  return hash;
}

}  // namespace metac::lazy
