// What a context of @name@.h is, and how every call of the interface goes: it holds the context, works, and leaves its message.
#pragma once
#include <atomic>
#include <new>

#include "program.h"
#include "runtime/caller/memory.h"
#include "runtime/caller/progress.h"
#include "runtime/caller/guarded_call.h"
@generation_include@#include "runtime/files/prepared_weights.h"
#include "runtime/caller/shared_arena.h"
#include "runtime/specialise/@specialised@.h"
#include "runtime/executor/states.h"
#include "runtime/caller/struct_size.h"
#include "runtime/@target_header@"
#include "runtime/caller/thread_messages.h"
#include "runtime/files/weights.h"
@device_include@
using namespace METAC_RUNTIME_NAMESPACE;

// A program of the library in a context: made at its first call.
struct Callable {
  ExecutorOn<Target::Device> executor;
  Array<InputView> inputs;
  Array<OutputView> outputs;
  Array<StepTime> times;
  bool made = false;
  // What other threads may ask for while one runs: the times once they are measured, and the memory after the last call.
  std::atomic<const StepTime*> measured{nullptr};
  std::atomic<int64_t> arena_bytes{0}, held_bytes{0};
};

struct @name@_context {
  CallerLog log;
  CallerMemory memory{log};       // outlives all that takes some
  CallerProgress progress;
  ArenaShare arena;
  ThreadPool pool;
  Target target;
  Callable programs[program_count];
  const Variant* variant = nullptr;
  Weights weights;                // the file's block
  Joined<PreparedWeights> prepared;  // what is made of it, where it has parameters
  Specialised specialised;
  StateSet states;                // what @name@_run hands to its next call
  std::atomic<int64_t> state_bytes{0}, gathered_bytes{0};  // of states; of inputs that were not contiguous
@generation_member@  const void* block = nullptr;    // the weights where kernels read them
  Block refitted;                 // the weights block that set_weights made
  Failure failure;                // of the call that holds the context; why it is not usable
  mutable ThreadMessages messages;
  @name@_parallel parallel = nullptr;  // the caller's pool, its argument, and whether it threw in this call
  void* callers_pool = nullptr;
  bool pool_threw = false;
@device_context_members@@exchange_members@  bool usable = false, profiled = false;
  std::atomic<bool> in_use{false};     // by a call that changes it
  std::atomic<bool> cancelled{false};  // that call is to end
};

namespace {

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

// What a call answers; the calling thread finds the message, and the caller's log is told.
@name@_status refuse(const @name@_context& context, @name@_status status, const char* why) {
  context.messages.keep(why);
  context.log.say(METAC_MODEL_LOG_ERROR, why);
  return status;
}
@name@_status answer(const @name@_context& context, const Failure& failure) {
  if (!failure.ok()) return refuse(context, static_cast<@name@_status>(failure.status), failure.message);
  context.messages.clear();
  return @NAME@_OK;
}

// The caller's pool, which may throw. The work of the launch is done all the same (ThreadPool), and the call fails.
void run_on_callers_pool(void* user, int32_t count, void (*task)(void* state, int32_t index), void* state) {
  @name@_context& context = *static_cast<@name@_context*>(user);
  if (!guarded([&] { context.parallel(context.callers_pool, count, task, state); })) context.pool_threw = true;
}
@name@_status answer_of_call(@name@_context& context) {
  context.pool.end_call();
  if (context.pool_threw && context.failure.ok()) context.failure.set(Status::callback, "the caller's thread pool threw an exception");
  context.pool_threw = false;
  if (context.progress.take_thrown() && context.failure.ok()) context.failure.set(Status::callback, "the caller's function for progress threw an exception");
  context.specialised.tell(context.log);
  return answer(context, context.failure);
}

// A call that changes a context, as all but those that read constants are: it holds the context while it works, or another thread does
// and it ends BUSY and touches nothing. `work(context)` answers false where it left its reason in context.failure.
template <class Work>
@name@_status use(@name@_context* context, Work work) {
  if (context == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (!context->usable) return refuse(*context, @NAME@_INVALID_ARGUMENT, context->failure.message);  // why it could not be made
  const Hold hold(*context);
  if (!hold) return refuse(*context, @NAME@_BUSY, "the context is running in another thread");
  if (context->target.left_behind()) return refuse(*context, @NAME@_UNSUPPORTED, "the device of this context stayed in the process that forked this one; make another context");
  context->failure.clear();
  context->cancelled.store(false, std::memory_order_relaxed);
  work(*context);
  return answer_of_call(*context);
}

}  // namespace
