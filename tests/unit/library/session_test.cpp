// Sessions: which program answers which run, what is made behind, what is shared and what goes.
#include "compiler/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"

namespace metac::session_test {
namespace {

Value value(const std::string& name, DType dtype, std::vector<ModelDim> shape) {
  Value v{name, {}};
  v.type.dtype = dtype;
  v.type.shape = std::move(shape);
  return v;
}

ModelDim open(const std::string& symbol) { return {-1, symbol}; }
ModelDim fixed(int64_t extent) { return {extent, ""}; }

Node node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  Node n;
  n.op_type = op, n.inputs = std::move(inputs), n.outputs = std::move(outputs);
  return n;
}

Model model_of(std::vector<Value> inputs, std::vector<Node> nodes, const std::string& output) {
  Model model;
  model.path = "test.onnx";
  model.ir_version = 8;
  model.opset_imports[""] = 17;
  model.graph.inputs = std::move(inputs);
  model.graph.nodes = std::move(nodes);
  Value result{output, {}};
  result.type.dtype = DType::f32;
  model.graph.outputs = {result};
  return model;
}

constexpr int64_t width = 16;

Tensor weights(float scale) {
  std::vector<float> w(width * width, 0.0f);
  for (int64_t i = 0; i < width; ++i) w[static_cast<size_t>(i * width + (i + 1) % width)] = scale;
  return make_tensor<float>(DType::f32, {width, width}, w);
}

// y = relu(x w), where column j of x w is scale times column j - 1 of x.
Model product() {
  Model model = model_of({value("x", DType::f32, {open("n"), open("m"), fixed(width)})},
                         {node("MatMul", {"x", "w"}, {"p"}), node("Relu", {"p"}, {"y"})}, "y");
  model.graph.initializers = {{"w", weights(2)}};
  return model;
}

Tensor ramp(int64_t n, int64_t m) {
  std::vector<float> x(static_cast<size_t>(n * m * width));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 40;
  return make_tensor<float>(DType::f32, {n, m, width}, x);
}

void expect_product(const Tensor& x, const Tensor& y, float scale = 2) {
  ASSERT_EQ(y.shape, x.shape);
  for (int64_t i = 0; i < y.element_count(); ++i) {
    const int64_t from = i / width * width + (i % width + width - 1) % width;
    ASSERT_EQ(y.data<float>()[i], std::max(0.0f, scale * x.data<float>()[from])) << i;
  }
}

SessionOptions options(Specialise specialise) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  options.specialise = specialise;
  options.threads = 2;
  return options;
}

Tensor run_product(Session& session, int64_t n, int64_t m, float scale = 2) {
  const Tensor x = ramp(n, m);
  Tensor y = session.run({{"x", x}})[0].second;
  expect_product(x, y, scale);
  return y;
}

TEST(Session, OpenDimsAnswerAtOnceAndAShapeThatComesAgainGetsAProgramOfItsOwn) {
  Session session(product(), options(Specialise::background));
  run_product(session, 3, 5);
  EXPECT_EQ(session.report().open_runs, 1);
  session.wait();
  EXPECT_EQ(session.report().compiled, 0);  // it came once
  run_product(session, 3, 5);
  session.wait();
  EXPECT_EQ(session.report().compiled, 1);
  run_product(session, 3, 5);
  run_product(session, 4, 5);
  const SessionReport report = session.report();
  EXPECT_EQ(report.runs, 4);
  EXPECT_EQ(report.open_runs, 3);
  EXPECT_EQ(report.specialisations, 1);
  EXPECT_EQ(report.open_problem, "");
}

TEST(Session, NeverAndEager) {
  Session never(product(), options(Specialise::never)), eager(product(), options(Specialise::eager));
  for (int round = 0; round < 3; ++round)
    for (Session* session : {&never, &eager}) run_product(*session, 2, 7);
  never.wait();
  EXPECT_EQ(never.report().open_runs, 3);
  EXPECT_EQ(never.report().compiled, 0);
  EXPECT_EQ(eager.report().open_runs, 0);
  EXPECT_EQ(eager.report().compiled, 1);
}

TEST(Session, ADimThatKeepsChangingStaysOpen) {
  SessionOptions o = options(Specialise::background);
  o.max_specialisations = 4;  // a dim of more than 2 values keeps changing
  Session session(product(), o);
  for (int64_t n = 1; n <= 12; ++n) {
    run_product(session, n, 6);
    session.wait();
  }
  const SessionReport report = session.report();
  EXPECT_EQ(report.changing_dims, "n");
  EXPECT_EQ(report.compiled, 1);  // n open, m = 6
  EXPECT_LT(report.open_runs, 8);
  const int64_t by_open = report.open_runs;
  run_product(session, 100, 6);
  EXPECT_EQ(session.report().open_runs, by_open);
  run_product(session, 100, 7);
  EXPECT_EQ(session.report().open_runs, by_open + 1);
}

TEST(Session, TheLeastRecentlyUsedGo) {
  SessionOptions o = options(Specialise::eager);
  o.max_specialisations = 2;
  Session session(product(), o);
  for (int64_t n : {1, 2, 1, 3, 1}) run_product(session, n, 4);
  SessionReport report = session.report();
  EXPECT_EQ(report.compiled, 3);
  EXPECT_EQ(report.dropped, 1);
  EXPECT_EQ(report.specialisations, 2);
  EXPECT_EQ(report.contexts, 2);
  run_product(session, 2, 4);
  EXPECT_EQ(session.report().compiled, 4);
}

TEST(Session, ContextsGoWithTheirPrograms) {
  SessionOptions o = options(Specialise::eager);
  o.max_specialisations = 1, o.max_contexts = 2;
  Session session(product(), o);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 40; ++k) run_product(session, 1 + (t + k) % 4, 3);
    });
  for (std::thread& thread : threads) thread.join();
  const SessionReport report = session.report();
  EXPECT_GT(report.dropped, 0);
  EXPECT_EQ(report.specialisations, 1);
  EXPECT_LE(report.contexts, 2);  // also where a run began before its program went, and took a context after
}

TEST(Session, MemoryIsBounded) {
  SessionOptions o = options(Specialise::eager);
  o.max_memory = 1;  // none may stay but the last
  Session session(product(), o);
  for (int64_t n : {1, 2, 3, 4}) run_product(session, n, 4);
  EXPECT_EQ(session.report().specialisations, 1);
  EXPECT_EQ(session.report().dropped, 3);
}

TEST(Session, WeightsThatAreAlikeAreThereOnce) {
  Session one(product(), options(Specialise::eager)), several(product(), options(Specialise::eager));
  run_product(one, 64, 4);
  for (int64_t n : {64, 72, 80, 96}) run_product(several, n, 4);
  EXPECT_GT(one.report().weight_bytes, 0);
  EXPECT_EQ(several.report().weight_bytes, one.report().weight_bytes);
}

TEST(Session, NewWeightsWithoutCompiling) {
  Session session(product(), options(Specialise::background));
  for (int round = 0; round < 2; ++round) run_product(session, 3, 5);
  session.wait();
  run_product(session, 3, 5);
  const int64_t compiled = session.report().compiled, open_runs = session.report().open_runs;
  session.set_weights({{"w", weights(3)}});
  run_product(session, 3, 5, 3);  // its own program
  run_product(session, 9, 2, 3);  // the open one
  EXPECT_EQ(session.report().compiled, compiled);
  EXPECT_EQ(session.report().open_runs, open_runs + 1);
  // Programs that are made afterwards have them too.
  run_product(session, 9, 2, 3);
  session.wait();
  run_product(session, 9, 2, 3);
  EXPECT_EQ(session.report().compiled, compiled + 1);
}

// y = f(x, s), where the compiler looks at the elements of s, or may not.
Model with_operand(const std::string& op, const Tensor& s, std::vector<std::string> inputs, int64_t rank) {
  Model model = model_of({value("x", DType::f32, std::vector<ModelDim>(static_cast<size_t>(rank), fixed(4)))},
                         {node(op, std::move(inputs), {"y"})}, "y");
  model.graph.outputs[0].type.shape.reset();
  model.graph.initializers = {{"s", s}, {"pads", make_tensor<int64_t>(DType::i64, {4}, {1, 1, 1, 1})}};
  return model;
}

Tensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape, b.shape);
  for (int64_t i = 0; i < a.element_count(); ++i) EXPECT_EQ(a.data<float>()[i], b.data<float>()[i]) << i;
}

TEST(Session, NewWeightsThatAreMoreThanWeightsAreCompiledAnew) {
  struct Case {
    Model model;
    Tensor other;
  };
  Model folded = with_operand("Mul", floats({}, {2}), {"x", "both"}, 2);
  folded.graph.initializers.push_back({"t", floats({}, {3})});
  folded.graph.nodes.insert(folded.graph.nodes.begin(), node("Add", {"s", "t"}, {"both"}));
  Model reshaped = with_operand("Reshape", floats({2}, {2, 8}), {"x", "shape"}, 2);
  Node cast = node("Cast", {"s"}, {"shape"});
  cast.attributes["to"].integer = 7;
  reshaped.graph.nodes.insert(reshaped.graph.nodes.begin(), cast);
  const Case cases[] = {
      {with_operand("Resize", floats({2}, {1, 2}), {"x", "", "s"}, 2), floats({2}, {3, 1})},
      {with_operand("Pad", floats({}, {7}), {"x", "pads", "s"}, 2), floats({}, {9})},
      {with_operand("Pow", floats({}, {2}), {"x", "s"}, 2), floats({}, {3})},
      {with_operand("Clip", floats({}, {2}), {"x", "s"}, 2), floats({}, {3})},
      {with_operand("Add", floats({4}, {1, 2, 3, 4}), {"x", "s"}, 2), floats({4}, {5, 6, 7, 8})},
      {folded, floats({}, {5})},
      {reshaped, floats({2}, {16, 1})},
  };
  std::vector<float> elements(16);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i) / 2;
  const NamedTensors x = {{"x", floats({4, 4}, elements)}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.model.graph.nodes.back().op_type);
    Model changed = c.model;
    changed.graph.initializers[0].tensor = c.other;
    for (const Specialise policy : {Specialise::eager, Specialise::never}) {
      Session session(c.model, options(policy)), expected(changed, options(policy));
      session.run(x);
      session.set_weights({{"s", c.other}});
      expect_equal(session.run(x)[0].second, expected.run(x)[0].second);
    }
  }
}

// x[:, index]: where n is shorter the run refuses, and a branch that is not taken says nothing.
TEST(Session, IndicesAreCheckedAgainstOpenExtents) {
  const Tensor three = make_tensor<int64_t>(DType::i64, {}, {3});
  Node take = node("Gather", {"x", "i"}, {"y"});
  take.attributes["axis"].integer = 1;
  Model model = model_of({value("x", DType::f32, {fixed(2), open("n")})}, {take}, "y");
  model.graph.initializers = {{"i", three}};
  Model guarded = model_of({value("x", DType::f32, {fixed(2), open("n")}), value("c", DType::boolean, {})}, {}, "y");
  const auto branch = [](Node last, const std::string& result) {
    auto graph = std::make_shared<ModelGraph>();
    last.outputs = {result};
    graph->nodes = {last};
    graph->outputs = {Value{result, {}}};
    return graph;
  };
  Node choice = node("If", {"c"}, {"y"});
  choice.attributes["then_branch"].kind = choice.attributes["else_branch"].kind = Attribute::Kind::graph;
  choice.attributes["then_branch"].graphs = {branch(take, "t")};
  Node all = node("ReduceMax", {"x"}, {});
  all.attributes["axes"].kind = Attribute::Kind::integers;
  all.attributes["axes"].integers = {1};
  all.attributes["keepdims"].integer = 0;
  choice.attributes["else_branch"].graphs = {branch(all, "e")};
  guarded.graph.initializers = {{"i", three}};
  guarded.graph.nodes = {choice};
  for (const Specialise policy : {Specialise::never, Specialise::eager}) {
    Session session(model, options(policy)), branches(guarded, options(policy));
    const auto x = [](int64_t n) { return filled_tensor(DType::f32, {2, n}, 7); };
    EXPECT_EQ(session.run({{"x", x(4)}})[0].second.data<float>()[1], 7);
    EXPECT_THROW(session.run({{"x", x(3)}}), CompileError);
    EXPECT_THROW(session.run({{"x", x(0)}}), CompileError);
    EXPECT_EQ(session.run({{"x", x(9)}})[0].second.data<float>()[1], 7);
    const auto flag = [](bool yes) { return filled_tensor(DType::boolean, {}, yes); };
    EXPECT_EQ(branches.run({{"x", x(4)}, {"c", flag(true)}})[0].second.data<float>()[1], 7);
    EXPECT_EQ(branches.run({{"x", x(3)}, {"c", flag(false)}})[0].second.data<float>()[1], 7);
  }
}

// Indices that only the run knows say nothing of extents: no element may be taken out of none.
TEST(Session, NoIndicesIntoNothing) {
  Node take = node("Gather", {"x", "i"}, {"y"});
  take.attributes["axis"].integer = 1;
  const Model model =
      model_of({value("x", DType::f32, {fixed(2), open("n")}), value("i", DType::i64, {open("k")})}, {take}, "y");
  Session session(model, options(Specialise::never));
  const Tensor nothing = filled_tensor(DType::f32, {2, 0}, 7), nowhere = make_tensor<int64_t>(DType::i64, {0}, {});
  const Tensor none = session.run({{"x", nothing}, {"i", nowhere}})[0].second;
  EXPECT_EQ(none.shape, (std::vector<int64_t>{2, 0}));
}

// Biases are small floats too, and nothing looks at them.
TEST(Session, NewBiasesWithoutCompiling) {
  Model model = with_operand("Conv", floats({2}, {1, -1}), {"x", "w", "s"}, 4);
  model.graph.initializers.push_back({"w", filled_tensor(DType::f32, {2, 4, 2, 2}, 0.5)});
  Session session(model, options(Specialise::eager));
  const NamedTensors x = {{"x", filled_tensor(DType::f32, {4, 4, 4, 4}, 1)}};
  EXPECT_EQ(session.run(x)[0].second.data<float>()[0], 9);
  session.set_weights({{"s", floats({2}, {2, 3})}});
  EXPECT_EQ(session.run(x)[0].second.data<float>()[0], 10);
  EXPECT_EQ(session.report().compiled, 1);
}

// Programs are found on disk: of the same model, also with other large weights, but not with other small constants.
TEST(Session, ProgramsAreLeftForOtherSessions) {
  const auto lowered_for = [](const Model& model, int64_t n, float scale) {
    Session session(model, options(Specialise::eager));
    run_product(session, n, 5, scale);
    return session.times().lower > 0;
  };
  Model model = product();
  model.producer = concat("test ", std::random_device()());  // of which no earlier run has left anything
  EXPECT_TRUE(lowered_for(model, 3, 2));
  EXPECT_FALSE(lowered_for(model, 3, 2));
  EXPECT_TRUE(lowered_for(model, 4, 2));  // another shape
  model.graph.initializers[0].tensor = weights(3);
  EXPECT_TRUE(lowered_for(model, 3, 3));  // 1 KiB of floats might be more than weights

  // y = x w, with weights of 16 KiB: they are taken as they come.
  Model large = model_of({value("x", DType::f32, {fixed(2), fixed(64)})}, {node("MatMul", {"x", "w"}, {"y"})}, "y");
  large.producer = model.producer;
  for (const float scale : {1.0f, 2.0f}) {
    large.graph.initializers = {{"w", filled_tensor(DType::f32, {64, 64}, scale)}};
    Session session(large, options(Specialise::eager));
    const Tensor y = session.run({{"x", filled_tensor(DType::f32, {2, 64}, 1)}})[0].second;
    EXPECT_EQ(y.data<float>()[0], 64 * scale);
    EXPECT_EQ(session.times().lower > 0, scale == 1);
    session.set_weights({{"w", filled_tensor(DType::f32, {64, 64}, 3)}});
    EXPECT_EQ(session.run({{"x", filled_tensor(DType::f32, {2, 64}, 1)}})[0].second.data<float>()[5], 192);
  }
}

TEST(Session, WeightsThatDoNotFitChangeNothing) {
  Session session(product(), options(Specialise::never));
  run_product(session, 3, 5);
  EXPECT_THROW(session.set_weights({{"v", weights(3)}}), CompileError);
  EXPECT_THROW(session.set_weights({{"w", make_tensor<float>(DType::f32, {2}, {1, 2})}}), CompileError);
  EXPECT_THROW(session.set_weights({{"w", weights(3)}, {"v", weights(3)}}), CompileError);
  run_product(session, 3, 5);
}

TEST(Session, TryRunAnswersWithWhatIsReadyAndNeverMakesItself) {
  Session session(product(), options(Specialise::background));
  const Tensor x = ramp(3, 5);
  EXPECT_FALSE(session.try_run({{"x", x}}));
  session.wait();
  EXPECT_EQ(session.report().compiled, 0);  // it came once
  EXPECT_FALSE(session.try_run({{"x", x}}));
  session.wait();
  EXPECT_EQ(session.report().compiled, 1);
  const auto outputs = session.try_run({{"x", x}});
  ASSERT_TRUE(outputs);
  expect_product(x, (*outputs)[0].second);
  EXPECT_FALSE(session.try_run({{"x", ramp(4, 5)}}));
  const SessionReport report = session.report();
  EXPECT_EQ(report.runs, 1);
  EXPECT_EQ(report.open_runs, 0);  // no open program was made
  EXPECT_EQ(report.waiting, 0);
  EXPECT_THROW(session.try_run({{"z", x}}), CompileError);
}

TEST(Session, TryRunMakesNothingWherePolicySaysNever) {
  Session session(product(), options(Specialise::never));
  for (int round = 0; round < 4; ++round) EXPECT_FALSE(session.try_run({{"x", ramp(3, 5)}}));
  session.wait();
  EXPECT_EQ(session.report().compiled, 0);
}

TEST(Session, TryRunDoesNotWaitForAContext) {
  SessionOptions o = options(Specialise::background);
  o.max_contexts = 1, o.threads = 1;
  Session session(product(), o);
  const Tensor x = ramp(64, 64);
  for (int round = 0; round < 2; ++round) EXPECT_FALSE(session.try_run({{"x", x}}));
  session.wait();
  ASSERT_TRUE(session.try_run({{"x", x}}));
  std::atomic<int> ready{0}, refused{0};
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200000 && !enough; ++i) {
        (session.try_run({{"x", x}}) ? ready : refused)++;
        if (ready > 100 && refused > 0) enough = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(ready, 100);
  EXPECT_GT(refused, 0);  // one context, several at once
  EXPECT_EQ(session.report().contexts, 1);
}

TEST(Session, WeightsThatTheCallerPreparedAreReadThere) {
  SessionOptions o = options(Specialise::eager);
  LowerOptions lower;
  lower.input_shapes["x"] = {64, 4, width};
  const CompiledModel library = compile_graph(*lower_model(product(), lower), o.compile);
  const WeightsBlock block = run_prepare(library, o.compile.cpu);
  for (const WeightSource& source : library.weights)
    o.prepared.emplace_back(reinterpret_cast<const char*>(block.get()) + source.offset, static_cast<size_t>(source.bytes));
  Session own(product(), options(Specialise::eager)), borrowing(product(), o);
  run_product(own, 64, 4);
  run_product(borrowing, 64, 4);
  EXPECT_GT(own.report().weight_bytes, 0);
  EXPECT_EQ(borrowing.report().weight_bytes, 0);
  borrowing.set_weights({{"w", weights(3)}});
  run_product(borrowing, 64, 4, 3);
  EXPECT_EQ(borrowing.report().weight_bytes, own.report().weight_bytes);
}

TEST(Session, NoElementsAtAll) {
  Session session(product(), options(Specialise::never));
  EXPECT_EQ(run_product(session, 0, 5).element_count(), 0);
  run_product(session, 4, 5);  // what may be 0 may be more
  EXPECT_EQ(run_product(session, 3, 0).element_count(), 0);
  run_product(session, 4, 5);
}

// The axes decide the rank and must be known; the numbers beside them need not, and none of them means a compilation.
TEST(Session, OnlyTheValuesThatAreNeededAreReliedOn) {
  Model model = model_of({value("x", DType::f32, {open("n"), fixed(4), fixed(3)}), value("axes", DType::i64, {fixed(1)}),
                          value("ids", DType::i64, {open("k")})},
                         {node("Squeeze", {"s", "axes"}, {"q"}), node("Gather", {"q", "ids"}, {"y"})}, "y");
  Node sum = node("ReduceSum", {"x", "axes"}, {"s"});
  model.graph.nodes.insert(model.graph.nodes.begin(), sum);
  model.graph.outputs[0].type.shape.reset();
  Session session(model, options(Specialise::never));
  const Tensor axes = make_tensor<int64_t>(DType::i64, {1}, {2});
  std::vector<float> x(5 * 4 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (int64_t id = 0; id < 5; ++id) {
    const Tensor y = session
                         .run({{"x", make_tensor<float>(DType::f32, {5, 4, 3}, x)},
                               {"axes", axes},
                               {"ids", make_tensor<int64_t>(DType::i64, {1}, {id})}})[0]
                         .second;
    ASSERT_EQ(y.shape, (std::vector<int64_t>{1, 4}));
    for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(y.data<float>()[k], 9.0f * static_cast<float>(id * 4 + k) + 3);
  }
  EXPECT_EQ(session.report().open_problem, "");
  EXPECT_EQ(session.report().open_runs, 5);
}

TEST(Session, InputsAreChecked) {
  Session session(product(), options(Specialise::background));
  const auto message = [&](const NamedTensors& inputs) {
    try {
      session.run(inputs);
    } catch (const CompileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({}).find("input \"x\""), std::string::npos);
  EXPECT_NE(message({{"x", ramp(1, 1)}, {"z", ramp(1, 1)}}).find("there is no input \"z\""), std::string::npos);
  EXPECT_NE(message({{"x", weights(1)}}).find("16x16"), std::string::npos);
}

TEST(Session, ThreadsShareIt) {
  SessionOptions o = options(Specialise::background);
  o.max_contexts = 2, o.max_specialisations = 6;
  Session session(product(), o);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const int64_t n = 1 + (t * 7 + i * 3) % 5, m = 1 + i % 2;
        const Tensor x = ramp(n, m), y = session.run({{"x", x}})[0].second;
        for (int64_t k = 0; k < y.element_count(); ++k) {
          const int64_t from = k / width * width + (k % width + width - 1) % width;
          const float sum = x.data<float>()[from];
          if (y.data<float>()[k] != std::max(0.0f, 2 * sum) && y.data<float>()[k] != std::max(0.0f, 3 * sum)) ++wrong;
        }
        if (t == 0 && i == 20) session.set_weights({{"w", weights(3)}});
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const SessionReport report = session.report();
  EXPECT_EQ(report.runs, 320);
  EXPECT_LE(report.specialisations, 6);
}

}  // namespace
}  // namespace metac::session_test
