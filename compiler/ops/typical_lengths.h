// How long sequences typically are where nobody says it: so long that what is worked out from their length is not next to
// nothing. An encoder that makes one frame of 320 samples is for more than 128 samples. And how long dims are that must
// fit each other.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// Doubles the hints of these symbols of a lowered graph until every dim that uses them has some length; hints that do not
// come to that, as a dim stays short however long the sequence is, are left as they were.
void choose_typical_lengths(Graph& graph, const std::vector<int>& symbols);

// Lowers the hints of these symbols until dims that a requirement wants to be equal typically are: the levels of a pyramid,
// each an input of its own, are each half as large as the one before. What broadcasts may be 1, but typically is not.
void choose_matching_lengths(Graph& graph, const std::vector<int>& symbols);

}  // namespace metac
