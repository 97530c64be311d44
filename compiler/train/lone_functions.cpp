#include "compiler/train/lone_functions.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/train/class_scores.h"
#include "compiler/train/optimisers.h"
#include "compiler/train/parameters.h"
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

namespace {

Recipe read_update_recipe(const std::string& text) {
  const JsonDocument document(text, "the optimizer");
  Recipe recipe;
  const JsonValue& root = document.root();
  const bool whole =
      root.is(JsonValue::Kind::object) &&
      std::any_of(root.members.begin(), root.members.end(), [](const auto& member) { return member.key == "optimizer"; });
  if (whole) {
    RecipeFields fields(document, root, "the update");
    read_update(document, fields, recipe);
    recipe.skip_non_finite = skips_non_finite(fields);
    fields.finish();
  } else {
    recipe.optimiser = read_optimiser(document, root);
  }
  return recipe;
}

class UpdateWriter {
 public:
  UpdateWriter(const Recipe& recipe, const std::vector<NamedType>& parameters) : r_(recipe), write_(out_.model) {
    out_.rate = r_.optimiser["learning_rate"];
    out_.accumulate = r_.accumulate;
    out_.skips_non_finite = r_.skip_non_finite;
    out_.model = empty_model();
    for (const std::string& slot : slots_of(r_.optimiser)) out_.slots.push_back({slot, initial_slot(r_.optimiser)});
    own_slots_ = out_.slots.size();
    if (r_.accumulate > 1) out_.slots.push_back({"accumulated"});
    if (averages(r_)) out_.slots.push_back({"average", 0, true});
    add_inputs(parameters);
  }

  UpdateFunction run() {
    std::string finite;
    if (r_.skip_non_finite) {
      finite = write_finite(write_, gradients_);
      write_.add_output(write_.elementwise({finite, "taken"}, "@0 ? @1 + 1 : @1", "taken/next"));
    }
    const std::string count = std::to_string(r_.accumulate);
    std::string step = "step", when = finite;
    if (r_.skip_non_finite) step = write_.elementwise({"taken"}, "floor_div(@0, " + count + ")", "step");
    if (r_.accumulate > 1) {
      // With accumulation only the last call of an update changes anything.
      const std::string last =
          r_.skip_non_finite ? write_.elementwise({"taken"}, "floor_mod(@0 + 1, " + count + ") == 0", "apply") : "apply";
      when = finite.empty() ? last : write_.elementwise({finite, last}, "@0 && @1", "apply/finite");
      accumulate(last, finite);
    }
    write_clip(write_, r_, dtypes_, gradients_);
    OptimiserWriter optimiser(write_, r_.optimiser, "rate", step);
    for (size_t k = 0; k < updates_.size(); ++k) {
      updates_[k].gradient = gradients_[k];
      const NextValues next = optimiser.update(updates_[k]);
      const std::string& own = updates_[k].parameter;
      const auto applied = [&](const std::string& old, const std::string& value) {
        write_.add_output(write_applied(write_, when, old, value));
      };
      applied(own, next.parameter);
      for (size_t s = 0; s < own_slots_; ++s) applied(updates_[k].slots[s], next.slots[s]);
      if (r_.accumulate > 1) write_.add_output(sums_[k]);
      const std::string average = own + "/average";
      if (averages(r_)) applied(average, optimiser.average(r_, average, next.parameter, dtypes_[k]));
    }
    return std::move(out_);
  }

 private:
  void add_inputs(const std::vector<NamedType>& parameters) {
    write_.add_input("rate", DType::f64, {});
    write_.add_input(r_.skip_non_finite ? "taken" : "step", DType::i64, {});
    if (r_.accumulate > 1 && !r_.skip_non_finite) write_.add_input("apply", DType::boolean, {});
    std::vector<std::string> names;
    for (const NamedType& parameter : parameters) names.push_back(parameter.name);
    for (const GroupRecipe& group : r_.groups) expect_matches(group.match, names, "the optimizer");
    for (size_t k = 0; k < parameters.size(); ++k) {
      const ParameterTerms terms = terms_of(r_, names[k]);
      out_.trains.push_back(terms.trains);
      if (terms.trains) add_parameter(concat("parameter", k), parameters[k].type, terms);
    }
    if (updates_.empty()) fail("nothing is left to train: all ", names.size(), " parameters of the optimizer are frozen");
  }

  void add_parameter(const std::string& own, const TypedShape& type, const ParameterTerms& terms) {
    ParameterUpdate update{own, own + "/gradient", type.dtype, terms.weight_decay, terms.rate_scale, {}};
    write_.add_input(update.parameter, type.dtype, type.shape);
    write_.add_input(update.gradient, type.dtype, type.shape);
    for (size_t s = 0; s < out_.slots.size(); ++s) {
      const std::string slot = own + "/" + out_.slots[s].name;
      write_.add_input(slot, type.dtype, type.shape);
      if (s < own_slots_) update.slots.push_back(slot);
    }
    gradients_.push_back(update.gradient);
    dtypes_.push_back(type.dtype);
    updates_.push_back(std::move(update));
  }

  // Gradients with those of the calls before; `last`: whether this call ends an update.
  void accumulate(const std::string& last, const std::string& finite) {
    for (size_t k = 0; k < gradients_.size(); ++k) {
      const std::string& own = updates_[k].parameter;
      const std::string slot = own + "/accumulated";
      gradients_[k] = write_accumulated(write_, r_, slot, gradients_[k], slot + "/sum");
      sums_.push_back(
          write_applied(write_, finite, slot, write_.elementwise({last, gradients_[k]}, "@0 ? 0 : @1", slot + "/next")));
    }
  }

  const Recipe& r_;
  UpdateFunction out_;
  NodeWriter write_;
  size_t own_slots_ = 0;
  std::vector<ParameterUpdate> updates_;       // of the parameters that train, as all below
  std::vector<std::string> gradients_, sums_;  // sums: as they are for the next call
  std::vector<DType> dtypes_;
};

}  // namespace

UpdateFunction update_function(const std::string& text, const std::vector<NamedType>& parameters) {
  const Recipe recipe = read_update_recipe(text);
  return UpdateWriter(recipe, parameters).run();
}

}  // namespace metac
