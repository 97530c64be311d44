// Values rounded to bfloat16, two neighbours along a loop in an int32 word, for products of words (runtime/device/dot.h).
#pragma once
#include "compiler/ir/bounds.h"
#include "compiler/loops/loop_tree.h"

namespace metac {

// A loop, and the one over its words that takes its place: of ceil(by.extent / 2) steps, `most` at most.
struct Halved {
  Loop by, word;
  Expr most;
};
// most: steps of `by`, at most.
Halved halved(Kernel& kernel, const Loop& by, Expr most, const Bounds& bounds);

// The word of a float32 value's elements at 2 * word and 2 * word + 1, zero behind the last one.
Expr word_of(Expr value, const Halved& halves, const Bounds& bounds);

// `store`, a word, for each word and each step of loop `beside`, by vectors of so many lanes along that; 1: one by one.
LoopNode words_beside_each(Kernel& kernel, Assign store, const Halved& halves, const Loop& beside, int lanes);

}  // namespace metac
