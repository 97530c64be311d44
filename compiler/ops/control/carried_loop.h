// Building a Loop whose carried values may change their shapes from one iteration to the next: such dims are symbols.
//
// Which dims change is found by trying: the body is built for the shapes of the initial values; where a result has another
// dim, the dim becomes a symbol and the body is built again, until results fit. The symbols are listed in Op::symbols
// after the number of iterations (if that is one): each stands for the dim of the carried value while the body runs, and
// for the dim of the final value after the loop.
#pragma once
#include <functional>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// New ops go into the region while this object lives.
class OpenRegion {
 public:
  OpenRegion(Graph& graph, Region& region) : graph_(graph) { graph.open_region(&region); }
  ~OpenRegion() { graph_.close_region(); }
  OpenRegion(const OpenRegion&) = delete;
  OpenRegion& operator=(const OpenRegion&) = delete;

 private:
  Graph& graph_;
};

// Takes back the requirements and ops made since it was constructed. Symbols stay: nothing uses them any more.
class Attempt {
 public:
  explicit Attempt(Graph& graph);
  void roll_back();

 private:
  Graph& graph_;
  size_t ops_, requirements_, vars_;
};

struct CarriedLoop {
  Var* trip_count = nullptr;  // int64 scalar; null: no limit
  Var* condition = nullptr;   // bool scalar; null: true
  Expr trips;                 // the trip count as far as it is known; may be empty
  std::vector<Var*> initial;

  // Returns [condition or null, the next carried values..., the per-iteration outputs...]. `iteration` is an int64 scalar.
  using Body = std::function<std::vector<Var*>(Expr iteration, const std::vector<Var*>& carried)>;
  Op* build(Graph& g, const Body& body) const;
};

}  // namespace metac
