// What the command-line program of a library (program.h) calls, whatever the library's own functions are named: so the
// program is the same text for every model, and is compiled once. The table is in the project's src/run.cpp.
#pragma once
#include <cstdint>

namespace run_program {

struct LibraryPort {  // as NAME_port of the library's header
  const char* name;
  int32_t dtype, rank;
  const int64_t *dims, *strides;  // -1: open
  const char* const* dim_names;
};

struct LibraryTensor {
  void* data;
  int64_t bytes;
  int32_t rank;
  const int64_t* dims;
};

struct LibrarySettings {  // of NAME_options
  const char *weights, *cpu;
  int32_t threads;
  bool pin, copy_weights, unchecked_weights;
};

// One context at a time. What returns bool failed where it is false, and last_error() says why.
struct Library {
  const char* name;
  int32_t inputs, outputs, most_rank;
  const char* (*version)(), *(*model_hash)();
  const LibraryPort* (*input)(int32_t), *(*output)(int32_t);  // nullptr beyond the last
  const char* (*cpu)(int32_t);
  int64_t (*static_arena_bytes)();
  bool (*create)(const LibrarySettings& settings);
  void (*destroy)();
  void (*give)(int32_t input, const LibraryTensor& tensor);  // to all runs that follow; rank <= most_rank
  bool (*run)();
  LibraryTensor (*result)(int32_t output);  // of the last run
  const char* (*last_error)(), *(*cpu_of_context)();
  int64_t (*arena_bytes)(), (*held_bytes)();
  bool (*profile)(bool on);
  const char* (*profile_row)(int32_t row, int64_t* runs, int64_t* ns);
  void (*profile_work)(int32_t row, double* operations, double* bytes);
};

// Of run_program.cpp. The exit status.
int run_main(const Library& functions, int count, char** values);

}  // namespace run_program
