// What of a model is stored in 8 bits: which values get a QuantizeLinear and a DequantizeLinear, which weights and biases,
// and what moves integers about. It depends on the graph alone, not on data.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/quantize/graph_uses.h"
#include "compiler/quantize/measure/observed_model.h"
#include "compiler/support/node_patterns.h"

namespace metac {

// The weights of a contraction and the bias that is added to its sums.
struct PlannedWeight {
  int node;            // its position
  int operand;         // of the weights
  int axis;            // of the scales; -1: one for the whole tensor
  int bias_operand;    // -1: there is none, or it stays in float
  std::string factor;  // the activations it is multiplied with, whose scale the bias shares
  int addition = -1;   // of a MatMul: the node that alone reads it and adds a constant for each column
};

struct QuantizationPlan {
  std::vector<std::string> values;           // quantised behind where they are made, in that order
  std::map<std::string, std::string> moved;  // made by a node that moves integers: the value whose integers they are
  std::set<int> movers;                      // such nodes
  std::vector<PlannedWeight> weights;
  std::set<int> kept;    // nodes that --keep names
  int contractions = 0;  // how many work on integers
};

// `kept`: positions of nodes that stay in float beside those that the patterns name.
QuantizationPlan plan_quantization(const ModelGraph& graph, const std::map<std::string, KnownType>& types, bool per_tensor,
                                   const NodePatterns& keep, const std::set<int>& kept = {});

}  // namespace metac
