#include "compiler/train/adapters/choose_adapter.h"

#include <algorithm>
#include <list>
#include <map>

#include "compiler/support/diagnostic.h"
#include "compiler/train/adapters/adapter_file.h"
#include "compiler/train/adapters/adapter_nodes.h"

namespace metac {
namespace {

const std::string input_name = "adapter";

class ChoiceWriter {
 public:
  ChoiceWriter(Model& model, const std::vector<NamedAdapters>& sets, AdapterInput input)
      : model_(model), sets_(sets), input_(input), weights_(product_weights(model)) {
    for (const NamedAdapters& set : sets)
      for (LowRankMatrix& matrix : read_adapter_file(set.path, model, weights_)) {
        std::vector<const LowRankMatrix*>& row = by_weight_[matrix.weight];
        row.resize(sets.size());
        row[static_cast<size_t>(&set - sets.data())] = &matrices_.emplace_back(std::move(matrix));
      }
  }

  void run() {
    AdapterNodes nodes(model_);
    if (nodes.write().has(input_name))
      throw CompileError(
          {model_.path, "",
           concat("has a value ", quoted(input_name), " already, which is the name of the input that chooses adapters")});
    const ModelDim rows = batch();
    nodes.write().add_input(input_name, DType::i64, {});
    if (input_ == AdapterInput::each_row) model_.graph.inputs.back().type.shape = {rows};
    for (const auto& [k, row] : by_weight_) {
      const ProductWeight& weight = weights_[k];
      const std::string layer = layer_of_weight(model_.graph.initializers[static_cast<size_t>(weight.initializer)].name);
      write_ = &nodes.write();
      dtype_ = adapter_dtype(weight);
      AdapterTerm term;
      term.each_row = input_ == AdapterInput::each_row;
      int64_t rank = 0;
      for (const LowRankMatrix* m : row) rank = std::max(rank, m ? m->rank() : 0);
      std::vector<std::string> a = {zeros({1, weight.depth, rank}, layer)}, b = {zeros({1, rank, weight.columns}, layer)};
      for (size_t s = 0; s < sets_.size(); ++s) {
        const LowRankMatrix* m = s < row.size() ? row[s] : nullptr;
        if (!m) {
          a.push_back(a[0]), b.push_back(b[0]);
          continue;
        }
        const std::string of_a = layer + ".lora_A." + sets_[s].name, of_b = layer + ".lora_B." + sets_[s].name;
        add_initializer(of_a, m->a);
        add_initializer(of_b, m->b);
        const std::string scaled =
            written("Mul", {of_b, write_->constant(filled_tensor(dtype_, {}, m->scale), of_b + "/scale")}, of_b + "/scaled");
        a.push_back(padded(of_a, {weight.depth, rank - m->rank()}, 1, {1, weight.depth, rank}));
        b.push_back(padded(scaled, {rank - m->rank(), weight.columns}, 0, {1, rank, weight.columns}));
      }
      term.a = chosen(a, layer + ".lora_A");
      term.b = chosen(b, layer + ".lora_B");
      nodes.add(weight, term);
    }
    nodes.finish();
  }

 private:
  void add_initializer(const std::string& name, const Tensor& tensor) {
    if (write_->has(name)) throw CompileError({model_.path, "", concat("has a value ", quoted(name), " already")});
    write_->add_initializer(name, tensor);
  }

  // The first axis of the first input; of files before IR version 4 initialisers are inputs too.
  ModelDim batch() const {
    const auto& constants = model_.graph.initializers;
    for (const Value& input : model_.graph.inputs)
      if (input.type.shape && !input.type.shape->empty() &&
          std::none_of(constants.begin(), constants.end(), [&](const Initializer& i) { return i.name == input.name; }))
        return (*input.type.shape)[0];
    return {};
  }

  std::string written(const std::string& op, std::vector<std::string> inputs, const std::string& hint, int64_t axis = -1) {
    const std::string out = write_->fresh(hint);
    Node& node = write_->add("", op, std::move(inputs), {out});
    if (axis >= 0) node.attributes["axis"] = integer_attribute(axis);
    return out;
  }

  std::string zeros(const std::vector<int64_t>& shape, const std::string& hint) {
    return write_->constant(filled_tensor(dtype_, shape, 0), hint + "/none");
  }

  // With zeros of shape `more` behind it along an axis, as one of a stack.
  std::string padded(const std::string& matrix, const std::vector<int64_t>& more, int64_t axis,
                     const std::vector<int64_t>& shape) {
    std::string whole = matrix;
    if (more[static_cast<size_t>(axis)] > 0)
      whole = written("Concat", {matrix, zeros(more, matrix)}, matrix + "/padded", axis);
    const Tensor dims = make_tensor<int64_t>(DType::i64, {static_cast<int64_t>(shape.size())}, shape);
    return written("Reshape", {whole, write_->constant(dims, matrix + "/shape")}, matrix + "/row");
  }

  std::string chosen(const std::vector<std::string>& rows, const std::string& name) {
    return written("Gather", {written("Concat", rows, name + "/all", 0), input_name}, name + "/chosen", 0);
  }

  Model& model_;
  const std::vector<NamedAdapters>& sets_;
  const AdapterInput input_;
  const std::vector<ProductWeight> weights_;
  std::list<LowRankMatrix> matrices_;
  std::map<size_t, std::vector<const LowRankMatrix*>> by_weight_;
  NodeWriter* write_ = nullptr;
  DType dtype_ = DType::f32;
};

}  // namespace

void add_adapter_choice(Model& model, const std::vector<NamedAdapters>& sets, AdapterInput input) {
  ChoiceWriter(model, sets, input).run();
}

}  // namespace metac
