/* A batching queue: requests of many threads, each with rows of its own (the first dim, the same open dim of all inputs and outputs), are
 * collected into batches that threads of the queue's run, and each is handed its part. Requests run together only if their other dims
 * agree. The rows must not depend on each other, which the queue cannot see. What is wrong with one request is told to that one alone:
 * shapes before it joins, and if a batch fails, its requests are run one by one. Another number of rows may round differently.
 *
 *   @name@_queue_options options = {0};
 *   options.size = sizeof options;
 *   options.max_delay_us = 2000;
 *   @name@_queue* queue = NULL;
 *   if (@name@_queue_create(&options, &queue) != @NAME@_OK) { puts(@name@_queue_last_error(queue)); ... }
 *   ... in any thread: @name@_queue_run(queue, inputs, @NAME@_INPUTS, outputs, @NAME@_OUTPUTS) ...
 *   @name@_queue_destroy(queue);
 *
 * Any thread may call any function but @name@_queue_destroy() at any time. The queue's contexts are its own, with the weights of the file.
 * After fork() a queue works in the child, with threads of its own; requests that the parent was waiting for are CANCELLED there. */
typedef metac_model_queue @name@_queue;
typedef metac_model_queue_options @name@_queue_options;
typedef metac_model_queue_counters @name@_queue_counters;

/* Makes a queue. options may be NULL. UNSUPPORTED where the model has no such dim, or has states. On failure *queue still holds the
 * reason for @name@_queue_last_error() and must be destroyed; it is NULL only where there was no memory for it. */
@NAME@_API @name@_status @name@_queue_create(const @name@_queue_options* options, @name@_queue** queue);
/* Ends a queue and the memory of its outputs. Requests that wait end CANCELLED, batches that run are finished; threads that wait in a
 * call return from it, and may make no other one. */
@NAME@_API void @name@_queue_destroy(@name@_queue* queue);
/* Takes no more requests (they are CANCELLED) and returns when the last one has ended. drain: not 0 runs those that wait, else they end
 * CANCELLED. Answers stay until they are released. */
@NAME@_API @name@_status @name@_queue_stop(@name@_queue* queue, int32_t drain);

/* As @name@_run, in a batch with others: waits until it is done. All outputs need memory (`data`, `bytes`). FULL where max_pending
 * requests wait. Inputs of 1 to max_batch rows, all inputs as many; they stay as they are meanwhile. */
@NAME@_API @name@_status @name@_queue_run(@name@_queue* queue, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                           int32_t output_count);

/* The same without waiting. The inputs' data, the array of outputs and the memory that it names stay as they are until the request is
 * done; outputs without memory (data: NULL) get some that is valid until @name@_queue_release. On failure *ticket is 0. Every other ticket is
 * to be released. */
@NAME@_API @name@_status @name@_queue_submit(@name@_queue* queue, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                              int32_t output_count, int64_t* ticket);
/* Waits for the request and answers its status; poll does not wait and answers BUSY until it is done. Both may be called again. */
@NAME@_API @name@_status @name@_queue_wait(@name@_queue* queue, int64_t ticket);
@NAME@_API @name@_status @name@_queue_poll(@name@_queue* queue, int64_t ticket);
/* A request that still waits for its batch ends CANCELLED; one that has begun is finished. OK in both cases. */
@NAME@_API @name@_status @name@_queue_cancel(@name@_queue* queue, int64_t ticket);
/* Gives back a ticket and the memory of its outputs. A request that waits is cancelled, the end of one that has begun is waited for. */
@NAME@_API @name@_status @name@_queue_release(@name@_queue* queue, int64_t ticket);

/* What the queue has done so far: counters->size is sizeof *counters. */
@NAME@_API @name@_status @name@_queue_count(@name@_queue* queue, @name@_queue_counters* counters);
/* As @name@_last_error: the message of the calling thread's last call with this queue. */
@NAME@_API const char* @name@_queue_last_error(const @name@_queue* queue);

