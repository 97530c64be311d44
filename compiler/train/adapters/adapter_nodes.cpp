#include "compiler/train/adapters/adapter_nodes.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace metac {

DType adapter_dtype(const ProductWeight& weight) {
  const auto is_double = [](const WeightProduct& p) { return p.dtype == DType::f64; };
  return std::any_of(weight.products.begin(), weight.products.end(), is_double) ? DType::f64 : DType::f32;
}

AdapterNodes::AdapterNodes(Model& model) : model_(model), write_(model) {
  if (const auto opset = model.opset_imports.find(""); opset != model.opset_imports.end() && opset->second < 7)
    throw CompileError({model.path, "", concat("is of opset ", opset->second, "; adapters are nodes of opset 7 or later")});
  nodes_.swap(model.graph.nodes);
}

void AdapterNodes::add(const ProductWeight& weight, const AdapterTerm& term) {
  for (const WeightProduct& product : weight.products)
    additions_.insert({product.node, {product, weight.depth, adapter_dtype(weight), term}});
}

void AdapterNodes::finish() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto addition = additions_.find(static_cast<int>(i));
    if (addition == additions_.end()) {
      model_.graph.nodes.push_back(std::move(nodes_[i]));
      continue;
    }
    Node& node = nodes_[i];
    const std::string y = node.outputs[0], data = node.inputs[0], product = write_.fresh(y + "/frozen");
    node.outputs[0] = product;
    model_.graph.nodes.push_back(std::move(node));
    write_addition(addition->second, data, product, y);
  }
}

void AdapterNodes::write_addition(const Addition& addition, const std::string& data, const std::string& product,
                                  const std::string& y) {
  const AdapterTerm& term = addition.term;
  const std::string at = y + "/adapter";
  std::string x = data;
  if (addition.product.data_transposed) {
    x = written("Transpose", {x}, at + "/transposed");
    model_.graph.nodes.back().attributes["perm"] = integers_attribute({1, 0});
  }
  const bool cast_needed = addition.product.dtype != addition.dtype;
  if (cast_needed) x = cast(x, addition.dtype, at + "/wide");
  if (term.dropout > 0) x = dropped(x, term.dropout, at + "/dropped");
  // [batch, depth] has an axis too few to be multiplied row by row, and [batch, ..., depth] may have one too many.
  if (term.each_row) {
    const Tensor rows = make_tensor<int64_t>(DType::i64, {3}, {0, -1, addition.depth});
    x = written("Reshape", {x, write_.constant(rows, at + "/rows")}, at + "/by_row");
  }
  const Tensor scale = filled_tensor(addition.dtype, {}, term.scale * addition.product.factor);
  const std::string low = written("MatMul", {x, term.a}, at + "/low_rank");
  const std::string scaled = written("Mul", {low, write_.constant(scale, at + "/scale")}, at + "/scaled");
  std::string added = written("MatMul", {scaled, term.b}, at);
  if (term.each_row)
    added = written("Reshape", {added, written("Shape", {product}, product + "/shape")}, at + "/as_product");
  if (!cast_needed) {
    write_.add("", "Add", {product, added}, {y});
    return;
  }
  const std::string sum = written("Add", {cast(product, addition.dtype, product + "/wide"), added}, at + "/sum");
  write_.add("", "Cast", {sum}, {y}).attributes["to"] = integer_attribute(onnx_number_of(addition.product.dtype));
}

std::string AdapterNodes::written(const std::string& op, std::vector<std::string> inputs, const std::string& hint) {
  const std::string out = write_.fresh(hint);
  write_.add("", op, std::move(inputs), {out});
  return out;
}

std::string AdapterNodes::cast(const std::string& x, DType dtype, const std::string& hint) {
  const std::string out = written("Cast", {x}, hint);
  model_.graph.nodes.back().attributes["to"] = integer_attribute(onnx_number_of(dtype));
  return out;
}

// Off in inference; the ratio is an operand from opset 12 on.
std::string AdapterNodes::dropped(const std::string& x, double ratio, const std::string& hint) {
  const auto opset = model_.opset_imports.find("");
  if (opset == model_.opset_imports.end() || opset->second >= 12)
    return written("Dropout", {x, write_.constant(filled_tensor(DType::f32, {}, ratio), hint + "/ratio")}, hint);
  const std::string out = written("Dropout", {x}, hint);
  model_.graph.nodes.back().attributes["ratio"] = real_attribute(ratio);
  return out;
}

}  // namespace metac
