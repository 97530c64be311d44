// What the tables define and api.cpp reads.
#pragma once
#define METAC_RUNTIME_NAMESPACE @namespace@
#include "../include/@name@.h"
#include "runtime/routine.h"

namespace METAC_RUNTIME_NAMESPACE {

// Where a piece of the block that kernels read comes from: raw parameter (or constant) `parameter`, or output `prepare_output` of the prepare program.
struct WeightSource {
  int32_t parameter, prepare_output;
  int64_t offset, bytes;
};

// Where the file's block has a value that prepare programs read: a parameter, or a constant, which nobody sets.
struct FilePlace {
  int64_t offset, bytes;
};

// Functions by number: @name@_run, and with --grad those that follow.
enum Function : int32_t { run_function@further_functions@ };

// What a function of the library does on one CPU, for all shapes or for some.
struct FunctionProgram {
  const Program* run;
  const Program* prepare;          // from the model's parameters to what `run` reads of the weights block
  const int32_t* parameters;       // the parameter, or from @NAME@_PARAMETERS on constant, that each input of `prepare` is; null: the one of the same number
  const WeightSource* sources;
  int32_t source_count;
  int64_t weights_from, weights_bytes;  // the piece of that block that is read by no other program
};

// The library for one CPU.
struct Variant {
  const char* cpu;
  const char* (*lacking)();        // what this machine lacks for it; null: nothing
  const FunctionProgram* programs;
};

struct FunctionPorts {
  const char* name;
  const @name@_port* inputs;
  int32_t input_count;
  const @name@_port* outputs;
  int32_t output_count;
};

// A program for certain dims: of `function`, taken where its conditions hold, dim_conditions[first .. first + conditions).
struct Specialisation {
  int32_t function, program;
  int32_t first, conditions;
};
struct DimCondition {
  int32_t input, axis;
  int64_t value;
};

// Programs are the functions for all shapes, then those of each specialisation.
constexpr int32_t function_count = @function_count@, program_count = @program_count@, variant_count = @variant_count@, constant_count = @constant_count@;
constexpr int64_t weights_bytes = @weights_bytes@, shared_weights_bytes = @shared_weights_bytes@;  // of the block that kernels read, and of its beginning, which several programs read
// The file has that block, or the parameters (and constants), and contexts prepare the block for their CPU.
constexpr bool file_is_prepared = @file_is_prepared@;
constexpr bool has_states = @has_states@;  // which one run hands to the next
constexpr int64_t file_bytes = @file_bytes@;  // of the file's block

@programs@

extern const Variant variants[];       // the one to be preferred first
extern const FunctionPorts function_ports[];
extern const Specialisation specialisations[];  // program_count - function_count
extern const DimCondition dim_conditions[];
extern const @name@_port parameter_ports[];       // of parameters, then of constants
@state_ports@extern const FilePlace constants[], parameters_in_file[];  // of the latter none where the file is prepared
extern const char weights_layout[];    // 64 hexadecimal digits: which programs a weights block belongs to
extern const RoutineEntry routines[];
extern const int32_t routine_count;

}  // namespace METAC_RUNTIME_NAMESPACE
