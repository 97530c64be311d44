// Reading a recipe's objects: numbers with their ranges, choices with their names, places for later messages.
#pragma once
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compiler/train/recipe/recipe.h"
#include "frontends/json/document.h"

namespace metac {

class RecipeFields : public JsonFields {
 public:
  using JsonFields::JsonFields;

  // A number in [least, most]; `open` leaves `most` itself out.
  double number(std::string_view key, double otherwise, double least, double most = std::numeric_limits<double>::infinity(),
                bool open = false);
  int64_t count(std::string_view key, int64_t otherwise, int64_t least, int64_t most = int64_t{1} << 40);
  std::vector<double> numbers(std::string_view key);  // a number is a list of one; empty if absent
  std::string choice(std::string_view key, const std::string& otherwise, const std::vector<std::string>& known);
  std::vector<Pattern> patterns(std::string_view key);  // a string is a list of one
  Place place(std::string_view key);                    // of the value, or of the object where it is absent
};

// One of several names, or the refusal that lists them.
const std::string& expect_choice(const JsonDocument& document, const JsonValue& value, const std::string& what,
                                 const std::vector<std::string>& known);

// The parts of a recipe that have a file of their own.
LossRecipe read_loss(const JsonDocument& document, const JsonValue& value);
MetricRecipe read_metric(const JsonDocument& document, const JsonValue& value);
OptimiserRecipe read_optimiser(const JsonDocument& document, const JsonValue& value);
ScheduleRecipe read_schedule(const JsonDocument& document, const JsonValue& value);
// The rates that one_cycle takes from the greatest one where the recipe does not say them, as PyTorch's does.
void complete_schedule(ScheduleRecipe& schedule, double rate);
// in_memory: of samples that are there already, so that it names neither a format nor files.
DataRecipe read_data(const JsonDocument& document, const JsonValue& value, bool in_memory = false);
QuantizationRecipe read_quantization(const JsonDocument& document, const JsonValue& value);
// What is made of gradients: "optimizer", "accumulate", "clip", "average", "groups".
void read_update(const JsonDocument& document, RecipeFields& fields, Recipe& recipe);
// "non_finite": "skip", and not "stop".
bool skips_non_finite(RecipeFields& fields);
// "networks", "states" and "steps", where there are steps.
void read_steps(const JsonDocument& document, RecipeFields& fields, Recipe& recipe);

}  // namespace metac
