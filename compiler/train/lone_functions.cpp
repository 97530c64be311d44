#include "compiler/train/lone_functions.h"

#include <algorithm>

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

Model loss_function(const std::string& text, const TypedShape& output, const TypedShape& target, bool each) {
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
  std::string total = each ? write_per_sample(write, values, loss.reduction, "loss")
                           : write_total(write, values, loss.reduction, output.shape[0], "loss");
  if (loss.weight != 1) total = write.elementwise({total}, literal(loss.weight) + "*@0", "weighted");
  write.add_output(total);
  return model;
}

static Recipe read_update_recipe(const std::string& text) {
  const JsonDocument document(text, "the optimizer");
  Recipe recipe;
  const JsonValue& root = document.root();
  const bool whole =
      root.is(JsonValue::Kind::object) &&
      std::any_of(root.members.begin(), root.members.end(), [](const auto& member) { return member.key == "optimizer"; });
  if (whole) {
    RecipeFields fields(document, root, "the update");
    read_update(document, fields, recipe);
    fields.finish();
  } else {
    recipe.optimiser = read_optimiser(document, root);
  }
  return recipe;
}

UpdateFunction update_function(const std::string& text, const std::vector<TypedShape>& parameters) {
  const Recipe recipe = read_update_recipe(text);
  UpdateFunction result;
  result.model = empty_model();
  result.rate = recipe.optimiser["learning_rate"];
  result.accumulate = recipe.accumulate;
  for (const std::string& slot : slots_of(recipe.optimiser)) result.slots.push_back({slot, initial_slot(recipe.optimiser)});
  const size_t own_slots = result.slots.size();
  if (recipe.accumulate > 1) result.slots.push_back({"accumulated"});
  if (averages(recipe)) result.slots.push_back({"average", 0, true});
  NodeWriter write(result.model);
  write.add_input("rate", DType::f64, {});
  write.add_input("step", DType::i64, {});
  if (recipe.accumulate > 1) write.add_input("apply", DType::boolean, {});
  std::vector<ParameterUpdate> updates;
  std::vector<std::string> gradients;
  std::vector<DType> dtypes;
  const auto slot_of = [](const std::string& parameter, const char* name) { return parameter + "/" + name; };
  for (size_t k = 0; k < parameters.size(); ++k) {
    const std::string own = concat("parameter", k);
    ParameterUpdate update{own, own + "/gradient", parameters[k].dtype, recipe.optimiser["weight_decay"], 1, {}};
    write.add_input(update.parameter, update.dtype, parameters[k].shape);
    write.add_input(update.gradient, update.dtype, parameters[k].shape);
    for (size_t s = 0; s < result.slots.size(); ++s) {
      const std::string slot = slot_of(own, result.slots[s].name.c_str());
      write.add_input(slot, update.dtype, parameters[k].shape);
      if (s < own_slots) update.slots.push_back(slot);
    }
    gradients.push_back(update.gradient);
    dtypes.push_back(update.dtype);
    updates.push_back(std::move(update));
  }
  std::vector<std::string> sums;  // as they are for the next call
  if (recipe.accumulate > 1)
    for (std::string& gradient : gradients) {
      const std::string& own = updates[sums.size()].parameter;
      gradient = write_accumulated(write, recipe, slot_of(own, "accumulated"), gradient, own + "/accumulated/sum");
      sums.push_back(write.elementwise({"apply", gradient}, "@0 ? 0 : @1", own + "/accumulated/next"));
    }
  write_clip(write, recipe, dtypes, gradients);
  // With accumulation only the last call of an update changes anything.
  const auto applied = [&](const std::string& old, const std::string& next) {
    return recipe.accumulate == 1 ? next : write.elementwise({"apply", next, old}, "@0 ? @1 : @2", old + "/applied");
  };
  OptimiserWriter optimiser(write, recipe.optimiser, "rate", "step");
  for (size_t k = 0; k < updates.size(); ++k) {
    updates[k].gradient = gradients[k];
    const NextValues next = optimiser.update(updates[k]);
    const std::string& own = updates[k].parameter;
    write.add_output(applied(own, next.parameter));
    for (size_t s = 0; s < own_slots; ++s) write.add_output(applied(updates[k].slots[s], next.slots[s]));
    if (recipe.accumulate > 1) write.add_output(sums[k]);
    if (averages(recipe)) {
      const std::string average = slot_of(own, "average");
      write.add_output(applied(average, optimiser.average(recipe, average, next.parameter, dtypes[k])));
    }
  }
  return result;
}

}  // namespace metac
