#include "compiler/train/class_scores.h"

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Scores and labels, and how bodies over the scores read the label: an axis of labels less.
struct Classes {
  std::string scores, labels;
  TypedShape type;
  int axis = 1;
  int64_t count = 0;
  std::string class_index;  // "i1"
  std::string label_at;     // "int64(@1(i0,i2))", of operand 1, in bodies over the scores
};

Classes classes_of(const LossContext& c, const LossRecipe& loss) {
  Classes s;
  s.scores = output_of(c, loss);
  s.type = scores_of(c, loss);
  s.axis = class_axis(loss, s.type);
  s.count = s.type.shape[s.axis];
  TypedShape wanted{DType::i64, {}};
  s.label_at = "int64(@1(";
  for (int k = 0; k < static_cast<int>(s.type.shape.size()); ++k) {
    if (k == s.axis) continue;
    s.label_at += concat(wanted.shape.empty() ? "" : ",", "i", k);
    wanted.shape.push_back(s.type.shape[k]);
  }
  s.label_at += "))";
  s.class_index = concat("i", s.axis);
  TypedShape labels = c.field(loss.target, wanted, loss.place);
  if (!is_integer(labels.dtype) || labels.shape != wanted.shape)
    refuse_loss(loss.place,
                concat("the target ", quoted(loss.target), " is ", name_of(labels.dtype), " ", to_string(labels.shape),
                       "; scores ", to_string(s.type.shape), " with classes along axis ", s.axis, " need integers of shape ",
                       to_string(wanted.shape)));
  s.labels = loss.target;
  return s;
}

int label_rank(const Classes& s) { return static_cast<int>(s.type.shape.size()) - 1; }

// 1 where a label counts; "" where all do.
std::string counts(const LossContext& c, const LossRecipe& loss, const Classes& s) {
  if (!loss.ignore_index) return "";
  return c.write.elementwise({s.labels}, concat("int64(@0) == ", *loss.ignore_index, " ? 0.0 : 1.0"), "train/counts",
                             std::string(name_of(s.type.dtype)));
}

}  // namespace

void refuse_loss(const Place& place, const std::string& message) { throw CompileError({place, "", message}); }

std::string output_of(const LossContext& context, const LossRecipe& loss) {
  return loss.output.empty() ? context.first_output : loss.output;
}

TypedShape scores_of(const LossContext& c, const LossRecipe& loss) {
  std::string name = output_of(c, loss);
  TypedShape type = c.value(name, loss.output_place);
  if (!is_float(type.dtype))
    refuse_loss(loss.output_place, concat("the output ", quoted(name), " is ", name_of(type.dtype), ", not a float"));
  if (type.shape.empty() || type.shape[0] != c.batch)
    refuse_loss(loss.output_place, concat("the output ", quoted(name), " is ", to_string(type.shape), " for a batch of ",
                                          c.batch, "; its first axis must be the batch"));
  return type;
}

int class_axis(const LossRecipe& loss, const TypedShape& scores) {
  int rank = static_cast<int>(scores.shape.size());
  int64_t axis = loss.axis < 0 ? loss.axis + rank : loss.axis;
  if (axis < 1 || axis >= rank)
    refuse_loss(loss.axis_place,
                concat("axis ", loss.axis, " is no axis of classes: the output is ", to_string(scores.shape)));
  return static_cast<int>(axis);
}

std::string log_probabilities(const LossContext& c, const LossRecipe& loss, const std::string& scores, int axis) {
  if (loss.form == ScoreForm::log_probabilities) return scores;
  if (loss.form == ScoreForm::probabilities)
    return c.write.elementwise({scores}, "log(max(@0, 1e-30))", "train/log_probabilities");
  return c.write.log_softmax(scores, axis, "train/log_probabilities");
}

Tensor tensor_of(DType dtype, const std::vector<double>& values) {
  std::vector<int64_t> shape;
  if (values.size() != 1) shape.push_back(static_cast<int64_t>(values.size()));
  if (dtype == DType::f64) return make_tensor<double>(dtype, shape, values);
  return make_tensor<float>(DType::f32, shape, std::vector<float>(values.begin(), values.end()));
}

// -(1 - s) w[y] log p[y] - s/C sum_c w[c] log p[c], and weights w[y]. It is written as a sum over all classes in which the
// label picks: so the whole loss is one kernel by rows together with the softmax, and so is its derivative (a gather's would
// scatter).
LossValues write_cross_entropy(const LossContext& c, const LossRecipe& loss) {
  Classes s = classes_of(c, loss);
  std::vector<std::string> operands = {log_probabilities(c, loss, s.scores, s.axis), s.labels};
  std::string picked = s.label_at + " == " + s.class_index, weight_at, weights;
  if (!loss.class_weights.empty()) {
    if (static_cast<int64_t>(loss.class_weights.size()) != s.count || s.count == 1)
      refuse_loss(loss.place,
                  concat("\"class_weights\" has ", loss.class_weights.size(), " values, there are ", s.count, " classes"));
    operands.push_back(c.write.constant(tensor_of(s.type.dtype, loss.class_weights), "train/class_weights"));
    weight_at = "*@2(" + s.class_index + ")";
  }
  std::string body = picked + " ? -@0" + weight_at + " : 0";
  if (loss.label_smoothing > 0) {
    double share = loss.label_smoothing / static_cast<double>(s.count);
    body =
        "-@0" + weight_at + "*(" + picked + " ? " + literal(1 - loss.label_smoothing + share) + " : " + literal(share) + ")";
  }
  std::string values = c.write.reduce("sum", c.write.elementwise(operands, body, "train/cross_entropy/class"), {s.axis},
                                      false, "train/cross_entropy");
  if (!weight_at.empty()) {
    std::string dtype(name_of(s.type.dtype));
    std::string own =
        c.write.elementwise_over(operands, picked + " ? " + weight_at.substr(1) + " : 0", "train/class_weight/class", dtype);
    weights = c.write.reduce("sum", own, {s.axis}, false, "train/class_weight");
  }
  if (std::string counted = counts(c, loss, s); !counted.empty())
    weights = weights.empty() ? counted : c.write.elementwise({weights, counted}, "@0*@1", "train/class_weight");
  // A label that is no class makes the loss NaN, which the training program reports, instead of passing as learned.
  std::string valid = concat("int64(@1) >= 0 && int64(@1) < ", s.count, " ? @0 : nan");
  if (loss.ignore_index) valid = concat("int64(@1) == ", *loss.ignore_index, " ? 0 : (", valid, ")");
  return {c.write.elementwise({values, s.labels}, valid, "train/cross_entropy"), weights, label_rank(s)};
}

std::string write_metric(const LossContext& c, const MetricRecipe& metric, const LossRecipe& loss,
                         const std::string& loss_per_sample) {
  NodeWriter& write = c.write;
  const std::string hint = "train/" + metric.name;
  if (metric.kind == "perplexity") {
    if (loss.kind != "cross_entropy")
      refuse_loss(metric.place, "perplexity goes with a cross-entropy loss; the first loss is " + loss.kind);
    return write.elementwise({loss_per_sample}, "@0", hint);
  }
  LossValues right;
  if (metric.kind == "accuracy" || metric.kind == "top_k") {
    if (loss.kind != "cross_entropy")
      refuse_loss(metric.place, metric.kind + " goes with a cross-entropy loss; the first loss is " + loss.kind);
    Classes s = classes_of(c, loss);
    if (metric.k >= s.count && metric.kind == "top_k")
      refuse_loss(metric.place, concat("the first ", metric.k, " of ", s.count, " classes are always right"));
    // How many classes come before the label's; among equals the first, so that this is what argmax says. NaN comes first.
    std::string own =
        write.reduce("sum", write.elementwise({s.scores, s.labels}, s.label_at + " == " + s.class_index + " ? @0 : 0", hint),
                     {s.axis}, true, hint);
    std::string before = write.elementwise({s.scores, s.labels, own},
                                           s.label_at + " == " + s.class_index + " ? 0.0 : " + s.class_index + " < " +
                                               s.label_at + " ? (@0 < @2 ? 0.0 : 1.0) : (@0 <= @2 ? 0.0 : 1.0)",
                                           hint, "float32");
    right = {write.elementwise({write.reduce("sum", before, {s.axis}, false, hint)},
                               concat("@0 < ", literal(static_cast<double>(metric.k)), " ? 1.0 : 0.0"), hint, "float32"),
             counts(c, loss, s), label_rank(s)};
    if (!right.weights.empty()) right.values = write.elementwise({right.values, right.weights}, "@0*float32(@1)", hint);
    if (!right.weights.empty()) right.weights = write.cast(right.weights, DType::f32, hint);
  } else {
    TypedShape type = scores_of(c, loss), target = c.field(loss.target, type, metric.place);
    if (target.shape != type.shape || target.dtype != type.dtype)
      refuse_loss(metric.place, concat(metric.kind, " compares the output ", to_string(type.shape),
                                       " with the target element by element, which is ", name_of(target.dtype), " ",
                                       to_string(target.shape)));
    std::string body = metric.kind == "mae"               ? "abs(@0 - @1)"
                       : metric.kind == "binary_accuracy" ? "(@0 > 0) == (@1 > 0.5) ? 1.0 : 0.0"
                                                          : "(@0 - @1)*(@0 - @1)";
    right = {write.elementwise({output_of(c, loss), loss.target}, body, hint, "float32"), "",
             static_cast<int>(type.shape.size())};
  }
  return write_per_sample(write, right, Reduction::mean, hint);
}

train::Aggregate aggregate_of(const MetricRecipe& metric) {
  return metric.kind == "perplexity" ? train::Aggregate::exp_of_mean
         : metric.kind == "rmse"     ? train::Aggregate::root_of_mean
                                     : train::Aggregate::mean;
}

bool greater_is_better(const MetricRecipe& metric) {
  return metric.kind == "accuracy" || metric.kind == "top_k" || metric.kind == "binary_accuracy";
}

}  // namespace metac
