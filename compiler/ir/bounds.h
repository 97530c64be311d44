// What is known about ranges: an axis is in [0, extent), a symbol in its declared range. simplify() uses it to remove
// floor_div, floor_mod, comparisons, min, max and select that the ranges decide.
#pragma once
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Interval {
  int64_t low, high;  // inclusive; saturated at +-2^62
};

class Bounds {
 public:
  Bounds() = default;
  explicit Bounds(const std::vector<Symbol>& symbols, const Shape& domain = {});
  void set_axis(int id, Expr extent) { extents_[id] = extent; }
  const std::map<int, Expr>& extents() const { return extents_; }

  Interval interval(Expr e) const;            // of an int64 or bool expression
  bool proves(Expr condition) const;          // true for every value allowed
  bool proves_less(Expr a, Expr b) const;     // a < b, symbolically where need be
  bool proves_at_least(Expr a, Expr b) const { return proves_less(b, a + Expr(1)); }

 private:
  bool proves_positive(Expr e) const;
  std::vector<Interval> symbols_;
  std::map<int, Expr> extents_;
};

// What simplify() found out with one Bounds: a second look at an expression of which it knows most parts costs little.
struct Simplified {
  std::unordered_map<const ExprNode*, Expr> done, decided;
};

Expr simplify(Expr e, const Bounds& bounds);
std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds, Simplified& known);
std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds);

}  // namespace metac
