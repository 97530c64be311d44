// The reverse rules of If and Loop.
//
// If: an If with the same condition, whose branches compute the forward branch again and walk it backwards. The forward
// values of a branch are not visible outside of it, and an If that returned them all would hold memory for both branches.
//
// Loop: the forward Loop gets stacked outputs that save its carried values at the start of every iteration. A reverse
// Loop runs over them from the last to the first: it computes the iteration again from the saved values, walks it
// backwards, and carries the adjoints of the carried values and the sums for what the body captured. A captured value of
// which every iteration reads one row of its own (the inputs of a Scan, the gates of an LSTM) has no sum: the rows' adjoints
// are stacked. Everything is an ordinary Loop again, so the next order needs no further rule.
//
// A dim of a carried value that changes from one iteration to the next is a symbol of the forward Loop. The iteration that
// is computed again has the dims of the saved row instead, and the adjoint's dim is a symbol of the reverse Loop, which
// ends as the dim of the initial value.
#include <algorithm>
#include <optional>

#include "compiler/autodiff/clone_region.h"
#include "compiler/autodiff/reverse.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Slice `at` of the leading axis of a stacked value.
Var* row_of(Graph& graph, Var* stacked, Expr at) {
  Shape shape(stacked->shape().begin() + 1, stacked->shape().end());
  std::vector<Expr> indices = identity_indices(static_cast<int>(shape.size()));
  indices.insert(indices.begin(), at);
  return graph.reindex({stacked}, shape, indices);
}

// The same elements under dims that are known to be equal at run time.
Var* with_shape(Graph& graph, Var* value, const Shape& shape) {
  if (!value || value->shape() == shape) return value;
  return graph.reindex({value}, shape, identity_indices(value->rank()));
}

bool dim_changes(const Op& loop, size_t carried, size_t d) {
  const Dim dim = loop.regions[0].params[carried]->shape()[d];
  return dim->kind == ExprKind::symbol && dim != loop.inputs[2 + carried]->shape()[d];
}

// How a loop's body reads a captured value: each iteration the row `offset + iteration` or `offset - iteration` along an
// axis.
struct RowRead {
  Var* row = nullptr;
  int along = 0;
  bool backward = false;
  Expr offset;
};

std::optional<RowRead> row_read(const Op& op, const Var* from, int iteration) {
  if (op.kind != OpKind::reindex || op.inputs.size() != 1 || op.inputs[0] != from || !op.conditions.empty()) return {};
  RowRead read{op.outputs[0], -1, false, {}};
  int next = 0;
  for (size_t k = 0; k < op.indices.size(); ++k) {
    if (next < op.outputs[0]->rank() && op.indices[k] == axis(next) && op.outputs[0]->shape()[next] == from->shape()[k]) {
      ++next;
      continue;
    }
    if (read.along >= 0 || op.indices[k]->has_load ||
        any_of(op.indices[k], [](Expr n) { return n->kind == ExprKind::axis; }))
      return {};
    read.along = static_cast<int>(k);
  }
  if (read.along < 0 || next != op.outputs[0]->rank()) return {};
  auto depends = [&](Expr e) {
    return any_of(e, [&](Expr n) { return n->kind == ExprKind::symbol && n->id == iteration; });
  };
  Expr at = op.indices[static_cast<size_t>(read.along)];
  read.backward = depends(at - symbol(iteration));
  read.offset = read.backward ? at + symbol(iteration) : at - symbol(iteration);
  return depends(read.offset) ? std::optional<RowRead>() : read;
}

// The rows that a body reads of a value, if it reads it in no other way.
std::vector<RowRead> rows_read(const Region& body, const Var* from) {
  std::vector<RowRead> rows;
  if (body.iteration < 0) return rows;
  for (const Op* op : body.ops) {
    const std::vector<Var*> read = reads_of(*op).vars;
    if (std::find(read.begin(), read.end(), from) == read.end()) continue;
    std::optional<RowRead> row = row_read(*op, from, body.iteration);
    if (!row) return {};
    rows.push_back(*row);
  }
  return std::count(body.results.begin(), body.results.end(), from) ? std::vector<RowRead>() : rows;
}

// `stacked` has the adjoint of the row that each iteration read, the last iteration's first.
Var* unstacked(Graph& graph, const RowRead& read, const Var* of, Var* stacked, Expr trips) {
  std::vector<Expr> indices = identity_indices(of->rank());
  Expr place = indices[static_cast<size_t>(read.along)],
       iteration = read.backward ? read.offset - place : place - read.offset;
  indices.erase(indices.begin() + read.along);
  indices.insert(indices.begin(), trips - Expr(1) - iteration);
  return graph.reindex({stacked}, of->shape(), indices, {Expr(0) <= iteration, iteration < trips});
}

}  // namespace

void Reverse::if_(Op& op) {
  std::vector<Var*> given;
  for (Var* out : op.outputs) given.push_back(adjoint(out));
  std::vector<Var*> wanted;
  for (const Region& region : op.regions)
    for (Var* v : reads_of(region).vars)
      if (is_active(v) && !std::count(wanted.begin(), wanted.end(), v)) wanted.push_back(v);
  if (wanted.empty()) return;
  std::vector<Region> branches(2);
  for (size_t b = 0; b < 2; ++b) {
    graph_.open_region(&branches[b]);
    Cloner copy(graph_);
    copy.clone(op.regions[b].ops);
    Reverse inner(graph_, graph_.open_ops(), wanted);
    for (size_t k = 0; k < given.size(); ++k) inner.add_adjoint(copy(op.regions[b].results[k]), given[k]);
    inner.walk();
    for (Var* v : wanted) {
      Var* sum = inner.adjoint(v);
      branches[b].results.push_back(sum ? sum : zeros_like(graph_, v));
    }
    graph_.close_region();
  }
  Op* result = graph_.if_(op.inputs[0], std::move(branches[0]), std::move(branches[1]));
  for (size_t k = 0; k < wanted.size(); ++k) add_adjoint(wanted[k], result->outputs[k]);
}

Expr Reverse::trip_dim(Op& op) {
  const Region& body = op.regions[0];
  if (op.outputs.size() > body.params.size()) return op.outputs[body.params.size()]->shape()[0];
  if (op.inputs[0] && !body.results[0]) {
    const size_t before = ops_.size();
    Expr trips = max(graph_.element(op.inputs[0], 0, "trip_count"), Expr(0));
    // A bind must stand before the loop whose outputs it sizes.
    if (ops_.size() > before) {
      Op* bind = ops_.back();
      ops_.pop_back();
      ops_.insert(std::find(ops_.begin(), ops_.end(), &op), bind);
    }
    return trips;
  }
  op.symbols.push_back(graph_.add_symbol({.name = "iterations"}));
  return symbol(op.symbols.back());
}

Var* Reverse::saved(Op& op, Var* value, Expr trips) {
  Region& body = op.regions[0];
  const size_t carried = body.params.size();
  for (size_t k = carried; k < op.outputs.size(); ++k)
    if (body.results[1 + k] == value) return op.outputs[k];
  const std::vector<Var*> initial(op.inputs.begin() + 2, op.inputs.end());
  Var* out = graph_.make_var(stacked_type(graph_, body, initial, value->type, trips, op.symbols));
  out->producer = &op;
  out->output_index = static_cast<int>(op.outputs.size());
  op.outputs.push_back(out);
  body.results.push_back(value);
  return out;
}

void Reverse::loop(Op& op) {
  const size_t carried = op.regions[0].params.size(), stacked = op.outputs.size() - carried;
  std::vector<Var*> given;
  for (Var* out : op.outputs) given.push_back(adjoint(out));
  const Expr trips = trip_dim(op);
  std::vector<Var*> states;
  for (size_t k = 0; k < carried; ++k) states.push_back(saved(op, op.regions[0].params[k], trips));
  const Region& body = op.regions[0];  // `saved` appends to its results
  std::vector<Var*> captured;
  std::vector<std::pair<Var*, RowRead>> by_rows;
  for (Var* v : reads_of(body).vars) {
    if (!is_active(v)) continue;
    const std::vector<RowRead> reads = rows_read(body, v);
    for (const RowRead& read : reads) by_rows.push_back({v, read});
    if (reads.empty()) captured.push_back(v);
  }

  Region back;
  back.iteration = graph_.add_symbol({.name = "reverse"});
  const Expr at = trips - Expr(1) - symbol(back.iteration);
  std::vector<size_t> real;   // carried values that have an adjoint
  std::vector<int> changing;  // symbols of the dims that change
  std::vector<Var*> initial, wrt;
  for (size_t k = 0; k < carried; ++k) {
    if (!is_float(body.params[k]->dtype())) continue;
    real.push_back(k);
    initial.push_back(given[k] ? given[k] : zeros_like(graph_, op.outputs[k]));
    Type type = body.params[k]->type;
    for (size_t d = 0; d < type.shape.size(); ++d) {
      if (!dim_changes(op, k, d)) continue;
      changing.push_back(graph_.add_symbol({.name = "adjoint_dim"}));
      type.shape[d] = symbol(changing.back());
    }
    back.params.push_back(graph_.make_var(type));
  }
  for (Var* v : captured) {
    initial.push_back(zeros_like(graph_, v));
    back.params.push_back(graph_.make_var(v->type));
  }
  Var* count = vector_of(graph_, {trips});
  count = reshape(graph_, count, {});

  graph_.open_region(&back);
  Cloner copy(graph_);
  if (body.iteration >= 0) copy.map_symbol(body.iteration, at);
  for (size_t k = 0; k < carried; ++k) {
    copy.map_var(body.params[k], row_of(graph_, states[k], at));
    for (size_t d = 0; d < body.params[k]->shape().size(); ++d)
      if (dim_changes(op, k, d)) copy.map_symbol(body.params[k]->shape()[d]->id, states[k]->shape()[1 + d]);
  }
  std::vector<Var*> rows;  // adjoints of this iteration's values
  for (size_t k = 0; k < stacked; ++k) rows.push_back(given[carried + k] ? row_of(graph_, given[carried + k], at) : nullptr);
  copy.clone(body.ops);
  for (size_t k : real) wrt.push_back(copy(body.params[k]));
  wrt.insert(wrt.end(), captured.begin(), captured.end());
  const size_t summed = wrt.size();
  for (auto& [v, read] : by_rows) wrt.push_back(copy(read.row));
  Reverse inner(graph_, graph_.open_ops(), wrt);
  for (size_t r = 0; r < real.size(); ++r) {
    Var* next = copy(body.results[1 + real[r]]);
    inner.add_adjoint(next, with_shape(graph_, back.params[r], next->shape()));
  }
  for (size_t k = 0; k < stacked; ++k) inner.add_adjoint(copy(body.results[1 + carried + k]), rows[k]);
  inner.walk();
  back.results = {nullptr};
  for (size_t k = 0; k < wrt.size(); ++k) {
    Var* sum = inner.adjoint(wrt[k]);
    if (k < real.size() || k >= summed)
      back.results.push_back(sum ? sum : zeros_like(graph_, wrt[k]));
    else
      back.results.push_back(sum ? sum_of(graph_, {back.params[k], sum}) : back.params[k]);
  }
  graph_.close_region();
  Op* result = graph_.loop(count, nullptr, initial, std::move(back));
  result->symbols.insert(result->symbols.end(), changing.begin(), changing.end());
  for (size_t r = 0; r < real.size(); ++r) {
    Var* first = op.inputs[2 + real[r]];
    add_adjoint(first, with_shape(graph_, result->outputs[r], first->shape()));
  }
  for (size_t k = 0; k < captured.size(); ++k) add_adjoint(captured[k], result->outputs[real.size() + k]);
  for (size_t k = 0; k < by_rows.size(); ++k)
    add_adjoint(by_rows[k].first,
                unstacked(graph_, by_rows[k].second, by_rows[k].first, result->outputs[summed + k], trips));
}

}  // namespace metac
