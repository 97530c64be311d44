// What `prepare`, or a kernel before a sum of products of integers, makes of an operand that is made of weights: definitions
// without a result yet, of int32 elements.
#pragma once
#include "compiler/target/cpu/integer_factors.h"

namespace metac {

// An element for each place of `d` where b is read, 0 where its conditions do not hold: taps that a window does not have at
// each residue of its result (a transposed convolution of 3 x 3 taps at stride 2).
Definition elements_read(const Definition& d, const IntegerFactor& b);
// The indices at which `d` reads those.
std::vector<Expr> places_read(const Definition& d, const IntegerFactor& b);

// b, of `shape`, in words of so many elements along the index that is the axis `word` of `d`; zeros behind its end.
Definition words_along(const Definition& d, const IntegerFactor& b, const Shape& shape, int word, int elements);

// The sum, over all axes that `d` reduces, of what `whole` makes of the indices that `read` loads; its kept axes are those
// of `read`.
Definition sums_read(const Definition& d, Expr read, Expr whole);

}  // namespace metac
