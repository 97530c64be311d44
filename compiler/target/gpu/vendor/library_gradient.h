// Gradients of convolutions that a vendor library computes as well, by the data or by the weights; the first is also what a
// transposed convolution computes. Recognised on the Definition before it is split by residue. How an index of a window is
// written (with floor_div and floor_mod where it is strided, against its direction, with or without the taps that never
// count) does not matter: along each spatial axis the elements that meet are counted out and compared with those of a
// convolution. So spatial dims are known; the number of images may be open. Channels and features of several groups are
// counted out the same way.
#pragma once
#include <functional>
#include <optional>

#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// Operands are Var ids. Nothing where it is none of these.
std::optional<LibraryConvolution> match_library_gradient(const Definition& d, const std::function<const Var*(int)>& var,
                                                         const std::vector<Symbol>& symbols);

}  // namespace metac
