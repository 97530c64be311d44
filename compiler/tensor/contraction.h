// Contractions for tiles of vectors (design section 4.4): sums of products (compiler/tensor/sum_of_products.h) whose factors
// are elements of two Vars, in lanes of four bytes. What layouts, packing and tiles edit is a Contraction; `body` puts it
// together again.
#pragma once
#include <optional>

#include "compiler/tensor/definition.h"
#include "compiler/tensor/sum_of_products.h"

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

  Expr body() const { return call(product, {a.load, b.load}); }  // where all conditions hold
  Expr guarded_body() const;                                     // anywhere
};

// The definition as one, summed in float32, or in int32, whose elements may be words of small integers. `half`: elements of
// half types that are widened to float32 count as float32.
std::optional<Contraction> contraction_of(const Definition& d, bool half = false);
std::optional<Contraction> float_contraction_of(const Definition& d, bool half = false);  // summed in float32
// With an epilogue that is computed in the tile, element by element.
std::optional<Contraction> tiled_contraction_of(const Definition& d, bool half = false);
// Tiles compute in lanes of 4 bytes. Can they compute this? Half types are loaded, rounded to and widened again, but nothing
// is computed in them; other widths are converted to and chosen from, but not compared: masks are as wide as lanes.
bool has_lanes_of_words(Expr epilogue);
// Does the condition bound an index of the load, which may be beyond the end of what is read where it does not hold?
bool bounds_index(Expr load, Expr condition);
// Which index of a load of words is the axis along which a word's elements are neighbours; -1: no index uses it.
int word_position(Expr load, int word_axis);

}  // namespace metac
