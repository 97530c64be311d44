// Sums of products whose operands are bfloat16 or may be rounded to it (CompileOptions::precision), made to be computed
// two products at a time where the CPU has such an instruction. The weights are rounded by `prepare`; the data by whoever
// makes them, who stores half as many bytes from then on: others that read them widen what they read. Sums stay float32.
//
//   sum a * b   ->   sum over words of dot_bf16(A, B)        A, B: int32 words of two neighbours (integer_products.h)
//
// What the model takes is rounded into a copy, with the border that a sum reads. Where no operand depends on parameters
// alone, as in training, and where the data is an output of the model, a kernel puts neighbours along one of its axes into
// words. Attention by rows along the lanes (strategies/lower_row_block.h) multiplies words too, and its keys are stored
// rounded.
//
// Left as they are: windows of 3 x 3 that minimal filtering computes faster, channels by themselves, data that something
// reads as the operand of a sum that stays, operands of which each element is read a few times, and sums whose nodes people
// keep (CompileOptions::keep).
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Returns the Vars that `prepare` computes now.
std::vector<Var*> half_products(RegionState& state);

}  // namespace metac
