#include "compiler/target/gpu/vendor/library_product.h"

#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/target/gpu/vendor/library_convolution.h"
#include "compiler/target/gpu/vendor/library_finish.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/gelu_form.h"

namespace metac {
namespace {

bool is_constant_zero(Expr e) { return e.is_constant() && e->float_value == 0 && e->int_value == 0; }

class ProductMatcher {
 public:
  ProductMatcher(const ProductLoops& loops, const std::vector<KernelArgument>& arguments)
      : l_(loops), arguments_(arguments) {}

  std::vector<LibraryProduct> run() {
    if (l_.target >= first_local || !choose_loops()) return {};
    p_.dtype = arguments_[static_cast<size_t>(l_.target)].var->dtype();
    if (!is_library_type(p_.dtype)) return {};
    p_.batch = batch_ ? batch_->extent : Expr(1);
    p_.rows = rows_->extent;
    p_.columns = columns_->extent;
    p_.steps = steps_->extent;
    bool good = factor(l_.a, *rows_, *steps_, p_.a) && factor(l_.b, *steps_, *columns_, p_.b);
    good = good && matrix(l_.target, l_.offset, *rows_, *columns_, p_.result) && !p_.result.by_column;
    if (!good) return {};
    LibraryProduct sums = p_;
    sums.sums_only = true;
    std::vector<LibraryProduct> out;
    if (epilogue()) out.push_back(p_);
    // A gradient's epilogue not every version of the library has for every type.
    if ((out.empty() || p_.activation == ProductActivation::gelu_tanh_gradient) && worth_finishing(steps_->extent))
      out.push_back(sums);
    return out;
  }

 private:
  // A side is one loop; of two the outer one is the batch, where there is no other.
  bool choose_loops() {
    if (l_.batch.size() > 1 || l_.steps.size() != 1 || l_.rows.empty() || l_.columns.empty()) return false;
    if (l_.batch.size() + l_.rows.size() + l_.columns.size() > 3) return false;
    rows_ = &l_.rows.back();
    columns_ = &l_.columns.back();
    steps_ = &l_.steps[0];
    batch_ = !l_.batch.empty()       ? &l_.batch[0]
             : l_.rows.size() > 1    ? &l_.rows[0]
             : l_.columns.size() > 1 ? &l_.columns[0]
                                     : nullptr;
    return true;
  }

  // Steps of an offset along the given loops; false: it is not affine in them, or depends on data.
  bool strides(Expr offset, const std::vector<const Loop*>& along, std::vector<Expr>& steps, Expr& base) const {
    base = offset;
    for (const Loop* loop : along) {
      Expr step = loop ? stride_of(offset, loop->axis) : Expr(0);
      if (!step || step->has_load || any_of(step, [](Expr n) { return n->kind == ExprKind::axis; })) return false;
      steps.push_back(step);
      if (loop)
        base = rewrite(base, [&](Expr n) { return n->kind == ExprKind::axis && n->id == loop->axis ? Expr(0) : Expr(); });
    }
    return !base->has_load && !any_of(base, [](Expr n) { return n->kind == ExprKind::axis; });
  }

  // Elements at `offset` of an argument as a matrix, one of whose directions is contiguous.
  bool matrix(int argument, Expr offset, const Loop& down, const Loop& across, LibraryMatrix& out) const {
    std::vector<Expr> step;
    if (!strides(offset, {batch_, &down, &across}, step, out.offset)) return false;
    out.argument = argument;
    out.batch = step[0];
    out.by_column = !step[2].is_int(1);
    if (out.by_column && !step[1].is_int(1)) return false;
    out.leading = out.by_column ? step[2] : step[1];
    return true;
  }

  Expr without_casts(Expr e) const {
    while (e->kind == ExprKind::cast && (e->dtype == p_.dtype || e->dtype == DType::f32)) e = e->args[0];
    return e;
  }
  bool is_element(Expr e) const {
    return e->kind == ExprKind::load && e->id < first_local && e->args.size() == 1 && e->dtype == p_.dtype;
  }

  bool factor(Expr e, const Loop& down, const Loop& across, LibraryMatrix& out) {
    e = without_casts(e);
    if (e->kind == ExprKind::call && e->fn == Fn::mul && e->args[1].is_constant()) {
      p_.scale *= e->args[1]->float_value;
      e = without_casts(e->args[0]);
    }
    return is_element(e) && matrix(e->id, e->args[0], down, across, out);
  }

  // activation( scale * sum + residual + bias ), any part of it absent, the terms in any order.
  bool epilogue() {
    Expr e = without_casts(l_.epilogue);
    if (e->kind == ExprKind::call && e->fn == Fn::max && (is_constant_zero(e->args[0]) || is_constant_zero(e->args[1]))) {
      p_.activation = ProductActivation::relu;
      e = e->args[is_constant_zero(e->args[0]) ? 1 : 0];
    }
    if (const Expr x = argument_of_gelu_tanh(e)) {
      p_.activation = ProductActivation::gelu_tanh;
      e = x;
    }
    if (const std::optional<GeluTanhGradient> gradient = match_gelu_tanh_gradient(e)) {
      const Expr x = gradient->x;
      if (!is_element(x) || !matrix(x->id, x->args[0], *rows_, *columns_, p_.aux) || !may_be_aux(p_.aux)) return false;
      p_.activation = ProductActivation::gelu_tanh_gradient;
      e = gradient->factor;
    }
    return terms(e) && summed_ && (p_.activation != ProductActivation::gelu_tanh_gradient || p_.bias < 0);
  }

  bool terms(Expr e) {
    e = without_casts(e);
    if (e->kind == ExprKind::call && e->fn == Fn::add) return terms(e->args[0]) && terms(e->args[1]);
    double scale = 1;
    if (e->kind == ExprKind::call && e->fn == Fn::mul && e->args[1].is_constant()) {
      scale = e->args[1]->float_value;
      e = without_casts(e->args[0]);
    }
    if (e->kind == ExprKind::load && e->id == first_local + l_.accumulator) {
      p_.scale *= scale;
      return !std::exchange(summed_, true);
    }
    if (scale != 1 || !is_element(e)) return false;
    std::vector<Expr> step;
    Expr base;
    if (!strides(e->args[0], {batch_, rows_, columns_}, step, base)) return false;
    if (p_.bias < 0 && step[0].is_int(0) && step[1].is_int(0) && step[2].is_int(1)) {
      p_.bias = e->id;
      p_.bias_offset = base;
      return true;
    }
    return p_.residual.argument < 0 && matrix(e->id, e->args[0], *rows_, *columns_, p_.residual) && !p_.residual.by_column;
  }

  const ProductLoops& l_;
  const std::vector<KernelArgument>& arguments_;
  LibraryProduct p_;
  const Loop *batch_ = nullptr, *rows_ = nullptr, *columns_ = nullptr, *steps_ = nullptr;
  bool summed_ = false;
};

}  // namespace

std::vector<LibraryProduct> match_library_product(const ProductLoops& loops, const std::vector<KernelArgument>& arguments) {
  return ProductMatcher(loops, arguments).run();
}

bool may_be_aux(const LibraryMatrix& m) {
  const auto aligned = [](Expr e) { return !e.if_int() || e.as_int() % 8 == 0; };
  return !m.by_column && aligned(m.leading) && aligned(m.batch);
}

}  // namespace metac
