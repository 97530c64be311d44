#include "compiler/train/node_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

constexpr const char* meta_domain = "metac";

}  // namespace

std::string literal(double value) {
  METAC_ASSERT(std::isfinite(value), "a literal of ", value);
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, std::fabs(value));
  METAC_ASSERT(error == std::errc(), "a double of more than 64 characters");
  std::string digits(text, end);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return std::signbit(value) ? "(-" + digits + ")" : digits;
}

NodeWriter::NodeWriter(Model& model) : model_(model) {
  for (const Value& v : model.graph.inputs) names_.insert(v.name);
  for (const Initializer& i : model.graph.initializers) names_.insert(i.name);
  for (const Node& node : model.graph.nodes) names_.insert(node.outputs.begin(), node.outputs.end());
}

std::string NodeWriter::fresh(const std::string& hint) {
  std::string name = hint;
  for (int k = 2; !names_.insert(name).second; ++k) name = concat(hint, ".", k);
  return name;
}

void NodeWriter::add_input(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
  Value value;
  value.name = name;
  value.type.dtype = dtype;
  value.type.onnx_dtype = onnx_number_of(dtype);
  value.type.shape.emplace();
  for (int64_t dim : shape) value.type.shape->push_back({dim, ""});
  names_.insert(name);
  model_.graph.inputs.push_back(std::move(value));
}

void NodeWriter::add_output(const std::string& name) {
  Value value;
  value.name = name;
  model_.graph.outputs.push_back(std::move(value));
}

void NodeWriter::add_initializer(const std::string& name, Tensor tensor) {
  METAC_ASSERT(names_.insert(name).second, "an initialiser of a name that is taken: ", quoted(name));
  if (model_.ir_version > 0)
    model_.ir_version = std::max<int64_t>(model_.ir_version, 4);  // before, it would be an input too
  model_.graph.initializers.push_back({name, std::move(tensor)});
}

Node& NodeWriter::add(const std::string& domain, const std::string& op_type, std::vector<std::string> inputs,
                      std::vector<std::string> outputs) {
  if (!domain.empty()) model_.opset_imports.emplace(domain, 1);
  Node node;
  node.domain = domain;
  node.op_type = op_type;
  node.name = outputs.at(0);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  names_.insert(node.outputs.begin(), node.outputs.end());
  return model_.graph.nodes.emplace_back(std::move(node));
}

std::string NodeWriter::elementwise(const std::vector<std::string>& operands, const std::string& body,
                                    const std::string& hint, const std::string& dtype) {
  std::string out = fresh(hint);
  Node& node = add(meta_domain, "elementwise", operands, {out});
  node.attributes["body"] = strings_attribute({body});
  if (!dtype.empty()) node.attributes["dtype"] = string_attribute(dtype);
  return out;
}

std::string NodeWriter::elementwise_over(const std::vector<std::string>& operands, const std::string& body,
                                         const std::string& hint, const std::string& dtype) {
  std::string out = elementwise(operands, body, hint, dtype);
  model_.graph.nodes.back().attributes["shape"] = strings_attribute({"@0.shape"});
  return out;
}

std::string NodeWriter::reduce(const std::string& op, const std::string& x, const std::vector<int64_t>& dims, bool keepdims,
                               const std::string& hint) {
  std::string out = fresh(hint);
  Node& node = add(meta_domain, op, {x}, {out});
  if (!dims.empty()) node.attributes["dims"] = integers_attribute(dims);
  node.attributes["keepdims"] = integer_attribute(keepdims);
  return out;
}

std::string NodeWriter::log_softmax(const std::string& x, int64_t axis, const std::string& hint) {
  std::string out = fresh(hint);
  add(meta_domain, "log_softmax", {x}, {out}).attributes["dims"] = integers_attribute({axis});
  return out;
}

std::string NodeWriter::cast(const std::string& x, DType dtype, const std::string& hint) {
  std::string out = fresh(hint);
  add(meta_domain, "cast", {x}, {out}).attributes["dtype"] = string_attribute(std::string(name_of(dtype)));
  return out;
}

std::string NodeWriter::random(const std::string& seed, const std::string& call, const std::string& like, int64_t stream,
                               const std::string& hint) {
  std::string out = random_of_shape(seed, call, {"@2.shape"}, stream, hint);
  model_.graph.nodes.back().inputs.push_back(like);
  return out;
}

std::string NodeWriter::random_of_shape(const std::string& seed, const std::string& call,
                                        const std::vector<std::string>& shape, int64_t stream, const std::string& hint) {
  std::string out = fresh(hint);
  Node& node = add(meta_domain, "random", {seed, call}, {out});
  node.attributes["shape"] = strings_attribute(shape);
  node.attributes["stream"] = integer_attribute(stream);
  return out;
}

std::string NodeWriter::constant(const Tensor& tensor, const std::string& hint) {
  std::string out = fresh(hint);
  if (!model_.opset_imports.count("")) model_.opset_imports[""] = 17;  // a JSON model of meta-operators alone
  add("", "Constant", {}, {out}).attributes["value"] = tensor_attribute(tensor);
  return out;
}

std::vector<std::string> NodeWriter::gradient(const std::string& y, const std::vector<std::string>& xs) {
  std::vector<std::string> outputs;
  for (const std::string& x : xs) outputs.push_back(fresh("train/gradient/" + x));
  if (xs.empty()) return outputs;
  Node& node = add("ai.onnx.preview.training", "Gradient", xs, outputs);
  node.name = "train/gradient";
  node.attributes["xs"] = strings_attribute(xs);
  node.attributes["y"] = string_attribute(y);
  return outputs;
}

std::string NodeWriter::exchange(const std::string& x, int index, const std::string& hint) {
  std::string out = fresh(hint);
  add(meta_domain, "exchange", {x}, {out}).attributes["index"] = integer_attribute(index);
  return out;
}

void NodeWriter::rename(const std::string& from, const std::string& to) {
  Node& node = add(meta_domain, "elementwise", {from}, {to});
  node.attributes["body"] = strings_attribute({"@0"});
}

}  // namespace metac
