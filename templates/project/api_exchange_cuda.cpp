@name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger) {
  if (context == nullptr || !context->usable || exchanger == nullptr) return @NAME@_INVALID_ARGUMENT;
  const Hold hold(*context);
  if (!hold) return @NAME@_BUSY;
  context->exchanger = *exchanger;
  context->exchanged = {context, nullptr, nullptr, [](void* user, const ExchangedValue* values, int32_t count, void* stream) {
                          const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                          @name@_exchanged some[@NAME@_EXCHANGES];
                          for (int32_t k = 0; k < count; ++k) some[k] = {values[k].data, static_cast<@name@_dtype>(values[k].dtype), values[k].bytes};
                          return to.average(to.user, some, count, stream) == 0;
                        }};
  for (Callable& callable : context->programs) callable.executor.exchange(exchanger->average == nullptr ? nullptr : &context->exchanged);
  return @NAME@_OK;
}

