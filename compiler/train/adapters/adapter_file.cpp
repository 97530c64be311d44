#include "compiler/train/adapters/adapter_file.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "compiler/ir/element.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/nearest_name.h"
#include "compiler/train/adapters/adapter_nodes.h"
#include "frontends/json/document.h"
#include "runtime/train/record/safetensors.h"

namespace metac {
namespace {

constexpr std::string_view prefix = "base_model.model.", of_a = ".lora_A.weight", of_b = ".lora_B.weight";

// The elements of a matrix [rows, columns] of a file, where they may lie at any byte, transposed.
Tensor transposed_matrix(const train::NamedTensor& from, DType to) {
  const int64_t rows = from.dims[0], columns = from.dims[1];
  std::byte* copied = nullptr;
  const Tensor tensor = make_tensor(*dtype_from_name(train::dtype_name(from.dtype)), from.dims, &copied);
  if (from.bytes > 0) std::memcpy(copied, from.data, static_cast<size_t>(from.bytes));
  std::byte* data = nullptr;
  Tensor out = make_tensor(to, {columns, rows}, &data);
  with_element(to, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_real_element<T>)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          reinterpret_cast<T*>(data)[c * rows + r] = to_element<T>(number_at(tensor, r * columns + c));
  });
  return out;
}

// What adapter_config.json of PEFT says.
struct Configuration {
  double alpha = 0;
  bool by_root = false;  // rank-stabilised: alpha / sqrt(rank)
};

class AdapterReader {
 public:
  AdapterReader(const std::string& path, const Model& model, const std::vector<ProductWeight>& weights)
      : path_(path), model_(model), weights_(weights) {
    for (const ProductWeight& w : weights) {
      const std::string& name = model.graph.initializers[static_cast<size_t>(w.initializer)].name;
      layers_.push_back(layer_of_weight(name));
    }
    try {
      file_ = train::read_safetensors(path, false);
    } catch (const train::Fault& fault) {
      throw CompileError({"", "", fault.what()});
    }
  }

  std::vector<LowRankMatrix> run() {
    for (const train::NamedTensor& tensor : file_.tensors) take(tensor);
    if (matrices_.empty()) refuse("has no adapters: no tensor ", quoted(concat(prefix, "LAYER", of_a)));
    std::vector<LowRankMatrix> found;
    for (const auto& [layer, pair] : matrices_) found.push_back(matrix_of(layer, pair));
    return found;
  }

 private:
  struct Pair {
    const train::NamedTensor *a = nullptr, *b = nullptr;
  };

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw CompileError({"", "", concat(shown(path_), ": ", parts...)});
  }

  void take(const train::NamedTensor& tensor) {
    std::string_view name = tensor.name;
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    const bool is_a = name.ends_with(of_a);
    if (!is_a && !name.ends_with(of_b))
      refuse("the tensor ", quoted(tensor.name), " is neither ", quoted(concat("...", of_a)), " nor ",
             quoted(concat("...", of_b)), ": of PEFT's adapters LoRA of linear layers is known");
    name.remove_suffix(of_a.size());
    if (tensor.dtype != train::ScalarType::f32 && tensor.dtype != train::ScalarType::f16 &&
        tensor.dtype != train::ScalarType::bf16 && tensor.dtype != train::ScalarType::f64)
      refuse("the tensor ", quoted(tensor.name), " is of ", train::safetensors_dtype(tensor.dtype),
             "; F32, F16, BF16 and F64 are taken");
    if (tensor.dims.size() != 2) refuse("the tensor ", quoted(tensor.name), " is ", to_string(tensor.dims), ", no matrix");
    Pair& pair = matrices_[std::string(name)];
    const train::NamedTensor*& place = is_a ? pair.a : pair.b;
    if (place) refuse("the tensors ", quoted(place->name), " and ", quoted(tensor.name), " are the same of one layer");
    place = &tensor;
  }

  LowRankMatrix matrix_of(const std::string& layer, const Pair& pair) const {
    if (!pair.a || !pair.b)
      refuse("the tensor ", quoted((pair.a ? pair.a : pair.b)->name), " has no ", pair.a ? "lora_B" : "lora_A",
             " beside it");
    const size_t k = weight_of(layer, pair.a->name);
    const ProductWeight& w = weights_[k];
    const int64_t rank = pair.a->dims[0];
    const auto expect_shape = [&](const train::NamedTensor& tensor, const std::vector<int64_t>& shape, const char* wanted) {
      if (tensor.dims == shape) return;
      refuse("the tensor ", quoted(tensor.name), " is ", to_string(tensor.dims), ", the weight ", quoted(name_of(w)), " of ",
             w.depth, " inputs and ", w.columns, " outputs takes ", to_string(shape), ", which is ", wanted);
    };
    if (rank < 1 || rank > 1 << 16) refuse("the tensor ", quoted(pair.a->name), " has the rank ", rank);
    expect_shape(*pair.a, {rank, w.depth}, "[rank, inputs]");
    expect_shape(*pair.b, {w.columns, rank}, "[outputs, rank]");
    const DType dtype = adapter_dtype(w);
    return {k, transposed_matrix(*pair.a, dtype), transposed_matrix(*pair.b, dtype), scale_of(layer, rank)};
  }

  const std::string& name_of(const ProductWeight& w) const {
    return model_.graph.initializers[static_cast<size_t>(w.initializer)].name;
  }

  size_t weight_of(const std::string& layer, const std::string& tensor) const {
    size_t found = weights_.size();
    for (size_t k = 0; k < weights_.size(); ++k) {
      if (layers_[k] != layer) continue;
      if (found < weights_.size())
        refuse("the tensor ", quoted(tensor), " is of the layer ", quoted(layer), ", which has several matrices in ",
               quoted(model_.path), ": ", quoted(name_of(weights_[found])), " and ", quoted(name_of(weights_[k])));
      found = k;
    }
    if (found == weights_.size())
      refuse("the tensor ", quoted(tensor), " is of the layer ", quoted(layer), ", which ", quoted(model_.path),
             " does not have; ", layers_.size(), " layers of it have weights that products multiply data with",
             suggestion(layer, layers_));
    return found;
  }

  double scale_of(const std::string& layer, int64_t rank) const {
    for (const std::string& key : {"alpha " + layer, std::string("alpha")})
      if (const auto said = file_.metadata.find(key); said != file_.metadata.end()) {
        double alpha = 0;
        const char *begin = said->second.data(), *end = begin + said->second.size();
        const auto [at, error] = std::from_chars(begin, end, alpha);
        if (error != std::errc() || at != end || !std::isfinite(alpha))
          refuse("the metadata ", quoted(key), " is ", quoted(said->second), ", no number");
        return alpha / static_cast<double>(rank);
      }
    const Configuration& said = configuration();
    return said.alpha / (said.by_root ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }

  const Configuration& configuration() const {
    if (configuration_) return *configuration_;
    const std::string path = (std::filesystem::path(path_).parent_path() / "adapter_config.json").string();
    if (!std::filesystem::exists(path))
      refuse("nothing says alpha, by which its adapters are scaled: neither \"alpha\" in its metadata nor ", shown(path));
    const FileBytes bytes = read_file(path, 1 << 20);
    const JsonDocument document(bytes.view(), path);
    JsonFields fields(document, document.root(), "the configuration");
    for (const std::string key : {"alpha_pattern", "layer_replication", "use_dora"})
      if (const JsonValue* value = fields.find(key))
        if (value->flag || !value->members.empty() || !value->items.empty())
          document.refuse(value->offset, concat(quoted(key), " is not supported"));
    configuration_ = Configuration{expect_real(document, fields.required("lora_alpha"), "\"lora_alpha\""),
                                   fields.flag("use_rslora", false)};
    return *configuration_;
  }

  const std::string path_;
  const Model& model_;
  const std::vector<ProductWeight>& weights_;
  std::vector<std::string> layers_;  // by weight
  train::SafeTensors file_;
  std::map<std::string, Pair> matrices_;  // by layer
  mutable std::optional<Configuration> configuration_;
};

}  // namespace

std::vector<LowRankMatrix> read_adapter_file(const std::string& path, const Model& model,
                                             const std::vector<ProductWeight>& weights) {
  return AdapterReader(path, model, weights).run();
}

}  // namespace metac
