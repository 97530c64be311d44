@name@_status @name@_exchange(@name@_context* context, const @name@_exchanger* exchanger) {
  return use(context, [&](@name@_context& held) {
    if (exchanger == nullptr) return held.failure.set(Status::invalid_argument, "no exchanger given");
    held.exchanger = *exchanger;
    held.exchanged = {&held, [](void* user, int32_t index, void* data, ScalarType dtype, int64_t bytes) {
                        const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                        int32_t told = 1;
                        return guarded([&] { told = to.begin(to.user, index, data, static_cast<@name@_dtype>(dtype), bytes); }) && told == 0;
                      },
                      [](void* user, int32_t index) {
                        const @name@_exchanger& to = static_cast<@name@_context*>(user)->exchanger;
                        int32_t told = 1;
                        return guarded([&] { told = to.wait(to.user, index); }) && told == 0;
                      }, nullptr};
    for (Callable& callable : held.programs) callable.executor.exchange(exchanger->begin == nullptr ? nullptr : &held.exchanged);
    return true;
  });
}

