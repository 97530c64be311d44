// Weights of 2, 4 and 8 bits stay as they are in a GPU's memory. Without this `prepare` widens them, and a token reads up to
// eight times the memory.
//
// A product of few rows reads the numbers where they lie and widens each as it is multiplied: a sum a block, without tiles,
// as nothing is read twice (so its steps must lie side by side in the weight; one whose columns do is widened by `prepare`).
// Of more rows the weight is widened first, into memory of the run, and the product is what it would have been, a vendor
// library's too. Where only a run knows how many rows there are, both are steps of the program, and those that are not for
// them do nothing: the first axis is of length 0 there. Where rows are many in any run, as a convolution's are, `prepare`
// goes on widening: once, not in each run.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Behind all passes that look at products. What is not made by `prepare` any more is taken out of it.
void keep_weights_narrow(RegionState& state);

}  // namespace metac
