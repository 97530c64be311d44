/* One of several processes that train together: in every run the library calls `average` when some gradients (of
 * @NAME@_EXCHANGES) are there in the order of `stream`, a cudaStream_t. It puts onto that stream what averages them in place, and does not wait;
 * the run may be recorded meanwhile. Gradients are f32 or f64 on the device, in the layout in which they lie, the same calls in the same
 * order in all processes. Other answers than 0, and exceptions, end the run. average NULL: no more. */
#define @NAME@_EXCHANGES @exchange_count@
typedef struct @name@_exchanged {
  void* data;
  @name@_dtype dtype;
  int64_t bytes;
} @name@_exchanged;
typedef struct @name@_exchanger {
  void* user;
  int32_t (*average)(void* user, const @name@_exchanged* values, int32_t count, void* stream);
} @name@_exchanger;
@NAME@_API @name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger);

