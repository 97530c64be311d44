// Training loops in C++: WGAN-GP from weights and batches that Python wrote, and LeNet on images of digits.
//
//   training FOLDER    (critic, maker, batches -> penalties, critic.trained, maker.trained; digits: prints the accuracy)
#include <cmath>
#include <metac/train.hpp>

#include "weights_by_name.hpp"

namespace nn = metac::nn;
namespace op = metac::op;
namespace optim = metac::optim;
using metac::at;
using metac::NamedVars;
using metac::Slice;
using metac::Var;

namespace {

int64_t compiled() {
  metac_graph_report report{};
  report.size = sizeof report;
  expect(metac_graph_get_report(&report) == METAC_OK, "the report");
  return report.compiled;
}

// Gulrajani and others, 2017: the critic's loss has the norm of a gradient, so its step is a second derivative.
void wgan_gp(const std::string& folder) {
  nn::Sequential critic(nn::Linear(2, 16), metac::tanh, nn::Linear(16, 1));
  nn::Sequential maker(nn::Linear(2, 16), metac::tanh, nn::Linear(16, 2));
  critic.load(folder + "critic.safetensors"), maker.load(folder + "maker.safetensors");
  const NamedVars batches = nn::load_weights(folder + "batches.safetensors");
  const Var real = named(batches, "real"), noise = named(batches, "noise"), share = named(batches, "share");
  const optim::Options options = {{"learning_rate", 3e-3}, {"beta1", 0.5}, {"beta2", 0.9}};
  optim::Optimiser of_critic(critic, "adam", options), of_maker(maker, "adam", options);
  std::vector<float> penalties;
  for (int64_t update = 0; update < real.shape()[0]; ++update) {
    for (int64_t k = 0; k < 2; ++k) {
      const Var good = at(real, {update, k}), s = at(share, {update, k});
      const Var made = stop_grad(maker(at(noise, {update, k})));
      const Var between = s * good + (1 - s) * made;
      const Var slope = metac::grad(sum(critic(between)), between);
      const Var penalty = mean(pow(sqrt(sum(slope * slope, 1) + 1e-12) - 1, 2));
      of_critic.step(mean(critic(made)) - mean(critic(good)) + 10 * penalty);
      penalties.push_back(penalty.item<float>());
    }
    const Var loss = -mean(critic(maker(at(noise, {update, 2}))));
    of_maker.step(loss);
    loss.evaluate();
  }
  nn::save_weights(folder + "penalties.safetensors", {{"penalties", metac::array(penalties)}});
  critic.save(folder + "critic.trained"), maker.save(folder + "maker.trained");
  nn::save_weights(folder + "critic.state", of_critic.state());
  // Goes on from its state as if it had never stopped.
  nn::Sequential again(nn::Linear(2, 16), metac::tanh, nn::Linear(16, 1));
  again.load(folder + "critic.trained");
  optim::Optimiser restored(again, "adam", options);
  restored.load_state(nn::load_weights(folder + "critic.state"), of_critic.steps());
  expect(restored.steps() == 2 * real.shape()[0], "the number of steps");
  const Var x = at(real, {0, 0});
  of_critic.step(mean(critic(x))), restored.step(mean(again(x)));
  for (const auto& [name, var] : critic.parameters())
    expect(var.to_vector<float>() == again[name].to_vector<float>(), name + " did not go on from the state");
}

// A step's own learning rate, without momentum: w - rate * gradient.
void rates() {
  const Var w = metac::array<double>({1, 2});
  optim::Optimiser optimiser(std::vector<Var>{w}, "sgd", {{"learning_rate", 0.5}});
  optimiser.step(sum(w * w), 0.25);
  expect(w.to_vector<double>() == std::vector<double>({0.5, 1}), "the rate that was given");
  optimiser.step({2 * w});
  expect(w.to_vector<double>() == std::vector<double>({0, 0}), "the rate of the options, gradients that are given");
}

// Groups by names. Without momentum: w - rate * (gradient + decay * w).
void groups() {
  const std::vector<double> start = {1, 2};
  const NamedVars vars = {
      {"a.weight", metac::array(start)}, {"a.bias", metac::array(start)}, {"b.weight", metac::array(start)}};
  const auto sum_of_all = [&] { return sum(vars[0].second) + sum(vars[1].second) + sum(vars[2].second); };
  optim::Optimiser optimiser(vars, "sgd", {{"learning_rate", 0.5}, {"weight_decay", 1}},
                             {.average = 0.5,
                              .groups = {{.match = {"*.bias"}, .weight_decay = 0},
                                         {.match = {"a.*"}, .rate_scale = 0.5},
                                         {.match = {"*.weight"}, .frozen = true},
                                         {.match = {"a.weight"}, .frozen = false}}});
  expect(optimiser.trained().size() == 2 && optimiser.state().size() == 2, "what trains");
  optimiser.step(sum_of_all());
  const auto expect_values = [&](size_t k, const std::vector<double>& wanted) {
    expect(vars[k].second.to_vector<double>() == wanted, vars[k].first + " has other values");
  };
  expect_values(0, {0.5, 1.25}), expect_values(1, {0.75, 1.75}), expect_values(2, {1, 2});
  {
    const optim::Averaged averaged(optimiser);
    expect_values(0, {0.75, 1.625}), expect_values(2, {1, 2});
  }
  expect_values(0, {0.5, 1.25});
  const auto refused = [&](const optim::Update& update, const std::string& words) {
    try {
      optim::Optimiser(vars, "sgd", {}, update);
    } catch (const metac::Error& error) {
      return expect(std::string(error.what()).find(words) != std::string::npos, error.what());
    }
    expect(false, "no error with " + words);
  };
  refused({.groups = {{.match = {"a.wait"}, .frozen = true}}}, "no parameter matches \"a.wait\"");
  refused({.non_finite = "skp"}, "skp");
}

// A sample that is no number leaves nothing behind: the weights of the run without it.
void skips(const std::string& folder) {
  const auto trained = [&](const std::vector<float>& samples, const std::string& name) {
    const metac::Data data(R"({"shuffle": false})", {{"x", METAC_FLOAT32, {1}}},
                           {metac::Tensor("x", samples.data(), {static_cast<int64_t>(samples.size()), 1})});
    metac::Loader loader(data, {.batch = 1});
    Var w = metac::array<float>({1}), mean = metac::array<float>({0});
    optim::Optimiser optimiser(NamedVars{{"w", w}}, "adam", {{"learning_rate", 0.1}}, {.non_finite = "skip"});
    metac::Run run(folder + name, loader, {.epochs = 2, .quiet = true, .non_finite = "skip"});
    run.keep("w", w), run.keep("mean", mean, true);
    run.keep(optimiser);
    for (run.begin(); !run.finished(); run.end_epoch())
      while (auto batch = run.next()) {
        mean.assign(0.9f * mean + 0.1f * reshape((*batch)["x"], {1}));
        const Var loss = sum(w * (*batch)["x"]) * sum(w);
        optimiser.step(loss);
        run.step(loss, 0.1);
      }
    expect(run.place().skipped == (samples.size() > 4 ? 2 : 0), "steps that are left out");
    return std::vector<float>{w.item<float>(), mean.item<float>(), static_cast<float>(optimiser.steps())};
  };
  const std::vector<float> with = trained({1, 2, std::nanf(""), -3, 4}, "with"), without = trained({1, 2, -3, 4}, "without");
  expect(with == without && with[2] == 8, "a step that was left out is seen");
}

// LeCun and others, 1998, for images of 8 by 8.
struct LeNet : nn::Module {
  nn::Conv first = add("first", nn::Conv(1, 6, 3, {.padding = 1}));
  nn::Conv second = add("second", nn::Conv(6, 16, 3, {.padding = 1}));
  nn::Sequential head = add("head", nn::Sequential(nn::Linear(16 * 4 * 4, 84), metac::relu, nn::Linear(84, 10)));

  Var operator()(const Var& x) const {
    const Var y = relu(second(relu(first(x))));
    return head(flatten(op::MaxPool(y, {.kernel_shape = {2, 2}, .strides = {2, 2}})[0], 1));
  }
};

void digits(const std::string& folder) {
  const NamedVars data = nn::load_weights(folder + "digits.safetensors");
  const Var images = named(data, "images"), labels = named(data, "labels");
  nn::seed(1);
  LeNet net;
  optim::Optimiser optimiser(net, "sgd", {{"learning_rate", 0.05}, {"momentum", 0.9}, {"nesterov", true}});
  const int64_t before = compiled();
  for (int epoch = 0; epoch < 10; ++epoch)
    for (int64_t k = 0; k + 64 <= images.shape()[0]; k += 64) {
      const Slice batch{k, k + 64};
      const Var loss = optim::loss("cross_entropy", net(at(images, batch)), at(labels, batch));
      optimiser.step(loss, epoch < 8 ? 0.05 : 0.01);
      loss.evaluate();
    }
  const int64_t programs = compiled() - before;
  // Steps read velocities from the second one on, and what was cut out of the data set is data.
  expect(programs <= 3, std::to_string(programs) + " programs for the steps");
  net.eval();
  const Var right = argmax(net(named(data, "test images")), 1) == named(data, "test labels");
  net.save(folder + "lenet.safetensors");
  LeNet copy;
  copy.load(folder + "lenet.safetensors");
  const Var same = argmax(copy(named(data, "test images")), 1) == named(data, "test labels");
  expect(mean(right).item<float>() == mean(same).item<float>(), "what was saved is another network");
  const auto traced = [&](const std::vector<Var>& in) { return net(in[0]); };
  metac::trace(traced, {at(images, Slice{0, 1})}, {"image"}, {"scores"}, net.parameters()).save(folder + "lenet.onnx");
  LeNet third;
  third.load(nn::load_weights(folder + "lenet.onnx"), false);  // beside the weights it has constants of its own
  const Var again = argmax(third(named(data, "test images")), 1) == named(data, "test labels");
  expect(mean(right).item<float>() == mean(again).item<float>(), "what was traced has other weights");
  std::printf("accuracy %.4f, %d programs\n", mean(right).item<float>(), static_cast<int>(programs));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string folder = std::string(arguments[1]) + "/";
  wgan_gp(folder);
  rates();
  groups();
  skips(folder);
  digits(folder);
  return 0;
}
