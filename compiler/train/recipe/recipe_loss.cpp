// Losses and metrics of a recipe.
#include <algorithm>

#include "compiler/ops/registry.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/recipe/recipe_fields.h"
#include "frontends/json/reading.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

const std::vector<std::string> loss_kinds = {
    "cross_entropy", "bce_with_logits", "mse",           "l1",  "smooth_l1", "huber",
    "bce_smooth_l1", "hinge",           "kl_divergence", "ctc", "expression"};

void read_expression(RecipeFields& fields, LossRecipe& loss) {
  const JsonDocument& document = fields.document();
  const JsonValue *body = fields.find("body"), *nodes = fields.find("nodes");
  if (!body == !nodes)
    document.refuse(fields.object().offset,
                    "an expression needs either a \"body\" (element by element) or \"nodes\" of the JSON IR");
  if (body) {
    loss.body = expect_string(document, *body, "\"body\"");
    check_expression(document, *body, "the body");
    loss.operands = fields.strings("operands");
    if (loss.operands.empty())
      document.refuse(fields.object().offset,
                      "an expression with a \"body\" needs \"operands\": names of outputs, inputs or fields");
    return;
  }
  expect(document, *nodes, Json::array, "\"nodes\"");
  for (const JsonValue& node : nodes->items) loss.nodes.push_back(node_of_json({document, ""}, node));
  loss.value = expect_string(document, fields.required("value"), "\"value\"");
}

}  // namespace

LossRecipe read_loss(const JsonDocument& document, const JsonValue& value) {
  LossRecipe loss;
  loss.place = loss.output_place = loss.axis_place = document.place(value.offset);
  loss.target = "target";
  if (value.is(Json::string)) {
    loss.kind = expect_choice(document, value, "the loss", loss_kinds);
    if (loss.kind == "expression")
      document.refuse(value.offset, "an expression needs an object with a \"body\" or \"nodes\"");
    if (loss.kind == "kl_divergence") loss.axis = -1;
    return loss;
  }
  RecipeFields fields(document, value, "a loss");
  loss.kind = expect_choice(document, fields.required("kind"), "the loss", loss_kinds);
  auto is = [&](std::initializer_list<const char*> kinds) {
    return std::any_of(kinds.begin(), kinds.end(), [&](const char* k) { return loss.kind == k; });
  };
  loss.weight = fields.number("weight", 1, 0);
  std::vector<std::string> reductions = {"mean", "sum"};
  if (is({"kl_divergence"})) reductions.push_back("batch_mean");
  std::string reduction = fields.choice("reduction", "mean", reductions);
  loss.reduction = reduction == "sum" ? Reduction::sum : reduction == "batch_mean" ? Reduction::batch_mean : Reduction::mean;
  if (is({"expression"})) {
    read_expression(fields, loss);
    fields.finish();
    return loss;
  }
  loss.output = fields.string("output");
  if (!loss.output.empty()) loss.output_place = fields.place("output");
  loss.target = fields.string("target", "target");
  if (loss.target.empty()) document.refuse(fields.required("target").offset, "the target has no name");
  if (is({"cross_entropy", "kl_divergence", "ctc"})) {
    std::string form = fields.choice("scores", "logits", {"logits", "log_probabilities", "probabilities"});
    loss.form = form == "logits"          ? ScoreForm::logits
                : form == "probabilities" ? ScoreForm::probabilities
                                          : ScoreForm::log_probabilities;
  }
  if (is({"cross_entropy", "kl_divergence"})) {
    loss.axis = fields.count("axis", is({"cross_entropy"}) ? 1 : -1, -64, 63);
    loss.axis_place = fields.place("axis");
  }
  if (is({"ctc"})) {
    loss.target_lengths = fields.string("target_lengths");
    loss.input_lengths = fields.string("input_lengths");
    loss.blank = fields.count("blank", 0, 0, 1 << 20);
    loss.longest = fields.count("longest", 0, 0, 1 << 20);
    loss.time_first = fields.flag("time_first", false);
    loss.zero_infinity = fields.flag("zero_infinity", false);
  }
  if (is({"cross_entropy"})) {
    loss.label_smoothing = fields.number("label_smoothing", 0, 0, 1);
    loss.class_weights = fields.numbers("class_weights");
    if (fields.find("ignore_index")) loss.ignore_index = fields.count("ignore_index", 0, -(int64_t{1} << 40));
  }
  if (is({"bce_with_logits", "bce_smooth_l1"})) loss.positive_weight = fields.numbers("positive_weight");
  if (is({"smooth_l1", "huber", "bce_smooth_l1"})) loss.beta = fields.number("beta", 1, is({"huber"}) ? 1e-30 : 0);
  if (is({"hinge"})) loss.margin = fields.number("margin", 1, 0);
  if (is({"kl_divergence"})) loss.log_target = fields.flag("log_target", false);
  fields.finish();
  return loss;
}

MetricRecipe read_metric(const JsonDocument& document, const JsonValue& value) {
  static const std::vector<std::string> kinds = {"accuracy", "top_k", "binary_accuracy", "mae", "mse", "rmse", "perplexity"};
  MetricRecipe metric;
  metric.place = document.place(value.offset);
  if (value.is(Json::string)) {
    metric.kind = metric.name = expect_choice(document, value, "the metric", kinds);
    if (metric.kind == "top_k") metric.k = 5, metric.name = "top_5";
    return metric;
  }
  RecipeFields fields(document, value, "a metric");
  metric.kind = expect_choice(document, fields.required("kind"), "the metric", kinds);
  if (metric.kind == "top_k") metric.k = fields.count("k", 5, 1, 1 << 20);
  metric.name = fields.string("name", metric.kind == "top_k" ? concat("top_", metric.k) : metric.kind);
  fields.finish();
  return metric;
}

}  // namespace metac
