// BatchNormalization. In inference its scale and shift per channel depend on parameters alone, so they are made apart
// (they move to the prepare program) and the data sees one multiplication and one addition.
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// x * a + b with a = scale / sqrt(variance + epsilon), b = shift - mean * a.
Var* normalise(Graph& g, Var* x, Var* scale, Var* shift, Var* mean, Var* variance, double epsilon) {
  Var* a = elementwise(g, {scale, variance}, [&](const std::vector<Expr>& v) {
    return v[0] / call(Fn::sqrt, {v[1] + constant_like(v[1], epsilon)});
  });
  Var* b = elementwise(g, {shift, mean, a}, [](const std::vector<Expr>& v) { return v[0] - v[1] * v[2]; });
  return elementwise(g, {x, a, b}, [](const std::vector<Expr>& v) { return v[0] * v[1] + v[2]; });
}

void lower_batch_normalization(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "X");
  require_rank_at_least(x, 2, "X");
  double epsilon = n.real("epsilon", 1e-5), momentum = n.real("momentum", 0.9);
  bool training =
      n.opset() >= 14 ? n.integer("training_mode", 0) != 0 : n.output_count() > 1 && n.integer("is_test", 0) == 0;
  bool spatial = n.integer("spatial", 1) != 0;
  static const char* names[] = {"X", "scale", "B", "input_mean", "input_var"};
  Var* wide = widen(g, x);
  Var* p[5] = {};
  int parameter_rank = spatial ? 1 : x->rank() - 1;
  for (int i = 1; i < 5; ++i) {
    p[i] = cast(g, n.input(i), wide->dtype());
    require_rank(p[i], parameter_rank, names[i]);
    for (int k = 0; k < parameter_rank; ++k)
      require_equal(g, p[i]->shape()[k], x->shape()[1 + k],
                    concat(names[i], " of shape ", to_string(p[i]->shape()), " against X ", to_string(x->shape())));
  }
  auto fit = [&](Var* v) { return spatial ? per_channel(g, v, x->rank()) : v; };
  if (!training) {
    n.set_output(0, cast(g, normalise(g, wide, fit(p[1]), fit(p[2]), fit(p[3]), fit(p[4]), epsilon), x->dtype()));
    return;
  }
  std::vector<int> axes{0};
  if (spatial)
    for (int k = 2; k < x->rank(); ++k) axes.push_back(k);
  Var* batch_mean = mean(g, wide, axes, true);
  Var* batch_variance = variance(g, wide, batch_mean, axes);
  // The scale of a channel is a value of its own, so that its derivative is one sum over the data.
  Var* a = elementwise(g, {fit(p[1]), batch_variance}, [&](const std::vector<Expr>& v) {
    return v[0] / call(Fn::sqrt, {v[1] + constant_like(v[1], epsilon)});
  });
  Var* y = elementwise(g, {wide, batch_mean, a, fit(p[2])},
                       [](const std::vector<Expr>& v) { return (v[0] - v[1]) * v[2] + v[3]; });
  n.set_output(0, cast(g, y, x->dtype()));
  Var* current[2] = {squeeze(g, batch_mean, axes), squeeze(g, batch_variance, axes)};
  for (int i = 0; i < 2; ++i) {
    Var* running = elementwise(g, {p[3 + i], current[i]}, [&](const std::vector<Expr>& v) {
      return v[0] * constant_like(v[0], momentum) + v[1] * constant_like(v[1], 1 - momentum);
    });
    DType dtype = n.input(3 + i)->dtype();
    if (n.wants_output(1 + i)) n.set_output(1 + i, cast(g, running, dtype));
    if (n.wants_output(3 + i)) n.set_output(3 + i, cast(g, current[i], dtype));
  }
}

METAC_OPERATOR("BatchNormalization")
    .since({1, 6, 7, 9, 14, 15})
    .inputs(5)
    .outputs(1, 5)
    .attribute("momentum", Kind::real)
    .attribute("epsilon", Kind::real)
    .attribute("is_test", Kind::integer, 1, 7)
    .attribute("spatial", Kind::integer, 1, 9)
    .attribute("training_mode", Kind::integer, 14)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(lower_batch_normalization);

}  // namespace
}  // namespace metac
