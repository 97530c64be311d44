#include "compiler/target/gpu/vendor/library_beside.h"

#include "compiler/target/gpu/vendor/library_product.h"
#include "compiler/tensor/gelu_form.h"

namespace metac {
namespace {

Expr without_casts(Expr e) {
  while (e->kind == ExprKind::cast && is_float(e->dtype) && is_float(e->args[0]->dtype)) e = e->args[0];
  return e;
}

// gelu of each element of the product's result, at the same place.
bool is_gelu_of(const Definition& product, const Definition& d) {
  const Var &z = *product.out, &h = *d.out;
  if (!d.is_plain() || h.dtype() != z.dtype() || h.shape() != z.shape() || d.domain != z.shape() ||
      d.out_index != identity_indices(z.rank()))
    return false;
  const Expr x = argument_of_gelu_tanh(d.body);
  return bool(x) && x->kind == ExprKind::load && x->id == z.id && x->args == identity_indices(z.rank());
}

// What is summed, where it is sums of what one load reads and nothing else; empty: it is not.
Expr summed(const Definition& d) {
  if (!d.reduce || *d.reduce != Reduce::add || d.scatter || !d.conditions.empty()) return {};
  const Expr result = without_casts(d.epilogue), element = without_casts(d.body);
  const bool plain = result->kind == ExprKind::load && result->id == reduced_value && element->kind == ExprKind::load &&
                     element->id >= 0 && element->dtype == d.out->dtype();
  return plain ? element : Expr();
}

// Are they the sums of a matrix over its steps, one for each of what is kept?
bool sums_matrix(const Definition& d, const Var& read, const LibraryMatrix& m, Expr kept, Expr steps, bool steps_together,
                 const std::vector<Symbol>& symbols) {
  const size_t count = static_cast<size_t>(d.kept());
  const Shape kept_dims(d.domain.begin(), d.domain.begin() + static_cast<int64_t>(count)),
      step_dims(d.domain.begin() + static_cast<int64_t>(count), d.domain.end());
  if (element_count(kept_dims) != kept || element_count(step_dims) != steps || element_count(d.out->shape()) != kept)
    return false;
  const Bounds bounds(symbols, d.domain);
  const std::vector<Expr> axes = identity_indices(static_cast<int>(d.domain.size()));
  const Expr own = linear_index(kept_dims, {axes.begin(), axes.begin() + static_cast<int64_t>(count)}),
             step = linear_index(step_dims, {axes.begin() + static_cast<int64_t>(count), axes.end()});
  const Expr place = linear_index(read.shape(), summed(d)->args);
  const Expr expected = m.offset + (steps_together ? step + own * m.leading : own + step * m.leading);
  return simplify(place, bounds) == simplify(expected, bounds) &&
         simplify(linear_index(d.out->shape(), d.out_index), bounds) == simplify(own, bounds);
}

}  // namespace

bool may_be_beside(const Definition& product, const Definition& other) {
  if (!product.reduce || *product.reduce != Reduce::add || product.scatter) return false;
  if (is_gelu_of(product, other)) return true;
  const Expr element = summed(other);
  bool read = false;
  if (element) visit_loads(product, [&](Expr n) { read |= n->id == element->id; });
  return read && other.out != product.out;
}

bool add_beside(Kernel& kernel, const Definition& product, const Definition& other, const LoweringContext& context) {
  if (kernel.products.empty()) return false;
  LibraryProduct p = kernel.products[0];
  if (p.activation != ProductActivation::none) return false;
  p.with_beside = true;
  if (is_gelu_of(product, other)) {
    if (p.sums_only || !may_be_aux(p.result)) return false;
    p.activation = ProductActivation::gelu_tanh;
    p.aux = p.result;
    p.result.argument = kernel.argument(other.out, Layout(), true);
    kernel.products.insert(kernel.products.begin(), p);
    return true;
  }
  const Expr element = summed(other);
  if (!element || other.out->dtype() != p.dtype || !p.batch.is_int(1) || p.scale != 1 || p.bias >= 0 ||
      p.residual.argument >= 0)
    return false;
  const Var* read = context.var(element->id);
  for (const bool rows : {true, false}) {
    const LibraryMatrix& m = rows ? p.a : p.b;
    // Of a the steps are neighbours where its rows are not, of b where its columns are not.
    if (kernel.arguments[static_cast<size_t>(m.argument)].var != read ||
        !sums_matrix(other, *read, m, rows ? p.rows : p.columns, p.steps, rows != m.by_column, *context.symbols))
      continue;
    p.bias_gradient = rows ? BiasGradient::of_rows : BiasGradient::of_columns;
    p.sums = kernel.argument(other.out, Layout(), true);
    kernel.products.insert(kernel.products.begin(), p);
    return true;
  }
  return false;
}

}  // namespace metac
