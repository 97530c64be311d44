// A partition of a FusionGraph into groups, each of which one kernel can compute.
//
// All ops of a group have one domain (rule 1 forbids anything else): at each point, each reads what the others made at
// that point. A group with one result (a Var that others read) is one Definition, everything else inlined. A group with
// several results has a stage each; the stages share outer loops and follow one another inside, so that what one stage
// stores the next reads from the nearest cache.
//
// Refused, besides edges inside the group that rules 1 and 2 forbid:
//   - more than `most_nodes` nodes of expressions in one kernel: no register file holds them;
//   - what `prepare` computes together with what every run computes;
//   - several results over a large domain without outer loops to share: the reductions must keep the same axes, enough of
//     them to run in parallel; without reductions the domain must have two axes at least; nothing may scatter.
#pragma once
#include <vector>

#include "compiler/region/fusion/fusion_graph.h"

namespace metac {

class FusionGroups {
 public:
  // Every vertex is a group.
  FusionGroups(const FusionGraph& graph, const std::vector<Symbol>& symbols);

  int group_of(int vertex) const { return group_[static_cast<size_t>(vertex)]; }
  const std::vector<int>& members(int group) const {
    return members_[static_cast<size_t>(group)];
  }  // ascending; empty: merged away
  bool can_merge(const std::vector<int>& groups) const;
  int merge(const std::vector<int>& groups);  // the group that holds all of them now
  // The groups in an order in which they can run, as items.
  FusedRegion region() const;

 private:
  struct Sharing {
    bool possible = false;
    std::vector<int> axes;  // of the domain, ascending: the loops that stages share
  };
  std::vector<int> members_of(const std::vector<int>& groups) const;
  std::vector<int> results_of(const std::vector<int>& members) const;
  Sharing sharing_of(const std::vector<int>& results) const;
  Group group_from(const std::vector<int>& members) const;
  const FusionVertex& vertex(int v) const { return graph_.vertices[static_cast<size_t>(v)]; }

  const FusionGraph& graph_;
  const std::vector<Symbol>& symbols_;
  std::vector<int> group_;
  std::vector<std::vector<int>> members_;
};

}  // namespace metac
