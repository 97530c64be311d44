// Programs of several networks and steps: what each step computes, what it trains, what it keeps.
#include <algorithm>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/train/recipe/recipe_fields.h"
#include "frontends/json/reading.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

constexpr const char* main_network = "model";

KeptRecipe read_state(const JsonDocument& document, const std::string& name, const JsonValue& value) {
  RecipeFields fields(document, value, "a state");
  KeptRecipe state;
  state.name = name;
  const JsonValue& dtype = fields.required("dtype");
  std::optional<DType> known = dtype_from_name(expect_string(document, dtype, "\"dtype\""));
  if (!known || !(*known == DType::f32 || *known == DType::f64 || *known == DType::i64 || *known == DType::i32))
    document.refuse(dtype.offset, concat("a state is float32, float64, int32 or int64, not ", quoted(dtype.text)));
  state.dtype = *known;
  for (const JsonValue& dim : fields.array("shape")) {
    state.shape.push_back(expect_integer(document, dim, "a dim"));
    if (state.shape.back() < 1)
      document.refuse(dim.offset,
                      concat("a dim of ", state.shape.back(), "; a state has a fixed shape, the batch included"));
  }
  state.value = fields.number("value", 0, -std::numeric_limits<double>::infinity());
  if (!is_float(state.dtype) && state.value != static_cast<double>(static_cast<int64_t>(state.value)))
    document.refuse(value.offset, concat("the value ", state.value, " of an integer"));
  fields.finish();
  return state;
}

StepRecipe read_step(const JsonDocument& document, const JsonValue& value, const Recipe& recipe) {
  RecipeFields fields(document, value, "a step");
  StepRecipe step;
  step.place = document.place(value.offset);
  step.graph = graph_of_json({document, parent_folder(document.path())}, fields);
  step.name = step.graph.name;
  if (step.name.empty()) document.refuse(value.offset, "a step has no \"name\"");
  if (!step.graph.inputs.empty() || !step.graph.outputs.empty() || !step.graph.value_info.empty())
    document.refuse(value.offset,
                    "a step declares no \"inputs\", \"outputs\" or \"values\": it reads \"fields\" and \"states\" by name");
  for (const Node& node : step.graph.nodes)
    if (node.domain == "network" && node.op_type != main_network && !recipe.networks.count(node.op_type)) {
      std::vector<std::string> known = {main_network};
      for (const auto& network : recipe.networks) known.push_back(network.first);
      std::string all;
      for (const std::string& name : known) all += (all.empty() ? "" : ", ") + quoted(name);
      document.refuse(value.offset, concat("step ", quoted(step.name), " calls the network ", quoted(node.op_type),
                                           " (line ", node.line, "); there are ", all));
    }
  step.loss = expect_string(document, fields.required("loss"), "\"loss\"");
  step.loss_place = fields.place("loss");
  if (const JsonValue* trains = fields.find("trains"); trains && trains->is(Json::string))
    step.trains = {trains->text};
  else
    step.trains = fields.strings("trains");
  step.trains_place = fields.place("trains");
  if (step.trains.empty())
    document.refuse(value.offset, concat("step ", quoted(step.name), " does not say which networks it \"trains\""));
  for (const std::string& name : step.trains)
    if (std::none_of(step.graph.nodes.begin(), step.graph.nodes.end(),
                     [&](const Node& node) { return node.domain == "network" && node.op_type == name; }))
      document.refuse(fields.required("trains").offset,
                      concat("step ", quoted(step.name), " trains ", quoted(name), " and does not call it"));
  step.optimiser = read_optimiser(document, fields.required("optimizer"));
  step.every = fields.count("every", 1, 1, 1 << 30);
  step.keep_place = fields.place("keep");
  if (const JsonValue* keep = fields.find("keep")) {
    expect(document, *keep, Json::object, "\"keep\"");
    for (const auto& [name, from] : keep->members) {
      if (std::none_of(recipe.states.begin(), recipe.states.end(),
                       [&, &name = name](const KeptRecipe& state) { return state.name == name; }))
        document.refuse(from.offset, concat("there is no state ", quoted(name), " to keep a value in (\"states\")"));
      step.keep[name] = expect_string(document, from, quoted(name));
    }
  }
  fields.finish();
  return step;
}

}  // namespace

void read_steps(const JsonDocument& document, RecipeFields& fields, Recipe& recipe) {
  if (const JsonValue* networks = fields.find("networks")) {
    expect(document, *networks, Json::object, "\"networks\"");
    for (const auto& [name, file] : networks->members) {
      if (name == main_network)
        document.refuse(file.offset, "\"model\" is the model that is compiled; call this network something else");
      if (name.empty() || name.size() > 80 || name.find('/') != std::string::npos)
        document.refuse(file.offset, "a network's name has 1 to 80 characters and no \"/\"");
      const std::string path = expect_string(document, file, "a network's file");
      recipe.networks[name] = !path.empty() && path[0] == '/' ? path : parent_folder(document.path()) + "/" + path;
    }
  }
  if (const JsonValue* states = fields.find("states")) {
    expect(document, *states, Json::object, "\"states\"");
    for (const auto& [name, state] : states->members) recipe.states.push_back(read_state(document, name, state));
  }
  std::set<std::string> names;
  for (const JsonValue& step : fields.array("steps")) {
    recipe.steps.push_back(read_step(document, step, recipe));
    if (!names.insert(recipe.steps.back().name).second)
      document.refuse(step.offset, concat("two steps are called ", quoted(recipe.steps.back().name)));
  }
  if (recipe.steps.empty()) document.refuse(fields.required("steps").offset, "there is no step in the list");
  if (recipe.steps[0].every != 1)
    document.refuse(fields.required("steps").offset, "the first step runs in every update; \"every\" is for the later ones");
  recipe.optimiser = recipe.steps[0].optimiser;
  for (const StepRecipe& step : recipe.steps)
    if (step.optimiser["learning_rate"] > 0 && recipe.optimiser["learning_rate"] == 0)
      document.refuse(fields.required("steps").offset,
                      "the first step has a learning rate of 0, by which the others' are measured");
}

}  // namespace metac
