namespace {

bool check_state(@name@_context& context, int32_t index, const @name@_tensor* state) {
  if (index >= 0 && index < @NAME@_STATES && state != nullptr) return true;
  return context.failure.set(Status::invalid_argument, "state %d of %d%s", index, @NAME@_STATES, state == nullptr ? ", no tensor" : "");
}

}  // namespace

const @name@_port* @name@_state(int32_t index) { return index >= 0 && index < @NAME@_STATES ? &state_ports[index] : nullptr; }

@name@_status @name@_state_reset(@name@_context* context) {
  return use(context, [&](@name@_context& held) {
@generation_reset@    held.states.reset();
    return true;
  });
}

@name@_status @name@_state_get(@name@_context* context, int32_t index, @name@_tensor* state) {
  return use(context, [&](@name@_context& held) {
    if (!check_state(held, index, state)) return false;
    const StateSet& states = held.states;
    const bool known = states.has_value(index);
    const int64_t bytes = known ? states.bytes(index) : 0;
    if (state->data != nullptr && state->bytes < bytes)
      return held.failure.set(Status::invalid_argument, "state \"%s\" needs %lld bytes, the memory given has %lld", states.name(index), static_cast<long long>(bytes),
                              static_cast<long long>(state->bytes));
    state->rank = states.rank(index);
    for (int32_t axis = 0; axis < state->rank; ++axis) state->dims[axis] = known ? states.dims(index)[axis] : 0;
    state->bytes = bytes;
    state->type = @NAME@_TYPE(state_ports[index].dtype);
    return state->data == nullptr || bytes == 0 || states.get(index, state->data, held.failure);
  });
}

@name@_status @name@_state_set(@name@_context* context, int32_t index, const @name@_tensor* state) {
  return use(context, [&](@name@_context& held) {
@generation_alone@    if (!check_state(held, index, state)) return false;
    const @name@_port& port = state_ports[index];
    if (state->rank != port.rank) return held.failure.set(Status::invalid_argument, "state \"%s\": %d dims given, expected %d", port.name, state->rank, port.rank);
    if (!check_type(held.failure, "state", port, *state) || !check_bytes(held.failure, port, *state)) return false;
    const int64_t bytes = bytes_of_dims(static_cast<ScalarType>(port.dtype), state->dims, state->rank);
    if (state->data == nullptr && bytes != 0) return held.failure.set(Status::invalid_argument, "state \"%s\": no data", port.name);
    return held.states.set(index, state->dims, state->data, held.failure);
  });
}

@name@_status @name@_state_truncate(@name@_context* context, int64_t length) {
  return use(context, [&](@name@_context& held) {
@generation_alone@    if (!held.states.truncate(length, held.failure)) return false;
@generation_truncate@    return true;
  });
}

@name@_status @name@_state_fork(@name@_context* context, @name@_context* from) {
  return use(context, [&](@name@_context& held) {
@generation_alone@    if (from == nullptr || !from->usable) return held.failure.set(Status::invalid_argument, "no context to take the states of");
    if (from == &held) return true;
    const Hold hold(*from);
    if (!hold) return held.failure.set(Status::busy, "the other context is running in another thread");
@generation_from_alone@    if (!held.states.copy(from->states, held.failure)) return false;
@generation_fork@    return true;
  });
}

