// A compiled program as plain tables, and what runs it. The same executor runs ahead-of-time libraries (the tables are
// static constants of the generated library) and the JIT (the tables live on the heap, kernels come from LLVM ORC), so
// both do the same thing. Everything here is C-like plain data; nothing owns memory.
//
// Generated code compiles these headers in a namespace per model: METAC_RUNTIME_NAMESPACE.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dtypes.h"

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

// One kernel. `buffers` in the order of Launch::buffers, `symbols` indexed by symbol id, `scratch` of this worker's own
// (Launch::scratch_bytes, 64-byte aligned, uninitialised). The kernel does iterations [begin, end) of its parallel loop;
// any split of [0, count) over threads gives the same bits.
using KernelFunction = void (*)(void* const* buffers, const int64_t* symbols, void* scratch, int64_t begin, int64_t end);

// An integer expression over symbols in postfix code; dims, byte counts, loop counts.
enum class Code : int32_t {
  constant,
  symbol,
  add,
  sub,
  mul,
  floor_div,
  floor_mod,
  min,
  max,
  lt,
  le,
  eq,
  ne,
  logical_and,
  logical_or,
  logical_not,
  select,
  keep,  // what is on the stack, one more value than was kept before, stays there: it is used several times
  kept,  // the value that was kept as number `value`
};
struct Instruction {
  Code code;
  int64_t value;  // constant, the symbol's id, or which of the values that were kept
};
// An int64 that wants an alignment of 4 alone: a library has many of the structs that hold one.
struct HalvedInt64 {
  explicit constexpr HalvedInt64(int64_t value)
      : low(static_cast<uint32_t>(value)), high(static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32)) {}
  HalvedInt64& operator=(int64_t value) { return *this = HalvedInt64(value); }
  operator int64_t() const {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the halves are in the order of one int64");
    int64_t value;
    __builtin_memcpy(&value, this, sizeof value);
    return value;
  }
  uint32_t low, high;
};

// length 0: the constant `value`. Else `length` instructions starting at `value` in Program::code.
struct Extent {
  constexpr Extent() : Extent(0, 0) {}
  constexpr Extent(int64_t of_value, int32_t of_length) : value(of_value), length(of_length) {}
  HalvedInt64 value;
  int32_t length;
};

enum class ScalarType : int32_t {
#define ROW(id, ...) id,
  METAC_DTYPES(ROW)
#undef ROW
};  // = metac::DType

enum class BufferKind : int32_t {
  input,   // the caller's; index = position among the inputs
  output,  // the caller's or the context's; index = position among the outputs
  weight,  // at `offset` in the weights block (prepared parameters and constants), 64-byte aligned
  arena,   // at `offset` in the arena, or placed by the planner when sizes depend on symbols
  view,    // the same memory as buffer `index`, other dims
};

constexpr int32_t most_dims = (1 << 14) - 1;  // of a buffer

struct Buffer {
  BufferKind kind : 8;
  ScalarType dtype : 8;
  bool late : 1;  // its size depends on a symbol that is bound while running: grown once and kept, not in the plan
  int32_t rank : 15;
  int32_t index;                  // input/output position; view: buffer id
  int64_t offset;                 // weight; arena: static offset or -1 (planned at run time)
  int32_t first_dim;              // dims are Program::extents[first_dim .. first_dim + rank)
  Extent bytes;                   // size of the storage (packed layouts: more than the dims' product)
  int32_t first_step, last_step;  // lifetime in the numbering of all steps, nested ones included
};

enum class StepKind : int32_t { launch, bind, external, check, branch, loop, copy, assign, repeat, beside };

struct Step {
  StepKind kind : 8;
  int32_t inputs : 24;  // external: how many of the operands are inputs; launch of a kernel of several members: how many are
                        // of each, else 0
  int32_t first, count;  // operands: Program::operands[first .. first + count): buffer ids (launch, external, ...)
  int32_t kernel;        // launch: kernel id; external: routine id
  Extent parallel;  // launch: iterations of the parallel loop; check: the condition; assign: the value; repeat: how often
  Extent scratch_bytes;  // launch: per worker
  int64_t cost;          // launch: estimated ns of one iteration (decides how many threads are worth waking)
  int32_t symbol;        // bind: symbol to set. external: first of the symbols it sets (Program::symbol_ids)
  int32_t symbol_count;  // external
  // bind: element of operand 0. check: index of its message. external: index of its attributes. launch: bit k is set where
  // operand k is written, bit 62 where one from the 62nd on is; of several members: operand k of each.
  int64_t element;
  // branch: operands {condition}; the steps [then_begin, then_end) or [else_begin, else_end) follow in the table.
  // loop: operands {trip count or -1, condition or -1, n carried initial, n carried param, n carried next, n carried final,
  //       next condition or -1, k per-iteration values, k stacked outputs}; carried = n, stacked = k;
  //       body steps [then_begin, then_end); symbol = the iteration's symbol; else_begin = symbol of the number of
  //       iterations done, or -1.
  // copy: operands {from, to}. assign: the symbol `symbol` becomes the value of `parallel` (dims that a branch or an
  // iteration decides). repeat: the symbol `symbol` counts on; below `parallel` it goes on at step then_begin, which stands
  // before it in the same list. carried = 1: or workers take a slice each, with memory of their own for what begins and ends
  // between the two steps.
  // beside: at the head of the launches [then_begin, then_end), which follow; heads and launches of other chains follow them
  // up to else_end, and none touches what another writes. carried: at the first head how many chains there are, else 0;
  // stacked: the most workers for which it pays that a worker does a whole chain; cost: of a chain in the mean, in ns.
  // launch: carried > 0: Program::extents[carried - 1] is the cost at the sizes at hand, `cost` that at the usual ones.
  int32_t then_begin, then_end, else_begin, else_end;
  int32_t carried, stacked;
};

struct SymbolInfo {
  const char* name;  // for messages; made of our own words or escaped
  int64_t min, max, divisor;
};

struct Port {    // a model input or output
  int32_t name;  // where it begins in Program::names: the model's name
  int32_t buffer;
};

// Where an input symbol comes from: dim `axis` of input `input`.
struct SymbolSource {
  int32_t symbol, input, axis;
};

// An attribute of an external routine.
struct RoutineAttribute {
  const char* name;
  int64_t integer;
  double real;
  const char* string;
  const int64_t* integers;
  int32_t count;
};
struct RoutineAttributes {
  const RoutineAttribute* first;
  int32_t count;
};

// What doing a step once takes, for profiles (compiler/tensor/work.h): operations of sums of products, bytes read and
// written. -1: not known.
struct StepWork {
  Extent operations, bytes;
};

// A value that processes which train together average, in place and in whatever layout it lies: it is there behind step
// `ready` of the top level, and nothing reads it before step `needed` of the top level (top_level_steps: nothing at all
// does).
struct Exchange {
  int32_t index, buffer, ready, needed;
};

// On a GPU that does not hold all weights: before step `step` of the top level weight `buffer` is copied to `offset` in the
// window; -1: it stays there from the first run on. What step k reads may be copied while step k - 1 runs.
struct Load {
  int32_t step, buffer;
  int64_t offset;
};

// A value that one run hands to the next: what output `output` was is what input `input` is (runtime/executor/states.h).
enum class StateMemory : int32_t {
  two_places,    // a run reads one and writes all of the other
  written_over,  // a run may be given the input's memory for the output, and cannot fail half-way
  grows,         // a run writes the new part behind the old one; the output is the input's memory
  stays,         // no run writes it; the output is the input's memory
};
struct StateInfo {
  int32_t input, output;
  int32_t axis;      // along which it grows; -1: it has the same shape in all runs
  int32_t capacity;  // grows: the symbol that is how long its storage is along the axis; else -1
  StateMemory kept;
};

// Sets of outputs, for which steps are done: bit k is output k. The last bit is for what a run does whatever its caller
// wants: states, outputs that have no bit of their own, steps that decide sizes or what is done.
constexpr uint8_t always_needed = 0x80, all_outputs = 0xff;
constexpr uint8_t set_of_output(int32_t k) { return k < 7 ? static_cast<uint8_t>(1 << k) : always_needed; }

struct Program {
  const Buffer* buffers;
  int32_t buffer_count;
  const Extent* extents;
  int32_t extent_count;
  const Instruction* code;
  int32_t code_count;
  const int32_t* operands;
  int32_t operand_count;
  const Step* steps;
  int32_t step_count;       // nested steps stand behind the top level's
  int32_t top_level_steps;  // steps [0, top_level_steps) are the top level
  const SymbolInfo* symbols;
  int32_t symbol_count;
  const SymbolSource* sources;
  int32_t source_count;  // every input dim that is not a constant
  const int32_t* symbol_ids;
  int32_t symbol_id_count;
  const Port* inputs;
  int32_t input_count;
  const Port* outputs;
  int32_t output_count;
  const KernelFunction* kernels;
  int32_t kernel_count;
  const char* names;            // of kernels, inputs and outputs, each with a zero behind it: one text needs no relocations
  const int32_t* kernel_names;  // of each kernel, where its name begins in `names`
  const char* const* routines;
  int32_t routine_count;  // names of external routines, looked up in runtime/routines.h
  const RoutineAttributes* attributes;
  int32_t attributes_count;
  const char* const* messages;
  int32_t message_count;
  int64_t arena_bytes;  // the statically planned part
  int64_t weight_bytes;
  const Exchange* exchanges;
  int32_t exchange_count;  // ordered by `ready`
  const Load* loads;
  int32_t load_count;    // ordered by `step`; none: the device holds all weights
  int64_t window_bytes;  // of the device for weights, where there are loads
  const StepWork* work;  // one per step; null: not known
  const StateInfo* states;
  int32_t state_count;   // the last inputs and the last outputs, in this order
  int32_t own_outputs;   // ahead of the states': what the library alone asks for
  const uint8_t* needs;  // of each step, which outputs it is for; null: all are for all
};

inline int32_t given_output_count(const Program& program) {
  return program.output_count - program.state_count - program.own_outputs;
}
inline const char* input_name(const Program& program, int32_t index) { return program.names + program.inputs[index].name; }
inline const char* output_name(const Program& program, int32_t index) { return program.names + program.outputs[index].name; }

// What profiles and messages call a step: its kernel or routine, else its kind.
inline const char* step_name(const Program& program, int32_t index) {
  const Step& step = program.steps[index];
  switch (step.kind) {
    case StepKind::launch:
      return program.names + program.kernel_names[step.kernel];
    case StepKind::external:
      return program.routines[step.kernel];
    case StepKind::bind:
      return "bind";
    case StepKind::check:
      return "check";
    case StepKind::branch:
      return "branch";
    case StepKind::loop:
      return "loop";
    case StepKind::copy:
      return "copy";
    case StepKind::assign:
      return "assign";
    case StepKind::repeat:
      return "repeat";
    case StepKind::beside:
      return "beside";
  }
  return "step";
}

}  // namespace METAC_RUNTIME_NAMESPACE
