// Neighbouring nests as one pass over their elements.
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// Where a nest in lanes stores what the next reduces in the same lanes, the reduction is done at once: the exponentials of a
// softmax and their sum.
void join_reductions(std::vector<LoopNode>& nests);

}  // namespace metac
