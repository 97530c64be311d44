#define @NAME@_@FUNCTION@_INPUTS @derivative_input_count@
#define @NAME@_@FUNCTION@_OUTPUTS @derivative_output_count@
@NAME@_API @name@_status @name@_@function@(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count);
@NAME@_API const @name@_port* @name@_@function@_input(int32_t index);
@NAME@_API const @name@_port* @name@_@function@_output(int32_t index);
