// In the context's own thread. The context is held since @name@_run_async.
static void run_behind(void* state) {
  @name@_context& context = *static_cast<@name@_context*>(state);
  const auto run = context.async_run;
  context.failure.clear();
  run_call(context, run_function, run.inputs, run.input_count, run.outputs, run.output_count);
  answer_of_call(context);
  context.async_run.failure = context.failure;
  context.in_use.store(false, std::memory_order_release);
  if (run.done != nullptr) guarded([&run] { run.done(run.user); });
}

static @name@_status answer_of_async(@name@_context& context) {
  const Hold hold(context);
  if (!hold) return refuse(context, @NAME@_BUSY, "the context is running in another thread");
  const Failure& failure = context.async_run.failure;  // of which the log was told when the run ended
  context.messages.keep(failure.message);
  return static_cast<@name@_status>(failure.status);
}

@name@_status @name@_run_async(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count, void* stream,
                         void (*done)(void* user), void* user) {
  if (context == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (!context->usable) return refuse(*context, @NAME@_INVALID_ARGUMENT, context->failure.message);
  if (stream != nullptr) return refuse(*context, @NAME@_INVALID_ARGUMENT, "a stream is given, which a library with --target cuda takes");
  if (context->in_use.exchange(true, std::memory_order_acquire)) return refuse(*context, @NAME@_BUSY, "the context is running in another thread");
  context->cancelled.store(false, std::memory_order_relaxed);
  context->async_run.inputs = inputs;
  context->async_run.input_count = input_count;
  context->async_run.outputs = outputs;
  context->async_run.output_count = output_count;
  context->async_run.done = done;
  context->async_run.user = user;
  if (context->async_call.begin(run_behind, context)) return answer(*context, Failure());
  context->in_use.store(false, std::memory_order_release);
  return refuse(*context, @NAME@_OUT_OF_MEMORY, "the system gives no thread");
}

@name@_status @name@_wait(@name@_context* context) {
  if (context == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (!context->usable) return refuse(*context, @NAME@_INVALID_ARGUMENT, context->failure.message);
  context->async_call.wait();
  return answer_of_async(*context);
}

@name@_status @name@_poll(@name@_context* context) {
  if (context == nullptr) return @NAME@_INVALID_ARGUMENT;
  if (!context->usable) return refuse(*context, @NAME@_INVALID_ARGUMENT, context->failure.message);
  if (!context->async_call.is_done()) {  // which is no failure for the log
    context->messages.keep("the run is not done");
    return @NAME@_BUSY;
  }
  return answer_of_async(*context);
}

