// A network for quantisation-aware training (Jacob et al., arXiv:1712.05877, section 3), in two forms: as it will be used,
// with integers for weights, and as it is trained, with fake_quantize nodes (compiler/ops/quantized/fake_quantize.cpp) in
// the same places over float32 weights. After every update the integers follow from the float32 parameters, so that the
// trained file and the weights of the library are those of the first form and nothing is left to convert.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

struct QuantizedNetwork {
  // integers[i] = clamp(rint(parameter[i] / scale), -largest, largest), the scale along `axis` (-1: one for all).
  struct Weight {
    std::string parameter, integers, scale;
    int axis = -1;
    int64_t largest = 127;
  };
  // integers[i] = rint(parameter[i] / scale[i]), int32, where scale = factor * weight_scale: of the values that the sums are
  // over and of the weights.
  struct Bias {
    std::string parameter, integers, scale, factor, weight_scale;
  };

  Model integers;  // the network that is exported and made a library of
  Model trained;   // its parameters have the float32 network's names; scales have the same names in both
  std::vector<Weight> weights;
  std::vector<Bias> biases;
  std::vector<std::string> notes;
};

}  // namespace metac
