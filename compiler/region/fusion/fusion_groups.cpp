#include "compiler/region/fusion/fusion_groups.h"

#include <algorithm>
#include <queue>

#include "compiler/ir/hints.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int most_nodes = 160;
constexpr int64_t small_domain = 4096;  // points that one thread does at once
constexpr int64_t enough_rows = 16;     // iterations of shared loops that are worth running in parallel

int64_t points(const Shape& shape, const std::vector<Symbol>& symbols, const std::vector<int>* axes = nullptr) {
  int64_t count = 1;
  for (size_t k = 0; k < shape.size(); ++k)
    if (!axes || std::count(axes->begin(), axes->end(), static_cast<int>(k)))
      if (__builtin_mul_overflow(count, hinted_value(shape[k], symbols), &count)) return INT64_MAX;
  return count;
}

// The axes of the domain that a reduction keeps.
std::vector<int> kept_axes(const FusionVertex& v) {
  std::vector<int> kept;
  for (size_t k = 0; k < v.point.size(); ++k)
    if (v.point[k]->id < v.d.kept()) kept.push_back(static_cast<int>(k));
  return kept;
}

}  // namespace

FusionGroups::FusionGroups(const FusionGraph& graph, const std::vector<Symbol>& symbols) : graph_(graph), symbols_(symbols) {
  for (size_t v = 0; v < graph.vertices.size(); ++v) {
    group_.push_back(static_cast<int>(v));
    members_.push_back({static_cast<int>(v)});
  }
}

std::vector<int> FusionGroups::members_of(const std::vector<int>& groups) const {
  std::vector<int> all;
  for (int g : groups) all.insert(all.end(), members(g).begin(), members(g).end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int> FusionGroups::results_of(const std::vector<int>& members) const {
  std::vector<int> results;
  for (int v : members) {
    bool leaves = vertex(v).kept;
    for (int e : vertex(v).out)
      leaves = leaves || !std::binary_search(members.begin(), members.end(), graph_.edges[static_cast<size_t>(e)].to);
    if (leaves) results.push_back(v);
  }
  return results;
}

FusionGroups::Sharing FusionGroups::sharing_of(const std::vector<int>& results) const {
  const Shape& domain = vertex(results[0]).domain;
  if (points(domain, symbols_) <= small_domain) return {true, {}};
  std::optional<std::vector<int>> kept;
  for (int v : results) {
    if (vertex(v).d.scatter || vertex(v).inverted) return {};
    if (!vertex(v).d.reduce) continue;
    std::vector<int> here = kept_axes(vertex(v));
    if (kept && *kept != here) return {};
    kept = here;
  }
  if (kept) return {points(domain, symbols_, &*kept) >= enough_rows, *kept};
  Sharing prefix{domain.size() >= 2, {}};
  Shape rest = domain;
  while (rest.size() >= 2 && (prefix.axes.empty() || points(rest, symbols_) > small_domain)) {
    prefix.axes.push_back(static_cast<int>(prefix.axes.size()));
    rest.erase(rest.begin());
  }
  return prefix;
}

bool FusionGroups::can_merge(const std::vector<int>& groups) const {
  std::vector<int> all = members_of(groups);
  int nodes = 0;
  bool prepares = false, runs = false;
  for (int v : all) {
    nodes += vertex(v).nodes_in_body;
    prepares = prepares || (vertex(v).constant_only && !vertex(v).reindexes);
    runs = runs || !vertex(v).constant_only;
    for (int number : vertex(v).out) {
      const FusionEdge& e = graph_.edges[static_cast<size_t>(number)];
      if (!e.fusable && std::binary_search(all.begin(), all.end(), e.to)) return false;
    }
  }
  if (nodes > most_nodes || (prepares && runs)) return false;
  std::vector<int> results = results_of(all);
  return results.size() == 1 || sharing_of(results).possible;
}

int FusionGroups::merge(const std::vector<int>& groups) {
  std::vector<int> all = members_of(groups);
  int into =
      *std::max_element(groups.begin(), groups.end(), [&](int a, int b) { return members(a).size() < members(b).size(); });
  for (int g : groups) {
    if (g == into) continue;
    for (int v : members(g)) group_[static_cast<size_t>(v)] = into;
    members_[static_cast<size_t>(g)].clear();
  }
  members_[static_cast<size_t>(into)] = std::move(all);
  return into;
}

Group FusionGroups::group_from(const std::vector<int>& members) const {
  Group group;
  std::vector<int> results = results_of(members);
  METAC_ASSERT(!results.empty());
  Sharing sharing;
  if (results.size() > 1) sharing = sharing_of(results);
  group.shared = static_cast<int>(sharing.axes.size());
  std::map<int, Expr> inlined;  // Var id -> its value at the point, in the axes of the domain
  std::map<int, std::vector<int>> nodes_of;
  for (int v : members) {
    Definition d = vertex(v).d;
    std::set<int> inside;
    visit_loads(d, [&](Expr n) {
      if (inlined.count(n->id)) inside.insert(n->id);
    });
    for (int id : inside) {
      replace_loads(d, id, [&](const std::vector<Expr>& at) { return substitute_axes(inlined.at(id), at); });
      merge_nodes(d.nodes, nodes_of[id]);
    }
    if (!std::count(results.begin(), results.end(), v)) {
      inlined[d.out->id] = d.body;
      nodes_of[d.out->id] = d.nodes;
      continue;
    }
    simplify(d, symbols_);
    if (group.shared > 0) {
      // The shared axes come first, in the order of the domain.
      std::vector<int> position(d.domain.size(), -1);
      int next = 0;
      for (int a : sharing.axes) position[static_cast<size_t>(vertex(v).point[static_cast<size_t>(a)]->id)] = next++;
      for (int& p : position)
        if (p < 0) p = next++;
      permute_axes(d, position);
    }
    group.stages.push_back(std::move(d));
  }
  return group;
}

FusedRegion FusionGroups::region() const {
  // A group runs when all that it waits for has run; among those that can, the one whose last op comes first.
  std::vector<int> waits(members_.size(), 0);
  for (const FusionEdge& e : graph_.edges) waits[static_cast<size_t>(group_of(e.to))] += group_of(e.from) != group_of(e.to);
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  for (size_t g = 0; g < members_.size(); ++g)
    if (!members_[g].empty() && waits[g] == 0) ready.push({members_[g].back(), static_cast<int>(g)});
  FusedRegion region;
  size_t done = 0;
  while (!ready.empty()) {
    const std::vector<int>& all = members(ready.top().second);
    int g = ready.top().second;
    ready.pop();
    done += all.size();
    Item item;
    if (vertex(all[0]).host)
      item.op = vertex(all[0]).host;
    else
      item.group = group_from(all);
    region.items.push_back(std::move(item));
    for (int v : all)
      for (int e : vertex(v).out) {
        int reader = group_of(graph_.edges[static_cast<size_t>(e)].to);
        if (reader != g && --waits[static_cast<size_t>(reader)] == 0) ready.push({members(reader).back(), reader});
      }
  }
  METAC_ASSERT(done == graph_.vertices.size(), "groups wait for each other");
  return region;
}

}  // namespace metac
