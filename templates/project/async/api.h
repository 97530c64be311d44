/* Runs as @name@_run does, in a thread of the context's own, and returns without waiting for it. Both arrays, the inputs' data and the
 * outputs' memory must stay as they are until it is done, and the context is BUSY until then. When it is done `done(user)` is called
 * in that thread, unless done is NULL; the context is free by then, and may be given its next run, but `done` must not wait for it or
 * destroy it. `stream` is for libraries with --target cuda: NULL. What @name@_run would answer is what the next two tell:
 * @name@_wait waits for the run (and for `done` to return) and answers its status; @name@_poll answers BUSY until then. Both answer OK
 * where there has been none, and BUSY while the context is in another call. @name@_destroy cancels a run that is under way. */
@NAME@_API @name@_status @name@_run_async(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                           int32_t output_count, void* stream, void (*done)(void* user), void* user);
@NAME@_API @name@_status @name@_wait(@name@_context* context);
@NAME@_API @name@_status @name@_poll(@name@_context* context);

