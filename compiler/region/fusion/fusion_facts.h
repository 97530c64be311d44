// What fusion asks of a definition by itself: how much is read and computed, and where.
#pragma once
#include <functional>

#include "compiler/tensor/definition.h"

namespace metac {

int loads_of(const Definition& d);  // distinct ones
int count_nodes(Expr e);
// Has the reader at most as many elements as what it reads, whatever the open dims are? Dims that data decides have at
// least one.
bool no_more_elements(const Definition& reader, const Definition& d, const std::vector<Symbol>& symbols);
// Does it read at the lesser or greater of two places? No contraction can step along such an index.
bool has_folded_index(const Definition& d);
// Is its body the elements of a Var of this shape in the order of memory, as many as there are? Open dims may be flattened:
// what is taken apart into digits is put together again.
bool reads_in_order(const Shape& source, const Definition& d, const std::vector<Symbol>& symbols);
// A sum of products of what is read along different axes: it has a schedule of its own.
bool is_contraction(const Definition& d);
// Does it ask at each element which value is read there, as a concatenation or what lies within a border? A tile of
// products does not; standing alone it is stored part by part. A mask by position, as of attention, lets the sum itself be
// or gives one constant.
bool picks_by_position(Expr e);
// Would `reader` divide in a `forbidden` way where it reads what `d` reads, because `d` divides?
bool brings_division(const Definition& d, const Definition& reader, const std::vector<Symbol>& symbols,
                     const std::function<bool(Expr)>& forbidden);
// Would it read that at floor((i + j)/2), as the windows of an enlarged image? No contraction can step along such an index.
bool has_divided_sum(const Definition& d, const Definition& reader, const std::vector<Symbol>& symbols);
// A cast that costs nothing where it is read: half types as float32, bytes as the int32 of integer products.
bool is_free_widening(Expr body);
// Loads, conditions and constants, but no arithmetic on data.
bool is_move(Expr body, bool free_widening);
// Does it make bytes of numbers that lie packed in fewer?
bool unpacks(const Definition& d, const std::function<const Var*(int id)>& read);
// Few operations, none of which takes long.
bool is_simple(Expr body);

}  // namespace metac
