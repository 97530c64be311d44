@name@_status @name@_@function@(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, @function@_function, inputs, input_count, outputs, output_count);
}
const @name@_port* @name@_@function@_input(int32_t index) { return input_port(@function@_function, index); }
const @name@_port* @name@_@function@_output(int32_t index) { return output_port(@function@_function, index); }
