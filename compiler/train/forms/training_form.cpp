#include "compiler/train/forms/training_form.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "compiler/ops/attributes.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/forms/exported_parameters.h"
#include "compiler/train/forms/inference_form.h"
#include "compiler/train/node_writer.h"

namespace metac {
namespace {

// The ratio of a Dropout node: an attribute (up to opset 11) or a constant operand.
std::optional<double> ratio_of(const ModelGraph& graph, const Node& node) {
  if (auto found = node.attributes.find("ratio"); found != node.attributes.end()) return found->second.real;
  if (node.inputs.size() < 2 || node.inputs[1].empty()) return 0.5;
  return known_number(graph, node.inputs[1]);
}

// ONNX's random operators as functions of a seed, the number of a call and the element's place. Each node and Dropout has a
// stream of its own.
class RandomNodes {
 public:
  RandomNodes(NodeWriter& write, std::string seed, std::string call)
      : write_(write), seed_(std::move(seed)), call_(std::move(call)) {}

  static bool draws(const Node& node) {
    static const std::set<std::string> known = {"RandomUniform",    "RandomUniformLike", "RandomNormal",
                                                "RandomNormalLike", "Bernoulli",         "Multinomial"};
    return node.domain.empty() && known.count(node.op_type);
  }
  // Is a type asked for that is the operand's?
  static bool takes_type(const Node& node) { return draws(node) && !find_attribute(node, "dtype") && !node.inputs.empty(); }

  std::string uniform(const std::string& like, const std::string& hint) {
    return write_.random(seed_, call_, like, ++streams_, hint);
  }

  // False: it cannot be written so.
  bool rewrite(const Node& node, DType operand) {
    const Attribute* dtype = find_attribute(node, "dtype");
    const std::optional<DType> to = dtype                 ? dtype_of_onnx_number(dtype->integer)
                                    : node.inputs.empty() ? DType::f32
                                                          : operand;
    if (is_operator(node, "Multinomial") || !to) return false;
    const std::string hint = node.outputs.at(0) + "/random";
    auto draw = [&] {
      if (!node.inputs.empty()) return uniform(node.inputs[0], hint);
      const Attribute* shape = find_attribute(node, "shape");
      std::vector<std::string> dims;
      for (int64_t d : shape ? shape->integers : std::vector<int64_t>{}) dims.push_back(std::to_string(d));
      return write_.random_of_shape(seed_, call_, dims, ++streams_, hint);
    };
    std::string value;
    if (is_operator(node, "Bernoulli")) {
      value = write_.elementwise({draw(), write_.cast(node.inputs[0], DType::f32, hint)}, "@0 < @1", hint);
    } else if (is_operator(node, "RandomUniform") || is_operator(node, "RandomUniformLike")) {
      const double low = real_or(node, "low", 0), high = real_or(node, "high", 1);
      value = write_.elementwise({draw()}, literal(low) + " + @0*" + literal(high - low), hint);
    } else {  // two of [0, 1) to a normal deviate, after Box and Muller
      const std::string first = draw(), second = draw();
      value = write_.elementwise({first, second},
                                 literal(real_or(node, "mean", 0)) + " + " + literal(real_or(node, "scale", 1)) +
                                     "*sqrt((-2.0)*log(1.0 - @0))*cos(6.283185307179586*@1)",
                                 hint);
    }
    write_.rename(write_.cast(value, *to, hint), node.outputs[0]);
    ++drawn_;
    return true;
  }
  int drawn() const { return drawn_; }

 private:
  NodeWriter& write_;
  std::string seed_, call_;
  int64_t streams_ = 0;
  int drawn_ = 0;
};

// The types of what random nodes take theirs from, by node.
std::vector<DType> operand_types(const std::vector<Node>& nodes, const TypesOf& types_of) {
  std::vector<std::string> names;
  for (const Node& node : nodes)
    if (RandomNodes::takes_type(node)) names.push_back(node.inputs[0]);
  std::vector<DType> types(nodes.size(), DType::f32);
  if (names.empty()) return types;
  const std::vector<TypedShape> known = types_of(names);
  for (size_t i = 0, k = 0; i < nodes.size(); ++i)
    if (RandomNodes::takes_type(nodes[i])) types[i] = known[k++].dtype;
  return types;
}

class TrainingRewriter {
 public:
  TrainingRewriter(Model& model, const Recipe& recipe, const std::set<std::string>& read, const std::string& seed,
                   const std::string& call)
      : model_(model),
        recipe_(recipe),
        read_(read),
        names_(model.graph),
        before_(model.graph),
        write_(model),
        random_(write_, seed, call) {}

  TrainingForm run(const TypesOf& types_of) {
    // Where a file says which nodes train, those that do not stay so: a network part of which was put into evaluation mode.
    const bool says = std::any_of(before_.nodes.begin(), before_.nodes.end(), [](const Node& node) {
      return is_operator(node, "BatchNormalization") && was_exported_for_training(node);
    });
    auto normalises = [&](const Node& node) {
      return is_operator(node, "BatchNormalization") &&
             recipe_.batch_statistics.value_or(!says || was_exported_for_training(node));
    };
    std::vector<std::string> normalised;
    for (const Node& node : before_.nodes)
      if (normalises(node)) normalised.push_back(node.inputs.at(0));
    std::vector<TypedShape> types;
    if (!normalised.empty()) types = types_of(normalised);
    const std::vector<DType> operands = operand_types(before_.nodes, types_of);
    std::vector<Node> nodes;
    nodes.swap(model_.graph.nodes);
    size_t seen = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node& node = nodes[i];
      where_ = describe(node, static_cast<int>(i));
      const bool batch_norm = is_operator(node, "BatchNormalization");
      normalisations_ += batch_norm;
      if (normalises(node)) {
        normalise(node, types[seen++]);
      } else if (is_operator(node, "Dropout")) {
        drop(node);
      } else if (RandomNodes::draws(node) && is_read(node)) {
        draw(node, operands[i]);
      } else {
        exported_frozen_ += batch_norm && !recipe_.batch_statistics;
        if (is_operator(node, "Conv") && node.inputs.size() > 2) ++biased_convolutions_;
        if (is_read(node)) require_still(node);
        model_.graph.nodes.push_back(std::move(node));
      }
    }
    for (const ModelFunction& function : model_.functions)
      for (size_t i = 0; i < function.nodes.size(); ++i)
        require_still_inside(function.nodes[i], concat("function ", quoted(function.name), ", ",
                                                       describe(function.nodes[i], static_cast<int>(i))));
    form_.random = dropped_ + random_.drawn() > 0;
    report();
    return std::move(form_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const { throw CompileError({model_.path, where_, message}); }

  bool is_read(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& o) { return read_.count(o) > 0; });
  }

  // Bodies of If, Loop and Scan stay as they are: nothing in them may want to be otherwise in training.
  void require_still(const Node& node, int depth = 0) const {
    if (depth > 100) return;
    for (const auto& [name, value] : node.attributes)
      for (const auto& body : value.graphs)
        for (size_t i = 0; body && i < body->nodes.size(); ++i) {
          require_still_inside(body->nodes[i],
                               concat(where_, ", in its body ", describe(body->nodes[i], static_cast<int>(i))));
          require_still(body->nodes[i], depth + 1);
        }
  }
  void require_still_inside(const Node& node, const std::string& where) const {
    auto refuse_here = [&](const std::string& message) { throw CompileError({model_.path, where, message}); };
    if (is_operator(node, "BatchNormalization") && was_exported_for_training(node) &&
        recipe_.batch_statistics.value_or(true))
      refuse_here(
          "was exported for training, and inside If, Loop, Scan or a function its running statistics cannot be states; "
          "\"batch_norm\": {\"statistics\": \"running\"} leaves it as in inference");
    if (is_operator(node, "Dropout") && was_exported_for_training(node) && recipe_.dropout != 0.0)
      refuse_here(
          "was exported for training, and cannot drop inside If, Loop, Scan or a function; \"dropout\": 0 leaves all of "
          "them off");
    if (RandomNodes::draws(node))
      refuse_here(
          "draws random numbers inside If, Loop, Scan or a function: a training that is resumed would not go on as it was");
  }

  void draw(const Node& node, DType operand) {
    if (auto found = node.metadata.find("pkg.torch.onnx.class_hierarchy");
        found != node.metadata.end() && found->second.find("ropout") != std::string::npos)
      refuse(
          "is part of a Dropout that ONNX has no operator for (of whole channels, or with alpha): the file does not say how "
          "to leave it off in inference. Export the model in evaluation mode, or use Dropout");
    if (!random_.rewrite(node, operand))
      refuse(
          "draws random numbers that are no function of a seed and the number of the call: a training that is resumed would "
          "not go on as it was");
  }

  void normalise(Node& node, const TypedShape& x) {
    const int mean = node.inputs.size() > 4 ? names_.behind(node.inputs[3]) : -1;
    const int variance = node.inputs.size() > 4 ? names_.behind(node.inputs[4]) : -1;
    int64_t count = 1;
    for (size_t k = 0; k < x.shape.size(); ++k)
      if (k != 1) count *= x.shape[k];
    if (mean < 0 || variance < 0) {
      if (was_exported_for_training(node))
        refuse(concat("trains, and its running statistics ", quoted(node.inputs.at(3)), " and ", quoted(node.inputs.at(4)),
                      " are no initialisers"));
      kept_.push_back(node.name.empty() ? node.outputs[0] : node.name);
      model_.graph.nodes.push_back(std::move(node));
      return;
    }
    if (mean == variance)
      refuse(concat("has ", quoted(node.inputs[3]), " for its running mean and for its running variance"));
    if (node.outputs.size() > 1) refuse("has more outputs than in inference");
    if (count < 2)
      refuse(concat("has one value a channel in a batch of ", recipe_.batch,
                    ": that has no variance. \"batch_norm\": {\"statistics\": \"running\"} leaves it as in inference"));
    if (recipe_.batch_momentum) node.attributes["momentum"] = real_attribute(*recipe_.batch_momentum);
    auto opset = model_.opset_imports.find("");
    const bool has_mode = opset != model_.opset_imports.end() && opset->second >= 14;
    if (has_mode) node.attributes["training_mode"] = integer_attribute(1);
    node.attributes.erase("is_test");
    const std::string mean_name = before_.initializers[static_cast<size_t>(mean)].name,
                      variance_name = before_.initializers[static_cast<size_t>(variance)].name;
    // Where several nodes share statistics (a network that a step calls twice) each goes on from the one before.
    const auto current = [&](const std::string& name) {
      auto found = latest_.find(name);
      return found == latest_.end() ? name : found->second;
    };
    node.inputs[3] = current(mean_name);
    node.inputs[4] = current(variance_name);
    const std::string old = node.inputs[4];
    std::string next_mean = write_.fresh(mean_name + "/next"), next_variance = write_.fresh(variance_name + "/next");
    node.outputs = {node.outputs[0], next_mean, next_variance};
    auto momentum = node.attributes.find("momentum");
    const double kept = momentum == node.attributes.end() ? 0.9 : momentum->second.real;
    if (!std::isfinite(kept)) refuse(concat("has a momentum of ", kept));
    model_.graph.nodes.push_back(std::move(node));
    if (recipe_.unbiased_variance) {
      // ONNX averages the variance of the batch over n, PyTorch over n - 1.
      const double ratio = static_cast<double>(count) / static_cast<double>(count - 1);
      next_variance = write_.elementwise(
          {next_variance, old}, literal(ratio) + "*@0 + " + literal(kept * (1 - ratio)) + "*@1", variance_name + "/next");
    }
    for (const auto& [name, initializer, next] :
         {std::tuple{mean_name, mean, next_mean}, std::tuple{variance_name, variance, next_variance}}) {
      latest_[name] = next;
      auto known = std::find_if(form_.statistics.begin(), form_.statistics.end(),
                                [&, i = initializer](const RunningStatistic& s) { return s.initializer == i; });
      if (known == form_.statistics.end())
        form_.statistics.push_back({initializer, next});
      else
        known->next = next;
    }
    ++normalised_;
  }

  void drop(Node& node) {
    const bool masks = node.outputs.size() > 1 && !node.outputs[1].empty();
    if (recipe_.dropout == 0.0) {
      model_.graph.nodes.push_back(std::move(node));
      return;
    }
    if (node.inputs.size() > 2 && !node.inputs[2].empty())
      refuse(concat("drops or not as ", quoted(node.inputs[2]),
                    " says when it runs: that is not known when compiling. \"dropout\": 0 leaves all of them off"));
    const std::optional<double> ratio = recipe_.dropout ? recipe_.dropout : ratio_of(before_, node);
    if (!ratio)
      refuse(concat("has a ratio, ", quoted(node.inputs.at(1)),
                    ", that is not known when compiling; \"dropout\" in the recipe says one for all"));
    if (!(*ratio >= 0 && *ratio < 1))
      refuse(concat("has a ratio of ", *ratio, ", which is not in [0, 1); \"dropout\" in the recipe says one for all"));
    if (*ratio == 0 && !masks) {
      write_.rename(node.inputs.at(0), node.outputs.at(0));
      return;
    }
    const std::string uniform = random_.uniform(node.inputs.at(0), node.outputs.at(0) + "/random");
    Node& applied = write_.add("metac", "elementwise", {node.inputs[0], uniform}, {node.outputs[0]});
    applied.attributes["body"] = strings_attribute({"@1 < " + literal(*ratio) + " ? 0 : @0*" + literal(1 / (1 - *ratio))});
    if (masks) write_.rename(write_.elementwise({uniform}, "@0 >= " + literal(*ratio), node.outputs[1]), node.outputs[1]);
    ++dropped_;
  }

  void report() {
    if (normalised_)
      form_.notes.push_back(concat(normalised_, " BatchNormalization nodes train by the statistics of the batch"));
    if (exported_frozen_)
      form_.notes.push_back(concat(exported_frozen_,
                                   " BatchNormalization nodes were exported in evaluation mode beside others that were not, "
                                   "and stay as in inference"));
    if (!kept_.empty())
      form_.notes.push_back(
          concat(kept_.size(),
                 " BatchNormalization nodes stay as in inference: their mean and variance are computed; the first is ",
                 quoted(kept_[0])));
    if (dropped_) form_.notes.push_back(concat(dropped_, " Dropout nodes drop"));
    if (random_.drawn())
      form_.notes.push_back(
          concat(random_.drawn(), " nodes draw random numbers by the recipe's seed; in inference they draw too"));
    if (normalisations_ == 0 && biased_convolutions_ > 1 && !recipe_.quantization)  // which folds it itself
      form_.notes.push_back(concat("there is no BatchNormalization, and ", biased_convolutions_,
                                   " convolutions have a bias: if it was folded into them, it cannot be put back (export "
                                   "the model in training mode, or train the biases as they are)"));
  }

  Model& model_;
  const Recipe& recipe_;
  const std::set<std::string>& read_;
  const InitializerNames names_;
  const ModelGraph before_;
  NodeWriter write_;
  RandomNodes random_;
  TrainingForm form_;
  std::string where_;                          // the node that is looked at, for messages
  std::map<std::string, std::string> latest_;  // statistic -> what the node before made of it
  std::vector<std::string> kept_;
  int normalisations_ = 0, normalised_ = 0, exported_frozen_ = 0, dropped_ = 0, biased_convolutions_ = 0;
};

}  // namespace

TrainingForm put_into_training_form(Model& model, const Recipe& recipe, const std::set<std::string>& read,
                                    const std::string& seed, const std::string& call, const TypesOf& types_of) {
  return TrainingRewriter(model, recipe, read, seed, call).run(types_of);
}

void settle_random_nodes(Model& model, const TypesOf& types_of) {
  if (std::none_of(model.graph.nodes.begin(), model.graph.nodes.end(), RandomNodes::draws)) return;
  const std::vector<DType> operands = operand_types(model.graph.nodes, types_of);
  NodeWriter write(model);
  std::vector<Node> nodes;
  nodes.swap(model.graph.nodes);
  const std::string zero = write.constant(make_tensor<int64_t>(DType::i64, {}, std::vector<int64_t>{0}), "evaluate/draw");
  RandomNodes random(write, zero, zero);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!RandomNodes::draws(nodes[i]) || !random.rewrite(nodes[i], operands[i]))
      model.graph.nodes.push_back(std::move(nodes[i]));
}

}  // namespace metac
