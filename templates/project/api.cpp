// The C interface of @name@.h over the executor. Fixed text; what is particular to the model stands in program.cpp.
#include "../include/@name@.h"

#include <atomic>
#include <new>

#include "program.h"
#include "runtime/@target_header@"
#include "runtime/weights.h"

using namespace METAC_RUNTIME_NAMESPACE;

// A program of the library in a context: made at its first call.
struct Callable {
  ExecutorOn<Target::Device> executor;
  Array<InputView> inputs;
  Array<OutputView> outputs;
  Array<StepTime> times;
  bool made = false;
};

struct @name@_context {
  ThreadPool pool;
  Target target;
  Callable programs[program_count];
  const Variant* variant = nullptr;
  Weights weights;
  const void* block = nullptr;    // the weights where kernels read them
  Block refitted;                 // the weights block that set_weights made
  Failure failure;
@exchange_members@  bool usable = false, profiled = false;
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

// The variant that was asked for, or the first that this CPU can run.
bool choose_variant(@name@_context& context, const char* asked) {
  const Variant* tried = nullptr;
  const char* lacking = nullptr;
  for (int32_t i = 0; i < variant_count; ++i) {
    if (asked != nullptr && std::strcmp(asked, variants[i].cpu) != 0) continue;
    tried = &variants[i];
    lacking = tried->lacking();
    if (lacking != nullptr) continue;
    context.variant = tried;
    return true;
  }
  if (tried != nullptr)
    return context.failure.set(Status::unsupported, "this CPU has no %s, which code for %s needs; compile the model with --cpu for it", lacking, tried->cpu);
  char known[200] = "";
  for (int32_t i = 0; i < variant_count; ++i) std::snprintf(known + std::strlen(known), sizeof(known) - std::strlen(known), "%s%s", i > 0 ? ", " : "", variants[i].cpu);
  return context.failure.set(Status::invalid_argument, "this library has no code for \"%.80s\"; it has code for %s", asked, known);
}

bool open_weights(@name@_context& context, const char* path) {
  if (weights_bytes == 0) return true;
  if (path != nullptr) return context.weights.open(path, weights_bytes, weights_layout, context.failure);
#ifdef @NAME@_EMBED_WEIGHTS
  return context.weights.check(@name@_embedded_weights, @name@_embedded_weights_end - @name@_embedded_weights, weights_bytes,
                               weights_layout, "the library", context.failure);
#else
  return context.weights.find(reinterpret_cast<const void*>(&@name@_create), "@name@.weights", "@name@", weights_bytes, weights_layout,
                              context.failure);
#endif
}

// Whether programs copy weights in while they run (Program::loads): all of them do or none.
bool weights_swapped(const @name@_context& context) {
  for (int32_t p = 0; p < program_count; ++p)
    if (context.variant->programs[p].run->load_count > 0) return true;
  return false;
}

// Makes a program ready to be called.
bool make(@name@_context& context, int32_t index) {
  Callable& callable = context.programs[index];
  if (callable.made) return true;
  const FunctionProgram& tables = context.variant->programs[index];
  const Program& program = *tables.run;
  const bool memory = callable.inputs.allocate(program.input_count) && callable.outputs.allocate(program.output_count) &&
                      (!context.profiled || callable.times.allocate(program.step_count));
  if (!memory) return context.failure.set(Status::out_of_memory, "no memory for a function of the model");
  if (callable.executor.create(program, context.block, context.target.device(context.pool), routines, routine_count) != Status::ok) {
    context.failure = callable.executor.failure();
    return false;
  }
  if (context.profiled) callable.executor.profile(callable.times.data());
  context.weights.populate(tables.weights_from, tables.weights_bytes, context.pool);
  return callable.made = true;
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

// The program for these inputs: one for their dims, or the function's own for all.
int32_t choose_program(int32_t function, const @name@_tensor* inputs, int32_t count) {
  for (int32_t i = 0; i < program_count - function_count; ++i) {
    const Specialisation& s = specialisations[i];
    if (s.function != function || inputs == nullptr) continue;
    bool holds = true;
    for (int32_t k = s.first; holds && k < s.first + s.conditions; ++k) {
      const DimCondition& c = dim_conditions[k];
      holds = c.input < count && c.axis < inputs[c.input].rank && inputs[c.input].dims[c.axis] == c.value;
    }
    if (holds) return s.program;
  }
  return function;
}

// Views of the caller's inputs; false: a rank that no tensor has.
bool take_inputs(@name@_context& context, Callable& callable, const @name@_tensor* inputs, int32_t count) {
  const int32_t expected = callable.executor.program()->input_count;
  if (count != expected || (inputs == nullptr && count > 0))
    return context.failure.set(Status::invalid_argument, "%d inputs given, the model has %d", inputs == nullptr ? 0 : count, expected);
  InputView* const views = callable.inputs.data();
  for (int32_t i = 0; i < count; ++i) {
    if (inputs[i].rank < 0 || inputs[i].rank > @NAME@_MAX_RANK)
      return context.failure.set(Status::invalid_argument, "input %d: rank %d", i, inputs[i].rank);
    views[i] = {inputs[i].data, inputs[i].dims, inputs[i].rank};
  }
  return true;
}

void describe_outputs(const ExecutorOn<Target::Device>& executor, @name@_tensor* outputs) {
  const Program& program = *executor.program();
  for (int32_t i = 0; i < program.output_count; ++i) {
    outputs[i].rank = program.buffers[program.outputs[i].buffer].rank;
    for (int32_t axis = 0; axis < outputs[i].rank; ++axis) outputs[i].dims[axis] = executor.output_dim(i, axis);
    outputs[i].bytes = executor.output_bytes(i);
  }
}

@name@_status call(@name@_context* context, int32_t function, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count,
                   bool detached = false, void* stream = nullptr) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  context->failure.clear();
  context->target.use_stream(stream);
  const int32_t program = choose_program(function, inputs, input_count);
  Callable& callable = context->programs[program];
  if (!make(*context, program) || !take_inputs(*context, callable, inputs, input_count)) return status_of(context->failure);
  const int32_t expected = callable.executor.program()->output_count;
  if (output_count != expected || (outputs == nullptr && output_count > 0)) {
    context->failure.set(Status::invalid_argument, "%d outputs given, the model has %d", outputs == nullptr ? 0 : output_count, expected);
    return status_of(context->failure);
  }
  OutputView* const views = callable.outputs.data();
  for (int32_t i = 0; i < output_count; ++i) views[i] = {outputs[i].data, outputs[i].bytes};
  const Status status = callable.executor.run(callable.inputs.data(), input_count, views, output_count, detached);
  context->failure = callable.executor.failure();
  if (status != Status::ok) return status_of(context->failure);
  describe_outputs(callable.executor, outputs);
  for (int32_t i = 0; i < output_count; ++i) outputs[i].data = callable.executor.output_data(i);
  return @NAME@_OK;
}

const @name@_port* input_port(int32_t function, int32_t index) {
  const FunctionPorts& ports = function_ports[function];
  return index >= 0 && index < ports.input_count ? &ports.inputs[index] : nullptr;
}
const @name@_port* output_port(int32_t function, int32_t index) {
  const FunctionPorts& ports = function_ports[function];
  return index >= 0 && index < ports.output_count ? &ports.outputs[index] : nullptr;
}

// What a function's prepare program makes of the parameters and constants, into its piece of `block` and what it shares with others.
bool refit(@name@_context& context, const FunctionProgram& function, const void* const* parameters, char* block) {
  Failure& failure = context.failure;
  const Program& program = *function.prepare;
  Executor prepare;
  Array<InputView> in;
  Array<OutputView> out;
  if (!in.allocate(program.input_count) || !out.allocate(program.output_count)) return failure.set(Status::out_of_memory, "no memory to prepare weights");
  std::memset(block + function.weights_from, 0, static_cast<size_t>(function.weights_bytes));
  for (int32_t i = 0; i < program.input_count; ++i) {
    const int32_t number = function.parameters == nullptr ? i : function.parameters[i];
    in[i] = {parameters[number], parameter_ports[number].dims, parameter_ports[number].rank};
  }
  for (int32_t k = 0; k < function.source_count; ++k) {
    const WeightSource& source = function.sources[k];
    if (source.parameter >= 0) std::memcpy(block + source.offset, parameters[source.parameter], static_cast<size_t>(source.bytes));
    else out[source.prepare_output] = {block + source.offset, source.bytes};
  }
  Status status = prepare.create(program, nullptr, &context.pool, routines, routine_count);
  if (status == Status::ok && program.output_count > 0) status = prepare.run(in.data(), program.input_count, out.data(), program.output_count);
  if (status != Status::ok) {
    failure = prepare.failure();
    return false;
  }
  for (int32_t k = 0; k < function.source_count; ++k) {  // two places may hold the same output
    const WeightSource& source = function.sources[k];
    if (source.parameter >= 0) continue;
    const void* made = out[source.prepare_output].data;
    if (made != block + source.offset) std::memcpy(block + source.offset, made, static_cast<size_t>(source.bytes));
  }
  return true;
}

// Checks the parameters and takes memory for a weights block, of which the first `cleared` bytes are zero but for the constants; nullptr: the
// failure says why. `values`: what prepare programs read by number, the parameters and the constants.
char* begin_block(@name@_context& context, const void* const* parameters, int32_t count, int64_t cleared, Block& block, Array<const void*>& values) {
  context.failure.clear();
  bool all = count == @NAME@_PARAMETERS && (parameters != nullptr || count == 0);
  for (int32_t i = 0; all && i < count; ++i) all = parameters[i] != nullptr || parameter_ports[i].dims == nullptr;
  if (!all) return context.failure.set(Status::invalid_argument, "%d parameters given, the model has %d", count, @NAME@_PARAMETERS), nullptr;
  if (!block.reserve(weights_bytes + alignment) || !values.allocate(count + constant_count))
    return context.failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(weights_bytes)), nullptr;
  char* const bytes = static_cast<char*>(block.data());
  std::memset(bytes, 0, static_cast<size_t>(cleared));
  for (int32_t i = 0; i < count; ++i) values[i] = parameters[i];
  for (int32_t i = 0; i < constant_count; ++i) {
    const void* value = static_cast<const char*>(context.weights.block()) + constants[i].offset;
    if (constants[i].bytes > 0) std::memcpy(bytes + constants[i].offset, value, static_cast<size_t>(constants[i].bytes));
    values[count + i] = value;
  }
  return bytes;
}

// The program of row `index` of the profile, and which of its steps that is; nullptr beyond the last.
const Callable* profiled_step(const @name@_context* context, int32_t* index) {
  if (context == nullptr || *index < 0) return nullptr;
  const Callable* callable = context->programs;  // those that were called, one after another
  for (int32_t p = 0; p < program_count && *index >= callable->times.size(); ++p, ++callable) *index -= static_cast<int32_t>(callable->times.size());
  return callable == context->programs + program_count ? nullptr : callable;
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
  if (!choose_variant(*context, given.cpu) || !context->target.open(context->failure) || !open_weights(*context, given.weights)) return status_of(context->failure);
  const bool foreign = given.parallel != nullptr;
  bool pool = context->pool.start(foreign ? 1 : Target::threads(given.threads), given.pin != 0);
  if (pool && foreign) pool = context->pool.use(given.parallel, given.pool, given.threads > 0 ? given.threads : usable_cpus());
  context->pool.set_dynamic(given.fixed_split == 0);
  if (!pool) {
    context->failure.set(Status::out_of_memory, "no memory for the threads");
    return status_of(context->failure);
  }
  context->weights.populate(0, shared_weights_bytes, context->pool);
  context->block = context->target.hold(context->weights.block(), weights_bytes, weights_swapped(*context), context->failure);
  if (!context->failure.ok() || !make(*context, run_function)) return status_of(context->failure);
  context->usable = true;
  return @NAME@_OK;
}

void @name@_destroy(@name@_context* context) {
  if (context == nullptr) return;
  context->~@name@_context();
  std::free(context);
}

@name@_status @name@_run(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, run_function, inputs, input_count, outputs, output_count);
}

@derivative_functions@@exchange_functions@@device_functions@@name@_status @name@_find_non_finite(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count,
                               char* report, int64_t report_bytes) {
  if (context == nullptr || !context->usable || report == nullptr || report_bytes < 1) return @NAME@_INVALID_ARGUMENT;
  report[0] = 0;
  NonFiniteWatch watch;
  int32_t watched;
  {
    const Hold hold(*context);
    if (!hold) return @NAME@_BUSY;
    context->failure.clear();
    watched = choose_program(run_function, inputs, input_count);
    if (!make(*context, watched)) return status_of(context->failure);
    if (!context->programs[watched].executor.watch(&watch)) return @NAME@_OUT_OF_MEMORY;
  }
  const @name@_status status = call(context, run_function, inputs, input_count, outputs, output_count);
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  context->programs[watched].executor.watch(nullptr);
  const Program& program = *context->programs[watched].executor.program();
  const char* const infinity = watch.first_infinity_step < 0 ? nullptr : step_name(program, watch.first_infinity_step);
  const char* const nan = watch.first_nan_step < 0 ? nullptr : step_name(program, watch.first_nan_step);
  const size_t room = static_cast<size_t>(report_bytes);
  if (nan != nullptr && infinity != nullptr) std::snprintf(report, room, "%s made the first NaN, %s the first infinity", nan, infinity);
  else if (nan != nullptr) std::snprintf(report, room, "%s made the first NaN", nan);
  else if (infinity != nullptr) std::snprintf(report, room, "%s made the first infinity", infinity);
  return status;
}

@name@_status @name@_output_shapes(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                               int32_t output_count) {
  if (context == nullptr || !context->usable || outputs == nullptr || output_count != @NAME@_OUTPUTS) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  context->failure.clear();
  const int32_t program = choose_program(run_function, inputs, input_count);
  Callable& run = context->programs[program];
  if (!make(*context, program) || !take_inputs(*context, run, inputs, input_count)) return status_of(context->failure);
  if (run.executor.bind_shapes(run.inputs.data(), input_count) != Status::ok) {
    context->failure = run.executor.failure();
    return status_of(context->failure);
  }
  describe_outputs(run.executor, outputs);
  return @NAME@_OK;
}

const char* @name@_last_error(const @name@_context* context) { return context == nullptr ? "no memory for a context" : context->failure.message; }

const char* @name@_cpu(int32_t index) { return index >= 0 && index < variant_count ? variants[index].cpu : nullptr; }
const char* @name@_cpu_of(const @name@_context* context) { return context == nullptr || context->variant == nullptr ? "" : context->variant->cpu; }

const @name@_port* @name@_input(int32_t index) { return input_port(run_function, index); }
const @name@_port* @name@_output(int32_t index) { return output_port(run_function, index); }
const @name@_port* @name@_parameter(int32_t index) { return index >= 0 && index < @NAME@_PARAMETERS ? &parameter_ports[index] : nullptr; }

@name@_status @name@_set_weights(@name@_context* context, const void* const* parameters, int32_t count) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  Failure& failure = context->failure;
  Block block;
  Array<const void*> values;
  char* const bytes = begin_block(*context, parameters, count, shared_weights_bytes, block, values);
  if (bytes == nullptr) return status_of(failure);
  for (int32_t p = 0; p < program_count; ++p)
    if (!refit(*context, context->variant->programs[p], values.data(), bytes)) return status_of(failure);
  const void* held = context->target.hold(bytes, weights_bytes, weights_swapped(*context), failure);
  if (!failure.ok()) return status_of(failure);
  context->refitted.take(block);
  context->block = held;
  for (Callable& callable : context->programs) callable.executor.set_weights(held);
  return @NAME@_OK;
}

@name@_status @name@_write_weights(@name@_context* context, const void* const* parameters, int32_t count, const char* path) {
  if (context == nullptr || !context->usable || path == nullptr) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  Failure& failure = context->failure;
  Block block;
  Array<const void*> values;
  char* const bytes = begin_block(*context, parameters, count, weights_bytes, block, values);
  if (bytes == nullptr) return status_of(failure);
  for (int32_t v = 0; v < variant_count; ++v) {  // the file is for all of them
    if (const char* lacking = variants[v].lacking()) {
      failure.set(Status::unsupported, "this CPU has no %s, which preparing the weights of the code for %s needs", lacking, variants[v].cpu);
      return status_of(failure);
    }
    for (int32_t p = 0; p < program_count; ++p)
      if (!refit(*context, variants[v].programs[p], values.data(), bytes)) return status_of(failure);
  }
  write_weights_file(path, bytes, weights_bytes, weights_layout, failure);
  return status_of(failure);
}

int64_t @name@_static_arena_bytes(void) { return variants[0].programs[0].run->arena_bytes; }
int64_t @name@_arena_bytes(const @name@_context* context) {
  int64_t bytes = 0;
  if (context != nullptr)
    for (const Callable& callable : context->programs) bytes += callable.executor.arena_bytes();
  return bytes;
}
int64_t @name@_held_bytes(const @name@_context* context) {
  int64_t bytes = 0;
  if (context != nullptr)
    for (const Callable& callable : context->programs) bytes += callable.executor.held_bytes();
  return bytes;
}

@name@_status @name@_profile(@name@_context* context, int32_t enable) {
  if (context == nullptr || !context->usable) return @NAME@_INVALID_ARGUMENT;
  context->profiled = enable != 0;
  for (Callable& callable : context->programs) {
    if (!callable.made) continue;
    if (enable != 0 && callable.times.size() == 0 && !callable.times.allocate(callable.executor.program()->step_count)) return @NAME@_OUT_OF_MEMORY;
    callable.executor.profile(enable != 0 ? callable.times.data() : nullptr);
  }
  return @NAME@_OK;
}

const char* @name@_profile_row(const @name@_context* context, int32_t index, int64_t* runs, int64_t* nanoseconds) {
  const Callable* callable = profiled_step(context, &index);
  if (callable == nullptr) return nullptr;
  const StepTime& time = callable->times[index];
  if (runs != nullptr) *runs = time.runs;
  if (nanoseconds != nullptr) *nanoseconds = time.ns;
  return step_name(*callable->executor.program(), index);
}

@name@_status @name@_profile_work(const @name@_context* context, int32_t index, double* operations, double* bytes) {
  const Callable* callable = profiled_step(context, &index);
  if (callable == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (operations != nullptr) *operations = callable->times[index].operations;
  if (bytes != nullptr) *bytes = callable->times[index].bytes;
  return @NAME@_OK;
}

}  // extern "C"
