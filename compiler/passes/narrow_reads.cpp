#include "compiler/passes/narrow_reads.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"

namespace metac {
namespace {

// One index of an axis: `at` is of symbols that are known before the run, and inside of the axis.
struct Place {
  int axis = -1;
  Expr at;
  bool operator==(const Place&) const = default;
};

// What the readers of a value that count want of it.
struct Want {
  bool whole = false;
  Place place;  // where it is not wanted whole
};

class Narrowing {
 public:
  explicit Narrowing(Graph& graph) : g_(graph), bounds_(graph.symbols) {}

  int run() {
    if (g_.last_step_of >= 0) collect_wide();
    for (size_t k = 0; k < g_.outputs.size(); ++k)
      if (static_cast<int>(k) != g_.last_step_of) want_whole(g_.outputs[k]);
    for (size_t i = g_.ops.size(); i-- > 0;) want_operands(*g_.ops[i]);
    std::vector<Op*> ops;
    std::swap(ops, g_.ops);
    for (Op* op : ops) {
      if (const Place* place = place_of(*op))
        narrow_.emplace(op->outputs[0], add_narrow(*op, *place));
      else if (wanted_.count(op))
        read_narrow(*op);
      g_.ops.push_back(op);
    }
    return static_cast<int>(narrow_.size());
  }

 private:
  // ---- who wants what, from the outputs on ----
  // What the whole output is made of, whatever is narrow beside it.
  void collect_wide() {
    wide_.insert(g_.outputs[static_cast<size_t>(g_.last_step_of)]);
    for (size_t i = g_.ops.size(); i-- > 0;)
      if (is_any_in(wide_, *g_.ops[i]))
        for (const Var* in : reads_of(*g_.ops[i]).vars) wide_.insert(in);
  }

  template <class Set>
  static bool is_any_in(const Set& set, const Op& op) {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&](const Var* v) { return set.count(v) > 0; });
  }

  static bool is_product(const Op& op) {
    const Op* const terms = op.kind == OpKind::reindex_reduce && op.reduce == Reduce::add ? op.inputs[0]->producer : nullptr;
    return terms && terms->kind == OpKind::elementwise && terms->inputs.size() > 1;
  }

  void want_whole(Var* var) { wants_[var].whole = true; }

  void want_operands(const Op& op) {
    if (!is_meta(op.kind)) {  // it may bind symbols or stop the run
      for (Var* in : reads_of(op).vars) want_whole(in);
      return;
    }
    if (!is_any_in(wants_, op)) return;
    wanted_.insert(&op);
    if (op.outputs.size() != 1 || !may_be_narrow(op))
      for (Var* out : op.outputs) want_whole(out);
    const Place* const place = place_of(op);
    const std::optional<Op> narrow = place ? std::optional(at_place(op, *place)) : std::nullopt;
    const Op& read = narrow ? *narrow : op;
    const bool ends = is_any_in(ends_, op);
    if (place && is_product(op) && is_any_in(wide_, op)) ends_.insert(op.inputs[0]);
    for (size_t n = 0; n < op.inputs.size(); ++n)
      if (op.inputs[n])
        want(op.inputs[n], ends ? Place() : place_read(read, n, place ? reduced_axis(op, *place) : -1, place));
  }

  void want(Var* var, const Place& place) {
    const auto [it, fresh] = wants_.emplace(var, Want{place.axis < 0, place});
    if (!fresh && !(it->second.place == place)) it->second.whole = true;
  }

  bool may_be_narrow(const Op& op) const {
    const Var& out = *op.outputs[0];
    return out.exchanged < 0 && !out.stop_fuse && !out.stop_grad && op.checkpoint < 0 && op.copied_for < 0;
  }

  // Where alone the op's result is wanted; null: everywhere, or nowhere.
  const Place* place_of(const Op& op) const {
    if (op.outputs.size() != 1 || !is_meta(op.kind)) return nullptr;
    const auto it = wants_.find(op.outputs[0]);
    if (it == wants_.end() || it->second.whole) return nullptr;
    return op.kind != OpKind::reindex_reduce || reduced_axis(op, it->second.place) >= 0 ? &it->second.place : nullptr;
  }

  // The axis of a sum's operand that is the result's axis of the place, and none of the others; -1: there is none.
  static int reduced_axis(const Op& op, const Place& place) {
    if (op.kind != OpKind::reindex_reduce) return -1;
    const Expr index = op.indices[static_cast<size_t>(place.axis)];
    if (index->kind != ExprKind::axis) return -1;
    for (size_t k = 0; k < op.indices.size(); ++k)
      if (static_cast<int>(k) != place.axis && uses_axis(op.indices[k], index->id)) return -1;
    return index->id;
  }

  // Where alone operand n is read; axis -1: it is read in more places.
  Place place_read(const Op& read, size_t n, int reduced, const Place* place) const {
    const Var& operand = *read.inputs[n];
    if (operand.constant || operand.is_input || !operand.producer || !is_meta(operand.producer->kind)) return {};
    std::vector<std::vector<Expr>> reads;
    std::vector<Expr> only;  // indices of axes that have one
    for (const Dim& dim : domain_of(read)) only.push_back(dim.is_int(1) ? Expr(0) : Expr());
    if (n == 0 && read.kind == OpKind::reindex) reads.push_back(read.indices);
    if (n == 0 && read.kind == OpKind::reindex_reduce) {
      if (reduced < 0) return {};
      reads.push_back(identity_indices(operand.rank()));
      reads.back()[static_cast<size_t>(reduced)] = place->at;
    }
    for (const auto* list : {&read.bodies, &read.indices, &read.conditions})
      for (Expr e : *list)
        visit(e, [&](Expr node) {
          if (node->kind == ExprKind::load && node->id == static_cast<int>(n)) reads.push_back(node->args);
        });
    for (std::vector<Expr>& at : reads)
      for (Expr& index : at) index = substitute_axes(index, only);
    for (int k = 0; k < operand.rank() && !reads.empty(); ++k) {
      const Place found{k, reads[0][static_cast<size_t>(k)]};
      const bool all = std::all_of(reads.begin(), reads.end(),
                                   [&](const std::vector<Expr>& at) { return at[static_cast<size_t>(k)] == found.at; });
      if (all && is_place(operand, found)) return found;
    }
    return {};
  }

  bool is_place(const Var& var, const Place& place) const {
    const Dim dim = var.shape()[static_cast<size_t>(place.axis)];
    const bool is_free = any_of(place.at, [&](Expr e) {
      return e->kind == ExprKind::axis || e->kind == ExprKind::load ||
             (e->kind == ExprKind::symbol && !g_.symbols[static_cast<size_t>(e->id)].from_input);
    });
    return !dim.is_int(1) && !is_free && bounds_.proves_at_least(place.at, Expr(0)) && bounds_.proves_less(place.at, dim);
  }

  // ---- the narrow ones ----
  // The expressions of the op where its result's axis is at one index: they read whole operands still.
  Op at_place(const Op& op, const Place& place) const {
    Op narrow = op;
    const int reduced = reduced_axis(op, place);
    const int fixed = reduced >= 0 ? reduced : place.axis;
    std::vector<Expr> values(static_cast<size_t>(fixed) + 1);
    values[static_cast<size_t>(fixed)] = place.at;
    Shape small = domain_of(op);
    small[static_cast<size_t>(fixed)] = Expr(1);
    const Bounds bounds(g_.symbols, small);
    for (auto* list : {&narrow.bodies, &narrow.indices, &narrow.conditions})
      for (Expr& e : *list) e = simplify(substitute_axes(e, values), bounds);
    if (narrow.fill) narrow.fill = simplify(substitute_axes(narrow.fill, values), bounds);
    if (reduced >= 0) narrow.indices[static_cast<size_t>(place.axis)] = Expr(0);
    return narrow;
  }

  Var* add_narrow(const Op& op, const Place& place) {
    Type type = op.outputs[0]->type;
    type.shape[static_cast<size_t>(place.axis)] = Expr(1);
    const Op read = at_place(op, place);
    const int reduced = reduced_axis(op, place);
    std::vector<Var*> operands = op.inputs;
    if (reduced >= 0 && !narrow_.count(operands[0]))
      operands[0] = slice(g_, operands[0], {reduced}, {place.at}, {Expr(1)}, {Expr(1)});
    Op* const made = g_.make_op(op.kind, operands, {type});
    made->origin = op.origin;
    made->bodies = read.bodies, made->indices = read.indices, made->conditions = read.conditions;
    made->fill = read.fill, made->reduce = op.reduce, made->accumulator = op.accumulator;
    read_narrow(*made);
    return made->outputs[0];
  }

  // Operands that are narrow now are read at the only index that they have.
  void read_narrow(Op& op) {
    for (size_t n = 0; n < op.inputs.size(); ++n) {
      const auto it = narrow_.find(op.inputs[n]);
      if (it == narrow_.end()) continue;
      const size_t axis = static_cast<size_t>(wants_.at(op.inputs[n]).place.axis);
      op.inputs[n] = it->second;
      if (n == 0 && op.kind == OpKind::reindex) op.indices[axis] = Expr(0);
      for (auto* list : {&op.bodies, &op.indices, &op.conditions})
        for (Expr& e : *list)
          e = rewrite_loads(e, [&](Expr node, const std::vector<Expr>& args) {
            if (node->kind != ExprKind::load || node->id != static_cast<int>(n)) return Expr();
            std::vector<Expr> at = args;
            at[axis] = Expr(0);
            return with_arguments(node, std::move(at));
          });
    }
  }

  Graph& g_;
  Bounds bounds_;
  std::map<const Var*, Want> wants_;
  std::set<const Op*> wanted_;  // whose results count
  std::set<const Var*> wide_;   // for output last_step_of
  std::set<const Var*> ends_;   // terms of products that are the first beside what is wide
  std::map<const Var*, Var*> narrow_;
};

}  // namespace

int narrow_reads(Graph& graph) {
  int narrowed = Narrowing(graph).run();
  if (graph.last_step_of >= 0) return narrowed;  // what is beside a wide value ends where it does
  for (int more = narrowed; more > 0; narrowed += more) more = Narrowing(graph).run();  // along another axis
  return narrowed;
}

}  // namespace metac
