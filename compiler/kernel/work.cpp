#include "compiler/kernel/work.h"

#include <algorithm>
#include <map>

namespace metac {
namespace {

double points(const Shape& domain) {
  double n = 1;
  for (Expr e : domain) n *= e.if_int() ? static_cast<double>(e.as_int()) : 0;
  return n;
}

// Elements that it reads: those of one Var at different places (queries and keys of one projection) are different operands.
std::set<const ExprNode*> operands_of(Expr e) {
  std::set<const ExprNode*> loads;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::load) loads.insert(n.node());
  });
  return loads;
}

// Is a product of different operands below conditions, casts, scales and zero points what is summed?
bool is_sum_of_products(const Definition& d) {
  if (d.reduce ? *d.reduce != Reduce::add : !d.scatter) return false;
  return any_of(d.body, [](Expr n) {
    if (n->kind != ExprKind::call || n->fn != Fn::mul) return false;
    std::set<const ExprNode*> a = operands_of(n->args[0]), b = operands_of(n->args[1]);
    return !a.empty() && !b.empty() && a != b;
  });
}

// No more elements than the Var has, nor than the axes in its indices have points.
double bytes_read(Expr load, const Definition& d, const Var* var) {
  double reached = 1;
  for (size_t k = 0; k < d.domain.size(); ++k)
    if (std::any_of(load->args.begin(), load->args.end(), [&](Expr index) { return uses_axis(index, static_cast<int>(k)); }))
      reached *= points({d.domain[k]});
  return std::min(reached, points(var->shape())) * static_cast<double>(size_of(var->dtype()));
}

double bytes_written(const Definition& d) {
  Shape kept(d.domain.begin(), d.domain.begin() + d.kept());
  double elements = d.scatter ? points(d.out->shape()) : std::min(points(kept), points(d.out->shape()));
  return elements * static_cast<double>(size_of(d.out->dtype()));
}

// Several loads of one Var reach it all, or one of its parts each: the most that one of them does, at least.
void note_reads(const Definition& d, Expr e, const std::function<const Var*(int)>& var, std::map<int, double>& read) {
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::load && n->id != reduced_value)
      read[n->id] = std::max(read[n->id], bytes_read(n, d, var(n->id)));
  });
}

}  // namespace

Work contraction_work(const Definition& d, const std::function<const Var*(int)>& var) {
  if (!is_sum_of_products(d)) return {};
  std::map<int, double> read;
  note_reads(d, d.body, var, read);
  Work work{2 * points(d.domain), bytes_written(d)};
  for (auto [unused, bytes] : read) work.bytes += bytes;
  return work;
}

Work kernel_work(const std::vector<Definition>& stages, const std::set<int>& internal,
                 const std::function<const Var*(int)>& var) {
  Work work;
  std::map<int, double> read;
  for (const Definition& d : stages) {
    if (is_sum_of_products(d)) work.operations += 2 * points(d.domain);
    visit_loads(d, [&](Expr load) { note_reads(d, load, var, read); });
    if (!internal.count(d.out->id)) work.bytes += bytes_written(d);
  }
  for (auto [id, bytes] : read)
    if (!internal.count(id)) work.bytes += bytes;
  return work;
}

}  // namespace metac
