// A sum over several dims at once (a group of channels and its image, flattened by a Reshape) that takes them apart again
// where it reads:
//
//   sum over r < c*h*w of x[g*c + r/(h*w), r/w % h, r % w]     becomes     sum over i < c, j < h, k < w of x[g*c + i, j, k]
//
// No division is left in the loops, loops over one run of memory become one again, and lanes find an axis that steps evenly.
#pragma once
#include "compiler/tensor/definition.h"

namespace metac {

// The extents of the digits of axis r, `extent` long, that the expressions read, the last digit first. Empty: they read
// none, or not as digits of one number.
std::vector<Expr> digits_of(const std::vector<Expr>& expressions, Expr r, Expr extent);
// Is there a division, or a rest, of one of these axes?
bool divides_axes(Expr expression, const std::vector<int>& axes);

// Gives each summed axis whose digits the body reads an axis for each digit, the slowest first, where no division of them is
// left then. Returns whether there was one.
bool split_summed_digits(Definition& d, const std::vector<Symbol>& symbols);

}  // namespace metac
