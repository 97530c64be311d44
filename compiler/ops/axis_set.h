// Axes that an operator is given: known, or values of an input that only the run has. How many there are must be known,
// since that decides ranks; which they are need not be: what depends on it becomes expressions over symbols, and where all
// of them are known the expressions fold to what a static lowering would build.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/registry.h"

namespace metac {

class AxisSet {
 public:
  AxisSet() = default;
  // Negative ones count from the end; a name that is out of range or occurs twice is an error, at run time where it must.
  AxisSet(const std::vector<int64_t>& axes, int rank, std::string_view what = "axis");
  AxisSet(Graph& g, Var* axes, int rank, std::string_view what = "axes");

  size_t size() const { return numbers_.size(); }
  int rank() const { return rank_; }
  bool known() const;
  std::vector<int> values() const;                     // of known ones, in the order given
  Expr number(size_t i) const { return numbers_[i]; }  // in [0, rank)

  Expr contains(int axis) const;  // a bool
  // What the operand with one entry per named axis says of `axis`; `otherwise` where it is not named.
  Expr entry(const std::vector<Expr>& entries, int axis, Expr otherwise) const;

 private:
  void check_distinct(std::string_view what) const;
  int rank_ = 0;
  std::vector<Expr> numbers_;
};

// x [d0, d1, ...] as a tensor of twice the rank: [kept0, kept1, ..., named0, named1, ...] where each dim stands on one side
// and 1 on the other. Whatever is computed along the last `rank` axes is then computed along the named ones.
// `last_is_named`: what is known of the last axis, by whoever made a branch for it.
Var* split_by_axes(Graph& g, Var* x, const AxisSet& axes, std::optional<bool> last_is_named = {});
// x without the named axes, whose extents are 1; and with axes of extent 1 at the named places.
Var* without_axes(Graph& g, Var* x, const AxisSet& axes);
Var* with_axes(Graph& g, Var* x, const AxisSet& axes);

// The one axis of the set moved behind all others, in whose place an axis of extent 1 stays where it is not known; and the
// way back, for a tensor of any extent along it.
Var* axis_to_last(Graph& g, Var* x, const AxisSet& axis);
Var* axis_from_last(Graph& g, Var* y, const AxisSet& axis);

}  // namespace metac
