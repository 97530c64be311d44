// A Definition says how the elements of one Var are computed: the common form of the three meta-operators on which
// fusion, contraction recognition and scheduling work.
//
//   gather form    out[out_index(i)] = epilogue( reduce over r of body(i, r) )      i: kept axes, r: reduced axes
//   scatter form   out starts at the identity; for every point j in order: out[out_index(j)] = combine(itself, body(j))
//
// axis(k) is the k-th axis of `domain`; the kept axes come first, the last `reduced` axes are reduced. Loads name Vars
// by Var::id. In the epilogue load(reduced_value, accumulator, {}) is the reduced value; without a reduction the
// epilogue is empty and the body is the value.
#pragma once
#include <optional>
#include <vector>

#include "compiler/ir/bounds.h"
#include "compiler/ir/graph.h"

namespace metac {

constexpr int reduced_value = -1;

struct Definition {
  Var* out = nullptr;
  Shape domain;
  int reduced = 0;  // how many of the last axes are reduced
  std::optional<Reduce> reduce;
  DType accumulator = DType::f32;
  bool scatter = false;
  Expr body;                     // of the accumulator's dtype if there is a reduction
  std::vector<Expr> conditions;  // scatter form: all must hold
  std::vector<Expr> out_index;   // per axis of `out`: a bijection of the kept axes (gather form)
  Expr epilogue;                 // of out's dtype; empty without a reduction
  Expr products;  // summed in one element, where a point of the domain has several (words of integers); empty: one a point
  std::vector<int> nodes;  // model nodes that are in it, ascending
  bool int8_data = false;  // of a sum: what is no weight may be rounded to int8 (Origin::int8_data)

  int kept() const { return static_cast<int>(domain.size()) - reduced; }
  bool is_plain() const { return !reduce && !scatter; }  // element-wise or reindex
};

// `more` joins the model's nodes in a list: ascending, each once. Appending would double the list with each value that is
// read twice.
void merge_nodes(std::vector<int>& nodes, const std::vector<int>& more);

// One Definition per output of an Elementwise, Reindex or ReindexReduce.
std::vector<Definition> definitions_of(const Op* op, const std::vector<Symbol>& symbols);

// `out` has the values of `source`, which has its dtype and is no shorter along any axis. nodes: of the model, that it is
// part of.
Definition copy_of(const Var* source, Var* out, std::vector<int> nodes = {});

// Calls f(load) for every distinct load of a Var in body, epilogue, conditions and out_index (not the reduced value).
void visit_loads(const Definition& d, const std::function<void(Expr)>& f);
// Calls f for the symbols in its expressions, its domain and the shape of what it makes; not those of shapes that it reads.
void visit_symbols(const Definition& d, const std::function<void(int)>& f);
// Replaces every load of Var `id` by what `value` makes of its indices.
void replace_loads(Definition& d, int id, const std::function<Expr(const std::vector<Expr>&)>& value);
// Renames and reorders axes: axis(k) becomes axis(position[k]); the kept axes stay in front.
void permute_axes(Definition& d, const std::vector<int>& position);
void simplify(Definition& d, const std::vector<Symbol>& symbols);
Expr all_of(const std::vector<Expr>& conditions);  // their conjunction; true where there are none

// simplify() of definitions that change again and again, a concatenation of many parts for one: what it found is kept.
class DefinitionSimplifier {
 public:
  explicit DefinitionSimplifier(const std::vector<Symbol>& symbols) : symbols_(symbols) {}
  void operator()(Definition& d);

 private:
  const std::vector<Symbol>& symbols_;
  std::map<std::vector<const ExprNode*>, std::pair<Bounds, Simplified>> by_domain_;
};

// Is out[i] = in[f(i)] the identity on linear memory (a reshape)? A permutation of axes?
bool is_reshape(const Shape& in, const Shape& out, const std::vector<Expr>& indices, const std::vector<Symbol>& symbols);
bool is_permutation(const std::vector<Expr>& indices, std::vector<int>* axes = nullptr);

std::string to_string(const Definition& d);

}  // namespace metac
