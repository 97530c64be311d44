// A network whose values are stored in half precision: bfloat16 or float16. Sums are taken in float32 whatever is stored
// (docs/decisions/half_types.md); parameters stay float32 and are rounded where the network reads them, so that updates
// and what optimisers keep are those of float32.
//
// What loses by short mantissas keeps float32: softmax, sums and means, exponentials and logarithms, operators with bodies.
// Every value has its float32 form under its own name, which a loss or a metric reads.
#pragma once
#include <string>

#include "compiler/ir/dtype.h"
#include "compiler/ops/model.h"

namespace metac {

// `model`: of static shapes. Returns a note for people: how many nodes compute in `half`.
std::string store_in_half(Model& model, DType half);

}  // namespace metac
