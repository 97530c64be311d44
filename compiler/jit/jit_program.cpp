#include "compiler/jit/jit_program.h"

#include <cstring>
#include <map>

#include "compiler/jit/cuda_kernels.h"
#include "compiler/jit/cuda_place.h"
#include "compiler/jit/program_tables.h"
#include "compiler/support/diagnostic.h"
#include "runtime/executor.h"
#include "runtime/routines.h"

namespace metac {

// Kernels, what they run on, and an executor.
struct JitProgram::Context {
  virtual ~Context() = default;
  virtual rt::Status run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) = 0;
  virtual const rt::Failure& failure() const = 0;
  virtual int64_t output_dim(int32_t output, int32_t axis) const = 0;
  virtual const void* output_data(int32_t output) const = 0;
  virtual void profile(rt::StepTime* times) = 0;
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t held_bytes() const = 0;
  virtual const char* step_name(int32_t step) const = 0;
  std::vector<rt::StepTime> times;
};

namespace {

// What an empty tensor's pointer is: the executor takes null for "not given".
const std::byte no_bytes[64] = {};

std::vector<rt::InputView> views_of(const CompiledProgram& program, const std::vector<Tensor>& inputs) {
  METAC_ASSERT(inputs.size() == program.inputs.size(), inputs.size(), " inputs for ", program.inputs.size());
  std::vector<rt::InputView> views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CompiledPort& port = program.inputs[i];
    if (inputs[i].dtype != port.dtype)
      fail("input ", quoted(port.name), " is ", name_of(inputs[i].dtype), ", the model wants ", name_of(port.dtype));
    const std::byte* data = inputs[i].bytes ? inputs[i].bytes.get() : no_bytes;
    views.push_back({data, inputs[i].shape.data(), static_cast<int32_t>(inputs[i].shape.size())});
  }
  return views;
}

void check(rt::Status status, const rt::Failure& failure) {
  if (status == rt::Status::ok) return;
  METAC_ASSERT(status != rt::Status::internal, failure.message);
  fail(failure.message);
}

template <class Device>
void create(rt::ExecutorOn<Device>& executor, const ProgramTables& tables, const void* weights, Device& device) {
  int32_t routine_count = 0;
  const rt::RoutineEntry* routines = rt::all_routines(&routine_count);
  check(executor.create(tables.program(), weights, &device, routines, routine_count), executor.failure());
}

// What the two places have in common.
template <class Base, class Device>
class ContextOn : public Base {
 public:
  rt::Status run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) override {
    return executor_.run(inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                         static_cast<int32_t>(outputs.size()));
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
};

}  // namespace

class JitProgram::OnCpu : public ContextOn<JitProgram::Context, rt::ThreadPool> {
 public:
  OnCpu(const CompiledProgram& compiled, const void* weights, const CpuTarget& cpu, int threads, const JitOptions& options)
      : kernels_(compiled.kernels, cpu, options), tables_(compiled, kernels_.functions()) {
    if (!pool_.start(threads)) fail("no memory for ", threads, " threads");
    create(executor_, tables_, weights, pool_);
  }

 private:
  KernelLibrary kernels_;
  ProgramTables tables_;
  rt::ThreadPool pool_;
};

class JitProgram::OnGpu : public ContextOn<JitProgram::Context, rt::DriverDevice> {
 public:
  OnGpu(const CompiledProgram& compiled, const void* weights, const CpuTarget& cpu, const JitOptions& options)
      : kernels_(compiled.kernels, cpu, options),
        tables_(compiled, kernels_.functions()),
        device_(kernels_.device_functions()) {
    const int64_t bytes = compiled.weight_bytes;
    if (bytes > 0) {
      if (!weights_.reserve(bytes)) fail("no memory on the device for ", bytes, " bytes of weights");
      rt::Failure failure;
      if (!rt::Place<rt::DriverDevice>::to_device(device_, weights_.data(), weights, bytes, failure)) fail(failure.message);
    }
    create(executor_, tables_, weights_.data(), device_);
  }

 private:
  CudaKernels kernels_;
  ProgramTables tables_;
  rt::DriverDevice device_;
  rt::DriverBlock weights_;
};

JitProgram::JitProgram(std::shared_ptr<const CompiledProgram> compiled, WeightsBlock weights, const CpuTarget& cpu,
                       int threads, const JitOptions& options)
    : compiled_(std::move(compiled)), weights_(std::move(weights)) {
  if (options.on_device)
    context_ = std::make_unique<OnGpu>(*compiled_, weights_.get(), cpu, options);
  else
    context_ = std::make_unique<OnCpu>(*compiled_, weights_.get(), cpu, threads, options);
}

JitProgram::~JitProgram() = default;

void JitProgram::run_only(const std::vector<Tensor>& inputs) {
  std::vector<rt::InputView> views = views_of(*compiled_, inputs);
  std::vector<rt::OutputView> outputs(compiled_->outputs.size(), rt::OutputView{nullptr, 0});
  check(context_->run(views, outputs), context_->failure());
}

std::vector<Tensor> JitProgram::run(const std::vector<Tensor>& inputs) {
  run_only(inputs);
  std::vector<Tensor> results;
  for (int32_t i = 0; i < static_cast<int32_t>(compiled_->outputs.size()); ++i) {
    const CompiledPort& port = compiled_->outputs[i];
    std::vector<int64_t> shape(compiled_->buffers[port.buffer].rank);
    for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = context_->output_dim(i, static_cast<int32_t>(axis));
    std::byte* data = nullptr;
    Tensor tensor = make_tensor(port.dtype, shape, &data);
    if (tensor.byte_count()) std::memcpy(data, context_->output_data(i), tensor.byte_count());
    results.push_back(std::move(tensor));
  }
  return results;
}

void JitProgram::start_profile() {
  context_->times.assign(compiled_->steps.size(), rt::StepTime{});
  context_->profile(context_->times.data());
}

void JitProgram::stop_profile() { context_->profile(nullptr); }

int64_t JitProgram::arena_bytes() const { return context_->arena_bytes(); }
int64_t JitProgram::held_bytes() const { return context_->held_bytes(); }

std::vector<StepProfile> JitProgram::profile() const {
  std::vector<StepProfile> rows;
  for (size_t i = 0; i < context_->times.size(); ++i) {
    const rt::StepTime& time = context_->times[i];
    rows.push_back({context_->step_name(static_cast<int32_t>(i)), time.runs, time.ns, time.operations, time.bytes});
  }
  return rows;
}

WeightsBlock run_prepare(const CompiledModel& model, const CpuTarget& cpu, const JitOptions& options) {
  int64_t size = model.run.weight_bytes;
  for (const WeightSource& source : model.weights)
    METAC_ASSERT(source.offset >= 0 && source.offset + source.bytes <= size, "weights table");
  if (size == 0) return nullptr;
  auto block = std::make_shared<rt::Block>();
  if (!block->reserve(size)) fail("no memory for ", size, " bytes of weights");
  std::byte* base = static_cast<std::byte*>(block->data());
  // Gaps between blocks are zero, so that the shipped file has the same bytes from run to run.
  std::memset(base, 0, size);

  std::vector<rt::OutputView> outputs(model.prepare.outputs.size(), rt::OutputView{nullptr, 0});
  std::map<int, const WeightSource*> placed;
  for (const WeightSource& source : model.weights) {
    if (source.parameter >= 0) {
      const Tensor& tensor = model.parameters.at(source.parameter).tensor;
      METAC_ASSERT(static_cast<int64_t>(tensor.byte_count()) <= source.bytes, "a parameter is larger than its place");
      if (tensor.byte_count()) std::memcpy(base + source.offset, tensor.bytes.get(), tensor.byte_count());
    } else if (placed.emplace(source.prepare_output, &source).second) {
      outputs.at(source.prepare_output) = {base + source.offset, source.bytes};
    }
  }
  if (!model.prepare.outputs.empty()) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < model.prepare.inputs.size(); ++i) inputs.push_back(model.parameters.at(i).tensor);
    KernelLibrary kernels(model.prepare.kernels, cpu, options);
    ProgramTables tables(model.prepare, kernels.functions());
    rt::ThreadPool pool;
    rt::Executor executor;
    if (!pool.start(options.threads)) fail("no memory for threads");
    create(executor, tables, nullptr, pool);
    std::vector<rt::InputView> views = views_of(model.prepare, inputs);
    check(
        executor.run(views.data(), static_cast<int32_t>(views.size()), outputs.data(), static_cast<int32_t>(outputs.size())),
        executor.failure());
  }
  for (const WeightSource& source : model.weights) {
    const WeightSource* first = source.parameter >= 0 ? &source : placed.at(source.prepare_output);
    if (first != &source) std::memcpy(base + source.offset, base + first->offset, source.bytes);
  }
  return WeightsBlock(block, base);
}

}  // namespace metac
