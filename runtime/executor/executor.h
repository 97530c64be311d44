// Runs a Program: binds symbols from the caller's shapes, checks them, places buffers, and walks the steps. One Executor is
// one context: it owns all that changes while running (symbols, arena, scratch, late buffers); the tables and the weights
// are shared and constant. Not for two threads at once; two Executors of one Program are independent.
//
// Memory is taken at the first run of a shape and kept: a second run with the same shapes allocates nothing, routines and
// loops included. Where data decide how large a value is, a run takes more if its values are larger than any before.
#pragma once
#include "../extent.h"
#include "../memory.h"
#include "../non_finite.h"
#include "../place.h"
#include "../routine.h"
#include "../status.h"
#include "lanes.h"
#include "planner.h"

namespace METAC_RUNTIME_NAMESPACE {

// An input as the caller has it: contiguous, row-major. A state that grows in its place: along that axis its storage is so
// long. One that is resident is where the device reads it.
struct InputView {
  const void* data;
  const int64_t* dims;
  int32_t rank;
  int64_t capacity = 0;
  bool resident = false;
};
// Where an output goes: the caller's memory of `bytes`, or null for memory of the context, valid until its next run. On a
// GPU the data of inputs and outputs may be the host's memory, which is copied, or the device's. An unwanted
// one has no data, and what only it needs is left out. One that stays, as a state does, is left where the run made it, and
// its data are where the device writes. All zeros: wanted, in memory of the context.
struct OutputView {
  void* data;
  int64_t bytes;
  bool unwanted = false, stays = false;
};

// What a profile says of a step: how often it was done, how long that took in all, less what steps in its branches and body
// took, and what it did (StepWork, with the symbols that it had); -1: not known. Written by the thread that runs; others may
// read meanwhile.
struct StepTime {
  int64_t runs, ns;
  double operations, bytes;

  template <class T>
  static T read(const T& field) {
    T value;
    __atomic_load(&field, &value, __ATOMIC_RELAXED);
    return value;
  }
  template <class T>
  static void write(T& field, T value) {
    __atomic_store(&field, &value, __ATOMIC_RELAXED);
  }

  StepTime now() const { return {read(runs), read(ns), read(operations), read(bytes)}; }
};

// Who exchanges a program's values with other processes (Program::exchanges). `begin` is told that value `index` is there,
// `bytes` in all (whatever lies between rows of a layout included); it averages in place, and `wait` returns when that is
// done. False: it failed, the run ends. On a GPU `average` takes their place: it puts the averaging of values, in place,
// onto a stream, behind what is there.
struct ExchangedValue {
  void* data;
  ScalarType dtype;
  int64_t bytes;
};
struct Exchanger {
  void* user;
  bool (*begin)(void* user, int32_t index, void* data, ScalarType dtype, int64_t bytes);
  bool (*wait)(void* user, int32_t index);
  bool (*average)(void* user, const ExchangedValue* values, int32_t count, void* stream);
};

// Who hears, while a run goes on, how many steps of the top level are done, of how many.
struct ProgressListener {
  void (*tell)(void* user, int64_t done, int64_t total);
  void* user;
};

// What runs work in, whatever was there before: values, scratch of launches, slices of a batch. Several executors may have
// it in turn.
template <class Memory>
struct WorkingMemory {
  Memory arena, scratch, slices;
  int64_t capacity() const { return arena.capacity() + scratch.capacity() + slices.capacity(); }
};

// `Device` is what kernels run on: a ThreadPool, or a GPU (runtime/cuda). On a GPU what the caller has on the host is copied
// to and fro, and so is what an external routine reads and writes.
template <class Graph>
struct Recording;

template <class Device>
class ExecutorOn {
 public:
  ExecutorOn() = default;
  ExecutorOn(const ExecutorOn&) = delete;
  ExecutorOn& operator=(const ExecutorOn&) = delete;

  // `weights`: the weights block, program.weight_bytes long; may be replaced by set_weights. `routines`: what the program's
  // external steps name. All must outlive the executor. The weights are where the device reads them.
  Status create(const Program& program, const void* weights, Device* device, const RoutineEntry* routines,
                int32_t routine_count);
  // Memory that other executors have, too: no two of them run at once, and what a run leaves in it is gone with the next
  // one's. It must outlive the executor.
  void work_in(WorkingMemory<typename Place<Device>::Memory>* shared) { working_ = shared; }
  // Where memory for values comes from; null: the C library. Before the first run. On a GPU they are in the device's memory,
  // and this is about what routines have of them on the host.
  void take_memory_from(const Allocator* allocator);
  void set_weights(const void* weights) {
    weights_ = weights;
    window_filled_ = false;
  }

  // Binds the input shapes alone (data is ignored): after it output_dim answers what the shapes decide.
  Status bind_shapes(const InputView* inputs, int32_t count);
  // `detached` (on a GPU): outputs without memory of the caller's stay on the device, and the run is waited for only where
  // an output is the host's memory.
  Status run(const InputView* inputs, int32_t input_count, const OutputView* outputs, int32_t output_count,
             bool detached = false);

  // Dim `axis` of output `i`; -1 where only a run decides it and there has been none yet.
  int64_t output_dim(int32_t i, int32_t axis) const;
  int64_t output_bytes(int32_t i) const;
  void* output_data(int32_t i) const { return result_data_[i]; }

  const Failure& failure() const { return failure_; }
  const Program* program() const { return program_; }
  // The arena as it was planned for the last shapes, and what workers have beside it for slices.
  int64_t arena_bytes() const { return planned_bytes_ + working_->slices.capacity(); }
  // All memory that it holds for values: what it works in unless that is shared, values whose size the data decide, and
  // outputs that the caller gave none for.
  int64_t held_bytes() const {
    return (working_ == &own_ ? own_.capacity() : 0) + staging_.capacity() + window_.capacity() +
           routine_memory_.capacity() + owned_bytes_;
  }
  const int64_t* symbols() const { return symbols_.data(); }
  // One row per step from now on; null: no measuring. The rows belong to the caller.
  void profile(StepTime* times) { times_ = times; }
  // Runs end before their next step once this is true; null: they do not look.
  void stop_when(const std::atomic<bool>* stopped) { stopped_ = stopped; }
  // Runs tell their progress from now on; null: nobody hears. Not on a GPU, where steps end later than they are started.
  void report_to(const ProgressListener* listener) { listener_ = listener; }
  // From now on every run exchanges what the program says; null: no more.
  void exchange(const Exchanger* exchanger);
  // From now on every run notes which steps made the first NaN and infinity; null: no more. False: no memory.
  bool watch(NonFiniteWatch* watch) {
    watch_ = watch;
    return watch == nullptr || watch->touched.allocate(program_->buffer_count);
  }

 private:
  using Here = Place<Device>;
  using Memory = typename Here::Memory;

  bool is_stopped() const { return stopped_ != nullptr && stopped_->load(std::memory_order_relaxed); }
  bool stop() { return failure_.set(Status::cancelled, "the run was cancelled"); }
  bool internal(const char* what) {
    return failure_.set(Status::internal, "the program's tables contradict themselves: %s", what);
  }
  bool no_memory(int64_t bytes, const char* what) {
    return failure_.set(Status::out_of_memory, "no memory for %lld bytes of %s", static_cast<long long>(bytes), what);
  }
  bool value_of(const Extent& extent, int64_t* value) {
    if (evaluate(*program_, extent, symbols_.data(), value)) return true;
    return failure_.set(Status::invalid_argument, "a size computed from the input shapes overflows 64 bits");
  }
  // Nanoseconds of an iteration of a launch, at the sizes at hand where they are known to matter (Step::carried). It only
  // decides how the work is shared: where it cannot be computed, the usual sizes do.
  int64_t cost_of(const Step& step) const {
    int64_t cost = step.cost;
    const bool by_size = step.kind == StepKind::launch && step.carried > 0;
    return by_size && evaluate(*program_, program_->extents[step.carried - 1], symbols_.data(), &cost) ? cost : step.cost;
  }
  bool is_wanted(int32_t step) const { return program_->needs == nullptr || (program_->needs[step] & wanted_) != 0; }
  int32_t root(int32_t buffer) const { return roots_[buffer]; }

  // Who gives a symbol its value, put into words where a message wants it: a dim of an input, or (no axis) what `name` says.
  struct Origin {
    const char* name;
    int32_t axis = -1;
    struct Text {
      char chars[160];
    };
    Text text() const {
      Text text;
      if (axis < 0)
        std::snprintf(text.chars, sizeof(text.chars), "%s", name);
      else
        std::snprintf(text.chars, sizeof(text.chars), "input \"%.100s\", dim %d", name, axis);
      return text;
    }
  };
  // What a launch is told by sizes, and when that was worked out: `lasting` says that it holds until shape_ changes.
  struct LaunchNumbers {
    int64_t shape, iterations, scratch_bytes, cost;
    bool lasting;
  };

  bool bind_symbol(int32_t symbol, int64_t value, Origin from);
  bool bind_inputs(const InputView* inputs, int32_t count);
  bool check_dims(const InputView* inputs);
  bool place_buffers();
  bool plan_arena();
  bool place_in_arena();
  bool place_outputs(const OutputView* outputs);
  bool reserve(int32_t buffer, int64_t bytes, int64_t keep);
  int32_t times_of(int32_t begin, int32_t end) const;
  bool find_last_steps();
  void give_back(int32_t step);
  bool place_window();
  void place_operands(int32_t begin, int32_t end);
  bool load(const Load& l);
  bool swap_in(int32_t step);
  char* window_at(const Load& l) const { return static_cast<char*>(window_.data()) + l.offset; }
  bool ready(int32_t operand, void** data);  // memory of a buffer that may be late
  bool take_inputs(const InputView* inputs, int32_t count);
  bool read_value(int32_t buffer, int64_t element, int64_t* value, const char* what);

  void begin_progress();
  void tell_progress(int32_t step);
  void end_progress();
  bool find_repeatable();
  bool run_program();
  bool run_repeatable();
  bool run_noted(Recording<typename Here::Graph>& r);
  bool record(typename Here::Graph& graph, bool in_order);
  bool change(Recording<typename Here::Graph>& r);
  bool take_lane(const Step& step, int64_t scratch_bytes);
  bool take_lane(int32_t count, int32_t forced);
  bool run_steps(int32_t begin, int32_t end);
  bool find_chains();
  bool enter_slice(const Step& repeat, int32_t begin, int32_t end, int64_t slice, int64_t* scratch_bytes);
  bool run_slices(int32_t begin);
  bool run_beside(int32_t head);
  bool run_top(int32_t begin);
  bool run_exchanging();
  bool run_exchanging_on_device();
  bool average(int32_t first, int32_t count);
  bool run_step(const Step& step);
  bool run_timed(int32_t i);
  void note(int32_t i, int64_t runs, int64_t ns);
  bool run_watched(int32_t i);
  template <class Visit>
  bool visit_written(int32_t i, Visit visit);
  bool find_known_launches();
  const LaunchNumbers* numbers_of(const Step& step);
  bool launch(const Step& step);
  bool bind(const Step& step);
  bool check(const Step& step);
  bool take_routine_arguments();
  bool external(const Step& step);
  bool branch(const Step& step);
  bool loop(const Step& step);
  bool copy(int32_t from, int32_t to);
  bool bytes_of(int32_t buffer, int64_t* bytes);
  bool carry(const Step& step, const int32_t* from, const int32_t* to);
  bool append(int32_t value, int32_t stacked, int64_t iteration, int64_t* used);
  bool deliver(const OutputView* outputs);
  static bool prepare_outputs(RoutineCall& call);
  bool host_copy(int32_t operand, RoutineTensor* tensor, bool read);
  bool keep_outputs(const RoutineCall& call);
  bool fill_tensor(int32_t buffer, RoutineTensor* tensor, int64_t* dims);

  const Program* program_ = nullptr;
  const void* weights_ = nullptr;
  Device* device_ = nullptr;
  Array<Routine> routines_;
  Array<int64_t> symbols_, planned_for_;  // values now, and those the arena was planned for
  int64_t shape_ = 0;                     // counts on where the inputs' dims are others than the run's before
  Array<LaunchNumbers> launches_;         // per step
  Array<char> bound_;                     // per symbol: has a value in this run
  Array<int32_t> roots_;                  // per buffer: the one that owns its memory
  Array<void*> data_;                     // per buffer, by root
  Array<int64_t> capacity_;               // per buffer: bytes behind data_, late buffers only
  Array<void*> operand_data_;             // per operand: what a launch is given
  Array<Memory> owned_;                   // late buffers and outputs of the context, per buffer; on a GPU inputs too
  int64_t owned_bytes_ = 0;               // of all of them
  struct LastStep {
    int32_t buffer, step;
  };
  Array<LastStep> last_steps_;  // on a GPU, of late values, in the order of the steps,
  int32_t passing_count_ = 0;   // so many
  Array<Placement> placements_;
  Array<int32_t> order_;
  Array<void*> result_data_;      // per output
  Array<char> in_place_;          // per output: the caller gave memory that kernels write where it is
  uint8_t wanted_ = all_outputs;  // by this run: of Program::needs
  struct Chain {
    int32_t end, end_time;  // its `repeat`: which step, and when (Buffer::first_step)
  };
  Array<Chain> chains_;  // per step: the chain that begins here whose slices workers may take; none: zeros
  WorkingMemory<Memory> own_, *working_ = &own_;
  Memory staging_, window_;     // window_: of weights that the device does not all hold
  bool window_filled_ = false;  // with those that stay
  int32_t next_load_ = 0, next_arrival_ = 0;
  Array<typename Here::HostMemory> host_results_;  // on a GPU, per output: where the caller gave no memory
  Array<Block> host_operands_;                     // on a GPU, per operand of the external step in progress
  int64_t planned_bytes_ = 0, draws_ = 0;
  const void* placed_in_ = nullptr;  // the arena's memory when values were placed in it
  bool planned_ = false, detached_ = false, repeatable_ = false;
  static constexpr int32_t recording_count = Here::records ? 4 : 1;
  Recording<typename Here::Graph> recordings_[recording_count];
  int32_t next_recording_ = 0;
  int32_t head_ = 0;                 // steps before those that repeat
  Array<int32_t> recorded_symbols_;  // that what is recorded depends on
  int32_t in_vain_ = 0;              // how often in a row a recording was of no use at other sizes
  LanePlan lanes_;                   // while recording_: which step waits for which
  Array<Span> spans_;
  bool recording_ = false;
  std::atomic<bool> running_{false};
  StepTime* times_ = nullptr;
  int64_t nested_ns_ = 0;  // of a profiled run: that steps within the one in progress took
  NonFiniteWatch* watch_ = nullptr;
  const std::atomic<bool>* stopped_ = nullptr;
  const ProgressListener* listener_ = nullptr;
  struct {
    int64_t told_at, done;
    bool told;
  } progress_{};  // of the run in progress: when it was told last, how far, and whether
  const Exchanger* exchanger_ = nullptr;
  Array<ExchangedValue> exchanged_;  // on a GPU: per exchange
  Failure failure_;
  const OutputView* outputs_ = nullptr;   // of the run in progress
  Array<int64_t> appended_;               // per operand: bytes of a loop's stacked outputs so far, from its first operand on
  Array<RoutineTensor> routine_tensors_;  // arguments of the routine in progress,
  Array<int64_t> routine_numbers_;        // the symbols that it binds and its arguments' dims
  Block routine_memory_;
  const Step* external_step_ = nullptr;
  int64_t* external_dims_ = nullptr;
};

using Executor = ExecutorOn<ThreadPool>;

}  // namespace METAC_RUNTIME_NAMESPACE

#include "beside.h"
#include "bind.h"
#include "exchange.h"
#include "external.h"
#include "launch_numbers.h"
#include "progress.h"
#include "replay.h"
#include "run.h"
#include "slices.h"
#include "swap.h"
#include "watch.h"
