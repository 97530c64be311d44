// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: classes along axis 1, one label per remaining position.
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/reductions.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// log_probabilities [N, C, d...] widened, labels [N, d...], weights [C] or null.
Var* negative_log_likelihood(Lowering& n, Var* log_probabilities, Var* labels, Var* weights) {
  Graph& g = n.graph();
  require_rank_at_least(log_probabilities, 2, "the scores");
  require_integer(labels, "the labels");
  if (labels->rank() != log_probabilities->rank() - 1)
    fail("scores of shape ", to_string(log_probabilities->shape()), " need labels of ", log_probabilities->rank() - 1,
         " axes, found ", to_string(labels->shape()));
  for (int k = 0; k < labels->rank(); ++k)
    require_equal(g, labels->shape()[k], log_probabilities->shape()[k == 0 ? 0 : k + 1],
                  concat("labels ", to_string(labels->shape()), " against scores ", to_string(log_probabilities->shape())));
  Expr classes = log_probabilities->shape()[1];
  if (weights) {
    require_same_dtype(n.input(0), weights, "the scores", "weight");
    require_rank(weights, 1, "weight");
    require_equal(g, weights->shape()[0], classes, "length of weight against the classes");
  }
  std::string reduction = n.string("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    fail("reduction must be none, sum or mean, found ", quoted(reduction));

  const Shape& shape = labels->shape();
  DType dtype = log_probabilities->dtype();
  Expr label = cast(load(1, labels->dtype(), identity_indices(labels->rank())), DType::i64);
  std::vector<Expr> counts{Expr(0) <= label, label < classes};
  bool ignores = n.has("ignore_index");
  if (ignores) counts.push_back(not_equal(label, n.integer("ignore_index", 0)));
  std::vector<Expr> indices{axis(0), label};
  for (int k = 1; k < labels->rank(); ++k) indices.push_back(axis(k));
  Var* picked = g.reindex({log_probabilities, labels}, shape, indices, counts);
  Var* weight = nullptr;  // of each position
  if (weights)
    weight = g.reindex({widen(g, weights), labels}, shape, {label}, counts);
  else if (ignores)
    weight = g.reindex({scalar(g, dtype, 1), labels}, shape, {}, counts);
  Var* loss = weight ? elementwise(g, {picked, weight}, [](const std::vector<Expr>& v) { return -v[0] * v[1]; })
                     : elementwise(g, {picked}, [](const std::vector<Expr>& v) { return -v[0]; });
  if (reduction == "none") return loss;
  std::vector<int> all = axes_from(0, labels->rank());
  if (reduction == "mean" && !weight) return mean(g, loss, all, false);
  Var* total = reduce(g, loss, all, Reduce::add, false);
  return reduction == "sum" ? total : map(g, Fn::div, total, reduce(g, weight, all, Reduce::add, false));
}

void lower_nll(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "input");
  n.set_output(0, cast(g, negative_log_likelihood(n, widen(g, x), n.input(1), n.optional_input(2)), x->dtype()));
}
METAC_OPERATOR("NegativeLogLikelihoodLoss")
    .since({12, 13, 22})
    .inputs(2, 3)
    .outputs(1)
    .attribute("ignore_index", Kind::integer)
    .attribute("reduction", Kind::string)
    .lower(lower_nll);

void lower_cross_entropy(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  require_float(x, "scores");
  require_rank_at_least(x, 2, "scores");
  Var* log_probabilities = log_softmax(g, widen(g, x), {1});
  n.set_output(0, cast(g, negative_log_likelihood(n, log_probabilities, n.input(1), n.optional_input(2)), x->dtype()));
  if (n.wants_output(1)) n.set_output(1, cast(g, log_probabilities, x->dtype()));
}
METAC_OPERATOR("SoftmaxCrossEntropyLoss")
    .since({12, 13})
    .inputs(2, 3)
    .outputs(1, 2)
    .attribute("ignore_index", Kind::integer)
    .attribute("reduction", Kind::string)
    .lower(lower_cross_entropy);

}  // namespace
}  // namespace metac
