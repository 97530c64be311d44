@name@_status @name@_vjp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, vjp_function, inputs, input_count, outputs, output_count);
}
@name@_status @name@_jvp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, jvp_function, inputs, input_count, outputs, output_count);
}
@name@_status @name@_hvp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return call(context, hvp_function, inputs, input_count, outputs, output_count);
}
const @name@_port* @name@_vjp_input(int32_t index) { return input_port(vjp_function, index); }
const @name@_port* @name@_vjp_output(int32_t index) { return output_port(vjp_function, index); }
const @name@_port* @name@_jvp_input(int32_t index) { return input_port(jvp_function, index); }
const @name@_port* @name@_jvp_output(int32_t index) { return output_port(jvp_function, index); }
const @name@_port* @name@_hvp_input(int32_t index) { return input_port(hvp_function, index); }
const @name@_port* @name@_hvp_output(int32_t index) { return output_port(hvp_function, index); }

