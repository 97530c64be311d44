// A kernel that works on blocks of rows pays for a whole block where a run has one row (a decoder's next token against its
// cache). Where the number of rows is known to a run alone it has a second body, row by row, and each run takes one of them.
// So does a product with weights of few bits, which are widened in registers for few rows and panel by panel for many.
#pragma once
#include <string>

#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// `blocks` is what `group` was lowered to: its last loop around the stages goes over blocks of `rows` rows. Up to
// CpuCosts::few_rows of them are computed one by one instead, as lower_group.h has it.
Kernel with_few_rows(Kernel blocks, const Group& group, Expr rows, const LoweringContext& context);

// A kernel to begin another body of `first` with: whose axes, locals and arguments go on behind those of it.
Kernel continued(const Kernel& first);
// `few` where `condition` holds, else `many`, of which few was a continuation: each with the loops of its own. what: few
// words about the first.
Kernel either_body(Kernel few, Kernel many, Expr condition, const std::string& what);

}  // namespace metac
