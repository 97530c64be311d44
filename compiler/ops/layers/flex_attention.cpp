// FlexAttention: attention whose scores and probabilities pass through graphs of the model.
#include "compiler/ops/layers/attention.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// x through the node's graph `name`, if it has one; shape and dtype must stay.
Var* modified(Lowering& n, Var* x, const char* name) {
  const ModelGraph* graph = n.subgraph(name);
  if (!graph) return x;
  std::vector<Var*> results = n.inline_subgraph(*graph, {x});
  if (results.size() != 1) fail(name, " must have one output, it has ", results.size());
  Var* y = results[0];
  if (y->dtype() != x->dtype() || y->rank() != x->rank())
    fail(name, " makes ", name_of(y->dtype()), " ", to_string(y->shape()), " of ", name_of(x->dtype()), " ",
         to_string(x->shape()));
  for (int k = 0; k < x->rank(); ++k)
    require_equal(n.graph(), y->shape()[k], x->shape()[k],
                  concat(name, " makes shape ", to_string(y->shape()), " of ", to_string(x->shape())));
  return y;
}

void lower_flex_attention(Lowering& n) {
  Graph& g = n.graph();
  Var *q = n.input(0), *k = n.input(1), *v = n.input(2);
  for (auto [x, name] : {std::pair(q, "Q"), std::pair(k, "K"), std::pair(v, "V")}) {
    require_float(x, name);
    require_rank(x, 4, name);
  }
  require_same_dtype(q, k, "Q", "K");
  require_equal(g, k->shape()[1], v->shape()[1],
                concat("heads of K ", to_string(k->shape()), " and V ", to_string(v->shape())));
  require_equal(g, k->shape()[2], v->shape()[2],
                concat("lengths of K ", to_string(k->shape()), " and V ", to_string(v->shape())));
  Dim heads = q->shape()[1];
  std::optional<double> scale;
  if (n.has("scale")) scale = n.real("scale", 1);
  DType precision = arithmetic_dtype(q->dtype());
  if (int64_t stated = n.integer("softmax_precision", 0)) precision = require_onnx_dtype(stated, "softmax_precision");
  if (!is_float(precision)) fail("softmax_precision must be a floating-point type, found ", name_of(precision));
  Var* scores = cast(g, attention_scores(g, widen(g, q), widen(g, repeat_heads(g, k, heads)), scale), precision);
  scores = modified(n, scores, "score_mod");
  Var* weights = cast(g, softmax(g, widen(g, scores), {3}), precision);
  weights = modified(n, weights, "prob_mod");
  Var* values = widen(g, cast(g, repeat_heads(g, v, heads), precision));
  n.set_output(0, cast(g, matmul(g, widen(g, weights), values), v->dtype()));
}

METAC_OPERATOR("FlexAttention", "ai.onnx.preview")
    .since({1})
    .inputs(3)
    .outputs(1)
    .attribute("scale", Kind::real)
    .attribute("softmax_precision", Kind::integer)
    .attribute("score_mod", Kind::graph)
    .attribute("prob_mod", Kind::graph)
    .lower(lower_flex_attention);

}  // namespace
}  // namespace metac
