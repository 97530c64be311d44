@name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger) {
  if (context == nullptr || !context->usable || exchanger == nullptr) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  context->exchanger = *exchanger;
  context->exchanged = {context, [](void* user, int32_t index, void* data, ScalarType dtype, int64_t bytes) {
                          const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                          return to.begin(to.user, index, data, static_cast<@name@_dtype>(dtype), bytes) == 0;
                        },
                        [](void* user, int32_t index) {
                          const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                          return to.wait(to.user, index) == 0;
                        }, nullptr};
  for (Callable& callable : context->programs) callable.executor.exchange(exchanger->begin == nullptr ? nullptr : &context->exchanged);
  return @NAME@_OK;
}

