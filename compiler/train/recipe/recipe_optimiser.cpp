// Optimisers and schedules of a recipe. The options of an optimiser are PyTorch's, with its defaults.
#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"
#include "compiler/train/recipe/recipe_fields.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

struct OptionSpec {
  const char* name;
  double otherwise, least, most;
  bool open = false;  // `most` itself is left out
  bool is_flag = false;
};
struct OptimiserSpec {
  const char* kind;
  std::vector<OptionSpec> options;
};

constexpr double any = INFINITY;

const std::vector<OptimiserSpec>& optimiser_specs() {
  static const std::vector<OptimiserSpec> specs = {
      {"sgd",
       {{"learning_rate", 1e-3, 0, any},
        {"momentum", 0, 0, any},
        {"dampening", 0, -any, any},
        {"nesterov", 0, 0, 1, false, true},
        {"weight_decay", 0, 0, any}}},
      {"adam",
       {{"learning_rate", 1e-3, 0, any},
        {"beta1", 0.9, 0, 1, true},
        {"beta2", 0.999, 0, 1, true},
        {"epsilon", 1e-8, 0, any},
        {"weight_decay", 0, 0, any},
        {"amsgrad", 0, 0, 1, false, true}}},
      {"adamw",
       {{"learning_rate", 1e-3, 0, any},
        {"beta1", 0.9, 0, 1, true},
        {"beta2", 0.999, 0, 1, true},
        {"epsilon", 1e-8, 0, any},
        {"weight_decay", 1e-2, 0, any},
        {"amsgrad", 0, 0, 1, false, true}}},
      {"adagrad",
       {{"learning_rate", 1e-2, 0, any},
        {"rate_decay", 0, 0, any},
        {"initial_accumulator", 0, 0, any},
        {"epsilon", 1e-10, 0, any},
        {"weight_decay", 0, 0, any}}},
      {"rmsprop",
       {{"learning_rate", 1e-2, 0, any},
        {"alpha", 0.99, 0, any},
        {"epsilon", 1e-8, 0, any},
        {"momentum", 0, 0, any},
        {"centered", 0, 0, 1, false, true},
        {"weight_decay", 0, 0, any}}},
      {"lion",
       {{"learning_rate", 1e-4, 0, any},
        {"beta1", 0.9, 0, 1, true},
        {"beta2", 0.99, 0, 1, true},
        {"weight_decay", 0, 0, any}}},
  };
  return specs;
}

}  // namespace

OptimiserRecipe read_optimiser(const JsonDocument& document, const JsonValue& value) {
  std::vector<std::string> kinds;
  for (const OptimiserSpec& spec : optimiser_specs()) kinds.emplace_back(spec.kind);
  OptimiserRecipe optimiser;
  JsonValue nothing;
  nothing.kind = Json::object;
  nothing.offset = value.offset;
  RecipeFields fields(document, value.is(Json::string) ? nothing : value, "the optimizer");
  optimiser.kind = expect_choice(document, value.is(Json::string) ? value : fields.required("kind"), "the optimizer", kinds);
  for (const OptimiserSpec& spec : optimiser_specs()) {
    if (spec.kind != optimiser.kind) continue;
    for (const OptionSpec& option : spec.options)
      optimiser.numbers[option.name] =
          option.is_flag ? fields.flag(option.name, option.otherwise != 0)
                         : fields.number(option.name, option.otherwise, option.least, option.most, option.open);
  }
  fields.finish();
  if (optimiser.kind == "sgd" && optimiser.is("nesterov") && (optimiser["momentum"] <= 0 || optimiser["dampening"] != 0))
    document.refuse(value.offset, "\"nesterov\" needs a momentum above 0 and no dampening");
  return optimiser;
}

ScheduleRecipe read_schedule(const JsonDocument& document, const JsonValue& value) {
  RecipeFields fields(document, value, "the schedule");
  const std::vector<std::string> kinds = {"constant", "step", "cosine", "one_cycle"};
  std::string kind = expect_choice(document, fields.required("kind"), "the schedule", kinds);
  ScheduleRecipe schedule;
  schedule.kind = static_cast<train::ScheduleKind>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
  const bool one_cycle = kind == "one_cycle";
  if (!one_cycle) {
    schedule.in_epochs = fields.choice("unit", "epochs", {"epochs", "updates"}) == "epochs";
    schedule.warmup = fields.number("warmup", 0, 0);
    schedule.initial_rate = fields.number("warmup_rate", 0, 0);
  } else {
    schedule.warmup = fields.number("rising", 0.3, 0, 1);
    schedule.initial_rate = fields.number("initial_rate", -1, 0);
    schedule.final_rate = fields.number("final_rate", -1, 0);
  }
  if (kind == "cosine") schedule.final_rate = fields.number("final_rate", 0, 0);
  if (kind == "step") {
    schedule.gamma = fields.number("gamma", 0.1, 0);
    schedule.milestones = fields.numbers("milestones");
    schedule.period = fields.number("every", 0, 0);
    if (schedule.milestones.empty() == (schedule.period == 0))
      document.refuse(value.offset, "a schedule of steps needs either \"every\" or \"milestones\"");
    if (!std::is_sorted(schedule.milestones.begin(), schedule.milestones.end()))
      document.refuse(fields.required("milestones").offset, "\"milestones\" must ascend");
  }
  fields.finish();
  return schedule;
}

void complete_schedule(ScheduleRecipe& schedule, double rate) {
  if (schedule.initial_rate < 0) schedule.initial_rate = rate / 25;
  if (schedule.final_rate < 0) schedule.final_rate = schedule.initial_rate / 1e4;
}

}  // namespace metac
