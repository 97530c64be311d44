#include "compiler/loops/name_indices.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/walks.h"

namespace metac {
namespace {

bool is_index(Expr e) { return e->dtype == DType::i64 && !e->has_load; }

class IndexNamer {
 public:
  explicit IndexNamer(Kernel& kernel) : kernel_(kernel), levels_{{&kernel.names, {}}} {}

  void run() {
    LoopNode& root = kernel_.root;
    size_t parallel = 0;  // they are one loop over tasks
    while (parallel < root.loops.size() && root.loops[parallel].kind == LoopKind::parallel) ++parallel;
    if (parallel > 0) enter(root.loops[parallel - 1]);
    for (size_t k = 0; k < parallel; ++k) level_of_[root.loops[k].axis] = static_cast<int>(levels_.size()) - 1;
    walk(root, parallel);
  }

 private:
  static constexpr int nowhere = -1;  // lanes and what is printed out have no place for names

  struct Level {
    std::vector<IndexName>* names;
    std::unordered_map<const ExprNode*, Expr> known;
  };

  void enter(Loop& loop) { levels_.push_back({&loop.names, {}}); }

  void walk(LoopNode& node, size_t first_loop) {
    place(node.guard);
    const size_t outside = levels_.size();
    for (size_t k = first_loop; k < node.loops.size(); ++k) {
      Loop& loop = node.loops[k];
      place(loop.extent);
      place(loop.active);
      const bool repeats = (loop.kind == LoopKind::serial || loop.kind == LoopKind::unroll_hint) && !loop.extent.is_int(1);
      if (repeats) enter(loop);
      level_of_[loop.axis] = repeats ? static_cast<int>(levels_.size()) - 1 : nowhere;
    }
    for (Prefetch& f : node.prefetches) place(f.offset);
    for (Assign& a : node.assigns) place(a.offset), place(a.value);
    for (LoopNode& child : node.children) walk(child, 0);
    levels_.resize(outside, levels_[0]);
  }

  bool has_symbols(Expr e) {
    auto [found, fresh] = has_symbols_.emplace(e.node(), false);
    if (fresh) found->second = any_of(e, [](Expr n) { return n->kind == ExprKind::symbol; });
    return found->second;
  }

  // The innermost level whose axes it uses; `nowhere` where one of them has none.
  int level_of(Expr e) const {
    int level = 0;
    bool placed = true;
    visit(e, [&](Expr n) {
      if (n->kind != ExprKind::axis) return;
      auto found = level_of_.find(n->id);
      placed = placed && found != level_of_.end() && found->second != nowhere;
      if (placed) level = std::max(level, found->second);
    });
    return placed ? level : nowhere;
  }

  // A multiple of one dim or axis: nothing to work out.
  static bool is_trivial(Expr e) {
    const Linear form = linear_form(e);
    return form.terms.empty() || (form.terms.size() == 1 && form.terms[0].first->args.empty());
  }

  // A loop of no iterations may be what divides: outside of it the quotient is worked out, and used by nobody. (A step that
  // divides may be negative.)
  static Expr defined_everywhere(Expr e) {
    const bool divides = e->kind == ExprKind::call && (e->fn == Fn::floor_div || e->fn == Fn::floor_mod);
    if (!divides || e->args[1].if_int()) return e;
    return with_arguments(e, {e->args[0], select(equal(e->args[1], Expr(0)), Expr(1), e->args[1])});
  }

  Expr named(Expr e, int level) {
    if (level == nowhere || is_trivial(e)) return e;
    Level& at = levels_[static_cast<size_t>(level)];
    auto [found, fresh] = at.known.emplace(e.node(), Expr());
    if (fresh) {
      const int id = kernel_.next_axis++;
      at.names->push_back({id, defined_everywhere(e)});
      level_of_[id] = level;
      found->second = axis(id);
      names_.insert(axis(id).node());
    }
    return found->second;
  }

  // Factors and terms of outer levels are computed there.
  template <class Of>
  Expr sum(const Linear& form, const Of& of) {
    std::map<int, Expr> parts;
    Expr here = form.constant;
    for (auto& [monomial, coefficient] : form.terms) {
      std::map<int, Expr> factors;
      Expr rest;
      for (Expr f : factors_of(monomial)) {
        const Expr placed = of(f);
        const int level = level_of(placed);
        Expr& product = level == nowhere ? rest : factors[level];
        product = product ? product * placed : placed;
      }
      Expr product;
      int level = nowhere;
      for (auto& [inner, factor] : factors) {
        product = product ? named(product, level) * factor : factor;
        level = inner;
      }
      if (rest) product = product ? named(product, level) * rest : rest, level = nowhere;
      // Multiples of dims and axes are what addresses are made of.
      const bool stays = level == nowhere || (product->args.empty() && !names_.count(product.node()));
      Expr& part = stays ? here : parts.emplace(level, Expr(0)).first->second;
      part = part + product * Expr(coefficient);
    }
    const int current = static_cast<int>(levels_.size()) - 1;
    for (auto& [level, part] : parts) here = here + (level < current ? named(part, level) : part);
    return here;
  }

  void place(Expr& e) {
    if (!e || !has_symbols(e)) return;
    e = answer_once<Expr>(e, [&](Expr n, const auto& of) -> Expr {
      if (n->args.empty() || !has_symbols(n)) return n;
      if (is_index(n)) {
        const Linear form = linear_form(n);
        const bool atom = form.constant == 0 && form.terms.size() == 1 && form.terms[0].first == n;
        if (!atom || factors_of(n).size() > 1) return sum(form, of);
      }
      std::vector<Expr> args;
      for (Expr a : n->args) args.push_back(of(a));
      const Expr rebuilt = with_arguments(n, args);
      return is_index(rebuilt) ? named(rebuilt, level_of(rebuilt)) : rebuilt;
    });
  }

  Kernel& kernel_;
  std::vector<Level> levels_;
  std::unordered_map<int, int> level_of_;  // by axis
  std::unordered_map<const ExprNode*, bool> has_symbols_;
  std::unordered_set<const ExprNode*> names_;
};

}  // namespace

void name_indices(Kernel& kernel) { IndexNamer(kernel).run(); }

}  // namespace metac
