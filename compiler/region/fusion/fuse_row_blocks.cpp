#include "compiler/region/fusion/fuse_row_blocks.h"

#include <algorithm>

#include "compiler/region/region_uses.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

constexpr int64_t most_row_bytes =
    32 << 10;  // of one row between the contractions: a block of them stays in the second-level cache

class RowBlockFuser {
 public:
  RowBlockFuser(FusedRegion& region, const std::set<const Var*>& needed, const std::function<bool(int)>& is_parameter,
                int lanes, const std::vector<Symbol>& symbols, std::shared_ptr<const Strategy> strategy,
                const std::function<bool(const Group&)>& is_known)
      : region_(region),
        needed_(needed),
        is_parameter_(is_parameter),
        lanes_(lanes),
        symbols_(symbols),
        strategy_(std::move(strategy)),
        is_known_(is_known),
        uses_(region.items) {}

  void run() {
    note_kept();
    for (size_t k = 0; k < region_.items.size(); ++k) {
      Item& item = region_.items[k];
      if (!item.op && item.group.shared > 0 && item.group.stages.size() > 1 && !item.group.strategy) try_item(k);
    }
    std::erase_if(region_.items, [](const Item& item) { return !item.op && item.group.stages.empty(); });
  }

 private:
  void note_kept() {
    for (const Item& item : region_.items) {
      if (!item.op) continue;
      for (const Var* in : item.op->inputs)
        if (in) kept_.insert(in->id);
    }
    for (auto& [view, source] : region_.views) kept_.insert(source->id);
    for (const Var* var : needed_) kept_.insert(var->id);
  }

  // The one item that reads the Var; -1 where it is not one, or the Var must be in memory.
  int only_reader(int id) const {
    const std::vector<size_t>& readers = uses_.readers(id);
    return kept_.count(id) || readers.size() != 1 ? -1 : static_cast<int>(readers[0]);
  }

  static bool has_conditions(const Contraction& c) { return !c.a.conditions.empty() || !c.b.conditions.empty(); }

  // Is the Var loaded only at its rows: the shared axes first, in order?
  static bool loads_rows(const Definition& d, int id, int shared) {
    bool rows = true;
    visit_loads(d, [&](Expr n) {
      if (n->id != id) return;
      for (int k = 0; k < shared; ++k) rows = rows && n->args[static_cast<size_t>(k)] == axis(k);
    });
    return rows;
  }

  static bool loads(const Definition& d, int id) {
    bool found = false;
    visit_loads(d, [&](Expr n) { found |= n->id == id; });
    return found;
  }

  // A GPU's tiles take narrow operands: they count as what they are widened to.
  bool narrow_operands() const { return bool(is_known_); }

  // The contraction whose result the row kernel starts from.
  bool is_producer(const Definition& p, const Group& rows) const {
    int shared = rows.shared;
    auto c = float_contraction_of(p, narrow_operands());
    if (!c || has_conditions(*c) || p.out->exchanged >= 0 || p.out->dtype() != DType::f32 || p.kept() != shared + 1 ||
        p.out_index != identity_indices(shared + 1))
      return false;
    for (int k = 0; k < shared; ++k)
      if (p.domain[static_cast<size_t>(k)] != rows.stages[0].domain[static_cast<size_t>(k)]) return false;
    bool a = uses_axis(c->a.load, shared - 1), b = uses_axis(c->b.load, shared - 1);
    bool ka = uses_axis(c->a.load, shared), kb = uses_axis(c->b.load, shared);
    if (a == b || ka == kb || a == ka || is_parameter_((a ? c->b : c->a).load->id)) return false;
    for (const Definition& d : rows.stages)
      if (!loads_rows(d, p.out->id, shared)) return false;
    return true;
  }

  // Brings the consumer's axes into the order [shared..., the other kept axis, reduced]; empty where it does not fit.
  std::optional<Definition> consumer(const Definition& stored, const Group& rows, int made) const {
    int shared = rows.shared;
    Definition d = stored;
    auto c = tiled_contraction_of(d, narrow_operands());
    if (!c || d.accumulator != DType::f32 || has_conditions(*c) || d.kept() != shared + 1 || d.reduced != 1)
      return std::nullopt;
    if (c->a.load->id != made) std::swap(c->a, c->b);
    if (c->a.load->id != made || static_cast<int>(c->a.load->args.size()) != shared + 1) return std::nullopt;
    std::vector<int> position(d.domain.size(), -1);
    for (int k = 0; k < shared; ++k) {
      Expr e = c->a.load->args[static_cast<size_t>(k)];
      if (e->kind != ExprKind::axis || e->id >= d.kept() || position[static_cast<size_t>(e->id)] >= 0) return std::nullopt;
      if (d.domain[static_cast<size_t>(e->id)] != rows.stages[0].domain[static_cast<size_t>(k)]) return std::nullopt;
      position[static_cast<size_t>(e->id)] = k;
    }
    if (c->a.load->args.back() != axis(d.kept())) return std::nullopt;
    for (size_t k = 0; k < position.size(); ++k)
      if (position[k] < 0) position[k] = static_cast<int>(k) < d.kept() ? shared : shared + 1;
    permute_axes(d, position);
    c = tiled_contraction_of(d, narrow_operands());
    Expr other = c->a.load->id == made ? c->b.load : c->a.load;
    if (uses_axis(other, shared - 1) || is_parameter_(other->id) || other->args.empty() ||
        !steps_by_one(other->args.back(), shared))
      return std::nullopt;
    if (!steps_by_one(d.out_index.back(), shared)) return std::nullopt;
    for (size_t k = 0; k + 1 < d.out_index.size(); ++k)
      if (uses_axis(d.out_index[k], shared)) return std::nullopt;
    return d;
  }

  static bool steps_by_one(Expr e, int axis_id) {
    Linear form = linear_form(e);
    for (auto& [atom, factor] : form.terms)
      if (atom == axis(axis_id)) return factor == 1;
    return false;
  }

  // sum over k of (x[k] / y) * v[k]  =  (sum over k of x[k] * v[k]) / y, unless there is no k: then it is 0, and the sum
  // that y mostly is makes 0 / 0 of it. Where the quotient is rounded (for a GPU's tensor cores) x is, by as much.
  void divide_after(Group& rows, Definition& d, int made) const {
    Definition& last = rows.stages.back();
    if (!Bounds(symbols_).proves_at_least(last.domain.back(), Expr(1))) return;
    Expr quotient = last.body;
    DType rounded = DType::f32;
    if (is_known_ && quotient->kind == ExprKind::cast && quotient->dtype == DType::f32 &&
        quotient->args[0]->kind == ExprKind::cast && is_half(quotient->args[0]->dtype)) {
      rounded = quotient->args[0]->dtype;
      quotient = quotient->args[0]->args[0];
    }
    if (last.reduce || last.out->id != made || quotient->kind != ExprKind::call || quotient->fn != Fn::div) return;
    Expr x = quotient->args[0], y = quotient->args[1];
    if (x->kind != ExprKind::load || x->args != identity_indices(rows.shared + 1) || uses_axis(y, rows.shared) ||
        last.out_index != identity_indices(rows.shared + 1))
      return;
    if (rows.stages.size() < 2 ||
        !std::any_of(rows.stages.begin(), rows.stages.end() - 1, [&](const Definition& s) { return s.out->id == x->id; }))
      return;
    replace_loads(d, made,
                  [&](const std::vector<Expr>& at) { return cast(cast(load(x->id, x->dtype, at), rounded), DType::f32); });
    d.epilogue = rewrite(d.epilogue, [&](Expr n) -> Expr {
      return n->kind == ExprKind::load && n->id == reduced_value ? call(Fn::div, {load(reduced_value, n->dtype, {}), y})
                                                                 : Expr();
    });
    merge_nodes(d.nodes, last.nodes);
    rows.internal.erase(made);
    rows.stages.pop_back();
  }

  // The item that makes the rows' operand element by element, for the first contraction alone: it runs in the block too.
  std::optional<size_t> prologue_of(const Definition& scores, size_t at, int shared) const {
    Contraction c = *float_contraction_of(scores);
    Expr rows = uses_axis(c.a.load, shared - 1) ? c.a.load : c.b.load;
    const std::vector<size_t>& makers = uses_.makers(rows->id);
    if (makers.empty() || only_reader(rows->id) != static_cast<int>(at) || static_cast<int>(rows->args.size()) != shared + 1)
      return {};
    for (int k = 0; k < shared; ++k)
      if (rows->args[static_cast<size_t>(k)] != axis(k)) return {};
    const Group& group = region_.items[makers.back()].group;
    if (group.stages.size() != 1) return {};
    const Definition& d = group.stages[0];
    bool plain = d.is_plain() && d.out->dtype() == DType::f32 && d.out_index == identity_indices(shared + 1);
    for (int k = 0; k < shared; ++k)
      plain = plain && d.domain[static_cast<size_t>(k)] == scores.domain[static_cast<size_t>(k)];
    return plain ? std::optional(makers.back()) : std::nullopt;
  }

  bool rows_are_many(const Group& rows, const Definition& producer) const {
    Expr extent = rows.stages[0].domain[static_cast<size_t>(rows.shared - 1)],
         columns = producer.domain[static_cast<size_t>(rows.shared)];
    if (extent.if_int() && extent.as_int() < lanes_) return false;
    return is_known_ || !columns.if_int() || columns.as_int() * static_cast<int64_t>(sizeof(float)) <= most_row_bytes;
  }

  // Does the definition, of item `at` alone, read the result of a contraction that rows could start from?
  bool works_on_scores(const Definition& d, size_t at, const Group& rows) const {
    bool found = false;
    visit_loads(d, [&](Expr n) {
      const std::vector<size_t>& makers = uses_.makers(n->id);
      if (makers.empty() || only_reader(n->id) != static_cast<int>(at)) return;
      const Group& group = region_.items[makers.back()].group;
      found |= group.stages.size() == 1 && is_producer(group.stages[0], rows) && loads_rows(d, n->id, rows.shared);
    });
    return found;
  }

  // The item that works on the first contraction's result element by element, for the row kernel alone, at the same row:
  // what shows a score or hides it by its position (a causal mask) is no epilogue of a product. It becomes the first of
  // `rows`.
  std::optional<size_t> take_in_front(size_t at, Group& rows) const {
    if (is_known_) return {};
    const int shared = rows.shared;
    std::optional<size_t> found;
    for (const Definition& stage : rows.stages)
      visit_loads(stage, [&](Expr n) {
        const std::vector<size_t>& makers = uses_.makers(n->id);
        if (found || makers.empty() || makers.back() == at || only_reader(n->id) != static_cast<int>(at)) return;
        const Group& group = region_.items[makers.back()].group;
        if (group.stages.size() != 1 || group.strategy) return;
        const Definition& d = group.stages[0];
        bool same = d.is_plain() && d.out->exchanged < 0 && d.out->dtype() == DType::f32 && d.kept() == shared + 1 &&
                    d.out_index == identity_indices(shared + 1);
        for (int k = 0; k < shared && same; ++k)
          same = d.domain[static_cast<size_t>(k)] == rows.stages[0].domain[static_cast<size_t>(k)];
        for (const Definition& s : rows.stages) same = same && loads_rows(s, d.out->id, shared);
        if (same && works_on_scores(d, makers.back(), rows)) found = makers.back();
      });
    if (!found) return {};
    const Definition& d = region_.items[*found].group.stages[0];
    rows.internal.insert(d.out->id);
    rows.stages.insert(rows.stages.begin(), d);
    return found;
  }

  void try_item(size_t k) {
    Group rows = region_.items[k].group;
    int made = rows.stages.back().out->id;
    int reader = only_reader(made);
    if (reader <= static_cast<int>(k)) return;
    Item& last_item = region_.items[static_cast<size_t>(reader)];
    if (last_item.op || last_item.group.stages.size() != 1) return;
    for (const Definition& d : rows.stages)
      if (d.out->dtype() != DType::f32 || d.scatter || (d.out->id != made && !rows.internal.count(d.out->id))) return;
    // The producer: the one contraction outside whose result only this kernel reads.
    int first = -1;
    const std::optional<size_t> front = take_in_front(k, rows);
    for (const Definition& d : rows.stages)
      visit_loads(d, [&](Expr n) {
        const std::vector<size_t>& makers = uses_.makers(n->id);
        const int own = only_reader(n->id);
        if (makers.empty() || makers.back() == k || own < 0) return;
        if (own != static_cast<int>(k) && !(front && own == static_cast<int>(*front))) return;
        const Item& item = region_.items[makers.back()];
        if (item.group.stages.size() == 1 && is_producer(item.group.stages[0], rows))
          first = static_cast<int>(makers.back());
      });
    if (first < 0 || !rows_are_many(rows, region_.items[static_cast<size_t>(first)].group.stages[0])) return;
    auto last = consumer(last_item.group.stages[0], rows, made);
    if (!last) return;
    rows.internal.insert(made);
    divide_after(rows, *last, made);
    Group merged;
    merged.shared = rows.shared;
    merged.strategy = strategy_;
    merged.internal = rows.internal;
    const Definition scores = region_.items[static_cast<size_t>(first)].group.stages[0];
    if (auto prologue = is_known_ ? std::nullopt : prologue_of(scores, static_cast<size_t>(first), rows.shared)) {
      Group& before = region_.items[*prologue].group;
      merged.internal.insert(before.stages[0].out->id);
      merged.stages.push_back(std::move(before.stages[0]));
      before = Group();
    }
    merged.internal.insert(scores.out->id);
    merged.stages.push_back(scores);
    for (Definition& d : rows.stages) merged.stages.push_back(std::move(d));
    merged.stages.push_back(*last);
    for (Definition& d : merged.stages) simplify(d, symbols_);
    if (is_known_ && !is_known_(merged)) return;
    region_.items[static_cast<size_t>(first)].group = Group();
    region_.items[k].group = Group();
    if (front) region_.items[*front].group = Group();
    last_item.group = std::move(merged);
  }

  FusedRegion& region_;
  const std::set<const Var*>& needed_;
  const std::function<bool(int)>& is_parameter_;
  int lanes_;
  const std::vector<Symbol>& symbols_;
  const std::shared_ptr<const Strategy> strategy_;
  const std::function<bool(const Group&)>& is_known_;
  RegionUses uses_;
  std::set<int> kept_;
};

}  // namespace

void fuse_row_blocks(FusedRegion& region, const std::set<const Var*>& needed, const std::function<bool(int)>& is_parameter,
                     int lanes, const std::vector<Symbol>& symbols, std::shared_ptr<const Strategy> strategy,
                     const std::function<bool(const Group&)>& is_known) {
  RowBlockFuser(region, needed, is_parameter, lanes, symbols, std::move(strategy), is_known).run();
}

}  // namespace metac
