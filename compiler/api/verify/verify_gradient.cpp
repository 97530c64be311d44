#include "compiler/api/verify/verify_gradient.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/walks.h"
#include "compiler/ops/defined/given_gradient.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

Expr widened(Expr e) {
  if (!e) return e;
  return rewrite_up(e, [](Expr n, const std::vector<Expr>& args) -> Expr {
    if (!is_float(n->dtype)) return {};
    if (n->kind == ExprKind::float_constant) return float_constant(n->float_value, DType::f64);
    if (n->kind == ExprKind::load) return load(n->id, DType::f64, args);
    if (n->kind == ExprKind::cast) return cast(args[0], DType::f64);
    return {};
  });
}

Tensor widened(const Tensor& tensor) {
  if (!is_float(tensor.dtype)) return tensor;
  std::vector<double> values(tensor.element_count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = number_at(tensor, i);
  return make_tensor<double>(DType::f64, tensor.shape, values);
}

void widen_ops(const std::vector<Op*>& ops) {
  for (Op* op : ops) {
    for (auto* list : {&op->bodies, &op->indices, &op->conditions})
      for (Expr& e : *list) e = widened(e);
    op->fill = widened(op->fill);
    if (const auto given = given_gradient_of(*op)) set_given_gradient(*op, with_wide_floats(*given));
    if (is_float(op->accumulator)) op->accumulator = DType::f64;
    for (Region& region : op->regions) widen_ops(region.ops);
  }
}

class Check {
 public:
  Check(Graph& graph, const std::map<std::string, Tensor>& given, const GradientCheckOptions& options)
      : graph_(graph), given_(given), options_(options), random_(options.seed) {}

  GradientCheck run() {
    widen_floats(graph_);
    parameters_to_inputs();
    for (Var* v : graph_.inputs)
      if (is_float(v->dtype())) wrt_.push_back(v);
    Var* loss = weighted_sum_of_outputs();
    if (wrt_.empty() || !loss) {
      result_.detail = wrt_.empty() ? "no input or parameter is a float" : "no output is a float";
      return result_;
    }
    const size_t inputs = graph_.inputs.size();
    for (Var* v : wrt_) directions_.push_back(graph_.add_input("direction_" + v->name, v->type));
    std::vector<Var*> levels = {loss};
    for (int order = 1; order <= options_.order; ++order)
      levels.push_back(along_directions(gradient(graph_, levels.back(), wrt_)));
    Var* tangent = jvp(graph_, {loss}, wrt_, directions_)[0];
    graph_.outputs = levels;
    graph_.outputs.push_back(tangent);
    GraphEvaluator evaluator(graph_);
    for (int attempt = 0, done = 0; done < options_.directions && attempt < 4 * options_.directions && result_.passed;
         ++attempt) {
      std::vector<Tensor> point;
      for (size_t k = 0; k < inputs; ++k) point.push_back(value_of(graph_.inputs[k], attempt));
      std::vector<Tensor> along;
      for (const Var* v : wrt_) along.push_back(random_tensor(point[position(v)].shape));
      done += compare(evaluator, point, along);
    }
    if (result_.checked == 0) result_.detail = "every point tried has a kink beside it";
    return result_;
  }

 private:
  // Parameters are differentiated too.
  void parameters_to_inputs() {
    for (const auto& var : graph_.vars()) {
      if (!var->is_parameter || !var->constant || !is_float(var->dtype())) continue;
      kept_[var.get()] = *var->constant;
      var->constant.reset();
      var->forget_elements();
      var->is_input = true;
      graph_.inputs.push_back(var.get());
    }
  }

  Var* total(Var* a, Var* b) {
    std::vector<int> axes;
    for (int k = 0; k < a->rank(); ++k) axes.push_back(k);
    return reduce(graph_, map(graph_, Fn::mul, a, b), axes, Reduce::add, false);
  }
  Var* sum(const std::vector<Var*>& terms) {
    Var* out = nullptr;
    for (Var* term : terms) out = out ? map(graph_, Fn::add, out, term) : term;
    return out;
  }

  Var* weighted_sum_of_outputs() {
    std::vector<Var*> terms;
    for (Var* y : graph_.outputs) {
      if (!is_float(y->dtype())) continue;
      Expr position = cast(linear_index(y->shape(), identity_indices(y->rank())) + Expr(1), DType::f64);
      terms.push_back(total(y, fill(graph_, y->shape(), call(Fn::sin, {position}))));
    }
    return sum(terms);
  }
  Var* along_directions(const std::vector<Var*>& gradients) {
    std::vector<Var*> terms;
    for (size_t k = 0; k < gradients.size(); ++k) terms.push_back(total(gradients[k], directions_[k]));
    return sum(terms);
  }

  Tensor random_tensor(const std::vector<int64_t>& shape) {
    std::uniform_real_distribution<double> between(-1, 1);
    Tensor like;
    like.shape = shape;
    std::vector<double> values(like.element_count());
    for (double& v : values) v = between(random_);
    return make_tensor<double>(DType::f64, shape, values);
  }

  // Numbers so large that nothing changes when they move by a step say nothing about a derivative.
  static bool hides_a_step(const Tensor& tensor) {
    for (int64_t i = 0; i < tensor.element_count(); ++i)
      if (std::fabs(number_at(tensor, i)) > 1e8 && std::isfinite(number_at(tensor, i))) return true;
    return false;
  }

  // The first attempt takes what was given, unless it is too large; later ones move away from it.
  Tensor value_of(const Var* var, int attempt) {
    const Tensor* known = nullptr;
    if (auto found = given_.find(var->name); found != given_.end()) known = &found->second;
    if (auto found = kept_.find(var); found != kept_.end()) known = &found->second;
    if (known && is_float(known->dtype) && hides_a_step(*known)) known = nullptr;
    if (known && (attempt == 0 || !is_float(known->dtype))) return widened(*known);
    if (known) return moved(widened(*known), random_tensor(known->shape), 0.01);
    std::vector<int64_t> shape;
    for (Expr d : var->shape()) shape.push_back(extent_of(d));
    if (is_float(var->dtype())) return random_tensor(shape);
    std::byte* data = nullptr;
    return make_tensor(var->dtype(), shape, &data);
  }
  int64_t extent_of(Expr d) const {
    if (const int64_t* extent = d.if_int()) return *extent;
    if (d->kind != ExprKind::symbol) fail("the dim ", to_string(d), " of an input has no typical value; give the input");
    const Symbol& s = graph_.symbols[d->id];
    int64_t extent = s.hint ? s.hint : std::max<int64_t>(s.min, 2);
    extent = (extent + s.divisor - 1) / s.divisor * s.divisor;
    return std::min(extent, s.max);
  }

  size_t position(const Var* var) const {
    return std::find(graph_.inputs.begin(), graph_.inputs.end(), var) - graph_.inputs.begin();
  }

  static Tensor moved(const Tensor& from, const Tensor& along, double step) {
    std::vector<double> values(from.element_count());
    for (size_t i = 0; i < values.size(); ++i) values[i] = number_at(from, i) + step * number_at(along, i);
    return make_tensor<double>(DType::f64, from.shape, values);
  }

  std::vector<double> evaluate_at(GraphEvaluator& evaluator, const std::vector<Tensor>& point,
                                  const std::vector<Tensor>& along, double step) {
    std::vector<Tensor> inputs = point;
    for (size_t k = 0; k < wrt_.size(); ++k) inputs[position(wrt_[k])] = moved(point[position(wrt_[k])], along[k], step);
    inputs.insert(inputs.end(), along.begin(), along.end());
    std::vector<double> out;
    for (const Tensor& t : evaluator.run(inputs)) out.push_back(number_at(t, 0));
    return out;
  }

  bool close(double a, double b) const { return a == b || std::fabs(a - b) <= options_.atol + options_.rtol * std::fabs(b); }

  // False: the point lies at a kink and says nothing.
  bool compare(GraphEvaluator& evaluator, const std::vector<Tensor>& point, const std::vector<Tensor>& along) {
    const double step = 1e-6;
    const auto here = evaluate_at(evaluator, point, along, 0);
    const auto plus = evaluate_at(evaluator, point, along, step), minus = evaluate_at(evaluator, point, along, -step);
    const auto near = evaluate_at(evaluator, point, along, step / 4), back = evaluate_at(evaluator, point, along, -step / 4);
    bool used = true;
    for (int order = 1; order <= options_.order; ++order) {
      const double wide = (plus[order - 1] - minus[order - 1]) / (2 * step);
      const double narrow = (near[order - 1] - back[order - 1]) / (step / 2);
      const double forward = (near[order - 1] - here[order - 1]) / (step / 4);
      if (!close(wide, narrow) || !close(forward, narrow)) {
        used = false;
        break;
      }
      report(here[order], wide, order, "central differences");
      if (order == 1) report(here[order], here.back(), order, "forward mode");
    }
    return used;
  }

  void report(double exact, double other, int order, const char* what) {
    ++result_.checked;
    const double error = std::fabs(exact - other) / (options_.atol / options_.rtol + std::fabs(other));
    if (!(error <= result_.max_error)) result_.max_error = error;
    if (close(exact, other)) return;
    result_.passed = false;
    if (result_.detail.empty())
      result_.detail = concat("the derivative of order ", order, " is ", exact, ", by ", what, " ", other);
  }

  Graph& graph_;
  const std::map<std::string, Tensor>& given_;
  const GradientCheckOptions& options_;
  std::mt19937 random_;
  std::map<const Var*, Tensor> kept_;
  std::vector<Var*> wrt_, directions_;
  GradientCheck result_;
};

}  // namespace

void widen_floats(Graph& graph) {
  for (const auto& var : graph.vars()) {
    if (!is_float(var->dtype())) continue;
    var->type.dtype = DType::f64;
    if (var->constant) var->constant = widened(*var->constant);
    if (std::optional<std::vector<Expr>> elements = var->carried_elements()) {
      for (Expr& e : *elements) e = widened(e);
      var->carry_elements(std::move(*elements), {var.get()});
    }
  }
  widen_ops(graph.ops);
}

GradientCheck verify_gradient(Graph& graph, const std::map<std::string, Tensor>& inputs,
                              const GradientCheckOptions& options) {
  return Check(graph, inputs, options).run();
}

}  // namespace metac
