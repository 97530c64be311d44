// Two libraries and several contexts of each, made, run, given other weights and destroyed all at once, on their own
// threads and on a pool of the caller's: every answer is the one that a context alone gives. A context that two threads
// use at once answers one of them with BUSY. The batches are so large that the work is shared among threads.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "first.hpp"
#include "second.hpp"

namespace {

constexpr int seeds = 6, batch_unit = 96;
std::atomic<int> shared_calls{0};
std::atomic<bool> same{true};

std::vector<float> image(int seed, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 17);
  return x;
}

int batch_of(int seed) { return batch_unit * (1 + seed % 3); }

template <typename Model, typename Tensor>
std::vector<float> answer(Model& model, Tensor (*tensor)(const void*, const std::vector<int64_t>&), int seed) {
  const std::vector<float> x = image(seed, static_cast<size_t>(batch_of(seed)) * 64);
  const auto outputs = model.run({tensor(x.data(), {batch_of(seed), 1, 8, 8})});
  const float* y = static_cast<const float*>(outputs.at(0).data);
  return std::vector<float>(y, y + outputs.at(0).bytes / 4);
}

// Other weights, the same for both libraries (they are made from one model). All of them are floats here.
struct Weights {
  std::vector<std::vector<float>> values;
  std::vector<const void*> pointers;
  Weights() {
    for (int k = 0; const first_port* port = first_parameter(k); ++k) {
      if (port->dtype != FIRST_FLOAT32) throw std::runtime_error("a parameter is no float");
      size_t count = 1;
      for (int d = 0; d < port->rank; ++d) count *= static_cast<size_t>(port->dims[d]);
      values.emplace_back(count);
      for (size_t i = 0; i < count; ++i)
        values.back()[i] = static_cast<float>(1 + (i * 5 + static_cast<size_t>(k)) % 11) / 64;
    }
    for (const std::vector<float>& value : values) pointers.push_back(value.data());
  }
};

// The caller's pool: a thread per task.
void in_threads(void* calls, int32_t count, void (*task)(void*, int32_t), void* state) {
  static_cast<std::atomic<int>*>(calls)->fetch_add(1);
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < count; ++i) threads.emplace_back(task, state, i);
  for (std::thread& t : threads) t.join();
}

using Answers = std::vector<std::vector<float>>;

void use(int k, const Answers& expected, const Answers& with_other_weights, const Weights& weights) {
  first_options pooled{};
  pooled.size = sizeof pooled;
  pooled.threads = 3;
  pooled.parallel = in_threads;
  pooled.pool = &shared_calls;
  for (int life = 0; life < 3; ++life) {
    first::Model own(2), pool(pooled);
    second::Model other(2);
    for (int round = 0; round < 8; ++round) {
      const int seed = (round + k) % seeds;
      const Answers& right = round < 4 ? expected : with_other_weights;
      if (round == 4) {
        own.set_weights(weights.pointers);
        pool.set_weights(weights.pointers);
        other.set_weights(weights.pointers);
      }
      if (answer(own, &first::tensor, seed) != right[static_cast<size_t>(seed)]) same = false;
      if (answer(other, &second::tensor, seed) != right[static_cast<size_t>(seed)]) same = false;
      if (answer(pool, &first::tensor, seed) != right[static_cast<size_t>(seed)]) same = false;
    }
  }
}

// Two threads on one context: each run is right or BUSY.
bool busy_is_told() {
  first::Model model(2);
  std::atomic<int> good{0}, wrong{0};
  auto run = [&] {
    const std::vector<float> x = image(0, static_cast<size_t>(batch_of(0)) * 64);
    const first_tensor input = first::tensor(x.data(), {batch_of(0), 1, 8, 8});
    std::vector<float> y(static_cast<size_t>(batch_of(0)) * 10);
    for (int i = 0; i < 50; ++i) {
      first_tensor output{};
      output.data = y.data();
      output.bytes = static_cast<int64_t>(y.size() * 4);
      const first_status status = first_run(model.get(), &input, 1, &output, 1);
      good += status == FIRST_OK;
      wrong += status != FIRST_OK && status != FIRST_BUSY;
    }
  };
  std::thread one(run), two(run);
  one.join();
  two.join();
  return good > 0 && wrong == 0;
}

// A kernel is named where NaN turns up, and none where none does; the context runs on.
bool first_nan_is_named() {
  first::Model model(2);
  std::vector<float> x = image(0, static_cast<size_t>(batch_of(0)) * 64);
  auto report = [&] { return model.find_non_finite({first::tensor(x.data(), {batch_of(0), 1, 8, 8})}); };
  const std::vector<float> before = answer(model, &first::tensor, 0);
  const std::string sound = report();
  x[5] = NAN;
  const std::string named = report();
  return sound.empty() && named.find(" made the first NaN") != std::string::npos && named[0] == 'k' &&
         answer(model, &first::tensor, 0) == before;
}

}  // namespace

int main() {
  const Weights weights;
  Answers expected, with_other_weights;
  {
    first::Model model(1);
    for (int seed = 0; seed < seeds; ++seed) expected.push_back(answer(model, &first::tensor, seed));
    model.set_weights(weights.pointers);
    for (int seed = 0; seed < seeds; ++seed) with_other_weights.push_back(answer(model, &first::tensor, seed));
  }
  if (expected == with_other_weights) return std::puts("the weights make no difference"), 1;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) threads.emplace_back([&, k] { use(k, expected, with_other_weights, weights); });
  for (std::thread& t : threads) t.join();
  if (shared_calls == 0) return std::puts("the caller's pool was never used"), 1;
  if (!busy_is_told()) return std::puts("a context used twice at once gave something else than an answer or BUSY"), 1;
  if (!first_nan_is_named()) return std::puts("the kernel that makes the first NaN is not named"), 1;
  std::puts(same ? "same" : "different");
  return same ? 0 : 1;
}
