// Lazy Vars as a user of C++ has them: an example of each part, and what a step costs. Prints a line for each figure; a
// status other than 0 says by its number what was wrong.
//
//   lazy_vars FOLDER STEPS    (FOLDER: for a traced model; STEPS: of the loop that must not grow)
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <metac/metac.hpp>
#include <metac/op.hpp>
#include <random>
#include <string>

namespace op = metac::op;
using metac::Var;

namespace {

void expect(bool good, int status, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(status);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b)); }

std::vector<float> drawn(std::mt19937& random, size_t count, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

long resident_pages() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

void operators() {
  const Var x = metac::array<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect((x * 2 + 1).to_vector<float>() == std::vector<float>({3, 5, 7, 9, 11, 13}), 10, "arithmetic");
  expect((1 - x).to_vector<float>()[5] == -5 && (-x).to_vector<float>()[0] == -1, 11, "numbers on the left");
  expect(metac::matmul(x, op::Transpose(x)).shape() == std::vector<int64_t>({2, 2}), 12, "shapes are known at once");
  expect((x > 3).dtype() == METAC_BOOL && (x > 3.5).to_vector<bool>()[3], 13, "comparisons");
  const Var image = metac::array(std::vector<float>(16, 1), {1, 1, 4, 4});
  const Var kernel = metac::array(std::vector<float>(9, 1), {1, 1, 3, 3});
  expect(metac::sum(op::Conv(image, kernel, {.pads = {1, 1, 1, 1}})).item<float>() == 100, 14, "options");
  const std::vector<Var> best = op::TopK(x, metac::constant<int64_t>({1}));
  expect(best.size() == 2 && best[1].to_vector<int64_t>()[0] == 2, 15, "several outputs");
  metac::define("leaky(x, slope = 0.5)", "x < 0 ? slope * x : x", {{"x", "x < 0 ? slope * dy : dy"}});
  expect(metac::defined("leaky", {3 - x}, {{"slope", 2}}).to_vector<float>()[5] == -6, 17, "an operator of the user's");
  expect(metac::grad(metac::sum(metac::defined("leaky", {3 - x})), x).to_vector<float>()[4] == -0.5, 18, "its gradient");
  expect(op::Clip(x, Var(), metac::array<float>({2}, {})).to_vector<float>()[5] == 2, 16, "an operand that is left out");
}

void gradients() {
  Var w = metac::array<double>({0.5, -2});
  const Var first = metac::grad(metac::sum(w * w * w), w);
  const Var second = metac::grad(metac::sum(first), w);
  expect(near(first.to_vector<double>()[1], 12) && near(second.to_vector<double>()[1], -12), 20, "derivatives");
  const Var y = metac::sum(w * w);
  w.assign(w - 1);
  expect(near(y.item<double>(), 4.25) && near(w.to_vector<double>()[0], -0.5), 21, "versions");
  try {
    metac::grad(y, w);
    expect(false, 22, "a stale use is no error");
  } catch (const metac::Error& error) {
    expect(std::string(error.what()).find("version 1") != std::string::npos, 23, error.what());
  }
}

void errors_name_the_line() {
  const Var x = metac::array<float>({1, 2, 3}), y = metac::array<float>({1, 2});
  const int line = __LINE__ + 2;
  try {
    const Var z = x + y;
    expect(false, 30, "shapes that do not fit are no error");
  } catch (const metac::Error& error) {
    const std::string place = "lazy_vars.cpp:" + std::to_string(line);
    expect(std::string(error.what()).find(place) != std::string::npos, 31, error.what());
  }
}

// WGAN-GP (Gulrajani and others, 2017): the critic's loss has the norm of a gradient, so its step is a second derivative.
void wgan_gp() {
  std::mt19937 random(5);
  std::vector<Var> critic = {metac::array(drawn(random, 32, 0.7f), {2, 16}), metac::array(drawn(random, 16, 0.3f), {16, 1})};
  const auto judged = [&](const Var& x) { return metac::matmul(op::Tanh(metac::matmul(x, critic[0])), critic[1]); };
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const Var real = metac::array(drawn(random, 64, 0.1f), {32, 2}) + 1, made = metac::array(drawn(random, 64, 1), {32, 2});
    const Var share = metac::array(drawn(random, 32, 0.5f), {32, 1});
    const Var between = share * real + (1 - share) * made;
    const Var slope = metac::grad(metac::sum(judged(between)), between);
    const Var norm = op::Sqrt(op::ReduceSum(slope * slope, metac::constant<int64_t>({1})) + 1e-12);
    const Var penalty = metac::mean((norm - 1) * (norm - 1));
    const Var loss = metac::mean(judged(made)) - metac::mean(judged(real)) + 10 * penalty;
    const std::vector<Var> slopes = metac::grad(loss, critic);
    for (size_t k = 0; k < critic.size(); ++k) critic[k].assign(critic[k] - 0.01 * slopes[k]);
    last = penalty.item<float>();
    if (step == 0) first = last;
  }
  expect(std::isfinite(last) && last < first, 40, "the penalty did not fall");
}

void traced(const std::string& folder) {
  const Var w = metac::array<float>({1, 2, 3, 4}, {2, 2}), x = metac::array<float>({1, 1}, {1, 2});
  const metac::Model model = metac::trace([&](const std::vector<Var>& in) { return op::Relu(metac::matmul(in[0], w)); }, {x},
                                          {"x"}, {"y"}, {{"w", w}});
  model.save(folder + "/cxx.onnx");
  metac::Session session(folder + "/cxx.onnx");
  const float pixels[] = {1, 1};
  expect(session.run({{"x", pixels, {1, 2}}})["y"].data<float>()[1] == 6, 50, "the traced model");
  metac::trace([&](const std::vector<Var>& in) { return op::Relu(metac::matmul(in[0], w)); }, {x}, {"x"}, {"y"}, {{"w", w}},
               {{0, 0, "rows"}})
      .save(folder + "/open.onnx");
  metac::Session open(folder + "/open.onnx");
  const float rows[] = {1, 1, 1, 0, 0, 1};
  const auto answer = open.run({{"x", rows, {3, 2}}});
  expect(answer["y"].count() == 6 && answer["y"].data<float>()[5] == 4, 51, "the traced model with open rows");
}

void checkpoints_and_fetches() {
  const Var x = metac::array<float>({1, 2}), w = metac::array<float>({0.5f, 0.25f});
  const auto part = [](const std::vector<Var>& in) { return op::Tanh(metac::stop_fuse(in[0] * in[1]) * in[0]); };
  const std::vector<float> kept = metac::grad(metac::sum(part({x, w})), w).to_vector<float>();
  const Var loss = metac::sum(metac::checkpoint(part, {x, w}));
  float told = 0;
  metac::fetch({loss}, [&](const metac::Result& values) { told = values[0].data<float>()[0]; });
  expect(metac::grad(loss, w).to_vector<float>() == kept, 80, "the gradient through a checkpoint");
  metac::sync();
  expect(told == loss.item<float>() && told != 0, 81, "the fetched loss");
}

// Microseconds an operator, of 1,000 in a step that repeats: append, look, run, free. The least of many turns.
template <class Step>
double cost(Step step) {
  double least = 1;
  for (int turn = 0; turn < 30; ++turn) {
    const double begin = processor_seconds();
    step();
    least = std::min(least, processor_seconds() - begin);
  }
  return least * 1e3;
}

void costs(long steps) {
  const Var x = metac::array(std::vector<float>(8, 1));
  const double arithmetic = cost([&] {
    Var y = x;
    for (int k = 0; k < 500; ++k) y = y * x + x;
    y.evaluate();
  });
  const double functions = cost([&] {
    Var y = x;
    for (int k = 0; k < 1000; ++k) y = op::LeakyRelu(y, {.alpha = 0.5});
    y.evaluate();
  });
  std::printf("%.2f us an operator, %.2f us a function of op.hpp (1,000 in a step)\n", arithmetic, functions);
  // The bar is 0.5 on a machine that does nothing else; beside other stages it may be twice that.
  expect(arithmetic < 1 && functions < 1, 60, "an operator costs more than 1 us");
  // What steps leave behind is left behind by every third of them; a worker that has its first turn late, on a busy machine,
  // or pages that the system makes huge ones, are not.
  Var w = metac::array<float>({1, 2, 3, 4});
  long least = 1L << 40;
  for (int third = 0; third < 3; ++third) {
    long before = 0;
    for (long step = 0; step < steps / 3; ++step) {
      const Var loss = metac::sum((w - 0.5) * (w - 0.5));
      w.assign(w - 0.001 * metac::grad(loss, w));
      loss.evaluate();
      if (step == steps / 30) before = resident_pages();
    }
    least = std::min(least, resident_pages() - before);
  }
  std::printf("%ld steps: the memory of a third of them grows by %ld pages at least\n", steps, least);
  expect(least < 128, 70, "memory grew");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  operators();
  gradients();
  errors_name_the_line();
  wgan_gp();
  traced(arguments[1]);
  checkpoints_and_fetches();
  costs(std::atol(arguments[2]));
  return 0;
}
