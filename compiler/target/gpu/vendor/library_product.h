// Sums of products that a vendor library computes as well: a (batched) product of two matrices of float32, float16 or
// bfloat16 with an epilogue that libraries know (scale, residual, bias, relu, gelu and its gradient). Recognised on the
// lowered contraction, by strides alone: matrix products of any transposition, 1x1 convolutions, einsums and all their
// gradients are the same here. With another epilogue the library may compute the sums alone (library_finish.h).
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// A contraction as lower_gpu_contraction has it: kept loops by who reads them, factors and the store at element offsets.
struct ProductLoops {
  std::vector<Loop> batch, rows, columns, steps;
  Expr a, b;              // the factors: of rows and of columns
  Expr epilogue, offset;  // of the store
  int target = 0, accumulator = 0;
};

// What a library may be asked for, the most that it can do first; nothing where it is none of these.
std::vector<LibraryProduct> match_library_product(const ProductLoops& loops, const std::vector<KernelArgument>& arguments);

// The library wants distances of 8 elements; what is not known now it sees itself.
bool may_be_aux(const LibraryMatrix& matrix);

}  // namespace metac
