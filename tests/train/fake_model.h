// A model without a compiler: softmax regression with momentum, accumulation and a moving average, in plain C++, behind the
// tables that the compiler would write. `call` and `seed` go into it (a little noise), so that a wrong position after a
// resume is seen in the bits.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/train/train_program.h"

namespace fake {

using namespace metac::train;

constexpr int64_t batch = 16, features = 8, classes = 3;
enum StateIndex { w, b, w_momentum, b_momentum, w_sum, b_sum, w_average, offset };

inline int64_t nan_at_call = -1;  // the step makes NaN there
inline int64_t nan_calls = 1;     // ... and in so many calls
inline int32_t microseconds = 0;  // that a call sleeps

inline int32_t create(int32_t, void** context) { return *context = new int(0), 0; }
inline void destroy(void* context) { delete static_cast<int*>(context); }
inline const char* last_error(const void*) { return "no error"; }

template <class T>
const T* in(void* const* inputs, int k) {
  return static_cast<const T*>(inputs[k]);
}
inline float* out(void* const* outputs, int k) { return static_cast<float*>(outputs[k]); }

// Probabilities of one sample; returns the loss.
inline float forward(const float* x, const float* weights, const float* bias, int64_t label, float* p) {
  float sum = 0, greatest = -1e30f;
  for (int64_t c = 0; c < classes; ++c) {
    p[c] = bias[c];
    for (int64_t f = 0; f < features; ++f) p[c] += weights[c * features + f] * x[f];
    greatest = std::max(greatest, p[c]);
  }
  for (int64_t c = 0; c < classes; ++c) sum += p[c] = std::exp(p[c] - greatest);
  for (int64_t c = 0; c < classes; ++c) p[c] /= sum;
  return -std::log(p[label]);
}

// Inputs: x, y, rate, step, call, seed, apply, then the states; outputs: loss, accuracy, then all states but the frozen one.
template <int accumulate>
int32_t step(void*, void* const* inputs, void* const* outputs) {
  const float *x = in<float>(inputs, 0), rate = *in<float>(inputs, 2);
  const int64_t *y = in<int64_t>(inputs, 1), call = *in<int64_t>(inputs, 4), seed = *in<int64_t>(inputs, 5);
  const bool apply = *in<bool>(inputs, 6);
  const float* const* state = reinterpret_cast<const float* const*>(inputs + 7);
  float gradient_w[classes * features] = {}, gradient_b[classes] = {}, loss = 0, right = 0;
  for (int64_t k = 0; k < batch; ++k) {
    float p[classes];
    loss += forward(x + k * features, state[w], state[b], y[k], p) / batch;
    right += std::max_element(p, p + classes) - p == y[k] ? 1.0f / batch : 0;
    p[y[k]] -= 1;
    for (int64_t c = 0; c < classes; ++c) {
      gradient_b[c] += p[c] / batch;
      for (int64_t f = 0; f < features; ++f) gradient_w[c * features + f] += p[c] * x[k * features + f] / batch;
    }
  }
  if (call >= nan_at_call && call < nan_at_call + nan_calls) gradient_w[5] = NAN;
  gradient_b[0] += 1e-3f * static_cast<float>(random_bits(seed, Stream::flip, 0, call) % 100);
  *out(outputs, 0) = loss;
  *out(outputs, 1) = right;
  auto update = [&](const float* gradient, int64_t count, int value, int momentum, int sum) {
    for (int64_t i = 0; i < count; ++i) {
      const float total = state[sum][i] + gradient[i] / accumulate;
      const float moved = apply ? 0.9f * state[momentum][i] + total : state[momentum][i];
      out(outputs, 2 + sum)[i] = apply ? 0 : total;
      out(outputs, 2 + momentum)[i] = moved;
      out(outputs, 2 + value)[i] = state[value][i] - (apply ? rate * moved : 0);
    }
  };
  update(gradient_w, classes * features, w, w_momentum, w_sum);
  update(gradient_b, classes, b, b_momentum, b_sum);
  for (int64_t i = 0; i < classes * features; ++i)
    out(outputs, 2 + w_average)[i] = 0.9f * state[w_average][i] + 0.1f * out(outputs, 2 + w)[i];
  if (microseconds > 0) usleep(static_cast<useconds_t>(microseconds));
  return 0;
}

// Inputs: x, y, average of w, b; outputs, one value a sample: loss, whether it is right.
inline int32_t score(void*, void* const* inputs, void* const* outputs) {
  for (int64_t k = 0; k < batch; ++k) {
    float p[classes];
    const int64_t label = in<int64_t>(inputs, 1)[k];
    out(outputs, 0)[k] = forward(in<float>(inputs, 0) + k * features, in<float>(inputs, 2), in<float>(inputs, 3), label, p);
    out(outputs, 1)[k] = std::max_element(p, p + classes) - p == label ? 1 : 0;
  }
  return 0;
}

// The inference library's part: writes the parameters as they are given.
inline int32_t create_inference(void** context) { return create(0, context); }
inline int32_t write_weights(void*, const void* const* parameters, int32_t count, const char* path) {
  std::ofstream file(path, std::ios::binary);
  const int64_t sizes[] = {classes * features, classes, 1};
  for (int32_t k = 0; k < count; ++k)
    file.write(static_cast<const char*>(parameters[k]), static_cast<std::streamsize>(sizes[k]) * 4);
  return file.good() ? 0 : 5;
}

inline const char initial_header[] = "templ";  // 5 bytes before the values in the "ONNX" template

struct Model {
  Field fields[2] = {{"x", ScalarType::f32, 1, {features}}, {"y", ScalarType::i64, 0, {}}};
  State states[8] = {{"w", ScalarType::f32, 2, {classes, features}, StateRole::parameter, -1, 0, 5},
                     {"b", ScalarType::f32, 1, {classes}, StateRole::parameter, -1, 96, 101},
                     {"w/momentum", ScalarType::f32, 2, {classes, features}, StateRole::optimiser, -1, 112, -1},
                     {"b/momentum", ScalarType::f32, 1, {classes}, StateRole::optimiser, -1, 208, -1},
                     {"w/sum", ScalarType::f32, 2, {classes, features}, StateRole::optimiser, -1, 224, -1},
                     {"b/sum", ScalarType::f32, 1, {classes}, StateRole::optimiser, -1, 320, -1},
                     {"w/average", ScalarType::f32, 2, {classes, features}, StateRole::average, w, 336, -1},
                     {"offset", ScalarType::f32, 0, {}, StateRole::frozen, -1, 432, -1}};
  Metric metrics[1] = {{"accuracy", Aggregate::mean, true}};
  std::vector<Port> step_inputs, step_outputs, evaluate_inputs, evaluate_outputs;
  FieldSource sources[2] = {{"x", 1, nullptr, nullptr, 0, false, false, 0}, {"y", 1, nullptr, nullptr, 0, false, false, 0}};
  ExportParameter exported[3] = {{w, 0, 96}, {b, 96, 12}, {-1, 432, 4}};
  std::string folder;
  TrainTables tables{};

  static Port port_of(const State& s, int32_t index) {
    Port port{s.name, s.dtype, s.rank, {}, Source::state, index};
    std::copy(s.dims, s.dims + most_dims, port.dims);
    return port;
  }

  // Everything that is a file goes into `where`: initial values, template, 100 + 37 samples in data.npz and more.npz.
  explicit Model(const std::string& where, int accumulate = 1) : folder(where) {
    step_inputs = {{"x", ScalarType::f32, 2, {batch, features}, Source::data, 0},
                   {"y", ScalarType::i64, 1, {batch}, Source::data, 1},
                   {"rate", ScalarType::f32, 0, {}, Source::learning_rate, 0},
                   {"step", ScalarType::i64, 0, {}, Source::step, 0},
                   {"call", ScalarType::i64, 0, {}, Source::call, 0},
                   {"seed", ScalarType::i64, 0, {}, Source::seed, 0},
                   {"apply", ScalarType::boolean, 0, {}, Source::apply, 0}};
    step_outputs = {{"loss", ScalarType::f32, 0, {}, Source::loss, 0},
                    {"accuracy", ScalarType::f32, 0, {}, Source::metric, 0}};
    for (int32_t s = 0; s < 8; ++s) step_inputs.push_back(port_of(states[s], s));
    for (int32_t s = 0; s < 7; ++s) step_outputs.push_back(port_of(states[s], s));
    evaluate_inputs = {step_inputs[0], step_inputs[1], port_of(states[w_average], w_average), port_of(states[b], b)};
    evaluate_outputs = {{"loss", ScalarType::f32, 1, {batch}, Source::loss, 0},
                        {"correct", ScalarType::f32, 1, {batch}, Source::metric, 0}};
    auto ports = [](Library library, const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
      library.inputs = inputs.data(), library.input_count = static_cast<int32_t>(inputs.size());
      library.outputs = outputs.data(), library.output_count = static_cast<int32_t>(outputs.size());
      return library;
    };
    std::vector<float> initial(110, 0.0f);
    initial[108] = 42;
    tables.name = "fake", tables.version = "metac test",
    tables.program = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    tables.loss = "cross-entropy", tables.optimiser = "SGD with momentum";
    tables.fields = fields, tables.field_count = 2, tables.states = states, tables.state_count = 8, tables.metrics = metrics,
    tables.metric_count = 1;
    tables.step = ports({"fake_step", create, accumulate == 3 ? step<3> : step<1>, destroy, last_error, nullptr, nullptr,
                         nullptr, nullptr, nullptr, 0, nullptr, 0},
                        step_inputs, step_outputs);
    tables.evaluate =
        ports({"fake_eval", create, score, destroy, last_error, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0},
              evaluate_inputs, evaluate_outputs);
    tables.settings = {4, batch, accumulate, 7, 0, 3, 2, 1, NonFinite::stop, 0, 0, 0, 0, 0, false};
    tables.schedule = {ScheduleKind::cosine, 0.2, 0.01, 0.02, 5, false, 0, 0, nullptr, 0};
    tables.data = {DataFormat::npz, "data.npz", "more.npz", 0, true, false, sources};
    tables.files = folder.c_str(), tables.initial_file = "initial.bin", tables.initial_bytes = 440;
    tables.initial_crc = crc32(initial.data(), 440);
    tables.onnx_template = "template.onnx";
    tables.inference = {create_inference, write_weights, destroy, last_error, "fake.weights", exported, 3};
    std::filesystem::create_directories(folder);
    if (std::filesystem::exists(folder + "/more.npz")) return;
    write("initial.bin", std::string(reinterpret_cast<const char*>(initial.data()), 440));
    write("template.onnx", "templ" + std::string(108, '?') + "end");
    write_data("data.npz", 100, 1);
    write_data("more.npz", 37, 2);
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  }

  static std::string npy(ScalarType type, std::vector<int64_t> dims, const void* data) {
    return metac_runtime::npy_header(type, dims.data(), static_cast<int32_t>(dims.size())) +
           std::string(static_cast<const char*>(data), static_cast<size_t>(metac_runtime::bytes_of_dims(type, dims)));
  }
  // A zip archive of stored entries.
  static std::string zip(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string archive, directory;
    auto number = [](uint32_t value, int bytes) {
      return std::string(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
    };
    for (const auto& [name, data] : entries) {
      const uint32_t size = static_cast<uint32_t>(data.size()), at = static_cast<uint32_t>(archive.size());
      const std::string middle = number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                                 number(crc32(data.data(), size), 4) + number(size, 4) + number(size, 4) +
                                 number(static_cast<uint32_t>(name.size()), 2) + number(0, 2);
      archive += "PK\3\4" + middle + name + data;
      directory += "PK\1\2" + number(20, 2) + middle + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                   number(at, 4) + name;
    }
    const uint32_t count = static_cast<uint32_t>(entries.size());
    return archive + directory + "PK\5\6" + number(0, 4) + number(count, 2) + number(count, 2) +
           number(static_cast<uint32_t>(directory.size()), 4) + number(static_cast<uint32_t>(archive.size()), 4) +
           number(0, 2);
  }

  // Three clouds that a line can divide.
  void write_data(const std::string& name, int64_t count, int64_t seed) const {
    std::vector<float> x;
    std::vector<int64_t> y;
    for (int64_t k = 0; k < count; ++k) {
      y.push_back(k % classes);
      for (int64_t f = 0; f < features; ++f)
        x.push_back(static_cast<float>(static_cast<double>(random_bits(seed, Stream::order, k, f) >> 11) * 0x1p-53 - 0.5 +
                                       (f % classes == k % classes ? 1 : 0)));
    }
    write(name, zip({{"x.npy", npy(ScalarType::f32, {count, features}, x.data())},
                     {"y.npy", npy(ScalarType::i64, {count}, y.data())}}));
  }
};

struct Outcome {
  int status = 0;
  std::string out, err;
};

// The program with these arguments, --data and --out given.
inline Outcome run(const Model& model, const std::string& run_folder, std::vector<std::string> arguments) {
  std::vector<std::string> all = {"fake_train", "--data", model.folder, "--out", run_folder};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> values;
  for (std::string& a : all) values.push_back(a.data());
  received_signal = 0;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = train_main(model.tables, static_cast<int>(values.size()), values.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The log without its times.
inline std::string untimed_log(const std::string& run_folder) {
  std::string text = content(run_folder + "/log.jsonl"), kept;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 11, "\"seconds\": ") == 0) at = text.find('}', at);
    kept += text[at];
  }
  return kept;
}

// A folder that is not there yet, and is gone when the tests end.
inline std::string fresh_folder(const std::string& name) {
  struct Made {
    std::vector<std::string> folders;
    pid_t owner = getpid();
    ~Made() {
      for (const std::string& folder : folders)
        if (owner == getpid()) std::filesystem::remove_all(folder);
    }
  };
  static Made made;
  made.folders.push_back(testing::TempDir() + "metac_train_" + std::to_string(getpid()) + "_" + name);
  std::filesystem::remove_all(made.folders.back());
  return made.folders.back();
}

}  // namespace fake
