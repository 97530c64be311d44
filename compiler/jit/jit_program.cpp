#include "compiler/jit/jit_program.h"

#include <algorithm>
#include <cstring>

#include "compiler/jit/device.h"
#include "compiler/jit/program_context.h"
#include "compiler/jit/program_tables.h"
#include "compiler/jit/run_error.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/trace.h"

namespace metac {
namespace {

// What an empty tensor's pointer is: the executor takes null for "not given".
const std::byte no_bytes[64] = {};

// States are behind the inputs, and not filled in.
std::vector<rt::InputView> views_of(const CompiledProgram& program, const std::vector<Tensor>& inputs, size_t states = 0) {
  METAC_ASSERT(inputs.size() + states == program.inputs.size(), inputs.size(), " inputs for ", program.inputs.size());
  std::vector<rt::InputView> views;
  views.reserve(program.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CompiledPort& port = program.inputs[i];
    if (inputs[i].dtype != port.dtype)
      fail("input ", quoted(port.name), " is ", name_of(inputs[i].dtype), ", the model wants ", name_of(port.dtype));
    const std::byte* data = inputs[i].bytes ? inputs[i].bytes.get() : no_bytes;
    views.push_back({data, inputs[i].shape.data(), static_cast<int32_t>(inputs[i].shape.size())});
  }
  views.resize(program.inputs.size());
  return views;
}

// A tensor whose elements are still to be written.
Tensor make_output(DType dtype, const std::vector<int64_t>& shape, std::byte** data) {
  Tensor tensor{dtype, shape, nullptr, {}};
  if (const size_t bytes = tensor.byte_count()) {
    auto block = std::make_shared<rt::Block>();
    if (!block->reserve(static_cast<int64_t>(bytes))) throw no_memory(static_cast<int64_t>(bytes), "bytes of an output");
    *data = static_cast<std::byte*>(block->data());
    tensor.bytes = {block, *data};
  }
  return tensor;
}

void check(rt::Status status, const rt::Failure& failure) {
  if (status == rt::Status::ok) return;
  METAC_ASSERT(status != rt::Status::internal, failure.message);
  throw RunError(status, {"", "", failure.message});
}

// States in a run: they have their new values once end() is back, else those that they had.
class StatesInRun {
 public:
  StatesInRun(ProgramContext& context, rt::StateSet* states) : context_(context), states_(states) {}
  StatesInRun(const StatesInRun&) = delete;
  StatesInRun& operator=(const StatesInRun&) = delete;
  ~StatesInRun() {
    if (states_) states_->abandon();
  }
  void begin(std::vector<rt::InputView>& inputs, std::vector<rt::OutputView>& outputs) {
    rt::Failure failure;
    if (states_ && !context_.begin_states(*states_, inputs.data(), outputs.data(), failure)) check(failure.status, failure);
  }
  void end(const std::vector<rt::OutputView>& outputs) {
    rt::Failure failure;
    if (states_ && !context_.end_states(*states_, outputs.data(), failure)) check(failure.status, failure);
    states_ = nullptr;
  }

 private:
  ProgramContext& context_;
  rt::StateSet* states_;
};

struct HeldTables {
  HeldTables(std::shared_ptr<const CompiledProgram> of, const std::vector<rt::KernelFunction>& kernels,
             const std::vector<rt::Buffer>& where)
      : compiled(std::move(of)), buffers(where), tables(*compiled, kernels, buffers) {}
  const std::shared_ptr<const CompiledProgram> compiled;
  const std::vector<rt::Buffer> buffers;
  const ProgramTables tables;
};

}  // namespace

// Tables and weights where the kernels run.
struct JitCode::Place {
  std::shared_ptr<const HeldTables> tables;
  const void* weights;
  std::shared_ptr<const void> held;  // the weights, where a device has them
};

JitCode::JitCode(std::shared_ptr<const CompiledProgram> compiled, PreparedWeights weights, const CpuTarget& cpu,
                 const JitOptions& options)
    : compiled_(std::move(compiled)), weights_(std::move(weights)) {
  if (options.device)
    device_kernels_ = options.device->compile(compiled_->kernels, cpu, options);
  else
    kernels_ = std::make_shared<const KernelLibrary>(compiled_->kernels, cpu, options);
  place();
}

JitCode::JitCode(const JitCode& other, PreparedWeights weights)
    : compiled_(other.compiled_),
      weights_(std::move(weights)),
      kernels_(other.kernels_),
      device_kernels_(other.device_kernels_) {
  place();
}

JitCode::~JitCode() = default;

void JitCode::place() {
  const auto& functions = runs_on_threads() ? kernels_->functions() : device_kernels_->functions();
  const auto& buffers = weights_.buffers().empty() ? compiled_->buffers : weights_.buffers();
  place_.reset(new Place{std::make_shared<const HeldTables>(compiled_, functions, buffers), weights_.base(), {}});
  if (runs_on_threads()) return;
  METAC_ASSERT(weights_.buffers().empty(), "weights on a device are one block");
  place_->held = device_kernels_->hold(weights_.base(), compiled_->weight_bytes);
  place_->weights = place_->held.get();
}

std::shared_ptr<const rt::Program> JitCode::tables() const { return {place_->tables, &place_->tables->tables.program()}; }
bool JitCode::runs_on_threads() const { return kernels_ != nullptr; }
int64_t JitCode::code_bytes() const { return kernels_ ? kernels_->code_bytes() : 0; }
KernelOrigins JitCode::origins() const { return kernels_ ? kernels_->origins() : KernelOrigins(); }

namespace {

// What several contexts may have in turn.
struct HeldThreads {
  std::shared_ptr<rt::ThreadPool> pool;
  std::shared_ptr<HostMemory> memory;
};
class ContextOnThreads final : HeldThreads, public ProgramContextOn<rt::ThreadPool> {
 public:
  ContextOnThreads(std::shared_ptr<rt::ThreadPool> threads, std::shared_ptr<HostMemory> shared)
      : HeldThreads{std::move(threads), std::move(shared)}, ProgramContextOn(*pool) {
    if (memory) executor_.work_in(memory.get());
  }
};

}  // namespace

std::shared_ptr<rt::ThreadPool> started_threads(int threads) {
  auto pool = std::make_shared<rt::ThreadPool>();
  if (!pool->start(threads)) throw no_memory(threads, "threads");
  return pool;
}

JitProgram::JitProgram(std::shared_ptr<const JitCode> code, std::shared_ptr<rt::ThreadPool> threads,
                       std::shared_ptr<HostMemory> memory)
    : code_(std::move(code)) {
  if (code_->runs_on_threads())
    context_ = std::make_unique<ContextOnThreads>(std::move(threads), std::move(memory));
  else
    context_ = code_->device_kernels_->context();
  check(context_->create(*code_->tables(), code_->place_->weights), context_->failure());
}

JitProgram::JitProgram(std::shared_ptr<const JitCode> code, int threads)
    : JitProgram(code, code->runs_on_threads() ? started_threads(threads) : nullptr) {}

JitProgram::JitProgram(std::shared_ptr<const CompiledProgram> compiled, WeightsBlock weights, const CpuTarget& cpu,
                       int threads, const JitOptions& options)
    : JitProgram(std::make_shared<const JitCode>(std::move(compiled), PreparedWeights(std::move(weights)), cpu, options),
                 threads) {}

JitProgram::~JitProgram() = default;

void JitProgram::run_into(const std::vector<Tensor>& inputs, const std::vector<rt::OutputView>& outputs) {
  run_views(views_of(compiled(), inputs), outputs);
}

void JitProgram::run_views(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) {
  const bool traced = trace::on() && times_.empty();
  if (traced) start_profile();
  const int64_t begin = traced ? trace::now_ns() : 0;
  const rt::Status status = context_->run(inputs, outputs);
  if (traced) {
    trace_steps(begin, trace::now_ns());
    stop_profile();
    times_.clear();
  }
  check(status, context_->failure());
}

void JitProgram::run_only(const std::vector<Tensor>& inputs) {
  run_into(inputs, std::vector<rt::OutputView>(compiled().outputs.size(), rt::OutputView{nullptr, 0}));
}

std::vector<int64_t> JitProgram::output_shape(int32_t output) const {
  std::vector<int64_t> shape(compiled().buffers[compiled().outputs[output].buffer].rank);
  for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = context_->output_dim(output, static_cast<int32_t>(axis));
  return shape;
}

// Outputs whose sizes the inputs' shapes decide are written where they stay, the others are copied from the context.
std::vector<Tensor> JitProgram::run(const std::vector<Tensor>& inputs, rt::StateSet* states) {
  const size_t kept = compiled().states.size(), count = compiled().outputs.size() - kept;
  METAC_ASSERT((kept > 0) == (states != nullptr), "states of a program, and those that it is run on");
  std::vector<Tensor> results(count);
  std::vector<rt::InputView> given = views_of(compiled(), inputs, kept);
  std::vector<rt::OutputView> views(count + kept, rt::OutputView{nullptr, 0});
  StatesInRun states_in_run(*context_, states);
  states_in_run.begin(given, views);
  check(context_->bind_shapes(given), context_->failure());
  for (size_t i = 0; i < count; ++i) {
    const CompiledPort& port = compiled().outputs[i];
    const std::vector<int64_t> shape = output_shape(static_cast<int32_t>(i));
    if (std::find(shape.begin(), shape.end(), -1) != shape.end()) continue;
    std::byte* data = nullptr;
    results[i] = make_output(port.dtype, shape, &data);
    if (const size_t bytes = results[i].byte_count()) views[i] = {data, static_cast<int64_t>(bytes)};
  }
  run_views(given, views);
  for (size_t i = 0; i < count; ++i) {
    if (views[i].data) continue;
    std::byte* data = nullptr;
    results[i] = make_output(compiled().outputs[i].dtype, output_shape(static_cast<int32_t>(i)), &data);
    if (const size_t bytes = results[i].byte_count())
      std::memcpy(data, context_->output_data(static_cast<int32_t>(i)), bytes);
  }
  states_in_run.end(views);
  return results;
}

// Steps one behind the other from the run's beginning: how long each took is known, when it began is not. Steps that ran
// several times are shown as one.
void JitProgram::trace_steps(int64_t begin_ns, int64_t end_ns) const {
  trace::complete("run", concat(compiled().steps.size(), " steps"), begin_ns, end_ns);
  int64_t at = begin_ns;
  for (const StepProfile& step : profile()) {
    if (step.runs == 0) continue;
    const int64_t end = std::min(at + step.ns, end_ns);
    trace::complete("kernel", step.what, at, end, {{"runs", std::to_string(step.runs)}});
    at = end;
  }
}

void JitProgram::start_profile() {
  times_.assign(compiled().steps.size(), rt::StepTime{});
  context_->profile(times_.data());
}

void JitProgram::stop_profile() { context_->profile(nullptr); }

int64_t JitProgram::arena_bytes() const { return context_->arena_bytes(); }
int64_t JitProgram::held_bytes() const { return context_->held_bytes(); }

std::vector<StepProfile> JitProgram::profile() const {
  std::vector<StepProfile> rows;
  for (size_t i = 0; i < times_.size(); ++i) {
    const rt::StepTime& time = times_[i];
    rows.push_back({context_->step_name(static_cast<int32_t>(i)), time.runs, time.ns, time.operations, time.bytes});
  }
  return rows;
}

}  // namespace metac
