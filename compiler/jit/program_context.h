// The memory and the state of a program's runs: an executor, whatever the place is that kernels run on.
#pragma once
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/executor/states.h"
#include "runtime/routines.h"

namespace metac {

namespace rt = metac_runtime;

class ProgramContext {
 public:
  virtual ~ProgramContext() = default;
  // Before anything else. `weights`: where kernels run. What is given must outlive the context.
  virtual rt::Status create(const rt::Program& program, const void* weights) = 0;
  virtual rt::Status run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) = 0;
  virtual rt::Status bind_shapes(const std::vector<rt::InputView>& inputs) = 0;
  // StateSet's begin and end: what is before and behind a run with states.
  virtual bool begin_states(rt::StateSet& states, rt::InputView* inputs, rt::OutputView* outputs, rt::Failure& failure) = 0;
  virtual bool end_states(rt::StateSet& states, const rt::OutputView* outputs, rt::Failure& failure) = 0;
  virtual const rt::Failure& failure() const = 0;
  virtual int64_t output_dim(int32_t output, int32_t axis) const = 0;
  virtual const void* output_data(int32_t output) const = 0;
  virtual void profile(rt::StepTime* times) = 0;
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t held_bytes() const = 0;
  virtual const char* step_name(int32_t step) const = 0;
};

// `Device` is what runtime/place.h knows a place for. It must outlive the context.
template <class Device>
class ProgramContextOn : public ProgramContext {
 public:
  explicit ProgramContextOn(Device& device) : device_(device) {}

  rt::Status create(const rt::Program& program, const void* weights) override {
    int32_t routine_count = 0;
    const rt::RoutineEntry* routines = rt::all_routines(&routine_count);
    return executor_.create(program, weights, &device_, routines, routine_count);
  }
  rt::Status run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) override {
    return executor_.run(inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                         static_cast<int32_t>(outputs.size()));
  }
  rt::Status bind_shapes(const std::vector<rt::InputView>& inputs) override {
    return executor_.bind_shapes(inputs.data(), static_cast<int32_t>(inputs.size()));
  }
  bool begin_states(rt::StateSet& states, rt::InputView* inputs, rt::OutputView* outputs, rt::Failure& failure) override {
    return states.begin(executor_, inputs, outputs, failure);
  }
  bool end_states(rt::StateSet& states, const rt::OutputView* outputs, rt::Failure& failure) override {
    return states.end(executor_, outputs, failure);
  }
  const rt::Failure& failure() const override { return executor_.failure(); }
  int64_t output_dim(int32_t output, int32_t axis) const override { return executor_.output_dim(output, axis); }
  const void* output_data(int32_t output) const override { return executor_.output_data(output); }
  void profile(rt::StepTime* times) override { executor_.profile(times); }
  int64_t arena_bytes() const override { return executor_.arena_bytes(); }
  int64_t held_bytes() const override { return executor_.held_bytes(); }
  const char* step_name(int32_t step) const override { return rt::step_name(*executor_.program(), step); }

 protected:
  rt::ExecutorOn<Device> executor_;

 private:
  Device& device_;
};

}  // namespace metac
