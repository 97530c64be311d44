#include "compiler/tensor/work.h"

#include <algorithm>
#include <map>

#include "compiler/tensor/counts.h"
#include "compiler/tensor/sum_of_products.h"

namespace metac {
namespace {

Expr points(Shape::const_iterator begin, Shape::const_iterator end) {
  Expr n = 1;
  for (auto e = begin; e != end; ++e) n = times(n, *e);
  return n;
}

// Of two counts, which are not negative: where both are multiples of one product of dims, their factors decide.
bool proves_less(Expr a, Expr b) {
  if (!a || !b) return false;
  const Linear x = linear_form(a), y = linear_form(b);
  if (x.terms.empty() && y.terms.empty()) return x.constant <= y.constant;
  return x.terms.size() == 1 && y.terms.size() == 1 && x.constant == 0 && y.constant == 0 &&
         x.terms[0].first == y.terms[0].first && x.terms[0].second <= y.terms[0].second;
}
Expr least(Expr a, Expr b) { return proves_less(a, b) ? a : proves_less(b, a) ? b : !a || !b ? Expr() : min(a, b); }
Expr most(Expr a, Expr b) { return proves_less(a, b) ? b : proves_less(b, a) ? a : !a || !b ? Expr() : max(a, b); }

Expr size_in_bytes(const Var* var) { return int_constant(static_cast<int64_t>(size_of(var->dtype()))); }

// Elements that it reads: those of one Var at different places (queries and keys of one projection) are different operands.
std::set<const ExprNode*> operands_of(const Factor& f) {
  std::set<const ExprNode*> loads;
  visit(f.value, [&](Expr n) {
    if (n->kind == ExprKind::load) loads.insert(n.node());
  });
  return loads;
}

// Does any of them change along the sum? A factor that does not (a scale, an attention of channels) could stand outside of
// it.
bool change_along_sum(const std::set<const ExprNode*>& loads, const Definition& d) {
  if (d.scatter) return !loads.empty();
  return std::any_of(loads.begin(), loads.end(), [&](const ExprNode* n) {
    return std::any_of(n->args.begin(), n->args.end(), [&](Expr index) {
      return any_of(index, [&](Expr part) { return part->kind == ExprKind::axis && part->id >= d.kept(); });
    });
  });
}

// How many products of different operands are summed in a point of the domain; 0: it is no sum of products.
int products_in_a_point(const Definition& d) {
  int products = 0;
  for (const auto& s : sums_of_terms(d)) {
    const std::set<const ExprNode*> a = operands_of(s->factors[0]), b = operands_of(s->factors[1]);
    if (a != b && change_along_sum(a, d) && change_along_sum(b, d))
      products = std::max(products, products_in_a_point(s->product));
  }
  return products;
}

Expr operations_of(const Definition& d) {
  const int products = products_in_a_point(d);
  if (products == 0) return 0;
  const auto kept = d.domain.begin() + d.kept();
  const Expr summed = d.products ? d.products : times(products, points(kept, d.domain.end()));
  return times(2, times(points(d.domain.begin(), kept), summed));
}

// Along each axis of the Var no more places than it has, nor than the axes in its index have points; and no more elements
// than there are points of all these axes.
Expr bytes_read(Expr load, const Definition& d, const Var* var) {
  std::set<size_t> all;
  Expr places = 1;
  for (size_t k = 0; k < load->args.size(); ++k) {
    Expr reached = 1;
    for (size_t a = 0; a < d.domain.size(); ++a)
      if (uses_axis(load->args[k], static_cast<int>(a))) reached = times(reached, d.domain[a]), all.insert(a);
    places = times(places, least(reached, var->shape()[k]));
  }
  Expr reached = 1;
  for (size_t a : all) reached = times(reached, d.domain[a]);
  return times(least(places, reached), size_in_bytes(var));
}

Expr bytes_written(const Definition& d) {
  const Expr all = points(d.out->shape().begin(), d.out->shape().end());
  return times(d.scatter ? all : least(points(d.domain.begin(), d.domain.begin() + d.kept()), all), size_in_bytes(d.out));
}

}  // namespace

Work kernel_work(const std::vector<Definition>& stages, const std::set<int>& internal,
                 const std::function<const Var*(int)>& var) {
  Work work;
  std::map<int, Expr>
      read;  // several loads of one Var reach it all, or one of its parts each: the most that one of them does, at least
  for (const Definition& d : stages) {
    work.operations = plus(work.operations, operations_of(d));
    visit_loads(d, [&](Expr load) {
      if (load->id == reduced_value || internal.count(load->id)) return;
      const Expr bytes = bytes_read(load, d, var(load->id));
      auto [known, fresh] = read.emplace(load->id, bytes);
      if (!fresh) known->second = most(known->second, bytes);
    });
    if (!internal.count(d.out->id)) work.bytes = plus(work.bytes, bytes_written(d));
  }
  for (const auto& [unused, bytes] : read) work.bytes = plus(work.bytes, bytes);
  return work;
}

Work halo_work(const Var* var, const Layout& layout) {
  Layout inside = layout;
  inside.before.clear();
  inside.after.clear();
  const Shape whole = storage_shape(var->shape(), layout), data = storage_shape(var->shape(), inside);
  const Expr border = plus(points(whole.begin(), whole.end()), times(-1, points(data.begin(), data.end())));
  return {0, times(border, size_in_bytes(var))};
}

Work moving_work(const std::vector<const Var*>& vars) {
  Work work;
  for (const Var* var : vars)
    if (var) work.bytes = plus(work.bytes, times(points(var->shape().begin(), var->shape().end()), size_in_bytes(var)));
  return work;
}

}  // namespace metac
