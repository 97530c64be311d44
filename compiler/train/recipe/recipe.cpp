#include "compiler/train/recipe/recipe.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/train/recipe/recipe_fields.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

template <typename Read>
auto read_list(const JsonDocument& document, const JsonValue& value, Read read) {
  std::vector<decltype(read(document, value))> out;
  if (value.is(Json::array)) {
    for (const JsonValue& item : value.items) out.push_back(read(document, item));
  } else {
    out.push_back(read(document, value));
  }
  return out;
}

GroupRecipe read_group(const JsonDocument& document, const JsonValue& value) {
  RecipeFields fields(document, value, "a parameter group");
  GroupRecipe group;
  fields.required("match");
  group.match = fields.patterns("match");
  if (fields.find("weight_decay")) group.weight_decay = fields.number("weight_decay", 0, 0);
  if (fields.find("rate_scale")) group.rate_scale = fields.number("rate_scale", 1, 0);
  if (fields.find("frozen")) group.frozen = fields.flag("frozen", false);
  fields.finish();
  return group;
}

AdapterRecipe read_adapter(const JsonDocument& document, const JsonValue& value) {
  RecipeFields fields(document, value, "\"adapters\"");
  AdapterRecipe adapter;
  adapter.place = document.place(value.offset);
  const JsonValue& match = fields.required("match");
  adapter.match = fields.patterns("match");
  if (adapter.match.empty()) document.refuse(match.offset, "\"match\" has no pattern");
  adapter.rank = fields.count("rank", 8, 1, 1 << 16);
  adapter.alpha = fields.number("alpha", static_cast<double>(adapter.rank), 0);
  adapter.dropout = fields.number("dropout", 0, 0, 1, true);
  fields.finish();
  return adapter;
}

DeclaredField read_declared_field(const JsonDocument& document, const std::string& name, const JsonValue& value) {
  RecipeFields fields(document, value, "a field");
  DeclaredField field;
  field.name = name;
  field.place = document.place(value.offset);
  const JsonValue& dtype = fields.required("dtype");
  std::optional<DType> known = dtype_from_name(expect_string(document, dtype, "\"dtype\""));
  if (!known || !is_numeric(*known)) document.refuse(dtype.offset, concat("dtype ", quoted(dtype.text), " is not known"));
  field.dtype = *known;
  for (const JsonValue& dim : fields.array("shape")) {
    field.shape.push_back(expect_integer(document, dim, "a dim"));
    if (field.shape.back() < 1)
      document.refuse(dim.offset, concat("a dim of ", field.shape.back(), "; the shape of one sample is wanted"));
  }
  fields.finish();
  return field;
}

void read_clip(const JsonDocument& document, const JsonValue& value, Recipe& recipe) {
  RecipeFields fields(document, value, "\"clip\"");
  recipe.clip_norm = fields.number("norm", 0, 0);
  recipe.clip_value = fields.number("value", 0, 0);
  if (recipe.clip_norm > 0 && recipe.clip_value > 0)
    document.refuse(value.offset, "\"clip\" has a norm and a value; one of them is enough");
  fields.finish();
}

// 0.999, or {"from": 1000}.
void read_average(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  const JsonValue* average = fields.find("average");
  if (!average || !average->is(Json::object)) {
    recipe.average_decay = fields.number("average", 0, 0, 1, true);
    return;
  }
  RecipeFields mean(document, *average, "\"average\"");
  mean.required("from");
  recipe.average_from = mean.count("from", 0, 0);
  mean.finish();
}

void read_batch_norm(const JsonDocument& document, const JsonValue& value, Recipe& recipe) {
  RecipeFields fields(document, value, "\"batch_norm\"");
  if (fields.find("statistics"))
    recipe.batch_statistics = fields.choice("statistics", "batch", {"batch", "running"}) == "batch";
  recipe.unbiased_variance = fields.choice("running_variance", "unbiased", {"unbiased", "population"}) == "unbiased";
  if (fields.find("momentum")) recipe.batch_momentum = fields.number("momentum", 0, 0, 1);
  fields.finish();
}

// What a recipe says of the network, whoever trains it.
void read_network(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  if (fields.find("dropout")) recipe.dropout = fields.number("dropout", 0, 0, 1, true);
  if (const JsonValue* batch_norm = fields.find("batch_norm")) read_batch_norm(document, *batch_norm, recipe);
  const std::vector<std::string> merged = {"restore", "separate", "tie"};
  recipe.merged = static_cast<Merged>(std::find(merged.begin(), merged.end(), fields.choice("merged", merged[0], merged)) -
                                      merged.begin());
}

// {"from": "model", "loss": "l", "scalars": {"R": "learning_rate", "T": "step"}}
AlgorithmRecipe read_algorithm(const JsonDocument& document, const JsonValue& value) {
  RecipeFields fields(document, value, "\"algorithm\"");
  AlgorithmRecipe algorithm;
  algorithm.place = algorithm.scalars_place = document.place(value.offset);
  expect_choice(document, fields.required("from"), "\"from\"", {"model"});
  algorithm.loss = fields.string("loss");
  if (const JsonValue* scalars = fields.find("scalars")) {
    expect(document, *scalars, Json::object, "\"scalars\"");
    algorithm.scalars_place = document.place(scalars->offset);
    const std::map<std::string, train::Source> sources = {{"learning_rate", train::Source::learning_rate},
                                                          {"step", train::Source::step},
                                                          {"call", train::Source::call},
                                                          {"seed", train::Source::seed}};
    for (const auto& [name, source] : scalars->members)
      algorithm.scalars[name] =
          sources.at(expect_choice(document, source, quoted(name), {"learning_rate", "step", "call", "seed"}));
  }
  fields.finish();
  return algorithm;
}

void read_declared_fields(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  const JsonValue* declared = fields.find("fields");
  if (!declared) return;
  expect(document, *declared, Json::object, "\"fields\"");
  for (const auto& [name, value] : declared->members) recipe.fields.push_back(read_declared_field(document, name, value));
}

void read_method(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  recipe.losses = read_list(document, fields.required("loss"), read_loss);
  if (recipe.losses.empty()) document.refuse(fields.required("loss").offset, "there is no loss in the list");
  if (const JsonValue* metrics = fields.find("metrics")) recipe.metrics = read_list(document, *metrics, read_metric);
  read_update(document, fields, recipe);
  if (const JsonValue* storage = fields.find("storage"))
    recipe.storage = *dtype_from_name(expect_choice(document, *storage, "\"storage\"", {"float32", "bfloat16", "float16"}));
  if (const JsonValue* scale = fields.find("loss_scale")) {
    recipe.loss_scale = fields.number("loss_scale", 65536, 1, 16777216);
    if (recipe.storage != DType::f16) document.refuse(scale->offset, "\"loss_scale\" is for a storage of float16");
  }
  if (recipe.storage == DType::f16 && recipe.accumulate > 1)
    document.refuse(fields.required("accumulate").offset,
                    "a storage of float16 scales the loss anew after every call, which does not go with \"accumulate\"; "
                    "bfloat16 needs no scale");
  if (const JsonValue* quantization = fields.find("quantization")) {
    recipe.quantization = read_quantization(document, *quantization);
    if (recipe.storage != DType::f32)
      document.refuse(quantization->offset,
                      "\"quantization\" rounds float32 values; it does not go with a \"storage\" of half types");
  }
  recipe.train = fields.patterns("train");
  recipe.freeze = fields.patterns("freeze");
  if (const JsonValue* adapters = fields.find("adapters")) {
    recipe.adapters = read_list(document, *adapters, read_adapter);
    if (recipe.quantization)
      document.refuse(adapters->offset,
                      "\"adapters\" leave weights as they are, \"quantization\" trains them: a recipe has one of the two");
  }
  read_network(document, fields, recipe);
  read_declared_fields(document, fields, recipe);
}

Recipe read_document(const JsonDocument& document) {
  RecipeFields fields(document, document.root(), "the recipe");
  Recipe recipe;
  recipe.path = document.path();
  if (const int64_t format = fields.count("metac_recipe", 1, 1); format > 1)
    document.refuse(fields.required("metac_recipe").offset,
                    concat("a recipe of the format ", format, ", of a later metac; this one reads format 1"));
  recipe.batch = fields.count("batch", 32, 1, 1 << 20);
  recipe.epochs = fields.count("epochs", 10, 1);
  recipe.seed = fields.count("seed", 0, 0, INT64_MAX);
  if (const JsonValue* algorithm = fields.find("algorithm")) {
    recipe.algorithm = read_algorithm(document, *algorithm);
    recipe.optimiser.kind = "the model's algorithm";
    recipe.optimiser.numbers["learning_rate"] = fields.number("learning_rate", 1e-3, 0);
  } else if (fields.find("steps")) {
    read_steps(document, fields, recipe);
    read_network(document, fields, recipe);
    read_declared_fields(document, fields, recipe);
  } else {
    read_method(document, fields, recipe);
  }
  if (const JsonValue* schedule = fields.find("schedule")) recipe.schedule = read_schedule(document, *schedule);
  complete_schedule(recipe.schedule, recipe.optimiser["learning_rate"]);
  if (const JsonValue* data = fields.find("data")) recipe.data = read_data(document, *data);
  if (!recipe.steps.empty() && (!recipe.data.validation.empty() || recipe.data.validation_split > 0))
    document.refuse(fields.required("data").offset,
                    "a program of several steps has no evaluation, so it takes no validation data");
  recipe.checkpoint_every = fields.count("checkpoint_every", 0, 0);
  recipe.checkpoints_kept = fields.count("checkpoints_kept", 2, 1, 1000);
  recipe.log_every = fields.count("log_every", 1, 1);
  recipe.evaluate_every = fields.count("evaluate_every", 1, 1);
  recipe.patience = fields.count("patience", 0, 0, 1 << 30);
  recipe.skip_non_finite = skips_non_finite(fields);
  recipe.watch = fields.string("watch");
  if (!recipe.watch.empty() && recipe.watch != "loss") {
    std::vector<std::string> known = {"loss"};
    for (const MetricRecipe& metric : recipe.metrics) known.push_back(metric.name);
    expect_choice(document, fields.required("watch"), "\"watch\"", known);
  }
  fields.finish();
  return recipe;
}

}  // namespace

void read_update(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  recipe.optimiser = read_optimiser(document, fields.required("optimizer"));
  recipe.accumulate = fields.count("accumulate", 1, 1, 1 << 20);
  if (const JsonValue* clip = fields.find("clip")) read_clip(document, *clip, recipe);
  read_average(document, fields, recipe);
  if (const JsonValue* groups = fields.find("groups")) recipe.groups = read_list(document, *groups, read_group);
}

bool skips_non_finite(RecipeFields& fields) { return fields.choice("non_finite", "stop", {"stop", "skip"}) == "skip"; }

Recipe read_recipe(std::string_view text, const std::string& path) { return read_document(JsonDocument(text, path)); }

Recipe read_recipe(const std::string& path) {
  FileBytes bytes = read_file(path, 64 << 20);
  return read_recipe(bytes.view(), path);
}

}  // namespace metac
