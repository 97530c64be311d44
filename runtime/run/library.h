// The library whose command-line program (program.h) this is, whatever the model: so the program is the same text for every
// model, and is compiled once. The project's src/run.cpp hands over the table of its functions.
#pragma once
#include <string>
#include <vector>

#include "../metac_model.h"

namespace run_program {

using LibraryPort = metac_model_port;

struct LibrarySettings {  // of metac_model_options
  const char *weights, *cpu;
  int32_t threads;
  bool pin, copy_weights, unchecked_weights, map_weights;
};

// One context at a time. What returns bool failed where it is false, and last_error() says why.
class Library {
 public:
  explicit Library(const metac_model* model = nullptr) : model_(model) {
    if (model == nullptr) return;
    inputs_.resize(static_cast<size_t>(model->inputs));
    outputs_.resize(static_cast<size_t>(model->outputs));
  }
  const metac_model* operator->() const { return model_; }

  bool create(const LibrarySettings& settings) {
    metac_model_options options = metac_model_options();
    options.size = sizeof options;
    options.weights = settings.weights;
    options.cpu = settings.cpu;
    options.threads = settings.threads;
    options.pin = settings.pin;
    options.weights_flags = (settings.copy_weights ? METAC_MODEL_WEIGHTS_COPY : 0) |
                            (settings.unchecked_weights ? METAC_MODEL_WEIGHTS_UNCHECKED : 0) |
                            (settings.map_weights ? METAC_MODEL_WEIGHTS_MAP : 0);
    return model_->create(&options, &context_) == METAC_MODEL_OK;
  }
  void destroy() { model_->destroy(context_); }

  // To all runs that follow. The data is the caller's.
  void give(int32_t input, void* data, int64_t bytes, const std::vector<int64_t>& dims) {
    metac_model_tensor& given = inputs_[static_cast<size_t>(input)];
    given.data = data;
    given.bytes = bytes;
    given.rank = static_cast<int32_t>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) given.dims[d] = dims[d];
  }
  // Each by itself, however many there are.
  bool run() {
    if (METAC_MODEL_HAS(model_, state_reset) && model_->state_reset(context_) != METAC_MODEL_OK) return false;
    for (metac_model_tensor& output : outputs_) output = metac_model_tensor();
    return model_->run(context_, inputs_.data(), model_->inputs, outputs_.data(), model_->outputs) == METAC_MODEL_OK;
  }
  const metac_model_tensor& result(int32_t output) const {
    return outputs_[static_cast<size_t>(output)];
  }  // of the last run

  const char* last_error() const { return model_->last_error(context_); }
  const char* cpu_of_context() const { return model_->cpu_of(context_); }
  int64_t arena_bytes() const { return model_->arena_bytes(context_); }
  int64_t held_bytes() const { return model_->held_bytes(context_); }
  bool profile(bool on) { return model_->profile(context_, on) == METAC_MODEL_OK; }
  const char* profile_row(int32_t row, int64_t* runs, int64_t* ns) const {
    return model_->profile_row(context_, row, runs, ns);
  }
  void profile_work(int32_t row, double* operations, double* bytes) const {
    model_->profile_work(context_, row, operations, bytes);
  }

 private:
  const metac_model* model_;
  metac_model_context* context_ = nullptr;
  std::vector<metac_model_tensor> inputs_, outputs_;
};

// Of run_program.cpp. The exit status.
int run_main(const metac_model& model, int count, char** values);

}  // namespace run_program
