// Every module with weights and inputs that Python wrote: its outputs, gradients and states, for Python to compare.
//
//   modules FOLDER    (NAME.weights, NAME.inputs -> NAME.outputs, NAME.saved; fresh.outputs: weights that were drawn)
#include "weights_by_name.hpp"

namespace nn = metac::nn;
using metac::NamedVars;
using metac::Var;

namespace {

struct Net : nn::Module {
  nn::Conv first = add("first", nn::Conv(1, 4, 3, {.padding = 1}));
  nn::BatchNorm norm = add("norm", nn::BatchNorm(4));
  std::vector<nn::Sequential> blocks = add("blocks", std::vector{nn::Sequential(nn::Linear(8, 8), metac::relu),
                                                                 nn::Sequential(nn::Linear(8, 8, {.bias = false}))});
  Var scale = parameter("scale", nn::filled({1}, 1));
  Var same = parameter("same", scale);  // is there once

  Var operator()(const Var& x) const {
    Var y = metac::relu(norm(first(x)));
    for (const nn::Sequential& block : blocks) y = block(y);
    return y * scale;
  }
};

class Reporter {
 public:
  explicit Reporter(std::string folder) : folder_(folder + "/") {}

  // `call`: of the module and its inputs to a vector of outputs.
  template <class Module, class Call>
  void report(const std::string& name, Module module, Call&& call) const {
    const NamedVars inputs = nn::load_weights(folder_ + name + ".inputs");
    module.load(folder_ + name + ".weights");
    const Module copy = module;  // the same module
    NamedVars made;
    const std::vector<Var> outputs = call(module, inputs);
    Var total = metac::sum(outputs[0] * outputs[0] * outputs[0]);
    for (size_t k = 1; k < outputs.size(); ++k) total = total + metac::sum(outputs[k] * outputs[k] * outputs[k]);
    NamedVars by = module.parameters();
    if (const Var x = named(inputs, "x"); x.dtype() == METAC_FLOAT32) by.emplace_back("x", x);
    std::vector<Var> xs;
    for (const auto& [path, var] : by) xs.push_back(var);
    const std::vector<Var> slopes = metac::grad(total, xs);
    for (size_t k = 0; k < by.size(); ++k) made.emplace_back("slope of " + by[k].first, slopes[k]);
    for (size_t k = 0; k < outputs.size(); ++k) made.emplace_back("output " + std::to_string(k), outputs[k]);
    module.eval();
    const std::vector<Var> later = call(copy, inputs);
    for (size_t k = 0; k < later.size(); ++k) made.emplace_back("later " + std::to_string(k), later[k]);
    nn::save_weights(folder_ + name + ".outputs", made);
    copy.save(folder_ + name + ".saved");
  }
  template <class Module>
  void report(const std::string& name, Module module) const {
    report(name, module, [](const Module& own, const NamedVars& in) { return std::vector<Var>{own(named(in, "x"))}; });
  }

 private:
  std::string folder_;
};

void fresh(const std::string& folder) {
  nn::seed(7);
  const nn::Linear first(100, 1000);
  const nn::Conv conv(8, 64, {3, 5}, {.groups = 2});
  const nn::ConvTranspose transposed(64, 8, 3, {.groups = 2});
  const nn::Embedding table(1000, 50);
  const nn::LSTM lstm(40, 64);
  nn::seed(7);
  const nn::Linear again(100, 1000), other(100, 1000);
  expect(first.weight.to_vector<float>() == again.weight.to_vector<float>(), "the same seed, other weights");
  expect(first.weight.to_vector<float>() != other.weight.to_vector<float>(), "two modules have the same weights");
  nn::save_weights(folder + "/fresh.outputs", {{"linear", first.weight},
                                               {"linear bias", first.bias},
                                               {"conv", conv.weight},
                                               {"transposed", transposed.weight},
                                               {"embedding", table.weight},
                                               {"lstm", lstm.R}});
}

void dropout() {
  const Var x = metac::array(std::vector<float>(10000, 1));
  nn::Dropout drop(0.25), copy = drop;
  const std::vector<float> first = drop(x).to_vector<float>(), second = copy(x).to_vector<float>();
  double kept = 0, total = 0;
  for (const float value : first) kept += value > 0, total += value;
  expect(std::abs(kept / 1e4 - 0.75) < 0.02 && std::abs(total / 1e4 - 1) < 0.03, "the share that is kept");
  expect(first != second, "a copy draws what was drawn");
  drop.eval();
  expect(copy(x).to_vector<float>() == x.to_vector<float>(), "Dropout outside of training");
  const Var y = nn::Dropout(0.5)(x);
  const std::vector<float> values = y.to_vector<float>(), slopes = metac::grad(metac::sum(y), x).to_vector<float>();
  expect(values == slopes, "the gradient has another mask");  // both are 0 or 2
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const Reporter reporter(arguments[1]);
  reporter.report("linear", nn::Linear(5, 3));
  reporter.report("linear without bias", nn::Linear(5, 3, {.bias = false}));
  reporter.report("conv", nn::Conv(4, 6, 3, {.stride = 2, .padding = {1, 2}}));
  reporter.report("conv of one axis", nn::Conv(4, 6, {3}, {.groups = 2}));
  reporter.report("conv of three axes", nn::Conv(2, 3, {2, 3, 3}, {.dilation = {1, 2, 1}, .bias = false}));
  reporter.report("transposed", nn::ConvTranspose(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  reporter.report("layer norm", nn::LayerNorm({6, 5}, {.epsilon = 1e-3}));
  reporter.report("layer norm of one axis", nn::LayerNorm(5));
  reporter.report("group norm", nn::GroupNorm(2, 4));
  reporter.report("instance norm", nn::InstanceNorm(4));
  reporter.report("batch norm", nn::BatchNorm(4, {.momentum = 0.3}));
  reporter.report("embedding", nn::Embedding(7, 3));
  reporter.report("sequential",
                  nn::Sequential(nn::Linear(5, 4), metac::tanh, nn::Sequential(nn::Linear(4, 2), metac::relu)));
  reporter.report("net", Net());
  reporter.report("attention", nn::MultiHeadAttention(8, 2, {.causal = true}));
  reporter.report("attention to memory", nn::MultiHeadAttention(8, 4), [](const auto& own, const NamedVars& in) {
    return std::vector<Var>{own(named(in, "x"), named(in, "memory"))};
  });
  reporter.report("lstm", nn::LSTM(3, 4), [](const auto& own, const NamedVars& in) {
    const auto [y, state] = own(named(in, "x"));
    const auto [z, last] = own(named(in, "x"), state);
    return std::vector<Var>{y, z, last.h, last.c};
  });
  reporter.report("gru", nn::GRU(3, 4, {.bidirectional = true}), [](const auto& own, const NamedVars& in) {
    const auto [y, h] = own(named(in, "x"));
    return std::vector<Var>{y, own(named(in, "x"), h).y};
  });
  fresh(arguments[1]);
  dropout();
  return 0;
}
