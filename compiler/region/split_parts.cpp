#include "compiler/region/split_parts.h"

#include <algorithm>

#include "compiler/ir/bounds.h"
#include "compiler/region/fusion/fusion_facts.h"

namespace metac {
namespace {

// The axis k and the place c of a condition i_k < c, also where it is written i_k + d < c + d; an empty place if it is none.
std::pair<int, Expr> cut_of(Expr condition) {
  if (condition->kind != ExprKind::call || condition->fn != Fn::lt || condition->has_load) return {};
  auto has_axis = [](Expr e) { return any_of(e, [](Expr n) { return n->kind == ExprKind::axis; }); };
  if (condition->args[0]->dtype != DType::i64 || has_axis(condition->args[1])) return {};
  for (auto [atom, coefficient] : linear_form(condition->args[0]).terms) {
    if (atom->kind != ExprKind::axis || coefficient != 1) continue;
    Expr rest = condition->args[0] - atom;
    return has_axis(rest) ? std::pair<int, Expr>{} : std::pair{atom->id, condition->args[1] - rest};
  }
  return {};
}

constexpr int most_parts = 512;  // each is a kernel; what is left is a tree of conditions

// A select anywhere in the body whose condition is a cut inside the domain.
struct Cut {
  Expr select;
  int axis = 0;
  Expr at;
};

// The outermost along the axis of the first: of a concatenation, which is a tree of selects, the one that halves it.
Cut find_cut(const Definition& d, const Bounds& bounds) {
  Cut cut;
  visit(d.body, [&](Expr n) {
    if (n->kind != ExprKind::call || n->fn != Fn::select) return;
    auto [k, at] = cut_of(n->args[0]);
    if (!at || (bool(cut.select) && k != cut.axis)) return;
    if (bounds.proves_at_least(at, Expr(0)) && bounds.proves_at_least(d.domain[static_cast<size_t>(k)], at))
      cut = {n, k, at};
  });
  return cut;
}

int count_selects(Expr e) {
  int selects = 0;
  visit(e, [&](Expr n) { selects += n->kind == ExprKind::call && n->fn == Fn::select; });
  return selects;
}

void split(Item item, const Bounds& bounds, const std::vector<Symbol>& symbols, int budget, std::vector<Item>& all) {
  Cut cut;
  if (!item.op && item.group.stages.size() == 1 && !item.group.strategy && item.group.stages[0].is_plain() && budget > 1)
    cut = find_cut(item.group.stages[0], bounds);
  if (!cut.select) {
    all.push_back(std::move(item));
    return;
  }
  // A side that has little to cut leaves the rest to the other.
  const int for_high = std::min(budget / 2, count_selects(cut.select->args[2]) + 1);
  for (bool low : {true, false}) {
    Item part = item;
    Definition& d = part.group.stages[0];
    Expr& extent = d.domain[static_cast<size_t>(cut.axis)];
    extent = low ? cut.at : extent - cut.at;
    d.body = rewrite(d.body, [&](Expr n) { return n == cut.select ? n->args[low ? 1 : 2] : Expr(); });
    if (!low) {
      std::vector<Expr> moved = identity_indices(static_cast<int>(d.domain.size()));
      moved[static_cast<size_t>(cut.axis)] = axis(cut.axis) + cut.at;
      d.body = substitute_axes(d.body, moved);
      for (Expr& e : d.out_index) e = substitute_axes(e, moved);
    }
    simplify(d, symbols);
    size_t before = all.size();
    split(std::move(part), bounds, symbols, low ? budget - for_high : budget, all);
    budget -= static_cast<int>(all.size() - before);
  }
}

int largest_part(Expr body, int& budget) {
  Expr select;  // the outermost: of a concatenation, the one that has a part of its own on one side
  visit(body, [&](Expr n) {
    if (n->kind == ExprKind::call && n->fn == Fn::select && bool(cut_of(n->args[0]).second)) select = n;
  });
  if (!select || --budget < 0) return count_nodes(body);
  auto with = [&](Expr value) { return rewrite(body, [&](Expr n) { return n == select ? value : Expr(); }); };
  return std::max(largest_part(with(select->args[1]), budget), largest_part(with(select->args[2]), budget));
}

}  // namespace

int nodes_of_largest_part(Expr body) {
  int budget = most_parts;
  return largest_part(body, budget);
}

void split_parts(Item item, const std::vector<Symbol>& symbols, std::vector<Item>& all) {
  split(std::move(item), Bounds(symbols), symbols, most_parts, all);
}

}  // namespace metac
