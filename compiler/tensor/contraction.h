// Contractions (design section 4.4): a sum over reduced axes of the product of two operands, each read at its own access
// map, the first perhaps under validity conditions. Convolutions, matmuls, einsums and their gradients all have this
// form; nothing here knows an operator.
#pragma once
#include <optional>

#include "compiler/tensor/definition.h"

namespace metac {

struct Operand {
  Expr load;                     // of the Var, at logical indices
  std::vector<Expr> conditions;  // outside of which it counts as 0
  int64_t outside = 0;           // of words: what it counts as there
  std::vector<Expr>
      borders;  // conditions that hold in each part the sum is cut into (target/cpu/residue_parts.h: border_parts)
};

struct Contraction {
  Operand a, b;
  Fn product = Fn::mul;  // or a sum of products of the words' elements (dot_u8s8, ...)
  int word_axis = -1;    // of words: the axis that steps from one to the next, the last one

  Expr body() const { return call(product, {a.load, b.load}); }
};

// Of float32, or of int32 that may be words of small integers.
std::optional<Contraction> match_contraction(const Definition& d);
// The same, whatever the epilogue does: for schedules that give it a nest of its own.
std::optional<Contraction> match_products(const Definition& d);
std::optional<Contraction> match_sum_of_products(const Definition& d);  // of float32
// Tiles compute in lanes of 4 bytes. Can they compute this? Half types are loaded, rounded to and widened again, but nothing
// is computed in them; other widths are converted to and chosen from, but not compared: masks are as wide as lanes.
bool has_lanes_of_words(Expr epilogue);
// Appends the conditions that all must hold for `e` to.
void conjuncts(Expr e, std::vector<Expr>& out);
// Which index of a load of words is the axis along which a word's elements are neighbours; -1: no index uses it.
int word_position(Expr load, int word_axis);
// Does the value depend on where in the output it stands (a causal mask), other than through what it loads?
bool reads_position(Expr e);
// Does the load use every axis that the condition uses?
bool covers(Expr load, Expr condition, const Definition& d);

// The kept (first) axes of `d` that an expression uses, ascending; reduced ones where asked.
std::vector<int> axes_used(Expr e, int from, int to);

}  // namespace metac
