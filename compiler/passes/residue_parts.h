// What a strided convolution's gradient (and a transposed convolution) sums at each residue of its output (split_residues): of a
// 3 x 3 window at stride 2 one, two, two and four taps, of a 1 x 1 window one tap at one residue and nothing at the others. Each
// becomes a kernel of its own with its own taps, where one kernel for all would sum the most that any of them has.
#pragma once
#include <vector>

#include "compiler/kernel/definition.h"

namespace metac {

struct ResiduePart {
  std::vector<Expr> at;   // what each axis of the whole is in the part
  Shape domain;           // an axis of residues has extent 1, reduced axes run over the taps that live
  bool no_taps = false;   // nothing is summed
};

// The parts of a sum by the `conditions` of its lanes' operand; empty where they would leave out little.
std::vector<ResiduePart> residue_parts(const Definition& d, int lanes_axis, const std::vector<Expr>& conditions, const std::vector<Symbol>& symbols);

// The part of `d`, whose axes are those that residue_parts saw. Without taps it is no sum.
Definition part_of(const Definition& d, const ResiduePart& part, const std::vector<Symbol>& symbols);

}  // namespace metac
