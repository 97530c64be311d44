#include "compiler/train/adapters/merge_adapters.h"

#include <algorithm>
#include <set>

#include "compiler/ir/element.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/adapters/adapter_file.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/parameters.h"

namespace metac {
namespace {

// A node that reads a weight, or what was made of it by copying alone, and is none of its products; "" if there is none.
std::string other_reader(const ModelGraph& graph, const ProductWeight& weight) {
  std::set<std::string> names = {graph.initializers[static_cast<size_t>(weight.initializer)].name};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::set<std::string> read;
    names_read(node, read);
    if (std::none_of(read.begin(), read.end(), [&](const std::string& name) { return names.count(name) > 0; })) continue;
    const auto is_this = [&](const WeightProduct& product) { return product.node == static_cast<int>(i); };
    if (std::any_of(weight.products.begin(), weight.products.end(), is_this)) continue;
    if (!is_operator(node, "Identity") && !is_operator(node, "Cast") && !is_operator(node, "Transpose"))
      return describe(node, static_cast<int>(i));
    names.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const Value& output : graph.outputs)
    if (names.count(output.name)) return concat("the output ", quoted(output.name));
  return "";
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> out(static_cast<size_t>(tensor.element_count()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = number_at(tensor, static_cast<int64_t>(i));
  return out;
}

// W + scale * A B, as W is stored.
Tensor merged(const Tensor& w, const ProductWeight& weight, const LowRankMatrix& m) {
  std::byte* data = nullptr;
  Tensor out = make_tensor(w.dtype, w.shape, &data);
  const int64_t rank = m.rank();
  const std::vector<double> a = numbers(m.a), b = numbers(m.b);
  with_element(w.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_real_element<T>)
      for (int64_t k = 0; k < weight.depth; ++k)
        for (int64_t n = 0; n < weight.columns; ++n) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r)
            sum += a[static_cast<size_t>(k * rank + r)] * b[static_cast<size_t>(r * weight.columns + n)];
          const int64_t at = weight.transposed ? n * weight.depth + k : k * weight.columns + n;
          reinterpret_cast<T*>(data)[at] = to_element<T>(number_at(w, at) + m.scale * sum);
        }
  });
  return out;
}

}  // namespace

void merge_adapters(Model& model, const std::string& path) {
  const std::vector<ProductWeight> weights = product_weights(model);
  for (const LowRankMatrix& matrix : read_adapter_file(path, model, weights)) {
    const ProductWeight& weight = weights[matrix.weight];
    Initializer& init = model.graph.initializers[static_cast<size_t>(weight.initializer)];
    const auto refuse = [&](const std::string& message) {
      throw CompileError({model.path, concat("initialiser ", quoted(init.name)), message});
    };
    if (weight.quantized)
      refuse(concat("is quantised, so adapters cannot be added to it: merge ", shown(path),
                    " into the float model that it was made of and quantise that again, or keep them apart with `metac "
                    "compile --adapters`"));
    if (const std::string other = other_reader(model.graph, weight); !other.empty())
      refuse(concat("is no product's alone, ", other,
                    " would change too; keep the adapters apart with `metac compile "
                    "--adapters`"));
    init.tensor = merged(init.tensor, weight, matrix);
  }
}

}  // namespace metac
