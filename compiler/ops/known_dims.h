// What a model's own requirements say of its open dims. A convolution whose window spans two rows wants two: a run that does
// not meet this ends with an error before its first kernel. Lowered again with that knowledge, an Add of two open dims, one
// halved and doubled from the other, need not allow for one of them being 1. A batch that an exporter has written into a
// Reshape as 1, and that a Concat wants to fit again, is 1.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct KnownDims {
  std::map<int, int64_t> least;           // of symbols of the inputs: no smaller value meets the requirements
  std::map<int, int64_t> only;            // of them: no other value meets the requirements
  std::set<int> may_be_none;              // of them: Symbol::may_be_none
  std::vector<Requirement> requirements;  // that say so

  bool operator==(const KnownDims& other) const {
    return least == other.least && only == other.only && may_be_none == other.may_be_none;
  }
};

// Of a lowered graph, `before` included, which it was lowered with.
KnownDims infer_known_dims(const Graph& graph, const KnownDims& before);

}  // namespace metac
