#include "compiler/jit/jit_program.h"

#include <cstring>
#include <map>

#include "compiler/jit/program_tables.h"
#include "compiler/support/diagnostic.h"
#include "runtime/executor.h"
#include "runtime/routines.h"

namespace metac {

struct JitProgram::Context {
  Context(const CompiledProgram& compiled, const KernelLibrary& kernels) : tables(compiled, kernels.functions()) {}

  ProgramTables tables;
  rt::ThreadPool pool;
  rt::Executor executor;
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

void check(rt::Status status, const rt::Executor& executor) {
  if (status == rt::Status::ok) return;
  METAC_ASSERT(status != rt::Status::internal, executor.failure().message);
  fail(executor.failure().message);
}

void create(rt::Executor& executor, const ProgramTables& tables, const void* weights, rt::ThreadPool& pool) {
  int32_t routine_count = 0;
  const rt::RoutineEntry* routines = rt::all_routines(&routine_count);
  check(executor.create(tables.program(), weights, &pool, routines, routine_count), executor);
}

}  // namespace

JitProgram::JitProgram(std::shared_ptr<const CompiledProgram> compiled, WeightsBlock weights, const CpuTarget& cpu, int threads,
                       const JitOptions& options)
    : compiled_(std::move(compiled)),
      weights_(std::move(weights)),
      kernels_(compiled_->kernels, cpu, options),
      context_(std::make_unique<Context>(*compiled_, kernels_)) {
  if (!context_->pool.start(threads)) fail("no memory for ", threads, " threads");
  create(context_->executor, context_->tables, weights_.get(), context_->pool);
}

JitProgram::~JitProgram() = default;

void JitProgram::run_only(const std::vector<Tensor>& inputs) {
  std::vector<rt::InputView> views = views_of(*compiled_, inputs);
  std::vector<rt::OutputView> outputs(compiled_->outputs.size(), rt::OutputView{nullptr, 0});
  check(context_->executor.run(views.data(), static_cast<int32_t>(views.size()), outputs.data(), static_cast<int32_t>(outputs.size())),
        context_->executor);
}

std::vector<Tensor> JitProgram::run(const std::vector<Tensor>& inputs) {
  run_only(inputs);
  const rt::Executor& executor = context_->executor;
  std::vector<Tensor> results;
  for (int32_t i = 0; i < static_cast<int32_t>(compiled_->outputs.size()); ++i) {
    const CompiledPort& port = compiled_->outputs[i];
    std::vector<int64_t> shape(compiled_->buffers[port.buffer].rank);
    for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = executor.output_dim(i, static_cast<int32_t>(axis));
    std::byte* data = nullptr;
    Tensor tensor = make_tensor(port.dtype, shape, &data);
    if (tensor.byte_count()) std::memcpy(data, executor.output_data(i), tensor.byte_count());
    results.push_back(std::move(tensor));
  }
  return results;
}

void JitProgram::start_profile() {
  context_->times.assign(compiled_->steps.size(), rt::StepTime{0, 0});
  context_->executor.profile(context_->times.data());
}

std::vector<StepProfile> JitProgram::profile() const {
  std::vector<StepProfile> rows;
  for (size_t i = 0; i < context_->times.size(); ++i) {
    const rt::Step& step = compiled_->steps[i];
    std::string what = "bookkeeping";
    if (step.kind == rt::StepKind::launch) what = compiled_->kernels.at(step.kernel).name;
    if (step.kind == rt::StepKind::external) what = compiled_->routines.at(step.kernel);
    rows.push_back({std::move(what), context_->times[i].runs, context_->times[i].ns});
  }
  return rows;
}

WeightsBlock run_prepare(const CompiledModel& model, const CpuTarget& cpu, const JitOptions& options) {
  int64_t size = model.run.weight_bytes;
  for (const WeightSource& source : model.weights) METAC_ASSERT(source.offset >= 0 && source.offset + source.bytes <= size, "weights table");
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
    check(executor.run(views.data(), static_cast<int32_t>(views.size()), outputs.data(), static_cast<int32_t>(outputs.size())), executor);
  }
  for (const WeightSource& source : model.weights) {
    const WeightSource* first = source.parameter >= 0 ? &source : placed.at(source.prepare_output);
    if (first != &source) std::memcpy(base + source.offset, base + first->offset, source.bytes);
  }
  return WeightsBlock(block, base);
}

}  // namespace metac
