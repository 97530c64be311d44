// A causal mask in a block of rows: keys behind the last one that any of the rows may see get a score of minus infinity, a
// weight of zero and no part in the result, so that no loop of the block goes there.
//
// Found where a stage says select(key <= limit(row), score, -inf) and all that follows makes nothing of such a score: a
// maximum passes over it, its exponential is zero, sums and products with it add nothing. What a value that is not seen
// would do to the result if it were not finite (0 * inf), it does not do.
#pragma once
#include "compiler/tensor/group.h"

namespace metac {

struct KeysInSight {
  std::vector<int> key_axis;  // of each stage's definition; -1: it has no keys
  Expr keys;                  // how many there are
  // A row sees no key behind any of these, in the axes that stages share; they do not fall from row to row.
  std::vector<Expr> limits;
  int masked = 0;            // the stage whose value is masked so
  bool only_masked = false;  // and is its sum, or the element of another value, where it is seen
};

std::optional<KeysInSight> keys_in_sight(const Group& group);

}  // namespace metac
