// The interface of external routines: what no kernel computes (sorting, counting, suppression). A routine works on typed
// buffers, may bind symbols (counts that only the data knows) and then asks for its outputs' memory.
#pragma once
#include "memory.h"
#include "status.h"

namespace METAC_RUNTIME_NAMESPACE {

struct RoutineTensor {
  void* data;
  ScalarType dtype;
  int32_t rank;
  const int64_t* dims;
  int64_t count;  // of elements

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct RoutineCall {
  const RoutineTensor* inputs;
  int32_t input_count;
  RoutineTensor* outputs;  // data is valid after prepare_outputs()
  int32_t output_count;
  RoutineAttributes attributes;
  int64_t* symbols;  // to set before prepare_outputs(), where the step binds any
  int32_t symbol_count;
  Failure* failure;
  int64_t* draws;  // of this context so far; draw_number counts them
  Block* memory;   // of the context, for the routine's own work: what one call has taken the next one finds
  void* executor;
  bool (*prepare)(RoutineCall& call);

  // Takes the values in `symbols`, computes the outputs' dims and finds their memory. False: failed, message set.
  bool prepare_outputs() { return prepare(*this); }

  // Room for `count` integers until the routine returns, uninitialised; null: there is none. Once in a call.
  int64_t* work(int64_t count) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, int64_t{sizeof(int64_t)}, &bytes) || !memory->reserve(bytes)) return nullptr;
    return static_cast<int64_t*>(memory->data());
  }

  const RoutineAttribute* attribute(const char* name) const {
    for (int32_t i = 0; i < attributes.count; ++i)
      if (std::strcmp(attributes.first[i].name, name) == 0) return &attributes.first[i];
    return nullptr;
  }
  int64_t integer(const char* name, int64_t otherwise) const {
    const RoutineAttribute* found = attribute(name);
    return found == nullptr ? otherwise : found->integer;
  }
  double real(const char* name, double otherwise) const {
    const RoutineAttribute* found = attribute(name);
    return found == nullptr ? otherwise : found->real;
  }
  const char* string(const char* name, const char* otherwise) const {
    const RoutineAttribute* found = attribute(name);
    return found == nullptr || found->string == nullptr ? otherwise : found->string;
  }
};

// False: failed, with the message in call.failure.
using Routine = bool (*)(RoutineCall& call);
struct RoutineEntry {
  const char* name;
  Routine function;
};

}  // namespace METAC_RUNTIME_NAMESPACE
