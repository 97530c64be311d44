static const int64_t* strides_of(const int64_t* const* strides, int32_t tensor) { return strides == nullptr ? nullptr : strides[tensor]; }

// Whether an output of these dims may be written so; then *span is what is asked of its memory, in bytes.
static bool check_output_strides(Failure& failure, const @name@_port& port, const @name@_tensor& output, int32_t rank, const int64_t* dims, const int64_t* strides, int64_t* span) {
  const int64_t elements = span_of_distinct(dims, rank, strides);
  if (elements < 0) return failure.set(Status::invalid_argument, "output \"%s\": its strides are not positive, or its elements may overlap", port.name);
  if (__builtin_mul_overflow(elements, size_of(static_cast<ScalarType>(port.dtype)), span) || *span > output.bytes)
    return failure.set(Status::invalid_argument, "output \"%s\" reaches over %lld elements by its strides, the memory given has %lld bytes", port.name, static_cast<long long>(elements),
                       static_cast<long long>(output.bytes));
  return true;
}

// What the program is given instead: contiguous inputs, and outputs in the context's memory. The shapes of inputs are those of the model.
static bool gather_inputs(@name@_context& held, const @name@_tensor* inputs, const int64_t* const* strides) {
  int64_t bytes = 0;
  for (int32_t k = 0; k < @NAME@_INPUTS; ++k) {
    @name@_tensor& own = held.strided.inputs[k] = inputs[k];
    Block& memory = held.strided.gathered[k];
    const int64_t* const apart = strides_of(strides, k);
    const @name@_port& port = *@name@_input(k);
    const ScalarType type = static_cast<ScalarType>(port.dtype);
    const int64_t needed = bytes_of_dims(type, own.dims, own.rank);
    if (own.data != nullptr && needed > 0 && !is_contiguous(own.dims, own.rank, apart)) {
      // Kernels may read one vector beyond the last element.
      if (needed > most_bytes || !memory.reserve(needed + alignment))
        return held.failure.set(Status::out_of_memory, "no memory for %lld bytes of input \"%s\"", static_cast<long long>(needed), port.name);
      copy_strided(size_of(type), own.dims, own.rank, own.data, apart, memory.data(), nullptr);
      own.data = memory.data();
    }
    bytes += memory.capacity();
  }
  held.gathered_bytes.store(bytes, std::memory_order_relaxed);
  return true;
}

// Outputs with strides, for dims that are known (before the run: -1 where only the data decide). Writes what each is to the program.
static bool prepare_outputs(@name@_context& held, const @name@_tensor* outputs, const int64_t* const* strides) {
  for (int32_t k = 0; k < @NAME@_OUTPUTS; ++k) {
    @name@_tensor& own = held.strided.outputs[k];  // with the dims that it will have
    const int64_t* const apart = strides_of(strides, k);
    bool known = true;
    for (int32_t axis = 0; axis < own.rank; ++axis) known &= own.dims[axis] >= 0;
    const bool plain = apart == nullptr || outputs[k].data == METAC_MODEL_UNWANTED || (known && is_contiguous(own.dims, own.rank, apart));
    if (!plain) {
      const @name@_port& port = *@name@_output(k);
      int64_t span = 0;
      if (outputs[k].data == nullptr) return held.failure.set(Status::invalid_argument, "output \"%s\" has strides and no memory", port.name);
      if (!check_type(held.failure, "output", port, outputs[k])) return false;
      if (known && !check_output_strides(held.failure, port, outputs[k], own.rank, own.dims, apart, &span)) return false;
    }
    own = plain ? outputs[k] : @name@_tensor{};
  }
  return true;
}

// What the run made, where the caller wants it.
static bool scatter_outputs(@name@_context& held, @name@_tensor* outputs, const int64_t* const* strides) {
  for (int32_t k = 0; k < @NAME@_OUTPUTS; ++k) {
    const @name@_tensor& own = held.strided.outputs[k];
    const int64_t* const apart = strides_of(strides, k);
    const @name@_port& port = *@name@_output(k);
    @name@_tensor told = own;
    if (apart != nullptr && outputs[k].data != nullptr && own.data != outputs[k].data) {
      if (!check_output_strides(held.failure, port, outputs[k], own.rank, own.dims, apart, &told.bytes)) return false;
      copy_strided(size_of(static_cast<ScalarType>(port.dtype)), own.dims, own.rank, own.data, nullptr, outputs[k].data, apart);
      told.data = outputs[k].data;
    }
    outputs[k] = told;
  }
  return true;
}

@name@_status @name@_run_strided(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, const int64_t* const* input_strides, @name@_tensor* outputs,
                             int32_t output_count, const int64_t* const* output_strides) {
  return use(context, [&](@name@_context& held) {
    const bool counted = input_count == @NAME@_INPUTS && output_count == @NAME@_OUTPUTS && (inputs != nullptr || input_count == 0) && (outputs != nullptr || output_count == 0);
    bool plain = true;
    for (int32_t k = 0; counted && plain && k < output_count; ++k) plain = strides_of(output_strides, k) == nullptr;
    for (int32_t k = 0; counted && plain && k < input_count; ++k)
      plain = inputs[k].rank < 0 || inputs[k].rank > @NAME@_MAX_RANK || is_contiguous(inputs[k].dims, inputs[k].rank, strides_of(input_strides, k));
    if (plain) return run_call(held, run_function, inputs, input_count, outputs, output_count);
    auto& own = held.strided;
    if (own.gathered.size() == 0) {
      if (!own.inputs.allocate(input_count) || !own.outputs.allocate(output_count) || !own.gathered.allocate(input_count)) return held.failure.set(Status::out_of_memory, "no memory for strides");
      for (int32_t k = 0; k < input_count; ++k) own.gathered[k].take_from(held.memory.allocator());
    }
    return find_shapes(held, inputs, input_count, own.outputs.data()) && prepare_outputs(held, outputs, output_strides) && gather_inputs(held, inputs, input_strides) &&
           run_call(held, run_function, own.inputs.data(), input_count, own.outputs.data(), output_count) && scatter_outputs(held, outputs, output_strides);
  });
}

