// The C interface of @name@.h over the executor. Fixed text; what is particular to the model stands in program.cpp.
#include "context.h"
#include "context_weights.h"
#include "creation_log.h"

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

// Where the other libraries of the process find the threads that all of them share.
extern "C" {
__attribute__((visibility("hidden"), used)) ThreadsAnchor @name@_threads_anchor;
}
METAC_THREADS_NOTE(@name@_threads_anchor);

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
  if (file_bytes == 0) return true;
  if (path != nullptr) return context.weights.open(path, file_bytes, weights_layout, context.failure);
#ifdef @NAME@_EMBED_WEIGHTS
  return context.weights.check(@name@_embedded_weights, @name@_embedded_weights_end - @name@_embedded_weights, file_bytes,
                               weights_layout, "the library", context.failure);
#else
  return context.weights.find(reinterpret_cast<const void*>(&@name@_create), "@name@.weights", "@name@", file_bytes, weights_layout,
                              context.failure);
#endif
}

// Makes a program ready to be called.
bool make(@name@_context& context, int32_t index) {
  Callable& callable = context.programs[index];
  if (callable.made) return true;
  const Program& program = *context.variant->programs[index].run;
  if (!make_weights(context, index)) return false;
  const bool memory = callable.inputs.allocate(program.input_count) && callable.outputs.allocate(program.output_count) &&
                      (!context.profiled || callable.times.allocate(program.step_count));
  if (!memory) return context.failure.set(Status::out_of_memory, "no memory for a function of the model");
  if (callable.executor.create(program, context.block, context.target.device(context.pool), routines, routine_count) != Status::ok) {
    context.failure = callable.executor.failure();
    return false;
  }
  callable.executor.take_memory_from(context.memory.allocator());
  context.arena.give_to(callable.executor);
  callable.executor.report_to(context.progress.listener());
  // A run that has written over a state may not end half way: failed runs leave states as they were.
  bool stays = false;
  for (int32_t k = 0; k < program.state_count; ++k) stays |= program.states[k].kept == StateMemory::stays;
  if (!stays) callable.executor.stop_when(&context.cancelled);
  if (context.profiled) {
    callable.executor.profile(callable.times.data());
    callable.measured.store(callable.times.data(), std::memory_order_release);
  }
  return callable.made = true;
}

@joined_texts@// The program for these inputs: one for their dims, or the function's own for all.
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

// Whether what the caller says of a tensor agrees with what it is for. `what`: "input", "output".
bool check_type(Failure& failure, const char* what, const @name@_port& port, const @name@_tensor& tensor) {
  if (tensor.type == 0 || tensor.type == @NAME@_TYPE(port.dtype)) return true;
  const bool known = tensor.type > 0 && tensor.type <= @NAME@_TYPE(@NAME@_BOOL);
  return failure.set(Status::invalid_argument, "%s \"%s\" is given as %s, expected %s", what, port.name, known ? dtype_name(static_cast<ScalarType>(tensor.type - 1)) : "no known type",
                     dtype_name(static_cast<ScalarType>(port.dtype)));
}
bool check_bytes(Failure& failure, const @name@_port& port, const @name@_tensor& tensor) {
  const ScalarType type = static_cast<ScalarType>(port.dtype);
  const int64_t needed = bytes_of_dims(type, tensor.dims, tensor.rank);
  if (tensor.bytes == 0 || needed < 0 || tensor.bytes == needed) return true;  // dims that are none are told with their place
  failure.set(Status::invalid_argument, "input \"%s\": %lld bytes given, ", port.name, static_cast<long long>(tensor.bytes));
  for (int32_t axis = 0; axis < tensor.rank; ++axis) failure.append("%s%lld", axis > 0 ? "x" : "", static_cast<long long>(tensor.dims[axis]));
  failure.append("%s of %s are %lld", tensor.rank == 0 ? "a scalar" : "", dtype_name(type), static_cast<long long>(needed));
  return false;
}

// Views of the caller's inputs; false: what no tensor is, or not this one.
bool take_inputs(@name@_context& context, int32_t function, Callable& callable, const @name@_tensor* inputs, int32_t count) {
  const int32_t expected = callable.executor.program()->input_count - callable.executor.program()->state_count;
  if (count != expected || (inputs == nullptr && count > 0))
    return context.failure.set(Status::invalid_argument, "%d inputs given, the model has %d", inputs == nullptr ? 0 : count, expected);
  InputView* const views = callable.inputs.data();
  for (int32_t i = 0; i < count; ++i) {
    const @name@_port& port = function_ports[function].inputs[i];
    if (inputs[i].rank < 0 || inputs[i].rank > @NAME@_MAX_RANK)
      return context.failure.set(Status::invalid_argument, "input %d: rank %d", i, inputs[i].rank);
    if (!check_type(context.failure, "input", port, inputs[i]) || !check_bytes(context.failure, port, inputs[i])) return false;
    views[i] = {inputs[i].data, inputs[i].dims, inputs[i].rank};
  }
  return true;
}

void describe_output(const ExecutorOn<Target::Device>& executor, int32_t i, @name@_tensor& output) {
  const Program& program = *executor.program();
  output.rank = program.buffers[program.outputs[i].buffer].rank;
  for (int32_t axis = 0; axis < output.rank; ++axis) output.dims[axis] = executor.output_dim(i, axis);
  output.bytes = executor.output_bytes(i);
}

void describe_outputs(const ExecutorOn<Target::Device>& executor, int32_t function, @name@_tensor* outputs) {
  for (int32_t i = 0; i < given_output_count(*executor.program()); ++i) {
    describe_output(executor, i, outputs[i]);
    outputs[i].type = @NAME@_TYPE(function_ports[function].outputs[i].dtype);
  }
}

// A call of function `function` with the program that choose_program found for it. `own`: the output that the library alone
// asks for, where the program has one. `states`: the context's, or others that go with its programs.
bool run_with(@name@_context& context, StateSet& states, int32_t function, int32_t program, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count,
                 bool detached = false, void* stream = nullptr, @name@_tensor* own = nullptr) {
  const ArenaShare::Run run(context.arena);
  if (!run) return context.failure.set(Status::busy, "another context runs in the arena that this one shares");
  context.target.use_stream(stream);
  Callable& callable = context.programs[program];
  if (!make(context, program) || !take_inputs(context, function, callable, inputs, input_count)) return false;
  const Program& tables = *callable.executor.program();
  const int32_t expected = given_output_count(tables);
  if (output_count != expected || (outputs == nullptr && output_count > 0))
    return context.failure.set(Status::invalid_argument, "%d outputs given, the model has %d", outputs == nullptr ? 0 : output_count, expected);
  OutputView* const views = callable.outputs.data();
  for (int32_t i = 0; i < output_count; ++i) {
    const bool unwanted = outputs[i].data == METAC_MODEL_UNWANTED;
    if (outputs[i].data != nullptr && !check_type(context.failure, "output", function_ports[function].outputs[i], outputs[i])) return false;
    views[i] = {unwanted ? nullptr : outputs[i].data, unwanted ? 0 : outputs[i].bytes, unwanted};
  }
  if (tables.own_outputs > 0) views[expected] = {nullptr, 0, own == nullptr};
  const bool keeps = has_states && tables.state_count > 0;
  if (keeps && !states.begin(callable.executor, callable.inputs.data(), views, context.failure)) {
    states.abandon();
    return false;
  }
  const Status status = callable.executor.run(callable.inputs.data(), tables.input_count, views, tables.output_count, detached);
  callable.arena_bytes.store(callable.executor.arena_bytes(), std::memory_order_relaxed);
  callable.held_bytes.store(callable.executor.held_bytes(), std::memory_order_relaxed);
  if (status != Status::ok) {
    context.failure = callable.executor.failure();
    if (keeps) states.abandon();
    return false;
  }
  if (keeps && !states.end(callable.executor, views, context.failure)) return false;
  if (keeps) context.state_bytes.store(context.states.held_bytes()@joined_bytes@, std::memory_order_relaxed);
  describe_outputs(callable.executor, function, outputs);
  for (int32_t i = 0; i < output_count; ++i)
    if (!views[i].unwanted) outputs[i].data = callable.executor.output_data(i);
  if (own != nullptr) {
    describe_output(callable.executor, expected, *own);
    own->data = callable.executor.output_data(expected);
  }
  return true;
}

// What the outputs are for inputs of these shapes, without a run.
bool find_shapes(@name@_context& held, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs) {
  const int32_t program = choose_program(run_function, inputs, input_count);
  Callable& run = held.programs[program];
  if (!make(held, program) || !take_inputs(held, run_function, run, inputs, input_count)) return false;
  const Program& tables = *run.executor.program();
  const bool keeps = has_states && tables.state_count > 0;
  const bool ready = !keeps || held.states.begin(run.executor, run.inputs.data(), run.outputs.data(), held.failure);
  const bool bound = ready && run.executor.bind_shapes(run.inputs.data(), tables.input_count) == Status::ok;
  if (keeps) held.states.abandon();
  if (!ready) return false;
  if (!bound) {
    held.failure = run.executor.failure();
    return false;
  }
  describe_outputs(run.executor, run_function, outputs);
  return true;
}

bool run_call(@name@_context& held, int32_t function, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  const bool offered = function == run_function && !held.profiled;
  if (offered && held.specialised.run(function_ports[function], @NAME@_MAX_RANK, inputs, input_count, outputs, output_count)) return true;
@generation_alone@  if (!run_with(held, held.states, function, choose_program(function, inputs, input_count), inputs, input_count, outputs, output_count)) return false;
  if (offered) held.specialised.answered();
  return true;
}

@name@_status call(@name@_context* context, int32_t function, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return use(context, [&](@name@_context& held) {
    return run_call(held, function, inputs, input_count, outputs, output_count);
  });
}

const @name@_port* input_port(int32_t function, int32_t index) {
  const FunctionPorts& ports = function_ports[function];
  return index >= 0 && index < ports.input_count ? &ports.inputs[index] : nullptr;
}
const @name@_port* output_port(int32_t function, int32_t index) {
  const FunctionPorts& ports = function_ports[function];
  return index >= 0 && index < ports.output_count ? &ports.outputs[index] : nullptr;
}

// The name and times of the step of row `index` of the profile; nullptr beyond the last.
const char* profiled_step(const @name@_context* context, int32_t index, const StepTime** time) {
  if (context == nullptr || index < 0) return nullptr;
  for (int32_t p = 0; p < program_count; ++p) {  // those that are measured, one after another
    const StepTime* const times = context->programs[p].measured.load(std::memory_order_acquire);
    if (times == nullptr) continue;
    const Program& program = *context->variant->programs[p].run;
    if (index < program.step_count) {
      *time = times + index;
      return step_name(program, index);
    }
    index -= program.step_count;
  }
  return nullptr;
}

}  // namespace

extern "C" {

const char* @name@_version(void) { return "metac @version@"; }
const char* @name@_model_hash(void) { return "@model_hash@"; }

@name@_status @name@_create(const @name@_options* options, @name@_context** result) {
  if (result == nullptr) return @NAME@_INVALID_ARGUMENT;
  *result = nullptr;
  void* memory = std::aligned_alloc(alignof(@name@_context), sizeof(@name@_context));
  if (memory == nullptr) return @NAME@_OUT_OF_MEMORY;
  @name@_context* context = new (memory) @name@_context;
  *result = context;
  @name@_options given{};
  Failure& failure = context->failure;
  const bool taken = options == nullptr || take_options(*options, given, failure);
  context->log.begin(given.log, given.log_user);
  context->memory.begin(given.allocate, given.release, given.memory_user);
  context->progress.begin(given.progress, given.progress_user);
  if (!taken) return answer(*context, failure);
@jit_check@  const bool copy = (given.weights_flags & @NAME@_WEIGHTS_COPY) != 0, map = (given.weights_flags & @NAME@_WEIGHTS_MAP) != 0;
  context->weights.choose(copy && file_is_prepared ? Weights::own : map ? Weights::mapped : Weights::shared, (given.weights_flags & @NAME@_WEIGHTS_UNCHECKED) != 0);
  if (!choose_variant(*context, given.cpu) || !context->target.open(failure) || !open_weights(*context, given.weights)) return answer(*context, failure);
  if (!context->arena.join<Target::Device>(given.arena, failure)) return answer(*context, failure);
  tell_variant(*context, given.cpu);
  tell_weights(*context, copy);
  const bool foreign = given.parallel != nullptr, alone = foreign || given.pin != 0 || given.private_threads != 0;
  const int32_t threads = foreign ? 1 : Target::threads(given.threads);
  bool pool = alone ? context->pool.start(threads, given.pin != 0) : context->pool.share(@name@_threads_anchor, threads, static_cast<Priority>(given.priority - METAC_MODEL_BACKGROUND));
  context->parallel = given.parallel;
  context->callers_pool = given.pool;
  if (pool && foreign) pool = context->pool.use(run_on_callers_pool, context, given.threads > 0 ? given.threads : usable_cpus());
  context->pool.set_dynamic(given.fixed_split == 0);
  if (!pool) {
    failure.set(Status::out_of_memory, "no memory for the threads");
    return answer(*context, failure);
  }
  tell_threads(*context, given);
  if (!begin_weights(*context, copy)) return answer_of_call(*context);
  bool made = failure.ok() && make(*context, run_function);
  if (made && !context->states.create(*context->variant->programs[run_function].run))
    made = failure.set(Status::out_of_memory, "no memory for the states");
  if (made) context->states.live_in(context->target.place_of_states(context->memory.allocator()));
  const @name@_status status = answer_of_call(*context);
  context->usable = made && status == @NAME@_OK;
@jit_begin@  return status;
}

void @name@_destroy(@name@_context* context) {
  if (context == nullptr) return;
  // The child of a fork() leaves alone what it cannot end: a device, and a context in which a thread of the parent was at work.
  if (context->target.left_behind() || (context->pool.in_child() && context->in_use.load())) return;
  context->cancelled.store(true);  // a run that nobody waits for
  context->~@name@_context();
  std::free(context);
}

@name@_status @name@_arena_create(metac_model_allocate allocate, metac_model_release release, void* memory_user, @name@_arena** arena) {
  return static_cast<@name@_status>(SharedArena::create(allocate, release, memory_user, arena));
}
void @name@_arena_destroy(@name@_arena* arena) { SharedArena::destroy(arena); }

@name@_status @name@_run(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, run_function, inputs, input_count, outputs, output_count);
}

@name@_status @name@_cancel(@name@_context* context) {
  if (context == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (context->in_use.load()) context->cancelled.store(true);
  return @NAME@_OK;
}

@state_functions@@generate_functions@@sequence_functions@@derivative_functions@@exchange_functions@@device_functions@@jit_functions@@name@_status @name@_find_non_finite(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count,
                               char* report, int64_t report_bytes) {
  return use(context, [&](@name@_context& held) {
@generation_alone@    if (report == nullptr || report_bytes < 1) return held.failure.set(Status::invalid_argument, "no room for the report");
    report[0] = 0;
    const int32_t watched = choose_program(run_function, inputs, input_count);
    if (!make(held, watched)) return false;
    ExecutorOn<Target::Device>& executor = held.programs[watched].executor;
    NonFiniteWatch watch;
    const bool watching = executor.watch(&watch);
    const bool good = watching && run_with(held, held.states, run_function, watched, inputs, input_count, outputs, output_count);
    executor.watch(nullptr);
    if (!watching) return held.failure.set(Status::out_of_memory, "no memory to watch the kernels");
    const Program& program = *executor.program();
    const char* const infinity = watch.first_infinity_step < 0 ? nullptr : step_name(program, watch.first_infinity_step);
    const char* const nan = watch.first_nan_step < 0 ? nullptr : step_name(program, watch.first_nan_step);
    const size_t room = static_cast<size_t>(report_bytes);
    if (nan != nullptr && infinity != nullptr) std::snprintf(report, room, "%s made the first NaN, %s the first infinity", nan, infinity);
    else if (nan != nullptr) std::snprintf(report, room, "%s made the first NaN", nan);
    else if (infinity != nullptr) std::snprintf(report, room, "%s made the first infinity", infinity);
    return good;
  });
}

@name@_status @name@_output_shapes(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                               int32_t output_count) {
  return use(context, [&](@name@_context& held) {
    if (outputs == nullptr || output_count != @NAME@_OUTPUTS)
      return held.failure.set(Status::invalid_argument, "%d outputs given, the model has %d", outputs == nullptr ? 0 : output_count, @NAME@_OUTPUTS);
    return find_shapes(held, inputs, input_count, outputs);
  });
}

const char* @name@_last_error(const @name@_context* context) { return context == nullptr ? "no memory for a context" : context->messages.text(); }

const char* @name@_cpu(int32_t index) { return index >= 0 && index < variant_count ? variants[index].cpu : nullptr; }
const char* @name@_cpu_of(const @name@_context* context) { return context == nullptr || context->variant == nullptr ? "" : context->variant->cpu; }

const @name@_port* @name@_input(int32_t index) { return input_port(run_function, index); }
const @name@_port* @name@_output(int32_t index) { return output_port(run_function, index); }
const @name@_port* @name@_parameter(int32_t index) { return index >= 0 && index < @NAME@_PARAMETERS ? &parameter_ports[index] : nullptr; }

@name@_status @name@_set_weights(@name@_context* context, const void* const* parameters, int32_t count) {
  return use(context, [&](@name@_context& held) {
    Block block;
    Array<const void*> values;
    Weights::PassingUse kept;
    if (!take_parameters(held, parameters, count, values, kept)) return false;
    char* const bytes = begin_block(held, weights_bytes, shared_weights_bytes, block);
    if (bytes == nullptr || !refit_all(held, *held.variant, values.data(), bytes)) return false;
    const void* const now = held.target.hold(bytes, weights_bytes, weights_swapped(held), held.failure);
    if (!held.failure.ok()) return false;
    held.specialised.stop("the context's weights were set");
    held.refitted.take(block);
    held.block = now;
    for (Callable& callable : held.programs) callable.executor.set_weights(now);
    return true;
  });
}

@name@_status @name@_write_weights(@name@_context* context, const void* const* parameters, int32_t count, const char* path) {
  return use(context, [&](@name@_context& held) {
    if (path == nullptr) return held.failure.set(Status::invalid_argument, "no path for the weights");
    Block block;
    Array<const void*> values;
    Weights::PassingUse kept;
    if (!take_parameters(held, parameters, count, values, kept)) return false;
    char* const bytes = begin_block(held, file_bytes, file_bytes, block);
    return bytes != nullptr && fill_file(held, values.data(), bytes) && write_weights_file(path, bytes, file_bytes, weights_layout, held.failure);
  });
}

int64_t @name@_static_arena_bytes(void) { return variants[0].programs[0].run->arena_bytes; }
int64_t @name@_arena_bytes(const @name@_context* context) {
  int64_t bytes = 0;
  if (context != nullptr)
    for (const Callable& callable : context->programs) bytes += callable.arena_bytes.load(std::memory_order_relaxed);
  return bytes;
}
int64_t @name@_held_bytes(const @name@_context* context) {
  int64_t bytes = context == nullptr ? 0 : context->state_bytes.load(std::memory_order_relaxed) + context->gathered_bytes.load(std::memory_order_relaxed);
  if (context != nullptr)
    for (const Callable& callable : context->programs) bytes += callable.held_bytes.load(std::memory_order_relaxed);
  return bytes;
}

@name@_status @name@_profile(@name@_context* context, int32_t enable) {
  return use(context, [&](@name@_context& held) {
    held.profiled = enable != 0;
    for (Callable& callable : held.programs) {
      if (!callable.made) continue;
      if (enable != 0 && callable.times.size() == 0 && !callable.times.allocate(callable.executor.program()->step_count))
        return held.failure.set(Status::out_of_memory, "no memory for the times of the steps");
      callable.executor.profile(enable != 0 ? callable.times.data() : nullptr);
      if (enable != 0) callable.measured.store(callable.times.data(), std::memory_order_release);
    }
    return true;
  });
}

const char* @name@_profile_row(const @name@_context* context, int32_t index, int64_t* runs, int64_t* nanoseconds) {
  const StepTime* time = nullptr;
  const char* const name = profiled_step(context, index, &time);
  if (name == nullptr) return nullptr;
  const StepTime now = time->now();
  if (runs != nullptr) *runs = now.runs;
  if (nanoseconds != nullptr) *nanoseconds = now.ns;
  return name;
}

@name@_status @name@_profile_work(const @name@_context* context, int32_t index, double* operations, double* bytes) {
  const StepTime* time = nullptr;
  if (profiled_step(context, index, &time) == nullptr) return @NAME@_INVALID_ARGUMENT;
  const StepTime now = time->now();
  if (operations != nullptr) *operations = now.operations;
  if (bytes != nullptr) *bytes = now.bytes;
  return @NAME@_OK;
}

}  // extern "C"
