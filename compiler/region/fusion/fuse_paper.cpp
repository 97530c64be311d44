#include "compiler/region/fusion/fuse_paper.h"

#include <algorithm>

#include "compiler/region/fusion/fusion_groups.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

void fuse_by_labels(const FusionGraph& graph, FusionGroups& groups) {
  std::vector<int> label(graph.vertices.size(), 0);
  for (size_t v = graph.vertices.size(); v-- > 0;) {
    int highest = 0;
    for (int number : graph.vertices[v].out) {
      const FusionEdge& e = graph.edges[static_cast<size_t>(number)];
      highest = std::max(highest, label[static_cast<size_t>(e.to)] + (e.fusable ? 0 : 1));
    }
    std::vector<int> with = {groups.group_of(static_cast<int>(v))};
    for (int number : graph.vertices[v].out) {
      const FusionEdge& e = graph.edges[static_cast<size_t>(number)];
      int group = groups.group_of(e.to);
      if (e.fusable && label[static_cast<size_t>(e.to)] == highest && !std::count(with.begin(), with.end(), group))
        with.push_back(group);
    }
    if (with.size() > 1) {
      if (groups.can_merge(with))
        groups.merge(with);
      else
        ++highest;
    }
    label[v] = highest;
  }
}

// The order of groups that greedy fusion keeps up to date (Pearce and Kelly, "A dynamic topological sort algorithm for
// directed acyclic graphs", 2006): an edge always leads from a lower to a higher place.
class GroupOrder {
 public:
  GroupOrder(const FusionGraph& graph, FusionGroups& groups)
      : graph_(graph), groups_(groups), place_(graph.vertices.size()), seen_(graph.vertices.size(), 0) {
    for (size_t v = 0; v < place_.size(); ++v) place_[v] = static_cast<int>(v);
  }

  // Rule 3: merges the groups unless a path from the one to the other leads through a third.
  bool merge_without_cycle(int from, int to) {
    if (!search(from, to, true)) return false;
    search(to, from, false);
    std::vector<int> slots = {place(from), place(to)};
    for (const std::vector<int>* side : {&before_, &after_})
      for (int g : *side) slots.push_back(place(g));
    std::sort(slots.begin(), slots.end());
    auto by_place = [&](int a, int b) { return place(a) < place(b); };
    std::sort(before_.begin(), before_.end(), by_place);
    std::sort(after_.begin(), after_.end(), by_place);
    // What leads to `to` comes first, then the merged group, then what `from` leads to; one slot is left over.
    size_t next = 0;
    for (int g : before_) place(g) = slots[next++];
    int merged_slot = slots[next];
    next += 2;
    for (int g : after_) place(g) = slots[next++];
    place(groups_.merge({from, to})) = merged_slot;
    return true;
  }

 private:
  int& place(int group) { return place_[static_cast<size_t>(group)]; }

  // The groups between the two that `start` leads to (ahead), or that lead to `start`. False if `end` is among them, the
  // edges between the two aside.
  bool search(int start, int end, bool ahead) {
    std::vector<int>& found = ahead ? after_ : before_;
    found.clear();
    ++round_;
    std::vector<int> stack = {start};
    while (!stack.empty()) {
      int group = stack.back();
      stack.pop_back();
      for (int v : groups_.members(group)) {
        const FusionVertex& x = graph_.vertices[static_cast<size_t>(v)];
        for (int number : ahead ? x.out : x.in) {
          const FusionEdge& e = graph_.edges[static_cast<size_t>(number)];
          int next = groups_.group_of(ahead ? e.to : e.from);
          if (next == group || seen_[static_cast<size_t>(next)] == round_) continue;
          if (next == end) {
            if (group == start) continue;
            return false;
          }
          if (ahead ? place(next) > place(end) : place(next) < place(end)) continue;
          seen_[static_cast<size_t>(next)] = round_;
          found.push_back(next);
          stack.push_back(next);
        }
      }
    }
    return true;
  }

  const FusionGraph& graph_;
  FusionGroups& groups_;
  std::vector<int> place_, seen_;
  std::vector<int> before_, after_;
  int round_ = 0;
};

void fuse_greedily(const FusionGraph& graph, FusionGroups& groups) {
  std::vector<int> heaviest;
  for (size_t e = 0; e < graph.edges.size(); ++e)
    if (graph.edges[e].fusable) heaviest.push_back(static_cast<int>(e));
  std::stable_sort(heaviest.begin(), heaviest.end(), [&](int a, int b) {
    return graph.edges[static_cast<size_t>(a)].bytes > graph.edges[static_cast<size_t>(b)].bytes;
  });
  GroupOrder order(graph, groups);
  // A fusion may make another one possible: a path that led through a third group is inside afterwards.
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<int> left;
    for (int number : heaviest) {
      const FusionEdge& e = graph.edges[static_cast<size_t>(number)];
      int from = groups.group_of(e.from), to = groups.group_of(e.to);
      if (from == to) continue;
      if (groups.can_merge({from, to}) && order.merge_without_cycle(from, to))
        changed = true;
      else
        left.push_back(number);
    }
    heaviest = std::move(left);
  }
}

}  // namespace

FusedRegion fuse_paper(const std::vector<Op*>& ops, const Needed& needed, const std::function<bool(const Var*)>& is_constant,
                       const std::vector<Symbol>& symbols, Fusion fusion) {
  FusionGraph graph = build_fusion_graph(ops, needed, is_constant, symbols);
  FusionGroups groups(graph, symbols);
  if (fusion == Fusion::greedy)
    fuse_greedily(graph, groups);
  else
    fuse_by_labels(graph, groups);
  return groups.region();
}

}  // namespace metac
