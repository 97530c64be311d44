// Training loops in C++: WGAN-GP from weights and batches that Python wrote, and LeNet on images of digits.
//
//   training FOLDER    (critic, maker, batches -> penalties, critic.trained, maker.trained; digits: prints the accuracy)
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
  digits(folder);
  return 0;
}
