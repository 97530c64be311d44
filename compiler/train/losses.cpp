// The losses, with the formulas of PyTorch's functions of the same names.
#include "compiler/train/losses.h"

#include "compiler/support/diagnostic.h"
#include "compiler/train/class_scores.h"
#include "compiler/train/sequence_loss.h"

namespace metac {
namespace {

// Both operands of losses that compare element by element: the output, and a target of its type and shape.
struct Pair {
  std::string output, target;
  TypedShape type;
};
Pair same_shape_pair(const LossContext& c, const LossRecipe& loss) {
  Pair pair;
  pair.output = output_of(c, loss);
  pair.type = scores_of(c, loss);
  TypedShape target = c.field(loss.target, pair.type, loss.place);
  if (target.dtype != pair.type.dtype || target.shape != pair.type.shape)
    refuse_loss(loss.place, concat("the target ", quoted(loss.target), " is ", name_of(target.dtype), " ",
                                   to_string(target.shape), ", the output ", quoted(pair.output), " is ",
                                   name_of(pair.type.dtype), " ", to_string(pair.type.shape)));
  pair.target = loss.target;
  return pair;
}

int rank_of(const TypedShape& type) { return static_cast<int>(type.shape.size()); }

// log(1 + exp(-|x|)) + max(x, 0) - x*t, where positive targets count `w` times: log_weight = 1 + (w - 1)*t.
const std::string binary_cross_entropy = "(1 - @1)*@0 + log1p(exp(-abs(@0))) + max(-@0, 0)";
const std::string weighted_binary_cross_entropy = "(1 - @1)*@0 + (1 + (@2 - 1)*@1)*(log1p(exp(-abs(@0))) + max(-@0, 0))";

std::string smooth_l1(const std::string& difference, double beta) {
  std::string d = "abs(" + difference + ")";
  if (beta == 0) return d;
  return "(" + d + " < " + literal(beta) + " ? " + literal(0.5 / beta) + "*(" + difference + ")*(" + difference +
         ") : " + d + " - " + literal(0.5 * beta) + ")";
}

// The weights of positive targets, one for all or one per element of the last axis.
std::string positive_weights(const LossContext& c, const LossRecipe& loss, const TypedShape& type) {
  size_t count = loss.positive_weight.size();
  if (count != 1 && (type.shape.size() < 2 || static_cast<int64_t>(count) != type.shape.back()))
    refuse_loss(loss.place, concat("\"positive_weight\" has ", count, " values; the last axis of the output has ",
                                   type.shape.size() < 2 ? 1 : type.shape.back()));
  return c.write.constant(tensor_of(type.dtype, loss.positive_weight), "train/positive_weight");
}

LossValues write_bce(const LossContext& c, const LossRecipe& loss) {
  Pair p = same_shape_pair(c, loss);
  if (loss.positive_weight.empty())
    return {c.write.elementwise({p.output, p.target}, binary_cross_entropy, "train/bce"), "", rank_of(p.type)};
  return {c.write.elementwise({p.output, p.target, positive_weights(c, loss, p.type)}, weighted_binary_cross_entropy,
                              "train/bce"),
          "", rank_of(p.type)};
}

// Detection heads: cross-entropy of a heat map and regression of what stands there, each element with its own two weights.
LossValues write_bce_smooth_l1(const LossContext& c, const LossRecipe& loss) {
  Pair p = same_shape_pair(c, loss);
  std::vector<std::string> operands = {p.output, p.target};
  for (const std::string weight : {"heat_weight", "reg_weight"}) {
    TypedShape type = c.field(weight, p.type, loss.place);
    if (type.dtype != p.type.dtype || type.shape != p.type.shape)
      refuse_loss(loss.place, concat("field ", quoted(weight), " is ", name_of(type.dtype), " ", to_string(type.shape),
                                     ", the output ", name_of(p.type.dtype), " ", to_string(p.type.shape)));
    operands.push_back(weight);
  }
  std::string bce = binary_cross_entropy;
  if (!loss.positive_weight.empty()) {
    bce = weighted_binary_cross_entropy;
    for (size_t at; (at = bce.find("@2")) != std::string::npos;) bce.replace(at, 2, "@4");
    operands.push_back(positive_weights(c, loss, p.type));
  }
  return {c.write.elementwise(operands, "@2*(" + bce + ") + @3*" + smooth_l1("(@0 - @1)", loss.beta), "train/bce_smooth_l1"),
          "", rank_of(p.type)};
}

LossValues write_kl(const LossContext& c, const LossRecipe& loss) {
  Pair p = same_shape_pair(c, loss);
  std::string scores = log_probabilities(c, loss, p.output, class_axis(loss, p.type));
  // A target of 0 counts nothing, whatever its logarithm is.
  std::string body = loss.log_target ? "exp(@1)*(@1 - @0)" : "@1 > 0 ? @1*(log(@1) - @0) : 0";
  return {c.write.elementwise({scores, p.target}, body, "train/kl_divergence"), "", rank_of(p.type)};
}

LossValues write_expression(const LossContext& c, const LossRecipe& loss) {
  if (loss.nodes.empty()) {
    TypedShape first = c.value(c.first_output, loss.place);
    std::vector<int64_t> shape;
    for (const std::string& operand : loss.operands) {
      TypedShape type = c.write.has(operand) ? c.value(operand, loss.place) : c.field(operand, first, loss.place);
      if (type.shape.size() > shape.size()) shape = type.shape;
    }
    if (shape.empty() || shape[0] != c.batch)
      refuse_loss(loss.place,
                  concat("the operands have no batch axis: the widest is ", to_string(shape), ", the batch is ", c.batch));
    return {c.write.elementwise(loss.operands, loss.body, "train/expression"), "", static_cast<int>(shape.size())};
  }
  for (const Node& node : loss.nodes) {
    if (node.outputs.empty())
      refuse_loss(loss.place, concat("a node of the expression (", node.op_type, ") has no outputs"));
    for (const std::string& input : node.inputs)
      if (!input.empty() && !c.write.has(input)) c.field(input, c.value(c.first_output, loss.place), loss.place);
    for (const std::string& output : node.outputs)
      if (c.write.has(output))
        refuse_loss(loss.place, concat("a node of the expression writes ", quoted(output), ", which the model has already"));
    Node& added = c.write.add(node.domain, node.op_type, node.inputs, node.outputs);
    added.attributes = node.attributes;
    added.line = node.line;
  }
  TypedShape type = c.value(loss.value, loss.place);
  if (type.shape.empty() || type.shape[0] != c.batch)
    refuse_loss(loss.place, concat("the value ", quoted(loss.value), " is ", to_string(type.shape),
                                   "; one value or more per sample are wanted, the batch (", c.batch, ") first"));
  if (!is_float(type.dtype))
    refuse_loss(loss.place, concat("the value ", quoted(loss.value), " is ", name_of(type.dtype), ", not a float"));
  return {loss.value, "", rank_of(type)};
}

}  // namespace

LossValues write_loss(const LossContext& c, const LossRecipe& loss) {
  if (loss.kind == "expression") return write_expression(c, loss);
  if (loss.kind == "cross_entropy") return write_cross_entropy(c, loss);
  if (loss.kind == "bce_with_logits") return write_bce(c, loss);
  if (loss.kind == "bce_smooth_l1") return write_bce_smooth_l1(c, loss);
  if (loss.kind == "kl_divergence") return write_kl(c, loss);
  if (loss.kind == "ctc") return write_ctc(c, loss);
  Pair p = same_shape_pair(c, loss);
  auto values = [&](const std::string& body) {
    return LossValues{c.write.elementwise({p.output, p.target}, body, "train/" + loss.kind), "", rank_of(p.type)};
  };
  if (loss.kind == "mse") return values("(@0 - @1)*(@0 - @1)");
  if (loss.kind == "l1") return values("abs(@0 - @1)");
  if (loss.kind == "smooth_l1") return values(smooth_l1("(@0 - @1)", loss.beta));
  if (loss.kind == "huber") return values(literal(loss.beta) + "*" + smooth_l1("(@0 - @1)", loss.beta));
  if (loss.kind == "hinge") return values("max(" + literal(loss.margin) + " - @0*@1, 0)");
  METAC_ASSERT(false, "a loss of kind ", loss.kind);
  return {};
}

std::string write_total(NodeWriter& write, const LossValues& loss, Reduction reduction, int64_t batch,
                        const std::string& hint) {
  if (reduction == Reduction::mean && loss.weights.empty()) return write.reduce("mean", loss.values, {}, false, hint);
  std::string sum = write.reduce("sum", loss.values, {}, false, hint);
  if (reduction == Reduction::sum) return sum;
  if (reduction == Reduction::batch_mean) return write.elementwise({sum}, "@0/" + literal(static_cast<double>(batch)), hint);
  return write.elementwise({sum, write.reduce("sum", loss.weights, {}, false, hint + "/weight")}, "@0/@1", hint);
}

std::string write_per_sample(NodeWriter& write, const LossValues& loss, Reduction reduction, const std::string& hint) {
  std::vector<int64_t> inner;
  for (int k = 1; k < loss.rank; ++k) inner.push_back(k);
  auto over_sample = [&](const char* op, const std::string& x) {
    return inner.empty() ? x : write.reduce(op, x, inner, false, hint);
  };
  if (reduction != Reduction::mean) return over_sample("sum", loss.values);
  if (loss.weights.empty()) return over_sample("mean", loss.values);
  // A sample of which nothing counts has no mean: it adds nothing.
  return write.elementwise({over_sample("sum", loss.values), over_sample("sum", loss.weights)}, "@1 == 0 ? 0 : @0/@1", hint);
}

}  // namespace metac
