// What expressions say of axes: which ones they use, how far an index moves along one.
#pragma once
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// The axes from `from` to before `to` that an expression uses, ascending.
std::vector<int> axes_used(Expr e, int from, int to);
// Does the load use every axis that the condition uses?
bool covers(Expr load, Expr condition);
// Does the value depend on where in the output it stands (a causal mask), other than through what it loads?
bool reads_position(Expr e);
// The byte (uint8) that says which one a load of eight bits reads, load(table, int64(byte)); empty for other loads.
Expr byte_looked_up(Expr load);
// The step of an offset when the axis advances by one, if that does not depend on the axis; else empty.
Expr stride_of(Expr offset, int axis_id);
// How an index moves: offset + step * axis + ...
struct AxisStep {
  int axis = 0;
  Expr step;  // when the axis advances by one; empty: not by the same everywhere
};
struct IndexForm {
  std::vector<AxisStep> steps;  // of the axes that it uses, ascending
  Expr offset;                  // where all axes are 0
};
IndexForm index_form(Expr index);

}  // namespace metac
