/* States: values that one run hands to the next. They are the context's, and neither inputs nor outputs of @name@_run. After
 * @name@_create and @name@_state_reset() they are zeros, and empty along the axis that they grow along. A run that fails leaves them as
 * they were. By position, @NAME@_STATES in all; NULL beyond the last. */
#define @NAME@_STATES @state_count@
@NAME@_API const @name@_port* @name@_state(int32_t index);
@NAME@_API @name@_status @name@_state_reset(@name@_context* context);

/* Copies a state's elements to state->data, where there must be state->bytes; NULL: tells rank, dims, type and bytes alone. One that has no
 * value yet, as no run has told its dims, has 0 bytes and dims of 0. */
@NAME@_API @name@_status @name@_state_get(@name@_context* context, int32_t index, @name@_tensor* state);
/* Copies elements of the tensor into a state, whose dims are the tensor's from then on. */
@NAME@_API @name@_status @name@_state_set(@name@_context* context, int32_t index, const @name@_tensor* state);
/* States that grow keep their first `length` steps: what came behind them has not been. INVALID_ARGUMENT where one is shorter, or none grows. */
@NAME@_API @name@_status @name@_state_truncate(@name@_context* context, int64_t length);
/* All states become those of `from`, another context of this library, as they are now; they are copied. */
@NAME@_API @name@_status @name@_state_fork(@name@_context* context, @name@_context* from);

