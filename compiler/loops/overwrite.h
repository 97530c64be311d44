// May a kernel's result take the memory of one of its operands? Yes, if each element of the operand is read only where
// and when the result's element at the same place is stored. This is decided on the loop tree, whatever made it:
//   - every load of the operand stands in an assignment to the result, at the offset that is stored;
//   - no such assignment updates what it stores, and no two places of its loops store at one offset (the strides of the
//     loops around it, each larger than all that the smaller ones span): a point done twice would read its own result;
//   - on a GPU the store stands under loops dealt to threads: else every thread of a block does it, one
//     after another's store;
//   - if several nodes store (full tiles and the rest), each has a guard: together they do every point once.
// Then vector lanes read and store the same elements, and parallel iterations touch none of each other's.
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// `result` and `operand` are arguments of the kernel. Their dtypes, shapes and layouts must agree.
bool may_overwrite(const Kernel& kernel, int result, int operand, const std::vector<Symbol>& symbols);

}  // namespace metac
