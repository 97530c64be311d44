/* Derivatives. They are called like @name@_run, and each keeps memory of its own from its first call on: what it returned is
 * valid until the next call of the same function. "Values" are @value_kinds@
 * of the model that are floating-point tensors; a cotangent, gradient or tangent has the shape and dtype of what it belongs to.
 *
 *   @name@_vjp  inputs, a cotangent for every floating-point output  ->  outputs, the gradient for every value
 *   @name@_jvp  inputs, a tangent for every value                    ->  outputs, the tangent of every floating-point output
 *   @name@_hvp  inputs, cotangents, tangents                         ->  the Hessian of <cotangents, outputs> times the tangents, for every value
 *
 * The ports are named after them: "cotangent of NAME", "gradient of NAME", "tangent of NAME", "product of NAME". */
#define @NAME@_VJP_INPUTS @vjp_input_count@
#define @NAME@_VJP_OUTPUTS @vjp_output_count@
#define @NAME@_JVP_INPUTS @jvp_input_count@
#define @NAME@_JVP_OUTPUTS @jvp_output_count@
#define @NAME@_HVP_INPUTS @hvp_input_count@
#define @NAME@_HVP_OUTPUTS @hvp_output_count@
@NAME@_API @name@_status @name@_vjp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count);
@NAME@_API @name@_status @name@_jvp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count);
@NAME@_API @name@_status @name@_hvp(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count);
@NAME@_API const @name@_port* @name@_vjp_input(int32_t index);
@NAME@_API const @name@_port* @name@_vjp_output(int32_t index);
@NAME@_API const @name@_port* @name@_jvp_input(int32_t index);
@NAME@_API const @name@_port* @name@_jvp_output(int32_t index);
@NAME@_API const @name@_port* @name@_hvp_input(int32_t index);
@NAME@_API const @name@_port* @name@_hvp_output(int32_t index);

