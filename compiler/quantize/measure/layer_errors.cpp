#include "compiler/quantize/measure/layer_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

double noise_over_signal(double decibels) { return std::isfinite(decibels) ? std::pow(10, -decibels / 10) : 0; }

// Values that nodes of the exact model make and that the other has too, floats in both.
std::vector<LayerError> comparable(const Model& exact, const LowerOptions& lower, const Model& other,
                                   const LowerOptions& other_lower) {
  const auto types = value_types(exact, lower), other_types = value_types(other, other_lower);
  std::vector<LayerError> layers;
  for (const Node& node : exact.graph.nodes)
    for (const std::string& name : node.outputs) {
      const auto here = types.find(name), there = other_types.find(name);
      if (here != types.end() && there != other_types.end() && is_float(here->second.dtype) && is_float(there->second.dtype))
        layers.push_back({name, node.name, node.op_type});
    }
  return layers;
}

}  // namespace

double LayerError::entered() const { return std::max(0.0, noise_over_signal(decibels) - noise_over_signal(before)); }

LayerErrors layer_errors(const Model& exact, const SessionOptions& exact_options, const Model& other,
                         const SessionOptions& other_options, const CalibrationData& data) {
  constexpr double no_error = std::numeric_limits<double>::infinity();
  LayerErrors result;
  result.layers = comparable(exact, exact_options.lower, other, other_options.lower);
  if (result.layers.empty())
    throw CompileError({other.path, "", concat("has no value of a name that a value of ", quoted(exact.path), " has")});
  std::vector<std::string> watched;
  std::map<std::string, std::string> pairs;
  for (const LayerError& layer : result.layers) {
    watched.push_back(layer.value);
    pairs[layer.value] = layer.value;
  }
  ObservedModel observed(exact, watched, exact_options);
  const ValueErrors errors = value_errors(observed, other, pairs, {}, data, other_options, &result.samples);
  // Values that only one of the two has are as far off as what they are made of.
  std::map<std::string, double> decibels;
  std::map<std::string, double> before;
  const auto known = [&](const std::string& name) {
    const auto found = decibels.find(name);
    return found == decibels.end() ? no_error : found->second;
  };
  for (const Node& node : exact.graph.nodes) {
    double worst = no_error;
    for (const std::string& name : node.inputs) worst = std::min(worst, known(name));
    for (const std::string& name : node.outputs) {
      const auto compared = errors.find(name);
      decibels[name] = compared == errors.end() ? worst : compared->second.decibels();
      before[name] = worst;
    }
  }
  for (LayerError& layer : result.layers) {
    layer.decibels = decibels.at(layer.value);
    layer.before = before.at(layer.value);
  }
  for (const Value& output : exact.graph.outputs)
    for (const LayerError& layer : result.layers)
      if (layer.value == output.name) result.outputs.push_back(layer);
  return result;
}

}  // namespace metac
