// What a step of quantisation-aware training computes for the network's quantised form (quantized_network.h): scales that
// follow their weights, integers of what has been updated, and the derivatives of scales that are learned.
#pragma once
#include <set>
#include <string>

#include "compiler/train/forms/training_form.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/quantized_network.h"

namespace metac {

// The scale initialisers of a model's fake_quantize nodes.
std::set<std::string> fake_quantize_scales(const ModelGraph& graph);

// Gives fake_quantize nodes of a step the derivative by their scale, with LSQ's factor 1 / sqrt(N Q) (Esser et al.,
// arXiv:1902.08153, section 2.2): N the elements of a weight, or of one sample of a value, that share a scale; Q the largest
// integer above the zero point.
void learn_scales(Model& step, int64_t batch, const TypesOf& types_of);

// A bias whose integers have to fit int32 beside a weight's scale.
struct BiasOfScale {
  std::string bias, factor;  // empty: there is none
};
// The scale of a weight [..., `rank` axes] by its largest magnitude, for each index of the axis or for all.
std::string write_following_scale(NodeWriter& write, const QuantizedNetwork::Weight& weight, int rank,
                                  const std::string& value, const BiasOfScale& bias);
// Its integers, int8. `slices`: the length of the scale, 0: it is one number.
std::string write_weight_integers(NodeWriter& write, const QuantizedNetwork::Weight& weight, int64_t slices,
                                  const std::string& value, const std::string& scale);
std::string write_bias_scale(NodeWriter& write, const QuantizedNetwork::Bias& bias, const std::string& factor,
                             const std::string& weight_scale);
// Its integers, int32.
std::string write_bias_integers(NodeWriter& write, const QuantizedNetwork::Bias& bias, const std::string& value,
                                const std::string& scale);

}  // namespace metac
