/* One of several processes that train together: in every run the library calls `begin` when gradient `index` (below
 * @NAME@_EXCHANGES) is there, while it goes on, and `wait` before it is read; in between it is averaged in place, `bytes` of
 * f32 or f64 in the layout in which they lie, the same in all processes. Other answers than 0, and exceptions, end the run. begin null: no more. */
#define @NAME@_EXCHANGES @exchange_count@
typedef struct @name@_exchanger {
  void* user;
  int32_t (*begin)(void* user, int32_t index, void* data, @name@_dtype dtype, int64_t bytes);
  int32_t (*wait)(void* user, int32_t index);
} @name@_exchanger;
@NAME@_API @name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger);

