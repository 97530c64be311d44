// The weights that a context's programs read: those of the file, or what prepare programs make of its parameters, or of others that the caller
// gives. Fixed text.
#pragma once
#include "context.h"

namespace {

// Whether programs copy weights in while they run (Program::loads): all of them do or none.
bool weights_swapped(const @name@_context& context) {
  for (int32_t p = 0; p < program_count; ++p)
    if (context.variant->programs[p].run->load_count > 0) return true;
  return false;
}

// Whether a program that is made has written, in the piece of the block that several share, what is to stand at `offset`.
bool is_there(@name@_context& context, int64_t offset) {
  for (int32_t p = 0; p < program_count && offset < shared_weights_bytes; ++p) {
    const FunctionProgram& other = context.variant->programs[p];
    for (int32_t k = 0; context.prepared->has(p) && k < other.source_count; ++k)
      if (other.sources[k].offset == offset) return true;
  }
  return false;
}

// What a function's prepare program makes of the parameters and constants, into its piece of `block` and what it shares with others, as far
// as `there(offset)` does not say that it is there.
template <class There>
bool refit(const FunctionProgram& function, const void* const* parameters, char* block, ThreadPool& pool, Failure& failure, const There& there) {
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
    if (there(source.offset)) continue;
    if (source.parameter >= 0) std::memcpy(block + source.offset, parameters[source.parameter], static_cast<size_t>(source.bytes));
    else out[source.prepare_output] = {block + source.offset, source.bytes};
  }
  Status status = prepare.create(program, nullptr, &pool, routines, routine_count);
  if (status == Status::ok && program.output_count > 0) status = prepare.run(in.data(), program.input_count, out.data(), program.output_count);
  if (status != Status::ok) {
    failure = prepare.failure();
    return false;
  }
  for (int32_t k = 0; k < function.source_count; ++k) {  // two places may hold the same output
    const WeightSource& source = function.sources[k];
    if (source.parameter >= 0 || there(source.offset)) continue;
    const void* made = out[source.prepare_output].data;
    if (made != block + source.offset) std::memcpy(block + source.offset, made, static_cast<size_t>(source.bytes));
  }
  return true;
}

// Makes what a program reads of the weights block ready: its piece of the file's, or what its prepare program makes of the file's parameters.
bool make_weights(@name@_context& context, int32_t index) {
  const FunctionProgram& tables = context.variant->programs[index];
  if (file_is_prepared) return context.weights.ready(tables.weights_from, tables.weights_bytes, context.pool, context.failure);
  const ProcessLockHold hold(context.prepared->lock());
  if (context.prepared->has(index)) return true;
  const Weights::PassingUse use(context.weights);
  ThreadPool alone;  // threads of the caller's pool may wait for the lock in calls of their own
  ThreadPool& pool = context.pool.is_callers() ? alone : context.pool;
  Array<const void*> values;
  if (!values.allocate(@NAME@_PARAMETERS + constant_count)) return context.failure.set(Status::out_of_memory, "no memory to prepare weights");
  for (int32_t i = 0; i < tables.prepare->input_count; ++i) {
    const int32_t number = tables.parameters == nullptr ? i : tables.parameters[i];
    const FilePlace& place = number < @NAME@_PARAMETERS ? parameters_in_file[number] : constants[number - @NAME@_PARAMETERS];
    if (!context.weights.ready(place.offset, place.bytes, pool, context.failure)) return false;
    values[number] = static_cast<const char*>(context.weights.block()) + place.offset;
  }
  return context.prepared->has(index) = refit(tables, values.data(), context.prepared->data(), pool, context.failure, [&](int64_t offset) { return is_there(context, offset); });
}

// Finds the block that kernels read; what a program reads of it comes when that is made. alone: for this context.
bool begin_weights(@name@_context& context, bool alone) {
  Failure& failure = context.failure;
  const void* block = context.weights.block();
  if (file_is_prepared) {
    if (!context.weights.ready(0, Target::copies_weights ? weights_bytes : shared_weights_bytes, context.pool, failure)) return false;
  } else {
    const PreparedFrom from = {context.weights.header(), static_cast<int32_t>(context.variant - variants), context.weights.is_unchecked()};
    context.prepared.take(PreparedWeights::join(from, weights_bytes, program_count, alone));
    if (context.prepared.get() == nullptr)
      return failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(weights_bytes));
    block = context.prepared->data();
  }
  context.block = context.target.hold(block, weights_bytes, weights_swapped(context), failure);
  return failure.ok();
}

// Checks parameters that the caller gives. `values`: what prepare programs read by number, the parameters and the constants, which `kept` keeps.
bool take_parameters(@name@_context& context, const void* const* parameters, int32_t count, Array<const void*>& values, Weights::PassingUse& kept) {
  bool all = count == @NAME@_PARAMETERS && (parameters != nullptr || count == 0);
  for (int32_t i = 0; all && i < count; ++i) all = parameters[i] != nullptr || parameter_ports[i].dims == nullptr;
  if (!all) return context.failure.set(Status::invalid_argument, "%d parameters given, the model has %d", count, @NAME@_PARAMETERS);
  if (!values.allocate(count + constant_count)) return context.failure.set(Status::out_of_memory, "no memory for the parameters");
  if (!file_is_prepared) kept.begin(context.weights);
  for (int32_t i = 0; i < count; ++i) values[i] = parameters[i];
  for (int32_t i = 0; i < constant_count; ++i) {
    if (!context.weights.ready(constants[i].offset, constants[i].bytes, context.pool, context.failure)) return false;
    values[count + i] = static_cast<const char*>(context.weights.block()) + constants[i].offset;
  }
  return true;
}

// Takes memory for a block of weights, of which the first `cleared` bytes are zero; nullptr: there is none.
char* begin_block(@name@_context& context, int64_t bytes, int64_t cleared, Block& block) {
  if (!block.reserve(bytes + alignment))
    return context.failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(bytes)), nullptr;
  return static_cast<char*>(std::memset(block.data(), 0, static_cast<size_t>(cleared)));
}

// The prepare programs of a variant, into a block that nobody reads.
bool refit_all(@name@_context& context, const Variant& variant, const void* const* values, char* block) {
  for (int32_t p = 0; p < program_count; ++p)
    if (!refit(variant.programs[p], values, block, context.pool, context.failure, [](int64_t) { return false; })) return false;
  return true;
}

// What a weights file of these values holds.
bool fill_file(@name@_context& context, const void* const* values, char* block) {
  const auto put = [&](const FilePlace& place, const void* value) {
    if (place.bytes > 0) std::memcpy(block + place.offset, value, static_cast<size_t>(place.bytes));
  };
  for (int32_t i = 0; i < constant_count; ++i) put(constants[i], values[@NAME@_PARAMETERS + i]);
  for (int32_t i = 0; !file_is_prepared && i < @NAME@_PARAMETERS; ++i) put(parameters_in_file[i], values[i]);
  for (int32_t v = 0; file_is_prepared && v < variant_count; ++v) {
    if (const char* lacking = variants[v].lacking())
      return context.failure.set(Status::unsupported, "this CPU has no %s, which preparing the weights of the code for %s needs", lacking, variants[v].cpu);
    if (!refit_all(context, variants[v], values, block)) return false;
  }
  return context.specialised.add_model(context.weights, context.pool, values, block, context.failure);
}

}  // namespace
