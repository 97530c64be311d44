@name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger) {
  return use(context, [&](@name@_context& held) {
    if (exchanger == nullptr) return held.failure.set(Status::invalid_argument, "no exchanger given");
    held.exchanger = *exchanger;
    held.exchanged = {&held, nullptr, nullptr, [](void* user, const ExchangedValue* values, int32_t count, void* stream) {
                        const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                        @name@_exchanged some[@NAME@_EXCHANGES];
                        for (int32_t k = 0; k < count; ++k) some[k] = {values[k].data, static_cast<@name@_dtype>(values[k].dtype), values[k].bytes};
                        int32_t told = 1;
                        return guarded([&] { told = to.average(to.user, some, count, stream); }) && told == 0;
                      }};
    for (Callable& callable : held.programs) callable.executor.exchange(exchanger->average == nullptr ? nullptr : &held.exchanged);
    return true;
  });
}

