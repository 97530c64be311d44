// A reduction R keeps some axes; a definition that loads R's result only at (distinct) axes of its own can run right
// after R in the same iteration of the loops over these axes. A row kernel is a run of such definitions under the loops
// they share; values that nobody else reads stay in locals of the row.
#include "compiler/region/fusion/fuse_rows.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/region/fusion/fusion_facts.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t most_local_bytes = cpu_costs.row_bytes;  // of one row's local array

bool is_row_reduction(const Definition& d) {
  if (!d.reduce || d.scatter) return false;
  for (int k = 0; k < d.kept(); ++k)
    if (std::find(d.out_index.begin(), d.out_index.end(), axis(k)) == d.out_index.end()) return false;
  return true;
}

// Few elements at places that move with the result: pooling. It has no row to go through twice, and alone its lanes run
// along whatever axis lies last.
bool is_window(const Definition& d) {
  constexpr int64_t most_elements = 64;
  int64_t elements = 1;
  for (size_t k = static_cast<size_t>(d.kept()); k < d.domain.size(); ++k) {
    if (!d.domain[k].if_int() || d.domain[k].as_int() > most_elements) return false;
    elements = saturating_mul(elements, std::max<int64_t>(1, d.domain[k].as_int()));
  }
  if (elements > most_elements) return false;
  bool moves = false;
  visit_loads(d, [&](Expr n) {
    for (Expr e : n->args) {
      bool kept = false, reduced = false;
      visit(e, [&](Expr x) {
        if (x->kind == ExprKind::axis) (x->id < d.kept() ? kept : reduced) = true;
      });
      moves |= kept && reduced;
    }
  });
  return moves;
}

// The axes of `d` at which it loads Var `var`, per axis of the Var with an extent other than 1; fails (empty optional)
// where an index is no kept axis of its own.
std::optional<std::vector<int>> row_axes(const Definition& d, const Var* var, const std::vector<int>& var_axes) {
  std::optional<std::vector<int>> axes;
  bool good = true;
  visit_loads(d, [&](Expr n) {
    if (n->id != var->id) return;
    std::vector<int> here;
    for (int k : var_axes) {
      Expr e = n->args[k];
      if (e->kind != ExprKind::axis || e->id >= d.kept() || std::count(here.begin(), here.end(), e->id)) {
        good = false;
        return;
      }
      here.push_back(e->id);
    }
    if (axes && *axes != here) good = false;
    axes = here;
  });
  return good ? axes : std::nullopt;
}

struct Row {
  size_t item;                               // the item that holds the group so far
  Shape shared;                              // extents of the shared loops
  std::map<int, std::vector<int>> position;  // Var id made inside -> which of its axes are the shared loops, in order
};

class RowFuser {
 public:
  RowFuser(FusedRegion& region, const std::set<const Var*>& needed, const std::vector<Symbol>& symbols)
      : region_(region), needed_(needed), symbols_(symbols) {}

  void run() {
    for (size_t k = 0; k < region_.items.size(); ++k) {
      Item& item = region_.items[k];
      if (item.op || item.group.stages.size() != 1) continue;
      if (join(k)) continue;
      start(k);
    }
    for (auto& [item, row] : rows_) close(row);
    std::erase_if(region_.items, [](const Item& item) { return !item.op && item.group.stages.empty(); });
  }

 private:
  // Puts the definition's axes so that its row axes are the first, in the shared order.
  static void bring_to_front(Definition& d, const std::vector<int>& row) {
    std::vector<int> position(d.domain.size(), -1);
    for (size_t k = 0; k < row.size(); ++k) position[row[k]] = static_cast<int>(k);
    int next = static_cast<int>(row.size());
    for (int& p : position)
      if (p < 0) p = next++;
    permute_axes(d, position);
  }

  static std::vector<int> shared_positions(const Definition& d, size_t shared) {
    std::vector<int> out(shared, -1);
    for (size_t k = 0; k < d.out_index.size(); ++k)
      if (d.out_index[k]->kind == ExprKind::axis && d.out_index[k]->id < static_cast<int>(shared))
        out[d.out_index[k]->id] = static_cast<int>(k);
    return out;
  }

  void start(size_t k) {
    Definition& d = region_.items[k].group.stages[0];
    if (!is_row_reduction(d) || is_contraction(d) || is_window(d)) return;
    Row row{k, Shape(d.domain.begin(), d.domain.begin() + d.kept()), {}};
    row.position[d.out->id] = shared_positions(d, row.shared.size());
    rows_[k] = row;
    made_by_[d.out->id] = k;
  }

  // Can item k run inside the row kernel that made one of its operands?
  bool join(size_t k) {
    Definition& d = region_.items[k].group.stages[0];
    if (d.scatter || is_contraction(d)) return false;
    std::set<size_t> rows;
    visit_loads(d, [&](Expr n) {
      if (auto found = made_by_.find(n->id); found != made_by_.end()) rows.insert(found->second);
    });
    for (auto it = rows.rbegin(); it != rows.rend(); ++it)
      if (join_row(k, rows_.at(*it))) return true;
    return false;
  }

  bool join_row(size_t k, Row& row) {
    Definition& d = region_.items[k].group.stages[0];
    Group& group = region_.items[row.item].group;
    std::optional<std::vector<int>> axes;
    for (const Definition& stage : group.stages) {
      bool loads = false;
      visit_loads(d, [&](Expr n) { loads |= n->id == stage.out->id; });
      if (!loads) continue;
      if (stage.out->exchanged >= 0) return false;  // what it reads is there when others have had their say
      auto here = row_axes(d, stage.out, row.position.at(stage.out->id));
      if (!here || (axes && *axes != *here)) return false;
      axes = here;
    }
    if (!axes) return false;
    for (size_t s = 0; s < row.shared.size(); ++s)
      if (d.domain[(*axes)[s]] != row.shared[s]) return false;
    // The result's shared axes must be plain axes of the result, so that later stages can find their row.
    Definition moved = d;
    bring_to_front(moved, *axes);
    std::vector<int> position = shared_positions(moved, row.shared.size());
    if (std::count(position.begin(), position.end(), -1) && !row.shared.empty()) return false;
    if (!row_is_small(moved, row.shared.size())) return false;
    // The kernel moves to this place: nothing in between may read what it makes.
    for (size_t m = row.item + 1; m < k; ++m)
      if (reads_any(region_.items[m], group)) return false;
    Group merged = group;
    merged.shared = static_cast<int>(row.shared.size());
    merged.stages.push_back(moved);
    region_.items[row.item].group.stages.clear();
    region_.items[k].group = merged;
    size_t old = row.item;
    Row next = row;
    next.item = k;
    next.position[moved.out->id] = position;
    rows_.erase(old);
    for (const Definition& stage : merged.stages) made_by_[stage.out->id] = k;
    rows_[k] = next;
    return true;
  }

  // An open dim is as long as it typically is.
  bool row_is_small(const Definition& d, size_t shared) const {
    int64_t bytes = static_cast<int64_t>(size_of(d.out->dtype()));
    for (int k = static_cast<int>(shared); k < d.kept(); ++k)
      bytes = saturating_mul(bytes, hinted_value(d.domain[static_cast<size_t>(k)], symbols_));
    return bytes <= most_local_bytes;
  }

  bool reads_any(const Item& item, const Group& group) const {
    auto made = [&](const Var* var) {
      auto view = region_.views.find(var->id);
      const Var* source = view == region_.views.end() ? var : view->second;
      return std::any_of(group.stages.begin(), group.stages.end(), [&](const Definition& s) { return s.out == source; });
    };
    if (item.op) {
      const std::vector<Var*> read = reads_of(*item.op).vars;
      return std::any_of(read.begin(), read.end(), made);
    }
    bool reads = false;
    for (const Definition& d : item.group.stages)
      visit_loads(d, [&](Expr n) {
        for (const Definition& s : group.stages) {
          auto view = region_.views.find(n->id);
          reads |= s.out->id == n->id || (view != region_.views.end() && view->second == s.out);
        }
      });
    return reads;
  }

  // Which Vars stay inside: read only by later stages of the group. A group of one stage stays as it was.
  void close(const Row& row) {
    Group& group = region_.items[row.item].group;
    if (group.stages.size() < 2) return;
    for (const Definition& stage : group.stages) {
      if (needed_.count(stage.out) || stage.out->exchanged >= 0) continue;
      bool outside = false;
      for (auto& [view, source] : region_.views) outside |= source == stage.out;
      for (size_t m = 0; m < region_.items.size() && !outside; ++m) {
        if (m == row.item) continue;
        Group only;
        only.stages = {stage};
        outside = reads_any(region_.items[m], only);
      }
      if (!outside) group.internal.insert(stage.out->id);
    }
  }

  FusedRegion& region_;
  const std::set<const Var*>& needed_;
  const std::vector<Symbol>& symbols_;
  std::map<size_t, Row> rows_;
  std::map<int, size_t> made_by_;  // Var id -> row (item index)
};

}  // namespace

void fuse_rows(FusedRegion& region, const std::set<const Var*>& needed, const std::vector<Symbol>& symbols) {
  RowFuser(region, needed, symbols).run();
}

}  // namespace metac
