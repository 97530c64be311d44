// What is read at one index of an axis alone is computed there alone: the first token of a classifier's last layer, the last
// step of a decoder's logits. A slice behind a product becomes a product of a slice, and so on towards the inputs, as far as
// nobody else needs the rest.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// How many values became narrower (remove_dead_ops takes the wide ones away). Readers that lead to output
// Graph::last_step_of alone do not count: for them the wide value stays beside the narrow one, which goes back to one product
// there. Every kernel before it would be made twice for a small part of the layers' work.
int narrow_reads(Graph& graph);

}  // namespace metac
