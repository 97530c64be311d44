// @name@_run: the model from the command line. What it does is in runtime/run/program.h, for all models the same text; here are
// this library's functions for it.
#include "../include/@name@.h"
#include "runtime/run/library.h"

namespace {

using run_program::LibraryPort;
using run_program::LibrarySettings;
using run_program::LibraryTensor;

static_assert(sizeof(LibraryPort) == sizeof(@name@_port) && sizeof(int32_t) == sizeof(@name@_dtype), "a port is what it is there");

@name@_context* context = nullptr;
@name@_tensor inputs[@NAME@_INPUTS + 1], outputs[@NAME@_OUTPUTS + 1];

bool create(const LibrarySettings& settings) {
  @name@_options options = @name@_options();
  options.weights = settings.weights;
  options.cpu = settings.cpu;
  options.threads = settings.threads;
  options.pin = settings.pin;
  options.weights_flags = (settings.copy_weights ? @NAME@_WEIGHTS_COPY : 0) | (settings.unchecked_weights ? @NAME@_WEIGHTS_UNCHECKED : 0);
  return @name@_create(&options, &context) == @NAME@_OK;
}

void give(int32_t input, const LibraryTensor& tensor) {
  @name@_tensor& given = inputs[input];
  given.data = tensor.data;
  given.bytes = tensor.bytes;
  given.rank = tensor.rank;
  for (int32_t d = 0; d < tensor.rank; ++d) given.dims[d] = tensor.dims[d];
}

bool run() {
@state_run@  for (@name@_tensor& output : outputs) output = @name@_tensor();
  return @name@_run(context, inputs, @NAME@_INPUTS, outputs, @NAME@_OUTPUTS) == @NAME@_OK;
}

const run_program::Library library = {
    "@name@",
    @NAME@_INPUTS,
    @NAME@_OUTPUTS,
    @NAME@_MAX_RANK,
    @name@_version,
    @name@_model_hash,
    [](int32_t index) { return reinterpret_cast<const LibraryPort*>(@name@_input(index)); },
    [](int32_t index) { return reinterpret_cast<const LibraryPort*>(@name@_output(index)); },
    @name@_cpu,
    @name@_static_arena_bytes,
    create,
    [] { @name@_destroy(context); },
    give,
    run,
    [](int32_t output) { return LibraryTensor{outputs[output].data, outputs[output].bytes, outputs[output].rank, outputs[output].dims}; },
    [] { return @name@_last_error(context); },
    [] { return @name@_cpu_of(context); },
    [] { return @name@_arena_bytes(context); },
    [] { return @name@_held_bytes(context); },
    [](bool on) { return @name@_profile(context, on) == @NAME@_OK; },
    [](int32_t row, int64_t* runs, int64_t* ns) { return @name@_profile_row(context, row, runs, ns); },
    [](int32_t row, double* operations, double* bytes) { @name@_profile_work(context, row, operations, bytes); }};

}  // namespace

int main(int count, char** values) { return run_program::run_main(library, count, values); }
