#include "compiler/train/adapters/product_weights.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/ops/attributes.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/parameters.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

class Finder {
 public:
  explicit Finder(const ModelGraph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.initializers.size(); ++i) initializers_[graph.initializers[i].name] = static_cast<int>(i);
    for (const Node& node : graph.nodes)
      for (const std::string& output : node.outputs) producers_[output] = &node;
  }

  std::vector<ProductWeight> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) look_at(graph_.nodes[i], static_cast<int>(i));
    return std::move(found_);
  }

 private:
  void look_at(const Node& node, int index) {
    const bool gemm = is_operator(node, "Gemm");
    if (gemm || is_operator(node, "MatMul")) {
      if (node.inputs.size() < 2) return;
      std::optional<ProductWeight> weight = matrix_behind(node.inputs[1], gemm && integer_or(node, "transB", 0) != 0);
      if (!weight || source(node.inputs[0]).has_value()) return;  // of two weights none is data
      weight->products[0].node = index;
      if (gemm) {
        if (const Attribute* alpha = find_attribute(node, "alpha")) weight->products[0].factor = alpha->real;
        weight->products[0].data_transposed = integer_or(node, "transA", 0) != 0;
      }
      add(std::move(*weight));
    } else if (node.domain == "com.microsoft" && node.op_type == "MatMulNBits" && node.inputs.size() > 2) {
      const auto at = initializers_.find(node.inputs[1]), scales = initializers_.find(node.inputs[2]);
      if (at == initializers_.end() || scales == initializers_.end()) return;
      const DType dtype = graph_.initializers[static_cast<size_t>(scales->second)].tensor.dtype;
      const int64_t depth = integer_or(node, "K", 0), columns = integer_or(node, "N", 0);
      // Attributes that the numbers contradict are refused where the node is lowered; until then nothing may believe them.
      const auto most = static_cast<int64_t>(graph_.initializers[static_cast<size_t>(at->second)].tensor.byte_count()) * 4;
      if (depth < 1 || columns < 1 || columns > most / depth || !is_float(dtype)) return;
      add({at->second, depth, columns, true, true, {{index, 1, false, dtype}}});
    }
  }

  void add(ProductWeight weight) {
    for (ProductWeight& known : found_)
      if (known.initializer == weight.initializer && known.transposed == weight.transposed && known.depth == weight.depth) {
        known.products.push_back(weight.products[0]);
        return;
      }
    found_.push_back(std::move(weight));
  }

  // What a value is where that is an initialiser that nothing but its form was changed of.
  struct Source {
    int initializer = 0;
    bool transposed = false, quantized = false;
    std::optional<DType> dtype;  // empty: the initialiser's own
  };
  std::optional<Source> source(std::string name) const {
    Source found;
    for (int steps = 0; steps < 16; ++steps) {
      if (auto at = initializers_.find(name); at != initializers_.end()) {
        found.initializer = at->second;
        return found;
      }
      const auto producer = producers_.find(name);
      if (producer == producers_.end() || !look_through(*producer->second, found)) return std::nullopt;
      name = producer->second->inputs[0];
    }
    return std::nullopt;
  }

  bool look_through(const Node& node, Source& found) const {
    if (node.inputs.empty()) return false;
    if (is_operator(node, "Identity")) return true;
    if (is_operator(node, "Cast")) {
      if (!found.dtype) found.dtype = dtype_of_onnx_number(integer_or(node, "to", 0));
      return found.dtype.has_value();
    }
    if (is_operator(node, "Transpose")) {
      const Attribute* perm = find_attribute(node, "perm");
      found.transposed = !found.transposed;
      return !perm || perm->integers == std::vector<int64_t>{1, 0};
    }
    if (!is_operator(node, "DequantizeLinear") || node.inputs.size() < 2) return false;
    const auto scale = initializers_.find(node.inputs[1]);
    if (scale == initializers_.end()) return false;
    const DType of_scale = graph_.initializers[static_cast<size_t>(scale->second)].tensor.dtype;
    if (!found.dtype) found.dtype = dtype_of_onnx_number(integer_or(node, "output_dtype", onnx_number_of(of_scale)));
    found.quantized = true;
    return found.dtype.has_value();
  }

  std::optional<ProductWeight> matrix_behind(const std::string& name, bool transposed) const {
    const std::optional<Source> from = source(name);
    if (!from) return std::nullopt;
    const Initializer& init = graph_.initializers[static_cast<size_t>(from->initializer)];
    const std::vector<int64_t>& shape = init.packed ? init.packed->shape : init.tensor.shape;
    const DType dtype = from->dtype.value_or(init.tensor.dtype);
    if (shape.size() != 2 || !is_float(dtype)) return std::nullopt;
    const bool stored_transposed = from->transposed != transposed;
    return ProductWeight{from->initializer,
                         shape[stored_transposed ? 1 : 0],
                         shape[stored_transposed ? 0 : 1],
                         stored_transposed,
                         from->quantized || !is_float(init.tensor.dtype) || init.packed.has_value(),
                         {{0, 1, false, dtype}}};
  }

  const ModelGraph& graph_;
  std::unordered_map<std::string, int> initializers_;
  std::unordered_map<std::string, const Node*> producers_;
  std::vector<ProductWeight> found_;
};

}  // namespace

std::vector<ProductWeight> product_weights(const Model& model) { return Finder(model.graph).run(); }

std::string layer_of_weight(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot != std::string::npos && dot > 0 && name.find("weight", dot) != std::string::npos ? name.substr(0, dot) : name;
}

std::string first_reader(const ModelGraph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::set<std::string> read;
    names_read(graph.nodes[i], read);
    if (read.count(name)) return describe(graph.nodes[i], static_cast<int>(i));
  }
  return "nothing";
}

}  // namespace metac
