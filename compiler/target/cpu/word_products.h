// Sums of products over words, int32 that hold neighbours along a reduced axis: what they need of a definition.
#pragma once
#include "compiler/region/fused_region.h"
#include "compiler/tensor/contraction.h"
#include "compiler/tensor/quantized_value.h"

namespace metac {

// Gives residues that a transposed convolution takes its result apart by axes of their own, and drops axes of one element:
// they hide which elements are neighbours, and that a weight serves many points.
void bring_out_axes(Definition& d, const std::vector<Symbol>& symbols);

// The reduced axis whose neighbours are neighbours in both operands, the longest one; -1: none. `a` may have conditions.
int word_axis(const Definition& d, const Operand& a, Expr b);

// Words of b lie in lanes along an axis that a does not have, and fill so much of a vector.
bool has_lanes(const Definition& d, Expr a, Expr b, int vector_bytes, double filled = 1);

// Has it no windows and no borders?
bool is_matrix(const Operand& o);

// Does the condition keep an index of the operand within its data?
bool is_border(const Operand& a, Expr condition);

// Is it read at the residues of a kept axis that is longer than those are many, and not at the quotients? What is made of it
// for each place would have an element for each point of the result.
bool repeats_residues(const Definition& d, Expr load);

// Do both read along one kept axis: groups of channels, each with weights of its own?
bool share_kept_axes(const Definition& d, Expr a, Expr b);

// Groups of four or eight channels that as many filters read or more: a vector holds words of several groups, which one load
// of the data and a shuffle bring (merge_narrow_group in layouts/contraction_axes.h). `word`: the axis of the channels.
bool fills_lanes_by_groups(const Definition& d, Expr a, Expr b, int word, int vector_bytes);

// What is stored in the end.
inline Expr& final_value(Definition& d) { return d.reduce ? d.epilogue : d.body; }

// Has it windows of three along two axes, without steps between them, which real numbers need fewer products for?
// `winograd`: CompileOptions::winograd.
bool is_filtered_minimally(const Definition& d, int winograd);

// What a definition sums in one element, before its axes are of words.
Expr products_of_element(const Definition& d);

// Does a sum of products of integers within these ranges stay within int32?
bool sum_fits(const Definition& d, const IntegerRange& a, const IntegerRange& b);

// An int32 of elements of so many bits, the first in the lowest: int32s without other bits.
Expr word_of(const std::vector<Expr>& elements, int bits);

// Is what `reader`, of the region, loads there read by others too, or by itself in another way?
bool is_read_elsewhere(const FusedRegion& region, const Definition& reader, Expr load);

// `value`, of the sum, where the epilogue has the sum.
void replace_sum(Definition& d, Expr value);

void move_axis_last(Definition& d, int k);

}  // namespace metac
