// What a strided convolution's gradient (and a transposed convolution) sums at each residue of its output (split_residues):
// of a 3 x 3 window at stride 2 one, two, two and four taps, of a 1 x 1 window one tap at one residue and nothing at the
// others. Each becomes a kernel of its own with its own taps, where one kernel for all would sum the most that any of them
// has.
//
// And the parts of an image near whose borders taps read beyond it (border_parts): of a 3 x 3 window with dilation 24 on 28
// x 28 points four taps live in each corner, one in the middle. Each part sums those that live, so that no zeros are
// multiplied and no halo is needed.
#pragma once
#include <vector>

#include "compiler/tensor/definition.h"

namespace metac {

struct ResiduePart {
  std::vector<Expr> at;  // what each axis of the whole is in the part
  Shape domain;          // an axis of residues has extent 1, reduced axes run over the taps that live
  bool no_taps = false;  // nothing is summed
};

// The parts of a sum by the `conditions` of its lanes' operand; empty where they would leave out little.
std::vector<ResiduePart> residue_parts(const Definition& d, int lanes_axis, const std::vector<Expr>& conditions,
                                       const std::vector<Symbol>& symbols);

// The parts of a sum by the `conditions` of its data, in each of which all hold; empty where they would leave out little or
// be narrow.
std::vector<ResiduePart> border_parts(const Definition& d, const std::vector<Expr>& conditions,
                                      const std::vector<Symbol>& symbols);

// The part of `d`, whose axes are those that residue_parts saw. Without taps it is no sum.
Definition part_of(const Definition& d, const ResiduePart& part, const std::vector<Symbol>& symbols);

}  // namespace metac
