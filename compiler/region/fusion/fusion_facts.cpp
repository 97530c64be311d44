#include "compiler/region/fusion/fusion_facts.h"

#include <algorithm>
#include <set>

#include "compiler/ir/bounds.h"
#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/sum_of_products.h"

namespace metac {

int loads_of(const Definition& d) {
  int loads = 0;
  visit_loads(d, [&](Expr) { ++loads; });
  return loads;
}

int count_nodes(Expr e) {
  int n = 0;
  visit(e, [&](Expr) { ++n; });
  return n;
}

bool no_more_elements(const Definition& reader, const Definition& d, const std::vector<Symbol>& symbols) {
  const Expr mine = element_count(d.domain), theirs = element_count(reader.domain);
  const Bounds bounds(symbols, d.domain);
  if (mine == theirs || bounds.proves_at_least(mine, theirs)) return true;
  return std::equal(d.domain.begin(), d.domain.end(), reader.domain.begin(), reader.domain.end(),
                    [&](Expr most, Expr extent) { return bounds.proves_at_least(most, extent); });
}

bool has_folded_index(const Definition& d) {
  bool folded = false;
  visit_loads(d, [&](Expr n) {
    for (Expr index : n->args)
      folded |= any_of(index, [](Expr e) { return e->kind == ExprKind::call && (e->fn == Fn::min || e->fn == Fn::max); });
  });
  return folded;
}

bool reads_in_order(const Shape& source, const Definition& d, const std::vector<Symbol>& symbols) {
  if (d.body->kind != ExprKind::load || element_count(source) != element_count(d.domain)) return false;
  const Bounds bounds(symbols, d.domain);
  // y mod c = y - floor(y/c)*c, and floor(floor(x/a)/c) = floor(x/(a*c)) where c is positive.
  const auto without_rests = [&](Expr index) {
    return rewrite_up(index, [&](Expr e, const std::vector<Expr>& args) -> Expr {
      if (e->kind != ExprKind::call || e->fn != Fn::floor_mod || !bounds.proves_at_least(args[1], 1)) return {};
      const Expr y = args[0], c = args[1];
      const bool nested = y->kind == ExprKind::call && y->fn == Fn::floor_div;
      return y - (nested ? floor_div(y->args[0], y->args[1] * c) : floor_div(y, c)) * c;
    });
  };
  std::vector<Expr> indices;
  for (Expr index : d.body->args) {
    if (index->has_load) return false;
    indices.push_back(without_rests(index));
  }
  return linear_index(source, indices) == linear_index(d.domain, identity_indices(static_cast<int>(d.domain.size())));
}

bool is_contraction(const Definition& d) {
  const auto s = sum_of_products(d);
  if (!s || s->of_words() || !s->factors[0].value->has_load || !s->factors[1].value->has_load) return false;
  return !s->rows.empty() || !s->columns.empty() || !s->row_steps.empty() || !s->column_steps.empty();
}

bool picks_by_position(Expr e) {
  const auto has_axis = [](Expr index) { return any_of(index, [](Expr n) { return n->kind == ExprKind::axis; }); };
  const auto is_operand = [&](Expr branch) {
    bool sum = false, read = false;
    visit(branch, [&](Expr n) {
      if (n->kind != ExprKind::load) return;
      sum |= n->id == reduced_value;
      read |= std::any_of(n->args.begin(), n->args.end(), has_axis);
    });
    return read && !sum;
  };
  return any_of(e, [&](Expr n) {
    return n->kind == ExprKind::call && n->fn == Fn::select && reads_position(n->args[0]) &&
           (is_operand(n->args[1]) || is_operand(n->args[2]));
  });
}

bool brings_division(const Definition& d, const Definition& reader, const std::vector<Symbol>& symbols,
                     const std::function<bool(Expr)>& forbidden) {
  const auto divides = [](Expr e) {
    return e->kind == ExprKind::call && (e->fn == Fn::floor_div || e->fn == Fn::floor_mod);
  };
  const Bounds bounds(symbols, reader.domain);
  bool found = false;
  visit_loads(reader, [&](Expr read) {
    if (read->id != d.out->id) return;
    visit_loads(d, [&](Expr n) {
      for (Expr index : n->args)
        if (any_of(index, divides))
          found |= any_of(simplify(substitute_axes(index, read->args), bounds),
                          [&](Expr e) { return divides(e) && forbidden(e); });
    });
  });
  return found;
}

bool has_divided_sum(const Definition& d, const Definition& reader, const std::vector<Symbol>& symbols) {
  return brings_division(d, reader, symbols, [](Expr e) {
    std::set<int64_t> axes;
    visit(e->args[0], [&](Expr n) {
      if (n->kind == ExprKind::axis) axes.insert(n->id);
    });
    return e->fn == Fn::floor_div && axes.size() > 1;
  });
}

bool is_free_widening(Expr body) {
  if (body->kind != ExprKind::cast || body->args[0]->kind != ExprKind::load) return false;
  const DType from = body->args[0]->dtype;
  return body->dtype == DType::f32 ? is_half(from) : body->dtype == DType::i32 && (from == DType::i8 || from == DType::u8);
}

bool is_move(Expr body, bool free_widening) {
  return answer_once<bool>(body, [&](Expr e, const auto& moves) {
    if (e->kind == ExprKind::load || (free_widening && is_free_widening(e)) || !e->has_load)
      return true;  // the last: made of constants, indices and symbols
    return e->kind == ExprKind::call && e->fn == Fn::select && moves(e->args[1]) && moves(e->args[2]) &&
           !e->args[0]->has_load;
  });
}

bool unpacks(const Definition& d, const std::function<const Var*(int id)>& read) {
  if (size_of(d.out->dtype()) != 1 || !is_integer(d.out->dtype()) || !is_static(d.domain)) return false;
  bool more = loads_of(d) == 1;
  visit_loads(d, [&](Expr n) {
    const Var* const packed = read(n->id);
    more = more && is_static(packed->shape()) && size_of(packed->dtype()) == 1 &&
           element_count(packed->shape()).as_int() < element_count(d.domain).as_int();
  });
  return more;
}

bool is_simple(Expr body) {
  int calls = 0;
  bool costly = any_of(body, [&](Expr n) {
    if ((n->kind != ExprKind::call && n->kind != ExprKind::cast) || !n->has_load) return false;  // index arithmetic aside
    ++calls;
    return n->kind == ExprKind::call && (is_elementary(n->fn) || n->fn == Fn::div || n->fn == Fn::sqrt);
  });
  return !costly && calls <= 6;
}

}  // namespace metac
