// The C interface of @name@.h over the executor. Fixed text; what is particular to the model stands in program.cpp.
#include "../include/@name@.h"

#include <atomic>
#include <new>

#include "program.h"
#include "runtime/@target_header@"
#include "runtime/weights.h"

using namespace METAC_RUNTIME_NAMESPACE;

struct @name@_context {
  ThreadPool pool;
  Target target;
  ExecutorOn<Target::Device> executor;
  Weights weights;
  Block refitted;                 // the weights block that set_weights made
  Array<StepTime> times;
  Failure failure;
  bool usable = false;
  std::atomic<bool> in_use{false};  // by a call that changes it
};

#ifdef @NAME@_EMBED_WEIGHTS
// The weights file stands in the library's read-only data, page by page like a mapped file.
__asm__(
    ".pushsection .rodata.@name@_weights,\"a\",@progbits\n"
    ".balign 4096\n"
    "@name@_embedded_weights:\n"
    ".incbin \"@name@.weights\"\n"
    "@name@_embedded_weights_end:\n"
    ".popsection\n");
extern "C" {
extern const char @name@_embedded_weights[] __attribute__((visibility("hidden")));
extern const char @name@_embedded_weights_end[] __attribute__((visibility("hidden")));
}
#endif

namespace {

bool cpu_suffices(Failure& failure) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const struct { bool there; const char* name; } needed[] = {{true, ""}@cpu_features@};
  for (const auto& feature : needed)
    if (!feature.there) return failure.set(Status::unsupported, "this CPU has no %s; compile the model with --cpu for it", feature.name);
#endif
  (void)failure;
  return true;
}

bool open_weights(@name@_context& context, const char* path) {
  if (run_program.weight_bytes == 0) return true;
  if (path != nullptr) return context.weights.open(path, run_program.weight_bytes, weights_layout, context.failure);
#ifdef @NAME@_EMBED_WEIGHTS
  return context.weights.check(@name@_embedded_weights, @name@_embedded_weights_end - @name@_embedded_weights, run_program.weight_bytes,
                               weights_layout, "the library", context.failure);
#else
  return context.weights.find(reinterpret_cast<const void*>(&@name@_create), "@name@.weights", "@name@", run_program.weight_bytes, weights_layout,
                              context.failure);
#endif
}

// A call's hold on a context. Another thread's call that comes meanwhile is answered BUSY and touches nothing.
class Hold {
 public:
  explicit Hold(@name@_context& context) : in_use_(context.in_use), held_(!in_use_.exchange(true, std::memory_order_acquire)) {}
  ~Hold() {
    if (held_) in_use_.store(false, std::memory_order_release);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  explicit operator bool() const { return held_; }

 private:
  std::atomic<bool>& in_use_;
  const bool held_;
};

@name@_status status_of(const Failure& failure) { return static_cast<@name@_status>(failure.status); }

// Views of the caller's inputs; false: a rank that no tensor has.
bool take_inputs(@name@_context& context, const @name@_tensor* inputs, int32_t count, InputView* views) {
  if (count != @NAME@_INPUTS || (inputs == nullptr && count > 0))
    return context.failure.set(Status::invalid_argument, "%d inputs given, the model has %d", inputs == nullptr ? 0 : count, @NAME@_INPUTS);
  for (int32_t i = 0; i < count; ++i) {
    if (inputs[i].rank < 0 || inputs[i].rank > @NAME@_MAX_RANK)
      return context.failure.set(Status::invalid_argument, "input %d: rank %d", i, inputs[i].rank);
    views[i] = {inputs[i].data, inputs[i].dims, inputs[i].rank};
  }
  return true;
}

void describe_outputs(const ExecutorOn<Target::Device>& executor, @name@_tensor* outputs) {
  for (int32_t i = 0; i < @NAME@_OUTPUTS; ++i) {
    outputs[i].rank = run_program.buffers[run_program.outputs[i].buffer].rank;
    for (int32_t axis = 0; axis < outputs[i].rank; ++axis) outputs[i].dims[axis] = executor.output_dim(i, axis);
    outputs[i].bytes = executor.output_bytes(i);
  }
}

}  // namespace

extern "C" {

const char* @name@_version(void) { return "metac @version@"; }
const char* @name@_model_hash(void) { return "@model_hash@"; }

@name@_status @name@_create(const @name@_options* options, @name@_context** result) {
  if (result == nullptr) return @NAME@_INVALID_ARGUMENT;
  *result = nullptr;
  void* memory = std::aligned_alloc(alignof(@name@_context), (sizeof(@name@_context) + 63) / 64 * 64);
  if (memory == nullptr) return @NAME@_OUT_OF_MEMORY;
  @name@_context* context = new (memory) @name@_context;
  *result = context;
  @name@_options given{};
  if (options != nullptr) given = *options;
  if (!cpu_suffices(context->failure) || !context->target.open(context->failure) || !open_weights(*context, given.weights)) return status_of(context->failure);
  const bool foreign = given.parallel != nullptr;
  bool pool = context->pool.start(foreign ? 1 : Target::threads(given.threads), given.pin != 0);
  if (pool && foreign) pool = context->pool.use(given.parallel, given.pool, given.threads > 0 ? given.threads : usable_cpus());
  context->pool.set_dynamic(given.fixed_split == 0);
  if (!pool) {
    context->failure.set(Status::out_of_memory, "no memory for the threads");
    return status_of(context->failure);
  }
  const void* weights = context->target.hold(context->weights.block(), run_program.weight_bytes, context->failure);
  if (!context->failure.ok()) return status_of(context->failure);
  if (context->executor.create(run_program, weights, context->target.device(context->pool), routines, routine_count) != Status::ok) {
    context->failure = context->executor.failure();
    return status_of(context->failure);
  }
  context->usable = true;
  return @NAME@_OK;
}

void @name@_destroy(@name@_context* context) {
  if (context == nullptr) return;
  context->~@name@_context();
  std::free(context);
}

@name@_status @name@_run(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  InputView in[@NAME@_INPUTS + 1];
  OutputView out[@NAME@_OUTPUTS + 1];
  context->failure.clear();
  if (!take_inputs(*context, inputs, input_count, in)) return status_of(context->failure);
  if (output_count != @NAME@_OUTPUTS || (outputs == nullptr && output_count > 0)) {
    context->failure.set(Status::invalid_argument, "%d outputs given, the model has %d", outputs == nullptr ? 0 : output_count, @NAME@_OUTPUTS);
    return status_of(context->failure);
  }
  for (int32_t i = 0; i < output_count; ++i) out[i] = {outputs[i].data, outputs[i].bytes};
  const Status status = context->executor.run(in, input_count, out, output_count);
  context->failure = context->executor.failure();
  if (status != Status::ok) return status_of(context->failure);
  describe_outputs(context->executor, outputs);
  for (int32_t i = 0; i < output_count; ++i) outputs[i].data = context->executor.output_data(i);
  return @NAME@_OK;
}

@name@_status @name@_output_shapes(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                               int32_t output_count) {
  if (context == nullptr || !context->usable || outputs == nullptr || output_count != @NAME@_OUTPUTS) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  InputView in[@NAME@_INPUTS + 1];
  context->failure.clear();
  if (!take_inputs(*context, inputs, input_count, in)) return status_of(context->failure);
  if (context->executor.bind_shapes(in, input_count) != Status::ok) {
    context->failure = context->executor.failure();
    return status_of(context->failure);
  }
  describe_outputs(context->executor, outputs);
  return @NAME@_OK;
}

const char* @name@_last_error(const @name@_context* context) { return context == nullptr ? "no memory for a context" : context->failure.message; }

const @name@_port* @name@_input(int32_t index) { return index >= 0 && index < @NAME@_INPUTS ? &input_ports[index] : nullptr; }
const @name@_port* @name@_output(int32_t index) { return index >= 0 && index < @NAME@_OUTPUTS ? &output_ports[index] : nullptr; }
const @name@_port* @name@_parameter(int32_t index) { return index >= 0 && index < @NAME@_PARAMETERS ? &parameter_ports[index] : nullptr; }

@name@_status @name@_set_weights(@name@_context* context, const void* const* parameters, int32_t count) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  Failure& failure = context->failure;
  failure.clear();
  bool all = count == @NAME@_PARAMETERS && (parameters != nullptr || count == 0);
  for (int32_t i = 0; all && i < count; ++i) all = parameters[i] != nullptr || parameter_ports[i].dims == nullptr;
  if (!all) {
    failure.set(Status::invalid_argument, "%d parameters given, the model has %d", count, @NAME@_PARAMETERS);
    return status_of(failure);
  }
  Executor prepare;
  Array<InputView> in;
  Array<OutputView> out;
  Block block;
  if (!block.reserve(run_program.weight_bytes + alignment) || !in.allocate(@NAME@_PARAMETERS) || !out.allocate(prepare_program.output_count)) {
    failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(run_program.weight_bytes));
    return status_of(failure);
  }
  char* bytes = static_cast<char*>(block.data());
  std::memset(bytes, 0, static_cast<size_t>(run_program.weight_bytes));
  for (int32_t i = 0; i < @NAME@_PARAMETERS; ++i) in[i] = {parameters[i], parameter_ports[i].dims, parameter_ports[i].rank};
  for (int32_t k = 0; k < weight_source_count; ++k) {
    const WeightSource& source = weight_sources[k];
    if (source.parameter >= 0) std::memcpy(bytes + source.offset, parameters[source.parameter], static_cast<size_t>(source.bytes));
    else out[source.prepare_output] = {bytes + source.offset, source.bytes};
  }
  Status status = prepare.create(prepare_program, nullptr, &context->pool, routines, routine_count);
  if (status == Status::ok && prepare_program.output_count > 0)
    status = prepare.run(in.data(), @NAME@_PARAMETERS, out.data(), prepare_program.output_count);
  if (status != Status::ok) {
    failure = prepare.failure();
    return status_of(failure);
  }
  for (int32_t k = 0; k < weight_source_count; ++k) {  // two places may hold the same output
    const WeightSource& source = weight_sources[k];
    if (source.parameter >= 0) continue;
    const void* made = out[source.prepare_output].data;
    if (made != bytes + source.offset) std::memcpy(bytes + source.offset, made, static_cast<size_t>(source.bytes));
  }
  const void* held = context->target.hold(block.data(), run_program.weight_bytes, failure);
  if (!failure.ok()) return status_of(failure);
  context->refitted.take(block);
  context->executor.set_weights(held);
  return @NAME@_OK;
}

int64_t @name@_static_arena_bytes(void) { return run_program.arena_bytes; }
int64_t @name@_arena_bytes(const @name@_context* context) { return context == nullptr ? 0 : context->executor.arena_bytes(); }

@name@_status @name@_profile(@name@_context* context, int32_t enable) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  if (enable != 0 && context->times.size() == 0 && !context->times.allocate(run_program.step_count)) return @NAME@_OUT_OF_MEMORY;
  context->executor.profile(enable != 0 ? context->times.data() : nullptr);
  return @NAME@_OK;
}

const char* @name@_profile_row(const @name@_context* context, int32_t index, int64_t* runs, int64_t* nanoseconds) {
  if (context == nullptr || index < 0 || index >= run_program.step_count || index >= context->times.size()) return nullptr;
  const StepTime& time = context->times[index];
  if (runs != nullptr) *runs = time.runs;
  if (nanoseconds != nullptr) *nanoseconds = time.ns;
  const Step& step = run_program.steps[index];
  switch (step.kind) {
    case StepKind::launch: return run_program.kernel_names[step.kernel];
    case StepKind::external: return run_program.routines[step.kernel];
    case StepKind::bind: return "bind";
    case StepKind::check: return "check";
    case StepKind::branch: return "branch";
    case StepKind::loop: return "loop";
    case StepKind::copy: return "copy";
    case StepKind::assign: return "assign";
    case StepKind::repeat: return "repeat";
  }
  return "step";
}

}  // extern "C"
