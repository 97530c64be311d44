// What a program has read out of its values: a Bind op whose element an earlier one has read takes that one's symbol. On a
// GPU each read waits for all kernels before it.
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

class ReadSymbols {
 public:
  // The symbol that the element of `bind` is already, one of `bound` with the same range; -1: it is to be read.
  int known(const Op& bind, const std::vector<Symbol>& symbols, const std::set<int>& bound) {
    const auto [first, fresh] = symbols_.try_emplace({bind.inputs[0]->id, bind.element}, bind.symbols[0]);
    if (fresh || bound.count(first->second) == 0) return -1;
    const Symbol &one = symbols[static_cast<size_t>(first->second)], &other = symbols[static_cast<size_t>(bind.symbols[0])];
    return one.min == other.min && one.max == other.max && one.divisor == other.divisor ? first->second : -1;
  }

 private:
  std::map<std::pair<int, int64_t>, int> symbols_;  // by Var and element
};

}  // namespace metac
