// Convolutions that a vendor library computes as well: of float32, float16 or bfloat16, one to three spatial axes, strides,
// dilations, padding and groups, with an epilogue that libraries know (residual, biases, relu with or without an upper
// bound). Recognised on the Definition, where indices are still one per axis of a value.
#pragma once
#include <optional>

#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

bool is_library_type(DType dtype);
// Does a library convert so too where it computes with values of `dtype`? Between it and float32.
bool are_library_conversions(const std::vector<DType>& conversions, DType dtype);

// Arguments of the result are numbers of `arguments`. Nothing where the group is none of these.
std::optional<LibraryConvolution> match_library_convolution(const Group& group, const LoweringContext& context,
                                                            const std::vector<KernelArgument>& arguments);

// Do its operands (numbers of `arguments`) lie as a library wants them, all row by row or all with their channels last? It
// is noted which. Axes that run once may stand anywhere.
bool lie_alike(LibraryConvolution& c, const std::vector<KernelArgument>& arguments);

}  // namespace metac
