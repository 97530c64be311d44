@name@_status @name@_run_async(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count, void* stream,
                         void (*done)(void* user), void* user) {
  return use(context, [&](@name@_context& held) {
    const int32_t program = choose_program(run_function, inputs, input_count);
    if (!run_with(held, held.states, run_function, program, inputs, input_count, outputs, output_count, true, stream)) return false;
    return done == nullptr || held.target.call_when_done(done, user, held.failure);
  });
}

@name@_status @name@_from_dlpack(@name@_context* context, const @name@_port* port, const void* dl_tensor, @name@_tensor* tensor) {
  if (context == nullptr || !context->usable || port == nullptr || dl_tensor == nullptr || tensor == nullptr) return @NAME@_INVALID_ARGUMENT;
  const DlTensor& given = *static_cast<const DlTensor*>(dl_tensor);
  void* data = nullptr;
  Failure failure;  // the context stays as it is: nothing to hold
  if (!take_dlpack(given, port->name, static_cast<ScalarType>(port->dtype), context->target.number(), @NAME@_MAX_RANK, &data, failure)) return answer(*context, failure);
  tensor->data = data;
  tensor->rank = given.rank;
  tensor->bytes = size_of(static_cast<ScalarType>(port->dtype));
  tensor->type = @NAME@_TYPE(port->dtype);
  for (int32_t axis = 0; axis < given.rank; ++axis) tensor->bytes *= tensor->dims[axis] = given.dims[axis];
  return answer(*context, failure);
}

@name@_status @name@_to_dlpack(@name@_context* context, const @name@_port* port, @name@_tensor* tensor, void* dl_tensor) {
  if (context == nullptr || !context->usable || port == nullptr || dl_tensor == nullptr || tensor == nullptr) return @NAME@_INVALID_ARGUMENT;
  *static_cast<DlTensor*>(dl_tensor) = give_dlpack(tensor->data, static_cast<ScalarType>(port->dtype), tensor->rank, tensor->dims, context->target.number());
  return answer(*context, Failure());
}

