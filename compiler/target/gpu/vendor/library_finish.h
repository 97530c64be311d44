// Sums that a vendor library computes and an epilogue that it does not know: the library leaves the sums in the result's
// memory and a kernel of its own finishes them there, element by element. The one kernel that does both stays what is
// started where the library cannot. It costs a pass over the result, so the sums must be long.
#pragma once
#include "compiler/tensor/definition.h"

namespace metac {

// `steps`: how many products a sum has; not known counts as many.
bool worth_finishing(Expr steps);
bool worth_finishing(const Definition& d);

// What is left of `d` when its sums are where its results will be.
Definition finishing(const Definition& d);

}  // namespace metac
