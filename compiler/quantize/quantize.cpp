#include "compiler/quantize/quantize.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/model_lowering.h"
#include "compiler/quantize/accuracy/bias_correction.h"
#include "compiler/quantize/accuracy/error_compensation.h"
#include "compiler/quantize/accuracy/fold_batch_norm.h"
#include "compiler/quantize/accuracy/sensitivity.h"
#include "compiler/quantize/accuracy/smooth_activations.h"
#include "compiler/quantize/half_model.h"
#include "compiler/quantize/measure/value_errors.h"
#include "compiler/quantize/raise_opset.h"
#include "compiler/quantize/row_tables.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

int64_t weight_bytes(const ModelGraph& graph) {
  int64_t bytes = 0;
  for (const Initializer& each : graph.initializers)
    if (each.tensor.dtype != DType::string) bytes += static_cast<int64_t>(each.tensor.byte_count());
  return bytes;
}

class Quantizer {
 public:
  Quantizer(Model model, const QuantizeOptions& options, QuantizeReport& report)
      : model_(std::move(model)), options_(options), report_(report), keep_(options.keep) {}

  Model run() {
    begin();
    Model result = options_.form == QuantizeOptions::Form::int8      ? to_int8()
                   : options_.form == QuantizeOptions::Form::weights ? to_block_weights()
                                                                     : to_half();
    report_.weight_bytes_after = weight_bytes(result.graph);
    return signed_by_metac(std::move(result));
  }

  QuantizedNetwork to_train() {
    begin();
    plan_int8();
    QdqOptions qdq = qdq_options();
    QdqModel used = write_qdq(model_, plan_, found_, qdq);
    qdq.trained = true;
    QdqModel trained = write_qdq(model_, plan_, found_, qdq);
    note(plan_.contractions, " nodes train quantised: weights of ", options_.weight_bits, " bits, ", plan_.values.size(),
         plan_.values.size() == 1 ? " value in " : " values in ", name_of(options_.activations), ", ranges seen on ",
         report_.samples, " samples");
    return {signed_by_metac(std::move(used.model)), std::move(trained.model), std::move(used.weights),
            std::move(used.biases), report_.notes};
  }

 private:
  template <class... Parts>
  void note(const Parts&... parts) {
    report_.notes.push_back(concat(parts...));
  }

  void note_bodies() {
    int bodies = 0;
    for (const Node& node : model_.graph.nodes) for_each_subgraph(node, [&](const ModelGraph&) { ++bodies; });
    if (bodies > 0) note(bodies, bodies == 1 ? " body" : " bodies", " of If, Loop or Scan stay in float32");
    if (!model_.functions.empty()) note(model_.functions.size(), " local functions stay in float32");
  }

  void begin() {
    model_.ir_version = std::max<int64_t>(model_.ir_version, 4);  // initialisers that are no inputs
    constants_to_initializers(model_.graph);
    report_.weight_bytes_before = weight_bytes(model_.graph);
    std::vector<std::pair<std::string, std::string>> names;
    for (const Node& node : model_.graph.nodes) names.emplace_back(node.name, node.op_type);
    for (const std::string& pattern : keep_.unused(names)) note("--keep ", quoted(pattern), " names no node");
    note_bodies();
    for (const Value& output : model_.graph.outputs) outputs_.push_back(output.name);
    if (options_.samples)
      data_.emplace(model_, *options_.samples, options_.samples_origin, options_.batches);
    else if (!options_.data.empty())
      data_.emplace(model_, options_.data, options_.batches);
  }

  static Model signed_by_metac(Model model) {
    model.producer = "metac";
    model.producer_version.clear();
    model.sha256.clear();
    return model;
  }

  QdqOptions qdq_options() const {
    return {options_.activations, options_.per_tensor, (1 << (options_.weight_bits - 1)) - 1};
  }

  // What is quantised, and the ranges of values.
  void plan_int8() {
    report_.form = "int8";
    refuse_quantized(model_);
    if (!data_) throw CompileError({model_.path, "", "int8 needs data to see the ranges of values on: give it with --data"});
    if (const int folded = fold_batch_norm(model_))
      note(folded, folded == 1 ? " BatchNormalization was" : " BatchNormalizations were", " taken into convolutions");
    find_types();
    raise_opset(model_, types_, opset_of_axis_scales);
    if (options_.smooth) smooth(*options_.smooth);
    plan_ = plan_quantization(model_.graph, types_, options_.per_tensor, keep_);
    require_work(plan_.contractions, "Conv, ConvTranspose, Gemm or MatMul of float32 values");
    exact_.emplace(model_, plan_.values, options_.session);
    found_.ranges = observe_ranges(*exact_, plan_);
  }

  void smooth(double alpha) {
    const int products = smooth_activations(model_, types_, keep_, alpha, *data_, options_.session);
    if (products > 0)
      note(products, products == 1 ? " product reads" : " products read", " smoothed values");
    else
      note("--smooth: no product reads the result of a normalisation alone with other products");
    find_types();  // of new weights
  }

  Model to_int8() {
    plan_int8();
    QuantizationPlan& plan = plan_;
    QdqData& found = found_;
    ObservedModel& exact = *exact_;
    const QdqOptions qdq = qdq_options();
    if (options_.bias_correction) found.bias_shifts = bias_shifts(model_, plan, qdq, *data_, options_.session);
    if (options_.least_decibels > 0) {
      const std::set<int> kept = least_kept({model_, types_, found, qdq, keep_, outputs_, *data_, options_.session}, exact,
                                            options_.least_decibels);
      plan = plan_quantization(model_.graph, types_, options_.per_tensor, keep_, kept);
    }
    for (int i : plan.kept) report_.kept.push_back(describe(model_.graph.nodes[static_cast<size_t>(i)], i));
    report_.quantized = plan.contractions;
    QdqModel result = write_qdq(model_, plan, found, qdq);
    note_tables(write_row_tables(result.model, keep_, 8, 0));
    measure(exact, result.model, result.dequantized);
    for (QuantizedValueRow& row : report_.values) {
      const auto moved = plan.moved.find(row.name);
      row.scale = result.scales.at(moved == plan.moved.end() ? row.name : moved->second);
    }
    return std::move(result.model);
  }

  void note_tables(const RowTables& tables) {
    if (tables.count > 0)
      note("rows of ", tables.count, tables.count == 1 ? " table" : " tables", " are taken from integers");
  }

  // Of open shapes, or where the model cannot be lowered so, of those of the first samples.
  void find_types() {
    try {
      types_ = value_types(model_, options_.session.lower);
    } catch (const CompileError&) {
      if (!data_) throw;
      LowerOptions lower = options_.session.lower;
      const CalibrationData::Options one = {1, 1};
      const CalibrationData data = options_.samples
                                       ? CalibrationData(model_, *options_.samples, options_.samples_origin, one)
                                       : CalibrationData(model_, options_.data, one);
      for (const auto& [name, tensor] : data.first()) {
        lower.input_shapes[name] = tensor.shape;
        if (tensor.element_count() <= 64) lower.input_values[name] = tensor;
      }
      types_ = value_types(model_, lower);
    }
  }

  std::map<std::string, ValueRange> observe_ranges(ObservedModel& exact, const QuantizationPlan& plan) {
    std::map<std::string, ValueStatistics> statistics;
    for (const std::string& name : plan.values) statistics[name];
    report_.samples = data_->for_each([&](const NamedTensors& inputs) {
      const NamedTensors found = exact.run(inputs);
      for (auto& [name, each] : statistics)
        if (!each.note_ends(found.at(name)))
          throw CompileError(
              {model_.path, "value " + quoted(name),
               "is NaN or infinite on the data and has no range: keep the nodes that read it in float32 with --keep"});
    });
    if (options_.calibration != Calibration::minmax)
      data_->for_each([&](const NamedTensors& inputs) {
        const NamedTensors found = exact.run(inputs);
        for (auto& [name, each] : statistics) each.note_spread(found.at(name));
      });
    std::map<std::string, ValueRange> ranges;
    for (const auto& [name, each] : statistics)
      ranges[name] = each.empty() ? ValueRange{} : each.range(options_.calibration, options_.percentile, 255);
    for (const auto& [name, root] : plan.moved) ranges[name] = ranges.at(root);  // where --least-snr has it move floats
    return ranges;
  }

  Model to_block_weights() {
    report_.form = concat("weights int", options_.bits, " in blocks of ", options_.block);
    find_types();
    const std::vector<BlockProduct> products = block_products(model_.graph, types_, keep_);
    std::map<int, BlockWeights> weights;
    if (data_ && options_.compensate) {
      weights = compensated_weights(model_, products, options_.bits, options_.block, *data_, options_.session);
    } else {
      for (const BlockProduct& product : products)
        weights[product.node] = at_node(model_, product.node, [&] {
          return round_to_blocks(product.values(), product.columns, product.depth, options_.bits, options_.block);
        });
    }
    Model result = write_block_weights(model_, weights);
    const RowTables tables = write_row_tables(result, keep_, options_.bits, options_.block);
    note_tables(tables);
    report_.quantized = static_cast<int64_t>(products.size()) + tables.count;
    require_work(static_cast<size_t>(report_.quantized), "MatMul or Gemm with a constant float32 matrix");
    if (data_) {
      std::map<std::string, std::string> pairs;
      for (const BlockProduct& product : products) {
        const std::string& name = model_.graph.nodes[static_cast<size_t>(product.node)].outputs[0];
        pairs[name] = name;
      }
      for (const std::string& name : tables.values) pairs[name] = name;
      measure_from_start(result, pairs);
    }
    return result;
  }

  Model to_half() {
    report_.form = std::string(name_of(options_.half));
    refuse_quantized(model_);
    find_types();
    if (options_.half == DType::bf16) raise_opset(model_, types_, opset_of_bfloat16);
    HalfModel half = half_model(model_, types_, options_.half, keep_);
    require_work(half.converted, "node with float32 operands");
    report_.quantized = half.converted;
    if (half.kept > 0) note(half.kept, half.kept == 1 ? " node stays" : " nodes stay", " in float32");
    if (half.clipped > 0)
      note(half.clipped, " elements of weights are beyond what ", name_of(options_.half), " holds and became its largest");
    if (data_) {
      std::map<std::string, std::string> made;
      const GraphUses uses(half.model.graph);
      for (const auto& [name, there] : half.halves)
        if (uses.producer.count(there) && !uses.outputs.count(name)) made[name] = there;
      measure_from_start(half.model, made);
    }
    return std::move(half.model);
  }

  void require_work(size_t count, const char* what) const {
    if (count == 0) throw CompileError({model_.path, "", concat("there is nothing to quantise: no ", what)});
  }

  void measure_from_start(const Model& changed, const std::map<std::string, std::string>& pairs) {
    std::vector<std::string> watched;
    for (const auto& [name, unused] : pairs) watched.push_back(name);
    ObservedModel exact(model_, watched, options_.session);
    report_.samples = data_->for_each([](const NamedTensors&) {});
    measure(exact, changed, pairs);
  }

  void measure(ObservedModel& exact, const Model& changed, const std::map<std::string, std::string>& pairs) {
    const ValueErrors errors = value_errors(exact, changed, pairs, outputs_, *data_, options_.session);
    const std::set<std::string> is_output(outputs_.begin(), outputs_.end());
    for (const Node& node : model_.graph.nodes)  // in the order of the model
      for (const std::string& name : node.outputs) add_row(errors, name, pairs, is_output);
    for (const Value& input : model_.graph.inputs) add_row(errors, input.name, pairs, is_output);
  }

  void add_row(const ValueErrors& errors, const std::string& name, const std::map<std::string, std::string>& pairs,
               const std::set<std::string>& is_output) {
    const auto found = errors.find(name);
    if (found == errors.end()) return;
    if (pairs.count(name)) report_.values.push_back({name, found->second.decibels(), {}});
    if (is_output.count(name)) report_.outputs.push_back({name, found->second.decibels(), {}});
  }

  Model model_;
  const QuantizeOptions& options_;
  QuantizeReport& report_;
  const NodePatterns keep_;
  std::map<std::string, KnownType> types_;
  std::vector<std::string> outputs_;
  std::optional<CalibrationData> data_;
  QuantizationPlan plan_;
  QdqData found_;
  std::optional<ObservedModel> exact_;
};

}  // namespace

void refuse_quantized(const Model& model) {
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const std::string& op = model.graph.nodes[i].op_type;
    if (op.find("Quantize") != std::string::npos || op.find("Dequantize") != std::string::npos ||
        op.starts_with("QLinear") || op.ends_with("Integer"))
      throw CompileError({model.path, describe(model.graph.nodes[i], static_cast<int>(i)),
                          "the model is quantised already: give the float32 one"});
  }
}

Model quantize_model(Model model, const QuantizeOptions& options, QuantizeReport& report) {
  return Quantizer(std::move(model), options, report).run();
}

QuantizedNetwork quantize_to_train(Model model, const QuantizeOptions& options) {
  QuantizeReport report;
  return Quantizer(std::move(model), options, report).to_train();
}

}  // namespace metac
