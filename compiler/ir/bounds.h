// What is known about ranges: an axis is in [0, extent), a symbol in its declared range. simplify() uses it to remove
// floor_div, floor_mod, comparisons, min, max and select that the ranges decide.
#pragma once
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/interval.h"
#include "compiler/ir/node_table.h"

namespace metac {

// Two kinds of expressions, told apart by ExprNode::has_load and the dtype:
//   index arithmetic  int64 without loads. It is assumed not to overflow (the evaluator of extents, runtime/extent.h, checks
//                     it), so its values are those of whole numbers, and differences of any two are taken as such.
//   data              all else. It wraps around: what a function yields is known only while that fits into the dtype.
class Bounds {
 public:
  Bounds() = default;
  explicit Bounds(const std::vector<Symbol>& symbols, const Shape& domain = {});
  void set_axis(int id, Expr extent);
  void set_range(int id, Interval range);  // of an axis that is no loop's
  const std::map<int, Expr>& extents() const { return extents_; }

  Interval interval(Expr e) const;             // of an integer or bool expression; of floats: nothing
  bool proves(Expr condition) const;           // true for every value allowed
  bool proves_less(Expr a, Expr b) const;      // a < b for int64, symbolically where need be
  bool proves_at_least(Expr a, Expr b) const;  // a >= b

 private:
  // What was found out so far, each expression once. A copy finds out anew: it is made to be changed.
  struct Memory {
    std::optional<NodeTable<Interval>> intervals;
    std::optional<NodeTable<bool>> proofs;
    Memory() = default;
    Memory(const Memory&) {}
    Memory& operator=(const Memory&) {
      intervals.reset(), proofs.reset();
      return *this;
    }
  };

  struct Proof {
    std::vector<Expr> positive;  // known to be 1 at least
    int steps = 100;
  };

  Interval interval_of_call(Expr e) const;
  bool proves_difference(Expr a, Expr b, int64_t least) const;  // a - b >= least
  std::vector<Expr> positive_products(Expr e) const;
  bool is_at_least(Expr e, int64_t least, Proof& proof) const;
  bool decide(Expr condition) const;
  std::vector<Interval> symbols_;
  std::map<int, Expr> extents_;
  std::map<int, Interval> ranges_;
  mutable Memory memory_;  // one thread at a time
};

// What simplify() found out with one Bounds: a second look at an expression of which it knows most parts costs little.
struct Simplified {
  std::unordered_map<const ExprNode*, Expr> done, decided;
  std::unordered_set<const ExprNode*> settled;  // nothing in it is left to decide
};

Expr simplify(Expr e, const Bounds& bounds);
std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds, Simplified& known);
std::vector<Expr> simplify(const std::vector<Expr>& es, const Bounds& bounds);

}  // namespace metac
