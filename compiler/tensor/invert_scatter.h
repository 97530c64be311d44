// A scatter whose indices are affine becomes a gather by an integer solve (design section 4.4): the gradient of a window
// or of a slice then needs no ordered walk, runs in parallel and, where it sums products, is a contraction.
//
// For one axis o of the result, o = c + s*i + d*k with i the longest axis:
//   s = 1:         i = o - c - d*k.
//   s > 1, no k:   i = (o - c) / s, where s divides o - c.
//   s > 1, one k:  with u = o - c, g = gcd(s, d): g must divide u; the solutions are k = k0 + (s/g)*t and
//                  i = floor((u - d*k0) / s) - (d/g)*t, where k0 = (inverse of d/g modulo s/g) * u/g modulo s/g.
//                  k0 depends on the residue of u alone, so that splitting o by residue leaves no test inside.
// An index that counts several axes out (group*channels + channel, every element of the result once) is cut into them, and
// nothing is summed. An axis k that is there as floor(k/n) alone (an image that was enlarged by whole numbers) counts as
// two: k = n*o + r, where r is summed over. The longest axis is eliminated so that what is summed over stays short.
#pragma once
#include "compiler/tensor/definition.h"

namespace metac {

// Rewrites `d` from scatter to gather form; false, and `d` unchanged, where an index is not affine in axes of its own, the
// solve has another form than those above, or the gather would visit more than four times the points of the scatter.
bool invert_scatter(Definition& d, const std::vector<Symbol>& symbols);

}  // namespace metac
