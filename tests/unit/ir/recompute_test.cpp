// Which values are made again: lives and peaks by hand, the greedy choice against all choices on small programs, and whole
// graphs whose answers must not change.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/passes/order_updates.h"
#include "compiler/program/compile.h"
#include "compiler/region/choose_recomputed.h"
#include "tests/unit/training.h"

namespace metac::recompute_test {
namespace {

// A chain of layers and back: value k is made at step k from value k - 1 and read by step k + 1 and by the step back, 2n - 1
// - k.
std::vector<KeptValue> chain(int layers, const std::vector<int64_t>& bytes, const std::vector<double>& costs) {
  std::vector<KeptValue> values;
  for (int k = 0; k < layers; ++k) {
    KeptValue v{bytes[static_cast<size_t>(k)], k, {k + 1, 2 * layers - k}, {}, {}, costs[static_cast<size_t>(k)], true};
    if (k > 0) v.operands = {k - 1};
    values.push_back(v);
  }
  return values;
}

TEST(ChooseRecomputed, TwoLivesByHand) {
  // Four values of 1, 2, 4 and 8 bytes; steps 0 to 8.
  std::vector<KeptValue> values = chain(4, {1, 2, 4, 8}, {1, 1, 1, 1});
  EXPECT_EQ(plan_of(values, {false, false, false, false}, 9).peak, 15);
  RecomputePlan plan = plan_of(values, {false, true, false, false}, 9);
  EXPECT_EQ(plan.again, (std::vector<int>{-1, 7, -1, -1}));  // value 1 is read at 2, then at 7
  EXPECT_EQ(plan.peak, 13);
  // Value 2, made again at 6, needs value 1 there, which is made again earlier for it.
  plan = plan_of(values, {false, true, true, false}, 9);
  EXPECT_EQ(plan.again, (std::vector<int>{-1, 6, 6, -1}));
  EXPECT_EQ(plan.peak, 13);  // at step 3: values 0, 2 and 3
  EXPECT_EQ(plan.cost, 2);
}

TEST(ChooseRecomputed, AnOperandThatIsKeptLivesLonger) {
  std::vector<KeptValue> values = {
      {10, 0, {1}, {}, {}, 1, false}, {10, 1, {2, 5}, {0}, {}, 1, true}, {1, 2, {5}, {}, {}, 1, true}};
  // Value 0 would have died at step 1: making value 1 again keeps it until step 5, and nothing is won.
  EXPECT_EQ(plan_of(values, {false, true, false}, 6).peak, 21);
  EXPECT_FALSE(choose_recomputed(values, 6, 15).fits);
}

TEST(ChooseRecomputed, NothingIsChosenWhereEverythingFits) {
  std::vector<KeptValue> values = chain(4, {1, 2, 4, 8}, {1, 1, 1, 1});
  RecomputePlan plan = choose_recomputed(values, 9, 15);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.cost, 0);
}

// Random programs of ten values: the greedy choice meets nearly every bound that any choice meets, for little more than the
// least cost.
TEST(ChooseRecomputed, IsNearTheBestOfAllChoices) {
  std::mt19937 random(5);
  int bounds = 0, met = 0;
  double cost = 0, least_cost = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int count = 10, steps = 24;
    std::vector<KeptValue> values;
    for (int k = 0; k < count; ++k) {
      KeptValue v{static_cast<int64_t>(1 + random() % 20), k, {k + 1}, {}, {}, 1.0 + random() % 9, random() % 5 != 0};
      for (int late = 0; late < 1 + static_cast<int>(random() % 2); ++late)
        v.readers.push_back(count + static_cast<int>(random() % (steps - count)));
      std::sort(v.readers.begin(), v.readers.end());
      if (k > 0) v.operands.push_back(k - 1);
      if (k > 2 && random() % 2) v.operands.push_back(static_cast<int>(random() % (k - 1)));
      values.push_back(v);
    }
    const int64_t whole = plan_of(values, std::vector<bool>(count), steps).peak;
    std::map<int64_t, double> best;  // bound -> the least cost of any choice
    for (int choice = 0; choice < 1 << count; ++choice) {
      std::vector<bool> chosen(count);
      bool allowed = true;
      for (int k = 0; k < count; ++k) allowed = allowed && (!(chosen[k] = choice >> k & 1) || values[k].repeatable);
      if (!allowed) continue;
      RecomputePlan plan = plan_of(values, chosen, steps);
      auto [at, fresh] = best.try_emplace(plan.peak, plan.cost);
      if (!fresh) at->second = std::min(at->second, plan.cost);
    }
    for (double part : {0.9, 0.8, 0.7}) {
      const int64_t bound = static_cast<int64_t>(static_cast<double>(whole) * part);
      double least = 1e30;
      for (auto [peak, of_peak] : best)
        if (peak <= bound) least = std::min(least, of_peak);
      RecomputePlan plan = choose_recomputed(values, steps, bound);
      EXPECT_EQ(plan.fits, plan.peak <= bound);
      if (least > 1e29) {
        EXPECT_FALSE(plan.fits);
        continue;
      }
      ++bounds;
      met += plan.fits;
      if (plan.fits) cost += plan.cost, least_cost += least;
    }
    EXPECT_GE(least_bound(values, steps), best.begin()->first);
  }
  EXPECT_GE(met, bounds * 9 / 10) << "of " << bounds;
  EXPECT_LE(cost, 1.25 * least_cost);
}

// ---- whole graphs ----
std::string layers_model(int layers) {
  std::string
      text =
          R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 32]}], "parameters": [)",
      nodes;
  std::mt19937 random(3);
  for (int k = 0; k < layers; ++k) {
    std::string numbers;
    for (int i = 0; i < 1024; ++i)
      numbers += (i ? "," : "") + std::to_string(static_cast<double>(random() % 2001) / 4000 - 0.25);
    const std::string n = std::to_string(k), in = k ? "h" + std::to_string(k - 1) : "x";
    text += (k ? ",{\"name\": \"w" : "{\"name\": \"w") + n + R"(", "dtype": "float32", "shape": [32, 32], "data": [)" +
            numbers + "]}";
    nodes += (k ? ",{\"op\": \"MatMul\", \"inputs\": [\"" : "{\"op\": \"MatMul\", \"inputs\": [\"") + in + "\", \"w" + n +
             "\"], \"outputs\": [\"a" + n + R"("]}, {"op": "Tanh", "inputs": ["a)" + n + "\"], \"outputs\": [\"h" + n +
             "\"]}";
  }
  return text + R"(], "nodes": [)" + nodes + R"(], "outputs": ["h)" + std::to_string(layers - 1) + "\"]}";
}

TEST(Recompute, AStepUnderABudgetGivesTheSameNumbers) {
  const Model model = read_json_model(layers_model(8), "layers.json");
  const TrainingModel training = build_training_model(
      model, read_recipe(R"({"batch": 512, "loss": "mse", "optimizer": {"kind": "sgd", "momentum": 0.9}})", "recipe.json"),
      {});
  auto run = [&](int64_t budget, int64_t* bytes, int64_t* again) {
    CompileOptions options;
    options.cpu = cpu_target("native");
    options.memory_budget = budget;
    options.budget_margin = 0.08;  // as compile_library finds it by trying
    CompiledModel compiled = compile_graph(*lower_model(training.step, {}), options);
    *bytes = run_bytes(compiled.run);
    *again = compiled.recomputed_values;
    SessionOptions session;
    session.compile = options;
    session.threads = 1;
    Session step(training.step, session);
    std::map<std::string, Tensor> inputs;
    std::mt19937 random(9);
    for (size_t k = 0; k < training.step_inputs.size(); ++k) {
      const Value& input = training.step.graph.inputs[k];
      std::vector<int64_t> shape;
      for (const ModelDim& dim : *input.type.shape) shape.push_back(dim.value);
      if (*input.type.dtype == DType::f64)
        inputs[input.name] = make_tensor<double>(DType::f64, {}, std::vector<double>{0.01});
      else if (*input.type.dtype == DType::i64)
        inputs[input.name] = make_tensor<int64_t>(DType::i64, {}, std::vector<int64_t>{1});
      else {
        Tensor empty{DType::f32, shape, nullptr, {}};
        std::vector<float> values(static_cast<size_t>(empty.element_count()));
        for (float& v : values) v = static_cast<float>(random() % 2001) / 1000 - 1;
        inputs[input.name] = make_tensor<float>(DType::f32, shape, values);
      }
    }
    return step.run(inputs);
  };
  int64_t whole = 0, bounded = 0, none = 0, again = 0;
  const auto expected = run(0, &whole, &none);
  EXPECT_EQ(none, 0);
  const int64_t budget = whole * 8 / 10;
  const auto given = run(budget, &bounded, &again);
  EXPECT_LE(bounded, budget);
  EXPECT_GT(again, 0);
  for (size_t k = 0; k < expected.size(); ++k)
    for (int64_t i = 0; i < expected[k].second.element_count(); ++i)
      ASSERT_NEAR(number_at(given[k].second, i), number_at(expected[k].second, i), 1e-6)
          << expected[k].first << " element " << i;
}

TEST(OrderUpdates, AnUpdateStandsBehindItsGradient) {
  Model model = read_json_model(layers_model(6), "layers.json");
  // So wide that a gradient is as much as may be under way to other processes: an update waits for the next gradient, for no
  // more.
  constexpr int64_t width = 1536;
  (*model.graph.inputs[0].type.shape)[1].value = width;
  for (Initializer& i : model.graph.initializers)
    i.tensor = make_tensor<float>(DType::f32, {width, width}, std::vector<float>(width * width));
  const TrainingModel training =
      build_training_model(model, read_recipe(R"({"batch": 4, "loss": "mse", "optimizer": "sgd"})", "recipe.json"), {});
  std::unique_ptr<Graph> graph = lower_model(training.step, {});
  const std::vector<Op*> before = graph->ops;
  EXPECT_GT(order_updates(*graph), 0);
  verify(*graph);
  EXPECT_EQ(std::set<Op*>(before.begin(), before.end()), std::set<Op*>(graph->ops.begin(), graph->ops.end()));
  // The last layer's next parameter no longer comes at the end with all others.
  std::map<const Var*, size_t> place;
  for (size_t k = 0; k < graph->ops.size(); ++k)
    for (const Var* out : graph->ops[k]->outputs) place[out] = k;
  size_t last_of_w5 = 0;
  for (size_t k = 0; k < graph->outputs.size(); ++k)
    if (training.step_outputs[k].source == train::Source::state &&
        training.states[training.step_outputs[k].index].name == "w5")
      last_of_w5 = place.at(graph->outputs[k]);
  EXPECT_LT(last_of_w5, graph->ops.size() * 3 / 4);
}

// With every optimiser, with a budget and without: where a state may be overwritten, its last reader is the kernel that
// writes its next value. Clipped or accumulated gradients are read by several kernels, of which another one may be the last:
// not all states are overwritten then.
TEST(OrderUpdates, NextValuesMayOverwriteStates) {
  const Model model = read_json_model(layers_model(6), "layers.json");
  for (const char* optimiser : {R"({"kind": "sgd"})", R"({"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1})",
                                R"({"kind": "sgd", "momentum": 0.9, "nesterov": true})", R"({"kind": "adamw"})",
                                R"({"kind": "rmsprop", "momentum": 0.5, "centered": true})", R"({"kind": "lion"})"})
    for (const char* more : {"", R"(, "clip": {"norm": 1})", R"(, "accumulate": 2)"})
      for (const int64_t budget : {0, 480 << 10}) {
        const TrainingModel training = build_training_model(
            model,
            read_recipe(concat(R"({"batch": 256, "loss": "mse", "optimizer": )", optimiser, more, "}"), "recipe.json"), {});
        CompileOptions options;
        options.cpu = cpu_target("x86-64-v3");
        options.memory_budget = budget;
        for (size_t o = 0; o < training.step_outputs.size(); ++o)
          for (size_t i = 0; i < training.step_inputs.size(); ++i)
            if (training.step_outputs[o].source == train::Source::state &&
                training.step_inputs[i].source == train::Source::state &&
                training.step_inputs[i].index == training.step_outputs[o].index)
              options.next_values.push_back({o, i});
        const CompiledProgram program = compile_graph(*lower_model(training.step, {}), options).run;
        auto owner = [&](int buffer) {
          while (program.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
            buffer = program.buffers[static_cast<size_t>(buffer)].index;
          return buffer;
        };
        for (const auto& [o, i] : options.next_values) {
          if (*more != 0 && program.outputs[o].overwrites < 0) continue;
          EXPECT_EQ(program.outputs[o].overwrites, static_cast<int>(i))
              << optimiser << more << ": " << program.outputs[o].name;
          const int written = program.outputs[o].buffer, read = program.inputs[i].buffer;
          bool over = false;
          for (const rt::Step& s : program.steps) {
            bool writes = false, reads = false;
            for (int k = 0; k < s.count; ++k) {
              const int buffer = owner(program.operands[static_cast<size_t>(s.first + k)]);
              writes = writes || (buffer == written && (s.element >> k & 1) != 0);
              reads = reads || buffer == read;
            }
            EXPECT_FALSE(over && reads) << optimiser << more << ": " << program.inputs[i].name
                                        << " is read behind its update";
            over = over || writes;
          }
          EXPECT_TRUE(over);
        }
      }
}

}  // namespace
}  // namespace metac::recompute_test
