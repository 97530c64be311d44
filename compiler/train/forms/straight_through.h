// Quantised networks in the form that trains. QuantizeLinear rounds, and rounding has the derivative 0: below such nodes
// nothing would learn. In models of training a QuantizeLinear and a DequantizeLinear that reads its result with the same
// scale and zero point become one node with the straight-through derivative (compiler/ops/quantized/fake_quantize.cpp).
#pragma once
#include "compiler/ops/model.h"

namespace metac {

// Of the main graph; returns how many pairs there were. The values of the model stay the same to the bit. What else reads
// the integers goes on reading them. Pairs with scales that are no float32 or float64 initialisers, or that compute in
// another type (`precision`, `output_dtype`), stay as they are.
int pairs_to_fake_quantize(Model& model);

}  // namespace metac
