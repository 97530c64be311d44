// Which operand of a contraction carries the vector lanes, and along which axis of the result.
#pragma once
#include <functional>
#include <optional>

#include "compiler/tensor/contraction.h"

namespace metac {

struct LaneChoice {
  Contraction c;       // b is the operand with the lanes
  int lanes_axis = 0;  // kept axis of the definition
  int out_axis = 0;    // axis of the result that it is
  int kept = 0;        // the definition's axes from here on are reduced
  bool lanes_in_both = false;
};

// Empty where `d` is no contraction or no axis can carry lanes. lanes: float32 elements of a vector; narrow: groups
// narrower than a vector were merged into one axis (merge_narrow_group); var: of an id.
std::optional<LaneChoice> choose_lanes(const Definition& d, int lanes, bool narrow, const std::vector<Symbol>& symbols,
                                       const std::function<const Var*(int)>& var,
                                       const std::function<bool(const Var*)>& is_constant);

// The axis of the data (of this shape) that the sum or the lanes run along, if it is no shorter than a vector; -1: none.
int wanted_last(const LaneChoice& w, const Shape& data, int lanes);

}  // namespace metac
