// What the reference evaluator decides once per graph: which ops are computed inside their only consumer, and the
// register programs of the others.
#pragma once
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/oracle/evaluate_program.h"

namespace metac {

// The symbols' values so far, by id.
struct SymbolValues {
  explicit SymbolValues(size_t count) : values(count, 0), bound(count, false) {}
  void set(int id, int64_t value) { values[id] = value, bound[id] = true; }
  bool is_known(Expr e) const;
  int64_t dim(Expr e) const;  // asserts is_known
  std::vector<int64_t> dims(const Shape& shape) const;
  std::vector<int64_t> values;
  std::vector<bool> bound;
};

size_t node_count(Expr e);
int64_t count_of(const std::vector<int64_t>& dims);  // CompileError where the product overflows or a dim is negative

class CompiledGraph {
 public:
  struct Kernel {
    // Roots: elementwise and reindex: one per output. reindex_reduce: the value, its condition, the indices. A Reindex of
    // strings: its condition, the indices.
    ScalarProgram program;
    std::vector<const Var*> operands;
  };

  CompiledGraph() = default;  // for single ops: nothing is inlined
  explicit CompiledGraph(const Graph& graph);

  // Decided when the op is first reached and then kept.
  bool is_inlined(const Op& op, const SymbolValues& symbols);
  const Kernel& kernel(const Op& op);  // of a pure op that is not inlined

 private:
  void count_uses(const std::vector<Op*>& ops, std::unordered_map<const Var*, int>& region_of, int& regions);
  bool decide_inlined(const Op& op, const SymbolValues& symbols);
  Expr expand(const Op& op, Expr e, std::unordered_map<const ExprNode*, Expr>& done);
  Expr expand(const Op& op, Expr e);
  Expr load_of(const Var* var, std::vector<Expr> indices);
  Expr condition_of(const Op& op);
  Expr lazy_body(const Op& op, size_t output = 0);
  Kernel compile(const Op& op);

  std::unordered_map<const Op*, Kernel> kernels_;
  std::unordered_map<const Op*, bool> inlined_;
  std::unordered_map<const Var*, const Op*> only_consumer_;  // null: several, or one that needs the tensor
  std::unordered_map<const Var*, Expr> lazy_;                // of inlined Vars: over their own axes, loads by Var id
  std::unordered_map<int, const Var*> var_of_id_;
};

}  // namespace metac
