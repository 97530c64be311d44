#include "compiler/train/adapters/add_adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"
#include "compiler/train/adapters/adapter_nodes.h"
#include "compiler/train/adapters/product_weights.h"
#include "compiler/train/parameters.h"
#include "runtime/train/random.h"

namespace metac {
namespace {

// Uniform in [-bound, bound), 24 bits each; which weight of the model it is says which numbers.
Tensor uniform(DType dtype, std::vector<int64_t> shape, double bound, int64_t seed, int64_t weight) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, std::move(shape), &data);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    const uint64_t bits = train::random_bits(seed, train::Stream::adapter, weight, i) >> 40;
    const double value = bound * (static_cast<double>(bits) / (1 << 23) - 1);
    if (dtype == DType::f64)
      reinterpret_cast<double*>(data)[i] = value;
    else
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
  }
  return tensor;
}

// Which adapters each weight gets: of several that match the later, as with groups.
class Choice {
 public:
  Choice(const Model& model, const Recipe& recipe, const std::vector<ProductWeight>& weights) : model_(model) {
    for (const ProductWeight& w : weights) names_.push_back(name_of(w));
    for (const AdapterRecipe& adapter : recipe.adapters)
      for (const Pattern& pattern : adapter.match) {
        bool matched = false;
        for (size_t k = 0; k < weights.size(); ++k)
          if (matches(pattern.glob, names_[k])) chosen_[k] = &adapter, matched = true;
        if (!matched) refuse(pattern);
      }
    for (const auto& [k, adapter] : chosen_)
      if (std::count(names_.begin(), names_.end(), names_[k]) > 1)
        throw CompileError({adapter->place, "",
                            concat("the weight ", quoted(names_[k]), " of ", quoted(model.path),
                                   " is multiplied with as it is and transposed: no adapter is for both")});
  }

  const std::map<size_t, const AdapterRecipe*>& chosen() const { return chosen_; }

 private:
  const std::string& name_of(const ProductWeight& w) const {
    return model_.graph.initializers[static_cast<size_t>(w.initializer)].name;
  }

  [[noreturn]] void refuse(const Pattern& pattern) const {
    for (const Initializer& init : model_.graph.initializers)
      if (matches(pattern.glob, init.name))
        throw CompileError(
            {pattern.place, "",
             concat(quoted(pattern.glob), " matches ", quoted(init.name), " ", to_string(init.tensor.shape),
                    ", which is not the matrix of a product: ", first_reader(model_.graph, init.name),
                    " reads it. Adapters are for weights of rank 2 that MatMul, Gemm or MatMulNBits multiplies data with")});
    throw CompileError(
        {pattern.place, "",
         concat("no weight matches ", quoted(pattern.glob), "; ", names_.size(),
                " initialisers are matrices of products in ", quoted(model_.path),
                names_.empty() ? "" : concat(", the first is ", quoted(names_[0])), suggestion(pattern.glob, names_))});
  }

  const Model& model_;
  std::vector<std::string> names_;
  std::map<size_t, const AdapterRecipe*> chosen_;
};

}  // namespace

std::string note_of_rounding(const Model& differentiated) {
  std::set<std::string> read;
  for (const Node& node : differentiated.graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  const auto count = std::ranges::count_if(differentiated.graph.nodes, [&](const Node& node) {
    return (is_operator(node, "QuantizeLinear") || is_operator(node, "DynamicQuantizeLinear")) &&
           read.count(node.outputs.at(0));
  });
  if (count == 0) return "";
  return concat(count, count == 1 ? " node rounds values" : " nodes round values",
                " to integers: derivatives end there, and adapters in front learn nothing by what is behind");
}

std::vector<TrainedAdapter> add_adapters(Model& model, Recipe& recipe) {
  std::vector<TrainedAdapter> added;
  if (recipe.adapters.empty()) return added;
  const std::vector<ProductWeight> weights = product_weights(model);
  const Choice choice(model, recipe, weights);
  AdapterNodes nodes(model);
  for (const auto& [k, adapter] : choice.chosen()) {
    const ProductWeight& w = weights[k];
    const std::string layer = layer_of_weight(model.graph.initializers[static_cast<size_t>(w.initializer)].name);
    const DType dtype = adapter_dtype(w);
    TrainedAdapter trained{layer, layer + ".lora_A", layer + ".lora_B", adapter->alpha};
    for (const std::string& name : {trained.a, trained.b})
      if (nodes.write().has(name))
        throw CompileError({adapter->place, "",
                            concat("the model has a value ", quoted(name),
                                   " already: it has adapters, or two weights belong to the layer ", quoted(layer),
                                   ". A training goes on from the model without adapters, with --init and the .safetensors "
                                   "file of the one before")});
    nodes.write().add_initializer(
        trained.a,
        uniform(dtype, {w.depth, adapter->rank}, 1 / std::sqrt(static_cast<double>(w.depth)), recipe.seed, w.initializer));
    nodes.write().add_initializer(trained.b, filled_tensor(dtype, {adapter->rank, w.columns}, 0));
    nodes.add(w, {trained.a, trained.b, adapter->alpha / static_cast<double>(adapter->rank), adapter->dropout});
    for (const std::string& name : {trained.a, trained.b}) recipe.train.push_back({name, adapter->place});
    added.push_back(std::move(trained));
  }
  nodes.finish();
  if (!recipe.batch_statistics) recipe.batch_statistics = false;
  return added;
}

}  // namespace metac
