// What a vendor library does beside a product in one call, and what is otherwise a kernel of its own that reads the
// product's result or one of its operands again:
//   gelu (by its tanh approximation) of the result, where training keeps what gelu was applied to
//   the gradient of a bias: the sums of the operand that the gradient of a weight reads too, over the sum's steps
// Both kernels stay: they are what is started where the library cannot.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// A first look at definitions alone: would it be worth to lower the product in order to see?
bool may_be_beside(const Definition& product, const Definition& other);

// `kernel` is the product's: in front of what the library is asked for comes the product that does both, and the other's
// result is an argument. False: it is none of these, and `kernel` is as it was.
bool add_beside(Kernel& kernel, const Definition& product, const Definition& other, const LoweringContext& context);

}  // namespace metac
