// Decisions about speed: every candidate that is offered gives the same answer, and what is taken is what is compiled.
#include "compiler/api/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/api/schedule_file.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/choices.h"

namespace metac::tune_test {
namespace {

Tensor ramp(std::vector<int64_t> shape, int step) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < n; ++k) values.push_back(static_cast<float>(k * step % 23 - 11) / 16);
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

// A 3x3 convolution that minimal filtering may do, a depthwise one and a 1x1 one.
Model network() {
  Model m;
  m.path = "network";
  m.opset_imports[""] = 17;
  auto value = [](const char* name, std::vector<int64_t> dims) {
    Value v{name, {}};
    v.type.dtype = DType::f32;
    v.type.shape.emplace();
    for (int64_t d : dims) v.type.shape->push_back({d, ""});
    return v;
  };
  m.graph.inputs = {value("x", {1, 32, 14, 14})};
  m.graph.outputs = {value("y", {1, 48, 14, 14})};
  m.graph.initializers = {{"k1", ramp({64, 32, 3, 3}, 3)}, {"k2", ramp({64, 1, 3, 3}, 5)}, {"k3", ramp({48, 64, 1, 1}, 7)}};
  auto conv = [](const char* in, const char* weights, const char* out, int64_t pad, int64_t group) {
    Node node;
    node.op_type = "Conv";
    node.inputs = {in, weights};
    node.outputs = {out};
    node.attributes["pads"].kind = Attribute::Kind::integers;
    node.attributes["pads"].integers = {pad, pad, pad, pad};
    node.attributes["group"].integer = group;
    return node;
  };
  m.graph.nodes = {conv("x", "k1", "a", 1, 1), conv("a", "k2", "b", 1, 64), conv("b", "k3", "y", 0, 1)};
  return m;
}

struct Compiled {
  std::vector<Tensor> outputs;
  std::string kernels;
  std::vector<std::pair<std::string, Schedule>> decided;  // subject and schedule of every contraction
};

Compiled compile_with(Choices& choices) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.choices = &choices;
  std::unique_ptr<Graph> graph = lower_model(network(), {});
  CompiledModel model = compile_graph(*graph, options);
  WeightsBlock weights = run_prepare(model, options.cpu);
  Compiled compiled;
  for (const KernelSource& kernel : model.run.kernels) {
    compiled.kernels += kernel.text;
    if (!kernel.decisions.empty()) compiled.decided.emplace_back(kernel.subject, kernel.decisions);
  }
  compiled.outputs =
      JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, 2).run({ramp({1, 32, 14, 14}, 11)});
  return compiled;
}

TEST(Tune, EveryCandidateAnswersTheSame) {
  Choices none;
  const Compiled expected = compile_with(none);
  std::set<std::string> kinds, kernels = {expected.kernels};
  for (const Choices::Offer& offer : none.offers()) {
    kinds.insert(offer.kind);
    for (const Transform& candidate : offer.candidates) {
      Choices choices;
      choices.take(offer.subject, candidate);
      const Compiled found = compile_with(choices);
      EXPECT_TRUE(choices.refused().empty()) << to_string(candidate);
      kernels.insert(found.kernels);
      ASSERT_EQ(found.outputs[0].shape, expected.outputs[0].shape);
      for (int64_t k = 0; k < static_cast<int64_t>(expected.outputs[0].element_count()); ++k)
        ASSERT_NEAR(number_at(found.outputs[0], k), number_at(expected.outputs[0], k), 2e-2)
            << to_string(candidate) << " of " << offer.subject;
    }
  }
  EXPECT_THAT(kinds, testing::IsSupersetOf({"algorithm", "tile", "block"}));
  EXPECT_GT(kernels.size(), 6u) << "candidates make no difference";
}

TEST(Tune, WritesWhatItReads) {
  TuneOptions options;
  options.session.compile.cpu = cpu_target("native");
  options.seconds = 0.02;
  const Tuning tuning = tune(network(), options);
  EXPECT_GT(tuning.offered, 6u);
  EXPECT_GT(tuning.rounds, 4u);
  EXPECT_LE(tuning.tuned_ms, tuning.model_ms);
  std::string cpu;
  Choices choices = read_schedules(tuning.text, &cpu);
  EXPECT_EQ(nlohmann::json::parse(tuning.text)["cpu"], cpu);
  size_t taken = 0;
  for (const auto& [subject, made] : choices.taken()) taken += made.size();
  EXPECT_EQ(taken, tuning.taken);
  compile_with(choices);
  EXPECT_TRUE(choices.refused().empty());
}

TEST(Tune, TimesTheModelWhereNothingIsTaken) {
  Model m = network();
  m.graph.nodes.resize(1);
  m.graph.nodes[0] = Node();
  m.graph.nodes[0].op_type = "Relu";
  m.graph.nodes[0].inputs = {"x"};
  m.graph.nodes[0].outputs = {"y"};
  m.graph.outputs[0].type = m.graph.inputs[0].type;
  TuneOptions options;
  options.session.compile.cpu = cpu_target("native");
  options.seconds = 0.01;
  const Tuning tuning = tune(m, options);
  EXPECT_EQ(tuning.taken, 0u);
  EXPECT_GT(tuning.model_ms, 0);
  EXPECT_EQ(tuning.tuned_ms, tuning.model_ms);
}

TEST(Tune, SaysWhatIsNotThere) {
  Choices choices;
  choices.take("no such sum", {"tile", "6x4"});
  compile_with(choices);
  EXPECT_THAT(choices.refused(), testing::ElementsAre(testing::StartsWith("tile 6x4 for no such sum: there is nothing")));
  std::string cpu;
  for (const char* bad :
       {"", "{", "[]", "{\"cpu\": 3}", "{\"cpu\": \"x\", \"choices\": [{\"subject\": \"s\", \"schedule\": 3}]}",
        "{\"cpu\": \"x\", \"choices\": [{\"subject\": \"s\", \"schedule\": \"tile 3x3; block\"}]}",
        "{\"cpu\": \"x\", \"choices\": [{\"subject\": \"s\", \"schedule\": \"tile 3x3, tile 2x2\"}]}"})
    EXPECT_THROW(read_schedules(bad, &cpu), CompileError) << bad;
}

// What was decided is data: printed, read, compiled again it gives the same kernels, and what it does not name is decided
// as before.
TEST(Schedules, AreReplayed) {
  Choices none;
  const Compiled model = compile_with(none);
  std::map<std::string, Schedule> decided;
  for (const auto& [subject, schedule] : model.decided) decided[subject] = read_schedule(to_string(schedule));
  ASSERT_EQ(decided.size(), 3u);
  EXPECT_EQ(decided, (std::map<std::string, Schedule>(model.decided.begin(), model.decided.end())));
  Choices all, some;
  for (const auto& [subject, schedule] : decided) {
    for (const Transform& t : schedule) all.take(subject, t);
    some.take(subject, schedule.back());
  }
  for (Choices* choices : {&all, &some}) {
    EXPECT_EQ(compile_with(*choices).kernels, model.kernels);
    EXPECT_THAT(choices->refused(), testing::IsEmpty());
  }
}

// People write schedules that no tuning would try: each is done as written, answers the same, or is refused with a reason.
TEST(Schedules, AreDoneOrRefused) {
  Choices none;
  const Compiled model = compile_with(none);
  size_t done = 0, refused = 0;
  for (const auto& [subject, own] : model.decided)
    for (const char* text : {"direct, tile 1x1", "direct, tile 3x2, block 0.01", "direct, tile 5x3, block 16", "tile 9x1",
                             "filter 2, tile 3x1, rows 1", "filter 4, rows 2", "filter 6, tile 2x4", "filter 4, tile 28x4",
                             "tile 0x2", "tile 3", "block 0", "block x", "rows 0", "filter 5", "rows 1", "unknown 3"}) {
      Choices choices;
      Compiled found;
      const Schedule asked = read_schedule(text);
      for (const Transform& t : asked) choices.take(subject, t);
      try {
        found = compile_with(choices);
      } catch (const CompileError& error) {  // what is no tile at all
        EXPECT_THAT(error.what(), testing::HasSubstr("POINTSxVECTORS"));
        continue;
      }
      const std::map<std::string, Schedule> decided(found.decided.begin(), found.decided.end());
      for (const Transform& t : asked) {
        const Schedule& made = decided.at(subject);
        const bool is_done = std::find(made.begin(), made.end(), t) != made.end();
        // A tile that a refused filter was to have may be what is chosen without that filter.
        const bool by_itself = std::find(own.begin(), own.end(), t) != own.end();
        EXPECT_TRUE(is_done != choices.is_refused(subject, t) || (is_done && by_itself))
            << to_string(t) << " of " << text << " for " << subject;
        ++(is_done ? done : refused);
      }
      for (int64_t k = 0; k < static_cast<int64_t>(model.outputs[0].element_count()); ++k)
        ASSERT_NEAR(number_at(found.outputs[0], k), number_at(model.outputs[0], k), 2e-2) << text << " for " << subject;
    }
  EXPECT_GT(done, 15u);
  EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace metac::tune_test
