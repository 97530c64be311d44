#include "compiler/train/lone_functions.h"

#include "compiler/support/diagnostic.h"
#include "compiler/train/class_scores.h"
#include "compiler/train/optimisers.h"
#include "compiler/train/recipe/recipe_fields.h"

namespace metac {
namespace {

Model empty_model() {
  Model model;
  model.ir_version = 10;
  model.producer = "metac";
  model.graph.name = "recipe";
  return model;
}

}  // namespace

Model loss_function(const std::string& text, const TypedShape& output, const TypedShape& target) {
  const JsonDocument document(text, "the loss");
  LossRecipe loss = read_loss(document, document.root());
  if (output.shape.empty()) fail("a loss is of an output with the batch as its first axis, and this one is a scalar");
  Model model = empty_model();
  NodeWriter write(model);
  write.add_input("output", output.dtype, output.shape);
  write.add_input("target", target.dtype, target.shape);
  loss.output = "output", loss.target = "target";
  const auto type_of = [&](const std::string& name, const Place& place) -> TypedShape {
    if (name == "output") return output;
    if (name == "target") return target;
    refuse_loss(place, concat("there is no value ", quoted(name), ": a loss of code has \"output\" and \"target\" alone"));
  };
  const LossContext context{
      write, output.shape[0], "output", type_of,
      [&](const std::string& name, const TypedShape&, const Place& place) { return type_of(name, place); }};
  const LossValues values = write_loss(context, loss);
  std::string total = write_total(write, values, loss.reduction, output.shape[0], "loss");
  if (loss.weight != 1) total = write.elementwise({total}, literal(loss.weight) + "*@0", "weighted");
  write.add_output(total);
  return model;
}

UpdateFunction update_function(const std::string& text, const std::vector<TypedShape>& parameters) {
  const JsonDocument document(text, "the optimizer");
  const OptimiserRecipe recipe = read_optimiser(document, document.root());
  UpdateFunction result;
  result.model = empty_model();
  result.slots = slots_of(recipe);
  result.initial = initial_slot(recipe);
  result.rate = recipe["learning_rate"];
  NodeWriter write(result.model);
  write.add_input("rate", DType::f64, {});
  write.add_input("step", DType::i64, {});
  std::vector<ParameterUpdate> updates;
  for (size_t k = 0; k < parameters.size(); ++k) {
    const std::string own = concat("parameter", k);
    ParameterUpdate update{own, own + "/gradient", parameters[k].dtype, recipe["weight_decay"], 1, {}};
    for (const std::string& slot : result.slots) update.slots.push_back(concat(own, "/", slot));
    write.add_input(update.parameter, update.dtype, parameters[k].shape);
    write.add_input(update.gradient, update.dtype, parameters[k].shape);
    for (const std::string& slot : update.slots) write.add_input(slot, update.dtype, parameters[k].shape);
    updates.push_back(std::move(update));
  }
  OptimiserWriter optimiser(write, recipe, "rate", "step");
  for (const ParameterUpdate& update : updates) {
    const NextValues next = optimiser.update(update);
    write.add_output(next.parameter);
    for (const std::string& slot : next.slots) write.add_output(slot);
  }
  return result;
}

}  // namespace metac
